// SPDX-License-Identifier: MIT OR Apache-2.0
//! kymo doctor and kymo import as a user meets them. What is right on which machine is tested in kymo-lab, on machines
//! in files.

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
    // By the command for it, and by whatever kymo doctor is next.
    for (number, next) in [&["doctor", "--restore"][..], &["doctor", "--json"]].into_iter().enumerate() {
        // Each run tells where it is, and stays until it is told to go on; the second one has the setting flipped.
        let gate = lab.path(&format!("gate-{number}"));
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
        let restored = lab.kymo(next);
        assert!(restored.code < 2 && restored.stderr.contains("took back 1 changes of prove"), "{}", restored.stderr);
        assert_eq!(value(), before);
    }
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

/// Two threads and a lock that one of them waits for, with inheritance where an argument says so.
const LOCKS: &str = r#"
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock;

static void *wait_for_it(void *unused)
{
	pthread_mutex_lock(&lock);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attr;
	pthread_t thread;

	(void)argv;
	pthread_mutexattr_init(&attr);
	if (argc > 1)
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &attr);
	pthread_mutex_lock(&lock);
	pthread_create(&thread, NULL, wait_for_it, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return 0;
}
"#;

#[test]
fn a_lock_without_inheritance_is_seen_and_the_slack_of_each_thread() {
    let lab = Lab::new("doctor_locks");
    let program = lab.cc_text("locks", LOCKS);
    for (args, state) in [(&[][..], "problem"), (&["inherit"][..], "ok")] {
        let mut proc = lab.spawn(&program, args);
        proc.until("ready");
        let pid = proc.pid().to_string();
        // The waiting thread sleeps in its system call.
        lab.wait_for("the wait", || {
            let of = |tid: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok();
            let tids = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
            let other = tids.map(|tid| tid.file_name().to_string_lossy().into_owned()).find(|tid| *tid != pid)?;
            of(&other)?.split(' ').nth(3).is_some().then_some(())
        });
        let outcome = lab.kymo(&["doctor", "--pid", &pid, "--json"]);
        let all = checks(&outcome.stdout);
        let check = |id: &str| all.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(check("lock-inheritance")["state"], state, "{:#}", check("lock-inheritance"));
        let slack = check("timer-slack")["current"].as_str().expect("text");
        assert!(slack.contains("2 ordinary of 2 in all") || slack.contains("ordinary threads of 2"), "{slack}");
        proc.say("");
        proc.wait().expect(0);
    }
}

#[test]
fn a_proof_with_its_own_measurement() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_proof_with_its_own_measurement", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_own");
    let outcome = lab.kymo(&["doctor", "--prove", "stat-interval", "--json"]);
    // What it comes to is the machine's; that it was measured is not.
    assert!([0, 1, 3].contains(&outcome.code), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let comparison = &report["comparison"];
    assert_eq!((&comparison["runs"], &comparison["series"][0]["test"]), (&serde_json::json!([5, 5]), &"wakeup".into()));
    assert_eq!(value(), before);
}
