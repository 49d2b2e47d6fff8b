// SPDX-License-Identifier: MIT OR Apache-2.0
//! Very many programs on one session: all at once at the start, all at once later, and all dead at once.

use std::time::{Duration, Instant};

use kymo_tests::session::{Session, ask, session};
use kymo_tests::{Lab, Proc, process, stress, times};
use rustix::process::Signal;
use serde_json::Value;

/// Programs of one kind: those that run before the session, and those that come to it.
fn programs() -> usize {
    times(60, 500)
}

/// Records of each program.
const RECORDS: u64 = 100;

/// Ring memory that the session may have: that of all programs, and a few more.
fn memory() -> u64 {
    let cpus = std::thread::available_parallelism().expect("a count").get();
    ((2 * programs() + 8) * cpus) as u64 * (64 << 10)
}

/// Starts `programs()` runners at once, and waits until all are ready.
fn crowd(lab: &Lab) -> Vec<Proc> {
    let program = lab.path("runner");
    let all: Vec<Proc> = (0..programs()).map(|_| lab.spawn(&program, &[])).collect();
    for proc in &all {
        proc.until("ready");
    }
    all
}

fn say(all: &mut [Proc], line: &str, answer: &str) {
    all.iter_mut().for_each(|proc| proc.say(line));
    for proc in all {
        proc.until(answer);
    }
}

/// Kilobytes of a line of /proc/PID/status.
fn status_kb(pid: i32, line: &str) -> u64 {
    let text = process::text_of(std::path::Path::new(&format!("/proc/{pid}/status")));
    let found = text.lines().find_map(|of| of.strip_prefix(line));
    found.and_then(|of| of.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn all_of_a_crowd_are_recorded_early_late_and_dying() {
    let lab = Lab::new("crowd").within(Duration::from_secs(if stress() { 1200 } else { 900 }));
    lab.cc("runner.c");
    let count = programs();
    let mut early = crowd(&lab);
    let memory = memory();
    let begun = Instant::now();
    let session_ =
        Session::start(&lab, "crowd", &["-u", "runner:*", "--ring-size", "64K", "--memory", &memory.to_string()]);
    session_.until("all that ran are attached", |status| status["recorded_programs"] == count);
    let attached = begun.elapsed();
    say(&mut early, "enabled", "enabled");
    let begun = Instant::now();
    let mut late = crowd(&lab);
    let came = begun.elapsed();
    session_.until("all that came are attached", |status| status["recorded_programs"] == 2 * count);
    // Nothing of those that came was lost while they waited for us: they write at once.
    let line = format!("burst {RECORDS}");
    say(&mut late, &line, "done");
    say(&mut early, &line, "done");
    // Status stays usable: complete in JSON, short in text.
    let begun = Instant::now();
    let status = session_.ask(&["status"]);
    let asked = begun.elapsed();
    assert_eq!(status["view"]["program_count"], 2 * count);
    assert_eq!(status["view"]["programs"].as_array().map(Vec::len), Some(2 * count));
    assert!(status["view"]["memory_bytes"].as_u64() <= Some(memory), "{}", status["view"]["memory_bytes"]);
    let text = session(&lab, &["status", "crowd"]).expect(0).stdout;
    assert!(text.lines().count() < 40 && text.contains("more programs"), "{text}");
    let pid = session_.pid.as_raw_nonzero().get();
    let (anon_kb, rings_kb) = (status_kb(pid, "RssAnon:"), status_kb(pid, "RssShmem:"));
    assert!(anon_kb < 64 << 10, "{anon_kb} kB of the collector's own");
    println!(
        "crowd: {count} running programs attached in {attached:.2?}, {count} more started and attached in {came:.2?}; status in \
         {asked:.2?}; collector: {anon_kb} kB of its own, {rings_kb} kB of rings"
    );
    // All die at once, in the midst of it.
    for proc in early.iter().chain(&late) {
        proc.signal(Signal::KILL);
    }
    drop((early, late));
    session_.until("their rings are given back", |status| {
        status["recorded_programs"] == 0 && status["view"]["program_count"] == 0
    });
    // One that comes now has room, so memory was given back as well.
    let mut last = lab.spawn(lab.path("runner"), &[]);
    last.until("ready");
    ask(&mut last, &line, "done");
    let summary: Value = session_.ask(&["stop"]);
    let all = 2 * count as u64 + 1;
    assert_eq!((summary["recorded_count"].as_u64(), summary["records"].as_u64()), (Some(all), Some(all * RECORDS)));
    assert!(summary["rings_bytes_max"].as_u64() <= Some(memory));
    let read = lab.read("crowd");
    assert_eq!((read.records.len() as u64, read.lost()), (all * RECORDS, 0));
    assert_eq!(last.wait().code, 0);
    lab.wait_for("sockets of the dead to go", || {
        lab.kymo(&["list"]);
        lab.sockets("").is_empty().then_some(())
    });
}
