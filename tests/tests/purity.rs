// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record path makes no system call and no page fault, in a thread that has traced once [spec/ring.md 1].

use kymo_tests::{Lab, Recorded, Ring, trace};

const RECORDS: u64 = 1_000_000;

/// Rings that hold a million records, so that the collector's pace does not matter; a portable one is a quarter.
fn record(lab: &Lab, name: &str, mode: &str, ring: Ring) -> Recorded {
    let program = match lab.path("pure") {
        there if there.exists() => there,
        _ => lab.cc("pure.c"),
    };
    let size = if ring == Ring::Rseq { "64M" } else { "256M" };
    let args = ["--ring-size", size, "--memory", "40G"];
    lab.record(name).args(&args).run(&[program.to_str().unwrap(), mode, &RECORDS.to_string()])
}

fn check_all(lab: &Lab, recorded: &Recorded) {
    let read = recorded.read(lab);
    let numbers: Vec<u64> = read.records.iter().map(|record| record.number("n")).collect();
    trace::assert_counts_up(&numbers, RECORDS + 1);
}

#[test]
fn a_thread_under_strict_seccomp_writes_a_million_records() {
    for ring in Ring::BOTH {
        let mut lab = Lab::alone("seccomp");
        lab.ring(ring);
        let recorded = record(&lab, "trace", "seccomp", ring).expect(0).lossless();
        assert_eq!(recorded.outcome.number("produced"), recorded.records());
        check_all(&lab, &recorded);
        // A single call would have been fatal: SIGSYS.
        record(&lab, "broken", "seccomp_broken", ring).expect(128 + 31);
    }
}

#[test]
fn a_million_records_without_a_page_fault() {
    for ring in Ring::BOTH {
        let mut lab = Lab::alone("faults");
        lab.ring(ring);
        // A machine short of memory takes pages of code away, which is not the record path's fault: one run of five
        // must be clean.
        let mut seen = Vec::new();
        for attempt in 0..5 {
            let recorded = record(&lab, &format!("trace{attempt}"), "faults", ring).expect(0).lossless();
            let faults = (recorded.outcome.number("minor"), recorded.outcome.number("major"));
            seen.push(faults);
            if faults == (0, 0) {
                break;
            }
        }
        assert_eq!(seen.last(), Some(&(0, 0)), "{ring:?}: minor and major faults over a million records: {seen:?}");
    }
}
