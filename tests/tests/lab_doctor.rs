//! kymo doctor and kymo import as a user meets them. What is right on which machine is tested in kymo-lab, on machines in files.

use kymo_tests::{Lab, paths};
use serde_json::Value;

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
