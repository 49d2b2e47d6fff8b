// SPDX-License-Identifier: MIT OR Apache-2.0
//! No latency is told of kymo's own threads, whoever asks, though their records are in the trace [spec/analyze.md 5].

use kymo_tests::{Kernel, Lab, paths};
use serde_json::Value;

const TEST: &str = "no_latency_is_told_of_the_recorder";
const SLEEPS: &str = "for number in 1 2 3; do sleep 0.1; done";

fn json(lab: &Lab, words: &[&str]) -> Value {
    let outcome = lab.kymo(words).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// Names of the threads that `kymo latency` tells of.
fn told(lab: &Lab, trace: &str, words: &[&str]) -> Vec<String> {
    let what = ["--what", "wakeup", "--what", "runqueue", "--what", "syscall"];
    let found = json(lab, &[&["latency", trace, "--by", "thread", "--json"], &what[..], words].concat());
    let series = found["series"].as_array().unwrap().iter();
    series.map(|series| series["thread_name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn check(lab: &Lab, trace: &str) {
    let records = lab.kymo(&["read", trace, "--filter", "$comm ~ \"kymo*\""]).expect(0);
    assert!(records.stdout.contains("kymo"), "records of kymo's own threads: {}", records.stdout);
    for words in [&[][..], &["--from", "+50ms"]] {
        let names = told(lab, trace, words);
        assert!(names.len() > 1, "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("kymo")), "{words:?}: {names:?}");
    }
    let worst = json(lab, &["explain", trace, "--all", "--worst", "wakeup", "--json"]);
    assert!(!worst["name"].as_str().unwrap().starts_with("kymo"), "{worst}");
    if !paths::kymo_sql().is_file() {
        return kymo_tests::skip(TEST, "kymo-sql is not built: make sql");
    }
    let count = |table: &str| {
        let query = format!("SELECT count(*) AS n FROM {table} WHERE name LIKE 'kymo%'");
        json(lab, &["sql", trace, &query, "--format", "json"])[0]["n"].as_u64().unwrap()
    };
    // The process is called otherwise than its threads here: known by its number.
    assert_eq!((count("latencies"), count("wakeups")), (0, 0));
    assert!(count("thread_state") > 0, "what they do is told");
}

#[test]
fn no_latency_is_told_of_the_recorder() {
    if Kernel::find(TEST).is_none() {
        return;
    }
    let lab = Lab::alone(TEST);
    let recording = lab.record("trace").args(&["-k", "sched,syscalls"]);
    recording.run(&["sh", "-c", SLEEPS]).expect(0);
    check(&lab, lab.path("trace").to_str().unwrap());

    // The parts of a session know who recorded them, too.
    lab.kymo(&["session", "start", "s", "-o", "parts", "-k", "sched,syscalls"]).expect(0);
    lab.run("/bin/sh", &["-c", SLEEPS]).expect(0);
    lab.kymo(&["session", "rotate", "s"]).expect(0);
    check(&lab, lab.path("parts/chunk-0001").to_str().unwrap());
    lab.kymo(&["session", "stop", "s"]).expect(0);
}
