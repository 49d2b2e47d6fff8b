// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes made in every way: each traces from its first record, with the right process and thread id, and nothing is
//! lost.

use std::collections::BTreeMap;

use kymo_tests::{Lab, Outcome, Read, Ring, babeltrace};
use rustix::process::Signal;

/// Runs forks.c in a mode, and gives the trace, in which nothing may be missing but what children of a raw clone write
/// without a ring of their own.
fn record(name: &str, ring: Ring, mode: &str, count: u64) -> (Lab, Outcome, Read) {
    let mut lab = Lab::new(name);
    lab.ring(ring);
    let program = lab.cc("forks.c");
    let count = count.to_string();
    // The charge of a portable memory is for all its lanes, of which few are used.
    let recorded = lab.record("trace").args(&["--ring-size", "256K", "--memory", "4G"]).run(&[
        program.to_str().unwrap(),
        mode,
        &count,
    ]);
    let mut recorded = recorded.expect(0);
    if !(ring == Ring::Portable && mode == "clones") {
        recorded = recorded.lossless();
    }
    let read = recorded.read(&lab);
    check_ids(&read);
    (lab, recorded.outcome, read)
}

/// The thread id is what the process says of itself: all that trace here are the first threads of their processes.
fn check_ids(read: &Read) {
    for record in
        read.records.iter().filter(|record| !(record.event == "forks:leaf" && record.tid != record.number("pid")))
    {
        assert_eq!(record.tid, record.number("pid"), "{record:?}");
    }
}

/// One record of each child, and one of the parent about it.
fn check_children(read: &Read, count: u64) {
    let children: BTreeMap<u64, u64> =
        read.of("forks:child").map(|record| (record.number("n"), record.number("pid"))).collect();
    let parents: BTreeMap<u64, u64> =
        read.of("forks:parent").map(|record| (record.number("n"), record.number("child"))).collect();
    assert_eq!((read.of("forks:child").count() as u64, children.len() as u64), (count, count));
    assert_eq!(children, parents, "children by n, as they and as their parents know them");
}

/// `count` programs of `records` leaves each, each leaf numbered.
fn check_leaves(read: &Read, count: usize, records: u64) {
    for record in read.of("forks:leaf") {
        assert_eq!(record.pid, record.number("pid"), "{record:?}");
    }
    check_forked_leaves(read, count, records);
}

/// The same of processes that are still the program that forked them: until such a child has rings of its own, it
/// writes into its parent's, whose packets name the parent; the thread id is its own all the time [spec/session.md 3].
fn check_forked_leaves(read: &Read, count: usize, records: u64) {
    let mut leaves: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for record in read.of("forks:leaf") {
        assert_eq!(record.tid, record.number("pid"), "{record:?}");
        leaves.entry(record.number("pid")).or_default().push(record.number("n"));
    }
    assert_eq!(leaves.len(), count, "processes with leaves");
    for (pid, numbers) in &leaves {
        assert!(numbers.iter().copied().eq(0..records), "leaves of {pid}: {numbers:?}");
    }
}

#[test]
fn a_program_that_forks_1000_times() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("forks", ring, "forks", 1000);
        check_children(&read, 1000);
    }
}

#[test]
fn children_of_a_raw_clone_trace_with_their_own_id() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("clones", ring, "clones", 200);
        match ring {
            Ring::Rseq => check_children(&read, 200),
            // Nobody tells such a child to attach, and its parent's lanes are not its own: its records are counted as
            // lost [spec/ring.md 6].
            Ring::Portable => {
                let seen = (read.of("forks:child").count(), read.of("forks:parent").count(), read.lost());
                assert_eq!(seen, (0, 200, 200));
            }
        }
    }
}

#[test]
fn children_of_children() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("nested", ring, "nested", 30);
        check_children(&read, 30);
    }
}

#[test]
fn forks_while_other_threads_trace() {
    for ring in Ring::BOTH {
        let (_lab, outcome, read) = record("among_threads", ring, "among_threads", 100);
        check_children(&read, 100);
        assert_eq!(read.of("forks:leaf").count() as u64, outcome.number("leaves"));
    }
}

#[test]
fn vfork_and_exec() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("vforks", ring, "vforks", 30);
        check_leaves(&read, 30, 3);
        assert_eq!(read.of("forks:parent").count(), 30);
    }
}

#[test]
fn posix_spawn() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("spawns", ring, "spawns", 30);
        check_leaves(&read, 30, 3);
        assert_eq!(read.of("forks:parent").count(), 30);
    }
}

#[test]
fn programs_that_live_a_millisecond_lose_nothing() {
    for ring in Ring::BOTH {
        let (lab, _, read) = record("shorts", ring, "shorts", 200);
        check_leaves(&read, 200, 100);
        assert_eq!(read.of("forks:parent").count(), 200);
        // The trace of many processes is a good one for the other reader.
        babeltrace::agrees(&lab, &lab.path("trace"), &read);
    }
}

#[test]
fn a_short_program_with_a_session_of_its_own() {
    let lab = Lab::new("short");
    let program = lab.cc("forks.c");
    for number in 0..20 {
        let recorded =
            lab.record(&format!("trace{number}")).run(&[program.to_str().unwrap(), "leaf", "100"]).expect(0).lossless();
        check_leaves(&recorded.read(&lab), 1, 100);
    }
}

#[test]
fn a_chain_of_execs() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("chain", ring, "chain", 30);
        let numbers = read.numbers("forks:child", "n");
        assert!(numbers.iter().copied().eq((0..=30).rev()), "{numbers:?}");
        assert!(read.records.iter().all(|record| record.tid == read.records[0].tid), "one process all along");
    }
}

#[test]
fn a_daemon_is_recorded_with_the_command() {
    for ring in Ring::BOTH {
        let (_lab, _, read) = record("daemon", ring, "daemon", 500);
        check_forked_leaves(&read, 1, 500);
    }
}

#[test]
fn a_daemon_is_recorded_by_a_session_without_a_command() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("daemon_attached");
        lab.ring(ring);
        let program = lab.cc("forks.c");
        let recording = lab.record("trace").args(&["--memory", "4G"]).attach();
        lab.run(&program, &["daemon", "500"]).expect(0);
        let recorded = recording.end(Signal::INT).expect(0).lossless();
        check_forked_leaves(&recorded.read(&lab), 1, 500);
    }
}
