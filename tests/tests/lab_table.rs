// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lab/table` with tiny loops, so that it cannot rot: each measure that needs no virtual machine gives its rows, or
//! says what is missing. Its figures are not looked at: a busy machine has others.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Runs the table into `out` and returns what it wrote; None where Python is missing, which is said.
fn table(out: &Path, arguments: &[&str]) -> Option<Value> {
    let _turn = kymo_tests::turn::beside_others();
    let mut command = Command::new("python3");
    command
        .arg(repository().join("lab/table"))
        .args(["--quick", "--keep-throttling", "--rounds", "2", "--out"])
        .arg(out);
    let done = match command.args(arguments).env("KYMO", kymo_tests::paths::kymo()).output() {
        Ok(done) => done,
        Err(error) => {
            kymo_tests::skip("lab/table", &format!("python3: {error}"));
            return None;
        }
    };
    assert!(
        done.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    let text = std::fs::read_to_string(out.join("table.json")).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Verdicts of the rows whose measure has `part` in it; prints what was skipped.
fn verdicts(table: &Value, part: &str) -> Vec<String> {
    let rows = table["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["measure"].as_str().unwrap().contains(part))
        .map(|row| {
            if row["verdict"] == "SKIP" {
                kymo_tests::skip(&row["measure"].to_string(), &row["missing"].to_string());
            }
            row["verdict"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn npt_under_each_tracer_beside_the_original_loop() {
    let out = tempfile::tempdir().unwrap();
    let arguments = ["--loops", "20000", "--only", "floor", "--only", "npt", "--trials", "2"];
    let Some(table) = table(out.path(), &arguments) else { return };
    assert!(["met", "MISSED"].contains(&verdicts(&table, "floor of npt's loop")[0].as_str()));
    assert_eq!(verdicts(&table, "LTTng's").len(), 8, "mean and max of both layouts against both modes of LTTng");
    let npt = &table["values"]["npt"];
    for variant in ["none", "kymo", "compact"] {
        let rounds = npt[variant]["rounds"].as_object().unwrap();
        assert!(rounds.len() == 2 && rounds.values().all(|round| round["count"] == 20_000), "{variant}: {rounds:?}");
    }
    // 20000 turns, start and stop: either in the trace or counted as lost. A busy machine can keep the program from
    // its session for so long that nobody can count: then it must be told why.
    for number in ["0", "1"] {
        let of_round = |what: &str| &npt["kymo"][what][number];
        let records = of_round("records").as_u64().unwrap();
        let Some(lost) = of_round("lost").as_u64() else {
            assert!(!of_round("unknown").as_array().unwrap().is_empty() && records <= 20_002, "{npt}");
            kymo_tests::skip("records of npt under kymo", &of_round("unknown").to_string());
            continue;
        };
        assert_eq!(records + lost, 20_002, "{npt}");
    }
}

#[test]
fn wakeup_is_compared_with_itself() {
    let out = tempfile::tempdir().unwrap();
    let Some(table) = table(out.path(), &["--trials", "2", "--only", "same"]) else { return };
    assert_eq!(verdicts(&table, "against itself").len(), 1);
    assert_eq!(table["values"]["same"]["exit_codes"].as_array().map(Vec::len), Some(2), "{table}");
}

#[test]
fn wakeup_and_cyclictest_are_compared() {
    let out = tempfile::tempdir().unwrap();
    let Some(table) = table(out.path(), &["--seconds", "0.1", "--only", "cyclictest"]) else { return };
    let said = verdicts(&table, "cyclictest");
    assert_eq!(said.len(), 1);
    if said[0] != "SKIP" {
        let medians = &table["values"]["cyclictest"]["medians_ns"];
        assert!(["kymo", "cyclictest"].iter().all(|side| medians[side].as_array().unwrap().len() == 5), "{medians}");
    }
}

#[test]
fn throttling_is_looked_for_before_each_trial() {
    let out = tempfile::tempdir().unwrap();
    let before = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").ok();
    let Some(table) = table(out.path(), &["--trials", "2", "--only", "throttling"]) else { return };
    let said = verdicts(&table, "throttling");
    assert_eq!(said.len(), 1);
    assert!(["met", "SKIP"].contains(&said[0].as_str()), "{table}");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").ok(), before);
}

#[test]
fn the_blind_test_draws_asks_and_scores() {
    let may = rustix::process::geteuid().is_root() && kymo_tracefs::Tracefs::find().is_ok_and(|fs| fs.events().is_ok());
    if !may {
        return kymo_tests::skip("the_blind_test_draws_asks_and_scores", "needs root and the kernel's events");
    }
    let _turn = kymo_tests::turn::beside_others();
    let mut command = Command::new("python3");
    // Locks, beside io and a compiler. Beside `net` a hog of a real-time priority can stop all ordinary threads of a
    // 6.18 kernel for minutes, but for those of the load (measured: both CPUs in the kernel, its own workers stuck for
    // 50 s).
    command.arg(repository().join("lab/blind")).args(["--traces", "2", "--seed", "11", "--json", "--kymo"]);
    let Ok(done) = command.arg(kymo_tests::paths::kymo()).output() else {
        return kymo_tests::skip("lab/blind", "no python3");
    };
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.starts_with("seed 11\n"), "{told}");
    let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    let traces = found["traces"].as_array().expect("traces");
    let count = |score: &str| traces.iter().filter(|trace| trace["score"] == score).count();
    assert_eq!((&found["schema"], &found["seed"]), (&"kymo-blind-1".into(), &11.into()));
    // What could not be injected on a busy machine is drawn again, but not for ever.
    assert!((1..=2).contains(&traces.len()), "{found:#}");
    for score in ["right", "doubtful", "failed", "wrong"] {
        assert_eq!(found[score], count(score), "{found:#}");
    }
    // Each was made and asked about, by both commands.
    let is_asked = |trace: &Value| trace["told"]["explain"].is_string() && trace["told"]["critical"].is_string();
    assert!(traces.iter().all(is_asked), "{found:#}");
    assert_eq!(done.status.code(), Some(i32::from(count("right") < 2)), "{told}");
}

#[test]
fn a_trace_of_the_blind_test_that_does_not_end_is_ended_and_has_failed() {
    let may = rustix::process::geteuid().is_root() && kymo_tracefs::Tracefs::find().is_ok_and(|fs| fs.events().is_ok());
    if !may {
        return kymo_tests::skip("a_trace_of_the_blind_test_that_does_not_end", "needs root and the kernel's events");
    }
    let _turn = kymo_tests::turn::beside_others();
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("python3");
    command.arg(repository().join("lab/blind")).args(["--traces", "1", "--seed", "5", "--deadline", "0.7", "--json"]);
    command.arg("--kymo").arg(kymo_tests::paths::kymo()).env("TMPDIR", dir.path());
    let Ok(done) = command.output() else { return kymo_tests::skip("lab/blind", "no python3") };
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!((done.status.code(), &found["failed"], &found["right"]), (Some(1), &1.into(), &0.into()), "{found:#}");
    let why = found["traces"][0]["told"]["record"].as_str().unwrap_or_default();
    assert!(why.starts_with("no end within 0.7 s, at "), "{why}");
    // Nothing that was started runs any more: all of it is below the directory.
    let of = |entry: std::fs::DirEntry| std::fs::read_link(entry.path().join("exe")).ok();
    let running = std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(of);
    assert_eq!(running.filter(|exe| exe.starts_with(dir.path())).count(), 0, "{told}");
}

#[test]
fn what_is_unknown_is_refused() {
    let done = Command::new("python3").arg(repository().join("lab/table")).args(["--only", "everything"]).output();
    let Ok(done) = done else { return kymo_tests::skip("lab/table", "no python3") };
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("everything"));
}

#[test]
fn intervals_and_scores_are_right() {
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "unittest", "labtable.test_intervals", "labtable.test_npt", "labblind.test_score"]);
    let Ok(done) = command.current_dir(repository().join("lab")).output() else {
        return kymo_tests::skip("intervals", "no python3");
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
