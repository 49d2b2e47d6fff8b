//! kymo doctor and kymo import as a user meets them. What is right on which machine is tested in kymo-lab, on machines in files.

use std::sync::Mutex;

use kymo_tests::{Lab, paths};
use serde_json::Value;

/// One at a time changes a setting of the machine.
static ALONE: Mutex<()> = Mutex::new(());

fn checks(text: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(report["schema"], "kymo-doctor-1");
    report["checks"].as_array().expect("checks").clone()
}

#[test]
fn the_answer_is_whole_and_the_status_follows_from_it() {
    let lab = Lab::new("doctor_whole");
    let outcome = lab.kymo(&["doctor", "--json"]);
    let checks = checks(&outcome.stdout);
    assert!(checks.len() >= 35, "{} checks", checks.len());
    let is_grave =
        |check: &Value| check["state"] == "problem" && ["high", "fatal"].contains(&check["severity"].as_str().unwrap());
    assert_eq!(outcome.code, i32::from(checks.iter().any(is_grave)), "{}", outcome.stdout);
    let rank = |check: &Value| match check["severity"].as_str() {
        Some("fatal") => 3,
        Some("high") => 2,
        Some("medium") => 1,
        _ => 0,
    };
    let problems: Vec<i32> = checks.iter().filter(|check| check["state"] == "problem").map(rank).collect();
    assert!(problems.is_sorted_by(|a, b| a >= b), "{problems:?}");
}

#[test]
fn a_process_and_a_command_have_checks_of_their_own() {
    let lab = Lab::new("doctor_process");
    let sleeper = lab.spawn("sleep", &["60"]);
    let of_process = checks(&lab.kymo(&["doctor", "--json", "--pid", &sleeper.pid().to_string()]).stdout);
    let find = |checks: &[Value], id: &str| checks.iter().find(|check| check["id"] == id).cloned().expect("the check");
    assert_eq!(find(&of_process, "policy")["state"], "problem", "sleep has no real-time thread");
    assert_eq!(find(&of_process, "locked")["state"], "problem");
    let of_command = checks(&lab.kymo(&["doctor", "--json", "--", "sleep", "60"]).stdout);
    assert_eq!(find(&of_command, "policy")["state"], "not_applicable");
    assert!(!checks(&lab.kymo(&["doctor", "--json"]).stdout).iter().any(|check| check["id"] == "policy"));
    sleeper.end(rustix::process::Signal::KILL);
    let gone = lab.kymo(&["doctor", "--pid", "4194305"]).expect(2);
    assert!(gone.stderr.contains("there is no process 4194305"), "{}", gone.stderr);
}

#[test]
fn a_file_of_another_tool_becomes_a_record() {
    let lab = Lab::new("import");
    let sample = paths::repository().join("host/kymo-lab/tests/import/oslat-2.4.json");
    let sample = sample.to_str().expect("a path");
    let good = lab.kymo(&["import", sample]).expect(0);
    let record: Value = serde_json::from_str(&good.stdout).expect("a record");
    assert_eq!((&record["tool"], &record["source"]["format"]), (&"oslat".into(), &"oslat-json".into()));
    assert!(good.stderr.contains("overflow-hidden"), "{}", good.stderr);
    let bad = lab.write("bad.txt", "nothing of use\n");
    let bad = bad.to_str().expect("a path");
    let out = lab.path("records");
    let both = lab.kymo(&["import", "-o", out.to_str().expect("a path"), bad, sample]).expect(1);
    assert!(
        both.stderr.contains("not a result that kymo can read") && both.stderr.contains("tried: cyclictest"),
        "{}",
        both.stderr
    );
    assert!(out.join("oslat-2.4.json").is_file());
    lab.kymo(&["import", bad]).expect(2);
}

#[test]
fn a_killed_proof_is_taken_back() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_killed_proof_is_taken_back", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_proof");
    let sample = paths::repository().join("host/kymo-lab/tests/import/oslat-2.4.json");
    // Each run tells where it is, and stays until it is told to go on; the second one has the setting flipped.
    let gate = lab.path("gate");
    let measure = format!(
        "if [ $(cat {SETTING}) = 10 ]; then while [ ! -e {} ]; do sleep 0.05; done; fi; cat {}",
        gate.display(),
        sample.display()
    );
    let proof = lab.spawn(paths::kymo(), &["doctor", "--prove", "stat-interval", "--measure", &measure]);
    lab.wait_for("the setting is flipped", || (value() == "10").then_some(()));
    proof.end(rustix::process::Signal::KILL);
    assert_eq!(value(), "10", "nobody was there to put it back");
    std::fs::write(&gate, "").expect("the gate");
    let restored = lab.kymo(&["doctor", "--restore"]).expect(0);
    assert!(restored.stderr.contains("took back 1 changes of prove"), "{}", restored.stderr);
    assert_eq!(value(), before);
}

#[test]
fn a_proof_flips_compares_and_puts_back() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_proof_flips_compares_and_puts_back", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_compares");
    // A tool whose samples are many times as long where the setting is flipped; no two runs are the same.
    let sample = r#"{"cpu": {"0": {"histogram": {"%d": 1000}, "count": 1000, "min": 1, "max": 900, "avg": %d.%d}}}"#;
    let measure = format!("v=$(cat {SETTING}); printf '{sample}' $((v * 20)) $((v * 20)) $(date +%N)");
    let outcome = lab.kymo(&["doctor", "--prove", "stat-interval", "--measure", &measure, "--json"]).expect(1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(
        (&report["comparison"]["outcome"], &report["comparison"]["runs"]),
        (&"worse".into(), &serde_json::json!([5, 5]))
    );
    assert_eq!(value(), before);
    let refused = lab.kymo(&["doctor", "--prove", "guest"]).expect(2);
    assert!(
        refused.stderr.contains("cannot be flipped") && refused.stderr.contains("stat-interval"),
        "{}",
        refused.stderr
    );
}
