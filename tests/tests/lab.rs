// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latency tests: what they measure is accounted for, what cannot be had is said, and nothing that they change
//! outlives them.

use std::process::Command;

use kymo_tests::session::contains;
use kymo_tests::{Lab, Outcome, paths, skip};
use rustix::process::Signal;
use serde_json::Value;

fn record(outcome: Outcome) -> Value {
    serde_json::from_str(&outcome.expect(0).stdout).expect("a record")
}

/// Samples in buckets, of one series.
fn in_buckets(series: &Value) -> u64 {
    series["histogram"].as_array().expect("buckets").iter().filter_map(|bucket| bucket[1].as_u64()).sum()
}

fn check(record: &Value, test: &str) {
    assert_eq!(kymo_testing::schema::check(record), [""; 0]);
    assert_eq!((&record["schema"], &record["test"]), (&"kymo-lab-1".into(), &test.into()));
    for series in record["series"].as_array().expect("series") {
        let number = |key: &str| series[key].as_u64().unwrap_or_else(|| panic!("no {key} in {series:#}"));
        assert_eq!(number("count"), in_buckets(series) + number("lost"), "{series:#}");
        let (min, mean, max) = (number("min") as f64, series["mean"].as_f64().expect("a mean"), number("max") as f64);
        assert!(min <= mean && mean <= max, "{series:#}");
        let worst: Vec<u64> =
            series["worst"].as_array().expect("a list").iter().filter_map(|w| w["value_ns"].as_u64()).collect();
        assert_eq!(worst.first(), Some(&number("max")));
        assert!(worst.is_sorted_by(|a, b| a >= b) && worst.len() <= 20);
    }
    assert!(record["floor"]["clock_read_ns"].as_f64() > Some(0.0));
}

fn may_be_real_time(name: &str) -> bool {
    let may = Command::new("chrt").args(["-f", "80", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        skip(name, "no permission for SCHED_FIFO");
    }
    may
}

#[test]
fn every_test_accounts_for_its_samples() {
    if !may_be_real_time("every_test_accounts_for_its_samples") {
        return;
    }
    let lab = Lab::new("lab_accounts");
    let rows: [(&str, &[&str], u64); 14] = [
        ("npt", &["-c", "0", "-l", "200000"], 1),
        ("wakeup", &["-l", "50"], 1),
        ("wakeup", &["-c", "0", "-l", "50", "--method", "timerfd"], 1),
        ("wakeup", &["-c", "0", "-l", "50", "--method", "futex"], 1),
        ("wakeup", &["-c", "0", "-l", "50", "--method", "signal"], 1),
        ("hwlat", &["-c", "0", "-d", "300ms", "--threshold", "1us", "--window", "100ms", "--width", "50ms"], 1),
        ("preempt", &["-l", "20"], 4),
        ("pi", &["-l", "20"], 1),
        ("wakeup", &["-c", "0", "-l", "50", "--policy", "other"], 1),
        ("wakeup", &["-c", "0", "-l", "50", "--policy", "other", "--method", "futex"], 1),
        ("npt", &["-c", "0", "-l", "20000", "--policy", "rr", "-p", "7", "-e", "2000"], 1),
        ("npt", &["-c", "0", "-l", "20000", "--policy", "other", "--no-lock", "--warmup", "100"], 1),
        ("hwlat", &["-c", "0", "-l", "1", "--threshold", "1us", "--policy", "other"], 1),
        ("preempt", &["-l", "20", "--policy", "rr", "-p", "20"], 4),
    ];
    for (test, args, series) in rows {
        let record = record(lab.kymo(&[&[test], args, &["--json"]].concat()));
        check(&record, test);
        assert!(record["series"].as_array().expect("series").len() as u64 >= series);
        // As it is in effect, not as it was asked for.
        let after = |option: &str| args.iter().skip_while(|word| **word != option).nth(1).copied();
        let policy = format!("SCHED_{}", after("--policy").unwrap_or("fifo").to_uppercase());
        let priority = if policy == "SCHED_OTHER" { "0" } else { after("-p").unwrap_or("80") };
        let thread = &record["series"][0]["thread"];
        assert_eq!(
            (&thread["policy"], &thread["locked"]),
            (&policy.into(), &(!args.contains(&"--no-lock")).into()),
            "{args:?}"
        );
        assert!(
            ["pi", "preempt"].contains(&test) || thread["priority"] == priority.parse::<i32>().expect("a number"),
            "{args:?}: {thread}"
        );
        assert_ne!(record["ended"], "signal");
    }
}

#[test]
fn inheritance_is_seen_where_it_is_and_missed_where_it_is_not() {
    if !may_be_real_time("inheritance_is_seen_where_it_is_and_missed_where_it_is_not") {
        return;
    }
    let lab = Lab::new("lab_pi");
    let with = record(lab.kymo(&["pi", "-l", "20", "--json"]));
    let without = record(lab.kymo(&["pi", "-l", "20", "--no-inherit", "--json"]));
    assert_eq!((&with["counts"]["behind_middle"], &without["counts"]["behind_middle"]), (&0.into(), &20.into()));
    // The middle thread works ten times as long as the low one, which is what the high one waits for then. The shortest
    // are compared: a machine that stands still for some milliseconds makes one of the others as long.
    let least = |record: &Value| record["series"][0]["min"].as_u64().expect("ns");
    assert!(least(&without) > 4 * least(&with), "{} {}", least(&with), least(&without));
}

#[test]
fn throttling_is_said_before_a_busy_run() {
    let lab = Lab::new("lab_throttling");
    let number = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (runtime, period) = (number("sched_rt_runtime_us"), number("sched_rt_period_us"));
    if runtime.trim().starts_with('-') || runtime.trim() == period.trim() || runtime.is_empty() {
        return skip("throttling_is_said_before_a_busy_run", "real-time throttling is off here");
    }
    let outcome = lab.kymo(&["npt", "-c", "0", "-l", "1000", "--best-effort", "--json"]);
    contains(&outcome.stderr, "sched_rt_runtime_us");
    let record = record(outcome);
    assert!(caveats(&record).contains(&"rt-throttling"), "{record:#}");
    // An ordinary thread is not stopped by it.
    let ordinary = lab.kymo(&["npt", "-c", "0", "-l", "1000", "--policy", "other"]).expect(0);
    assert!(!ordinary.stderr.contains("sched_rt_runtime_us"), "{}", ordinary.stderr);
}

fn caveats(record: &Value) -> Vec<&str> {
    record["caveats"].as_array().expect("caveats").iter().filter_map(|caveat| caveat["id"].as_str()).collect()
}

#[test]
fn the_fair_server_is_said_before_a_busy_run() {
    let lab = Lab::new("lab_fair_server");
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let runtime = read("/sys/kernel/debug/sched/fair_server/cpu0/runtime");
    if runtime.trim().parse().is_ok_and(|ns: u64| ns == 0) {
        return skip("the_fair_server_is_said_before_a_busy_run", "the fair server is off here");
    }
    let doctor: Value = serde_json::from_str(&lab.kymo(&["doctor", "--json"]).stdout).expect("JSON");
    let check = doctor["checks"].as_array().expect("checks").iter().find(|check| check["id"] == "fair-server");
    let state = &check.expect("the check")["state"];
    let outcome = lab.kymo(&["npt", "-c", "0", "-l", "1000", "--best-effort", "--json"]);
    let is_said = outcome.stderr.contains("fair server");
    let record = record(outcome);
    // Before Linux 6.12 there is none. One that cannot be read is there.
    assert_eq!(is_said, *state != "not_applicable", "{state}");
    assert_eq!(caveats(&record).contains(&"fair-server"), is_said, "{record:#}");
    assert!(!is_said || runtime.is_empty() || *state == "problem", "{state}");
}

#[test]
fn what_cannot_be_had_is_said() {
    let lab = Lab::new("lab_errors");
    contains(&lab.kymo(&["wakeup", "-c", "4000"]).expect(2).stderr, "does not exist or is offline; online:");
    contains(&lab.kymo(&["wakeup", "-c", "x"]).expect(2).stderr, "give CPUs such as 0-3,6");
    contains(&lab.kymo(&["wakeup", "--breaktrace=100"]).expect(2).stderr, "--breaktrace of cyclictest: the run is not");
    contains(&lab.kymo(&["npt", "--bias"]).expect(2).stderr, "--bias of oslat: nothing is subtracted");
    contains(&lab.kymo(&["preempt", "-p", "98", "--levels", "4"]).expect(2).stderr, "99 is the highest");
    contains(&lab.kymo(&["npt", "--policy", "deadline"]).expect(2).stderr, "a thread of npt does not sleep");
    contains(&lab.kymo(&["pi", "--policy", "other"]).expect(2).stderr, "pi needs priorities: fifo or rr");
    contains(&lab.kymo(&["npt", "-e", "fast"]).expect(2).stderr, "clock, system, or a number of MHz");
    contains(&lab.kymo(&["hwlat", "--window", "1ms", "--width", "2ms"]).expect(2).stderr, "part of --window");
    if !rustix::process::geteuid().is_root() {
        return skip("what_cannot_be_had_is_said", "a run without permission needs root to give it up");
    }
    let as_nobody = |args: &[&str]| {
        let mut command = lab.command("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "sh", "-c"]);
        command.arg(format!(
            "ulimit -r 0; exec {} wakeup -c 0 -l 5 --json {}",
            paths::kymo().display(),
            args.join(" ")
        ));
        lab.start(command).wait()
    };
    contains(&as_nobody(&[]).expect(2).stderr, "--best-effort");
    let record = record(as_nobody(&["--best-effort"]));
    assert_eq!(record["caveats"][0]["id"], "not-fifo");
    assert_eq!(record["caveats"][0]["severity"], "fatal");
    // On a busy machine an ordinary thread loses some beside them.
    assert!(record["series"][0]["count"].as_u64() >= Some(5), "{record:#}");
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let lab = Lab::new("lab_interrupted");
    let output = lab.path("result.json");
    let mut command = lab.command(paths::kymo());
    command.args(["wakeup", "-c", "0", "-d", "100s", "--best-effort", "-o"]).arg(&output);
    let proc = lab.start(command);
    // A thread of its probe has slept so often.
    let children = format!("/proc/{0}/task/{0}/children", proc.pid());
    lab.wait_for("samples", || {
        let pid = std::fs::read_to_string(&children).ok()?.trim().to_owned();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let slept = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        };
        threads.filter_map(slept).any(|slept| slept > 30).then_some(())
    });
    let outcome = proc.end(Signal::INT).expect(0);
    contains(&outcome.stdout, "interrupted");
    let record: Value = serde_json::from_slice(&std::fs::read(output).expect("a result")).expect("JSON");
    check(&record, "wakeup");
    assert_eq!(record["ended"], "signal");
    assert!(record["series"][0]["count"].as_u64() > Some(10));
}

#[test]
fn a_session_records_the_turns_of_npt() {
    let lab = Lab::new("lab_npt");
    let kymo = paths::kymo();
    let kymo = kymo.to_str().expect("UTF-8");
    let command = [kymo, "npt", "-c", "0", "-l", "5000", "--best-effort"];
    let recorded = lab.record("trace").args(&["-u", "npt", "--ring-size", "8M"]).run(&command).expect(0);
    let read = recorded.lossless().read(&lab);
    assert_eq!((read.of("npt:start").count(), read.of("npt:stop").count()), (1, 1));
    kymo_tests::trace::assert_counts_up(&read.numbers("npt:loop", "iteration"), 5000);
}
