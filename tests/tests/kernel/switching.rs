// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel events switched on and off while a session runs [spec/session.md 10].

use std::path::Path;

use kymo_tests::kernel::{FIRST_NUMBER, NUMBERS, each};
use kymo_tests::session::{Session, contains, session};
use kymo_tests::{Kernel, Lab, Proc, trace};
use serde_json::json;

/// A program that counts by system calls from a line of the test on.
fn counter(lab: &Lab, count: u32) -> Proc {
    let program = match lab.path("calls") {
        there if there.exists() => there,
        _ => lab.cc("calls.c"),
    };
    let proc = lab.spawn(program, &["numbers", &count.to_string()]);
    proc.until("ready");
    proc
}

/// Counts up to `number`. The process id of who did: others of this machine do the same meanwhile.
fn count(lab: &Lab, number: u32) -> i64 {
    let mut proc = counter(lab, number);
    let pid = proc.pid();
    proc.say("go");
    proc.wait().expect(0);
    pid.into()
}

/// The numbers of these processes in a trace.
fn numbers(dir: &Path, pids: &[i64]) -> Vec<u64> {
    let mut numbers = Vec::new();
    each(dir, |record| {
        if record.event == "syscall_entry_close" && pids.contains(&record.tid) {
            numbers.extend((record.number("fd") as u64).checked_sub(FIRST_NUMBER));
        }
    });
    numbers
}

fn events(session: &Session<'_>) -> Vec<String> {
    let status = session.ask(&["status"]);
    let list = status["kernel_view"]["events"].as_array().cloned().unwrap_or_default();
    list.iter().map(|event| event.as_str().unwrap().to_owned()).collect()
}

#[test]
fn events_go_on_and_off_while_a_session_records() {
    let Some(kernel) = Kernel::find("switching") else { return };
    let lab = Lab::new("switching");
    let running = Session::start(&lab, "box", &["-k", "sched:sched_process_exit", "--state", "none"]);
    let pid = running.pid.as_raw_nonzero().get() as u32;
    let mut pids = vec![count(&lab, 10)];
    let changed = running.ask(&["enable", "-k", NUMBERS]);
    assert_eq!(changed["kernel"], json!({ "events": ["syscalls:sys_enter_close"], "is_new": false }));
    assert_eq!(events(&running), ["sched:sched_process_exit", "syscalls:sys_enter_close"]);
    pids.push(count(&lab, 20));
    // A filter replaces the one before; the newest decides.
    running.ask(&["enable", "-k", "syscalls:sys_enter_close[fd >= 1073741834]"]);
    pids.push(count(&lab, 20));
    running.ask(&["disable", "-k", "syscalls"]);
    pids.push(count(&lab, 40));
    assert_eq!(events(&running), ["sched:sched_process_exit"]);
    contains(&session(&lab, &["status", "box"]).expect(0).stdout, "-syscalls");
    let saved = session(&lab, &["save", "box"]).expect(0).stdout;
    contains(&saved, "kernel-change = [");
    contains(&saved, "-syscalls");
    let summary = running.ask(&["stop"]);
    kernel.assert_clean(pid);
    assert_eq!(summary["kernel"]["events"], json!(["sched:sched_process_exit", "syscalls:sys_enter_close"]));
    let found = numbers(&lab.path("box"), &pids);
    assert_eq!(found, (0..20).chain(10..20).collect::<Vec<u64>>());
    // A file with the changes starts a session that has them.
    let file = lab.write("again.toml", &saved.replace("\"-syscalls\"", "\"+sched:sched_switch\""));
    let out = lab.path("again");
    let args = ["start", "again", "--json", "-o", out.to_str().unwrap(), "--load", file.to_str().unwrap()];
    session(&lab, &args).expect(0);
    let status = session(&lab, &["status", "again", "--json"]).expect(0).stdout;
    contains(&status, "sched:sched_switch");
    contains(&status, "syscalls:sys_enter_close");
    session(&lab, &["stop", "again"]).expect(0);
}

#[test]
fn a_session_without_a_kernel_gets_one() {
    let Some(kernel) = Kernel::find("switching_late") else { return };
    let lab = Lab::new("switching_late");
    for (name, more) in [("stream", &[][..]), ("flight", &["--flight"][..]), ("cut", &["--rotate-time", "1h"][..])] {
        let running = Session::start(&lab, name, more);
        let pid = running.pid.as_raw_nonzero().get() as u32;
        assert_eq!(kernel.instances_of(pid).len(), 0);
        let refused = session(&lab, &["disable", name, "-k", "sched"]).expect(2);
        contains(&refused.stderr, "no kernel events");
        let changed = running.ask(&["enable", "-k", NUMBERS]);
        assert_eq!(changed["kernel"], json!({ "events": ["syscalls:sys_enter_close"], "is_new": true }));
        assert_eq!(kernel.instances_of(pid).len(), 1);
        let mut pids = vec![count(&lab, 30)];
        let mut dir = lab.path(name);
        if name == "flight" {
            let snapshot = running.ask(&["snapshot", "--wait"]);
            dir = snapshot["dir"].as_str().unwrap().into();
        } else if name == "cut" {
            running.ask(&["rotate"]);
            pids.push(count(&lab, 7));
            dir = dir.join("chunk-0001");
        }
        let summary = running.ask(&["stop"]);
        kernel.assert_clean(pid);
        assert_eq!(numbers(&dir, &pids), (0..30).collect::<Vec<u64>>(), "{name}");
        if name == "cut" {
            assert_eq!(numbers(&lab.path("cut/chunk-0002"), &pids), (0..7).collect::<Vec<u64>>());
        }
        assert_eq!(summary["kernel"]["events"], json!(["syscalls:sys_enter_close"]), "{name}");
        let metadata = std::fs::read_to_string(dir.join("metadata")).unwrap();
        contains(&metadata, "domain = \"kernel\"");
        // The state dump of the beginning is there too.
        let read = trace::read(&lab, &dir, &["--state"]).whole();
        assert!(read.of("lttng_statedump_process_state").count() > 0, "{name}");
    }
}

#[test]
fn what_cannot_be_switched_changes_nothing() {
    let Some(kernel) = Kernel::find("switching_wrong") else { return };
    let lab = Lab::new("switching_wrong");
    let running = Session::start(&lab, "box", &["-k", "sched:sched_process_exit[prio < 200]", "--state", "none"]);
    for (words, part) in [
        (&["enable", "box", "-k", "sched:sched_swich"][..], "sched:sched_switch"),
        (&["enable", "box", "-k", "sched:sched_switch[nothing == 1]"], "nothing"),
        (&["enable", "box", "-k", "sched:sched_wakeup{nothing}"], "no chosen kernel event has a field"),
        (&["enable", "box", "-k", "sched:sched_process_exit{comm}"], "with all fields"),
        (&["enable", "box", "-k", "sched:sched_process_exit[nothing == 1]"], "nothing"),
        (&["enable", "box", "-k", "sched:["], "sched:["),
        (&["enable", "box"], "PATTERN"),
    ] {
        let outcome = session(&lab, words).expect(2);
        contains(&outcome.stderr, part);
    }
    assert_eq!(events(&running), ["sched:sched_process_exit"]);
    session(&lab, &["disable", "box", "-k", "irq"]).expect(0);
    // What was on before a change that failed goes on.
    let mut proc = counter(&lab, 1);
    proc.say("go");
    proc.wait().expect(0);
    running.ask(&["stop"]);
    let read = trace::read(&lab, &lab.path("box"), &[]).whole();
    assert!(read.of("sched_process_exit").any(|exit| exit.fields["comm"] == "calls"), "{} records", read.records.len());
    drop(kernel);
}

/// A snapshot that takes its time does not keep the session from answering.
#[test]
fn a_session_answers_while_a_snapshot_is_taken() {
    if Kernel::find("switching_slow").is_none() {
        return;
    }
    let lab = Lab::new("switching_slow");
    let running = Session::start(&lab, "slow", &["--flight", "-k", "syscalls:sys_enter_close", "--kernel-ring", "64M"]);
    let mut calls = counter(&lab, 4_000_000);
    calls.say("go");
    calls.wait().expect(0);
    let mut answers = 0;
    // A machine may be faster than the first question, once.
    for snapshots in 1..=5 {
        session(&lab, &["snapshot", "slow", "--reason", "large"]).expect(0);
        loop {
            let list = session(&lab, &["list"]).expect(0).stdout;
            assert!(list.contains("flight"), "{list}");
            let status = running.ask(&["status"]);
            if status["snapshots"] == snapshots {
                break;
            }
            assert!(status["snapshot_error"].is_null(), "{status}");
            answers += 1;
        }
        if answers > 0 {
            break;
        }
    }
    if answers == 0 {
        kymo_tests::skip("switching_slow", "five snapshots were each faster than a question: the test says nothing");
    }
    running.ask(&["stop"]);
}
