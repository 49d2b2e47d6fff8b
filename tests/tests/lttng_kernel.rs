// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel traces of LTTng: one that lab/lttng-kernel has made (traces/lttng-kernel), and with KYMO_STRESS=1 one that it
//! makes now, in a virtual machine. babeltrace2 reads the same records, and every verb that analyses finds what the
//! guest did: it slept.

use std::path::Path;
use std::time::Duration;

use kymo_tests::{Lab, babeltrace, paths, skip};
use serde_json::Value;

const MS: u64 = 1_000_000;
/// What the guest sleeps.
const SLEEP_NS: u64 = 20 * MS;

#[track_caller]
fn ask(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.kymo(args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {:.600}", outcome.stdout))
}

/// The verbs agree with what the guest did, `rounds` times at least.
#[track_caller]
fn answers(lab: &Lab, trace: &Path, rounds: u64) {
    let name = trace.to_str().unwrap();
    let records = babeltrace::agrees_on_events(lab, trace);
    let count = ask(lab, &["read", name, "--count", "--state", "--json"]);
    let counted = count["records"].as_u64().unwrap_or_else(|| panic!("{count}"));
    assert!(records.is_none_or(|records| records as u64 == counted), "{records:?} by babeltrace2, {counted} counted");
    let stats = ask(lab, &["stats", name, "--json"]);
    assert_eq!(stats["records"].as_u64(), Some(counted), "{stats}");
    let latency = ask(lab, &["latency", name, "--json"]);
    let series = |what: &str, of: &str| {
        let all = latency["series"].as_array().unwrap_or_else(|| panic!("{latency}")).iter();
        all.clone().find(|series| series["what"] == what && (of.is_empty() || series["of"] == of)).cloned()
    };
    let sleeps = series("syscall", "clock_nanosleep").expect("sleeps");
    assert!(sleeps["count"].as_u64() >= Some(rounds) && sleeps["min"].as_u64() >= Some(SLEEP_NS), "{sleeps}");
    assert!(series("wakeup", "").is_some_and(|wakeups| wakeups["count"].as_u64() > Some(rounds)), "{latency}");
    // The worst call, to its root: it was blocked in that call.
    let path = lab.kymo(&["critical", name, "--worst", "syscall", "--thread", "sleep"]).expect(0).stdout;
    assert!(path.contains("blocked in clock_nanosleep"), "{path}");
    let story = ask(lab, &["explain", name, "--worst", "syscall", "--thread", "sleep", "--json"]);
    let (from, to) = (story["from"].as_i64().unwrap(), story["to"].as_i64().unwrap());
    assert!(to.abs_diff(from) >= SLEEP_NS, "{story}");
    // In the middle of it: with an index and without one.
    let middle = (from + (to - from) / 2).to_string();
    let state = ["state", name, "--at", &middle, "--thread", "sleep", "--json"];
    let found = ask(lab, &state);
    let thread = &found["threads"][0];
    assert!(thread.to_string().contains("clock_nanosleep"), "{found}");
    lab.kymo(&["index", name]).expect(0);
    assert_eq!(ask(lab, &state), found);
}

#[test]
fn a_trace_that_was_made_before() {
    let lab = Lab::new("lttng_kernel");
    let from = paths::repository().join("tests/traces/lttng-kernel");
    let trace = lab.path("trace");
    std::fs::create_dir(&trace).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), trace.join(entry.file_name())).unwrap();
    }
    answers(&lab, &trace, 1);
    let count = lab.kymo(&["read", trace.to_str().unwrap(), "--count"]).expect(0).stdout;
    for needle in ["375 sched_switch", "192 sched_waking", "569 records"] {
        assert!(count.contains(needle), "{count}");
    }
}

#[test]
fn a_trace_that_is_made_now() {
    let lab = Lab::new("lttng_kernel_now").within(Duration::from_secs(1500));
    if !kymo_tests::stress() {
        return skip(lab.name(), "only with KYMO_STRESS=1: it boots a virtual machine");
    }
    let out = lab.path("out");
    let mut command = lab.command(paths::repository().join("lab/lttng-kernel"));
    // Rounds 5; the cache is the user's, and the guest's end is bounded.
    command.arg(&out).args(["all", "5"]).env("KYMO_VM_TIMEOUT", "900");
    let outcome = lab.start(command).wait();
    if outcome.code == 77 {
        return skip(lab.name(), outcome.stderr.trim());
    }
    outcome.expect(0);
    answers(&lab, &out.join("trace/kernel"), 5);
}
