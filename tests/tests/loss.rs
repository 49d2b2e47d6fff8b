// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss is counted exactly: produced = read + lost, whatever the ring holds, and what is not lost is whole.

use std::collections::BTreeMap;

use kymo_tests::{Lab, Read, Recorded, Ring, babeltrace, times};
use serde_json::Value;

/// Each record of produce.c, checked on its own; the numbers of each writer rise.
fn check_produced(read: &Read, bytes: usize) {
    let filler: String = (0..bytes).map(|at| format!("{:02x}", (at * 31) as u8)).collect();
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &read.records {
        let (writer, n) = (record.number("writer"), record.number("n"));
        assert!(record.fields["filler"] == *filler, "torn: {record:?}");
        let next = next.entry(writer).or_default();
        assert!(n >= *next, "writer {writer}: {n} comes after {next}");
        *next = n + 1;
    }
}

/// What the program, the summary, the text of the end, and the trace say of losses.
fn check_account(recorded: &Recorded, read: &Read) {
    let produced = recorded.outcome.number("produced");
    assert_eq!(
        recorded.records() + recorded.lost(),
        produced,
        "records and lost, by the summary\n{}",
        recorded.outcome.stderr
    );
    assert_eq!(read.records.len() as u64, recorded.records());
    assert_eq!(read.lost(), recorded.lost());
    let listed: u64 =
        recorded.summary["losses"].as_array().unwrap().iter().map(|loss| loss["records"].as_u64().unwrap()).sum();
    assert_eq!(listed, recorded.lost(), "losses by interval");
    let said = recorded.outcome.stderr.contains("LOST");
    assert_eq!(said, recorded.lost() > 0, "{}", recorded.outcome.stderr);
}

#[test]
fn a_ring_that_is_too_small_loses_records_and_counts_each() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("overflow");
        lab.ring(ring);
        let program = lab.cc("produce.c");
        let recorded = lab.record("trace").args(&["--ring-size", "4K", "--poll-us", "2000"]).run(&[
            program.to_str().unwrap(),
            "4",
            "20000",
            "24",
        ]);
        let recorded = recorded.expect(0);
        let read = recorded.read(&lab);
        check_produced(&read, 24);
        check_account(&recorded, &read);
        assert!(recorded.lost_by("full") > 0, "the test must overflow the ring\n{}", recorded.outcome.stderr);
        assert_eq!(recorded.lost(), recorded.lost_by("full") + recorded.lost_by("restart") + recorded.lost_by("lane"));
        babeltrace::agrees(&lab, &recorded.dir, &read);
        check_dates(&recorded);
    }
}

/// Losses lie within the session, and before their end.
fn check_dates(recorded: &Recorded) {
    let clock = |value: &Value| value.as_u64().unwrap();
    let (start, end) = (clock(&recorded.summary["start"]), clock(&recorded.summary["end"]));
    for loss in recorded.summary["losses"].as_array().unwrap() {
        let (from, to) = (clock(&loss["from"]), clock(&loss["to"]));
        assert!(start <= from && from <= to && to <= end, "{loss} in [{start}, {end}]");
    }
}

#[test]
fn a_large_ring_loses_nothing() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("no_loss");
        lab.ring(ring);
        let program = lab.cc("produce.c");
        let records = times(50_000, 1_000_000).to_string();
        let args = ["--ring-size", "256M", "--memory", "40G"];
        let recorded =
            lab.record("trace").args(&args).run(&[program.to_str().unwrap(), "2", &records, "24"]).expect(0).lossless();
        let read = recorded.read(&lab);
        check_produced(&read, 24);
        check_account(&recorded, &read);
        check_all_cpus(&lab, &recorded);
    }
}

/// Several threads, each with slices of the trace, print what one thread prints.
fn check_all_cpus(lab: &Lab, recorded: &Recorded) {
    let dir = recorded.dir.to_str().expect("a name");
    let kymo = kymo_tests::paths::kymo();
    let one = lab.run("taskset", &["--cpu-list", "0", kymo.to_str().expect("a name"), "read", dir]).expect(0);
    let all = lab.kymo(&["read", dir]).expect(0);
    assert_eq!(all.stderr, one.stderr);
    assert!(all.stdout == one.stdout, "other lines where all CPUs print");
}

#[test]
fn records_that_are_too_long_are_refused_and_counted() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("sizes");
        lab.ring(ring);
        let program = lab.cc("sizes.c");
        let recorded = lab.record("trace").args(&["--ring-size", "4M"]).run(&[program.to_str().unwrap()]).expect(0);
        let read = recorded.read(&lab);
        assert_eq!(read.numbers("sizes:small", "n"), (0..14).collect::<Vec<_>>());
        let data = |n: u64| {
            read.of("sizes:big").find(|record| record.number("n") == n).unwrap().fields["data"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(read.numbers("sizes:big", "n"), [0, 1, 2, 3, 4, 5, 6, 12, 13], "{ring:?}");
        for (n, bytes) in
            [(0, 0), (1, 1), (2, 3000), (3, 4096), (4, 60_000), (5, 65_517), (6, 65_518), (12, 60_000), (13, 12)]
        {
            let expect: String = (0..bytes).map(|at: usize| format!("{:02x}", (at * 13) as u8)).collect();
            assert!(data(n) == expect, "{bytes} bytes");
        }
        check_account(&recorded, &read);
        assert_eq!((recorded.lost_by("size"), recorded.lost()), (5, 5));
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
}

/// A record may fit its type and not the ring: that is a loss too, of that record only.
#[test]
fn records_that_are_longer_than_the_ring_are_counted() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("longer_than_ring");
        lab.ring(ring);
        let program = lab.cc("sizes.c");
        let recorded = lab.record("trace").args(&["--ring-size", "4K"]).run(&[program.to_str().unwrap()]).expect(0);
        let read = recorded.read(&lab);
        check_account(&recorded, &read);
        assert_eq!(read.numbers("sizes:small", "n"), (0..14).collect::<Vec<_>>());
        assert_eq!(read.numbers("sizes:big", "n"), [0, 1, 2, 13]);
        // Five are longer than any record, five longer than this ring.
        assert_eq!(recorded.lost(), 10, "{}", recorded.summary["lost"]);
        assert!(recorded.lost_by("size") >= 5, "{}", recorded.summary["lost"]);
    }
}

#[test]
fn a_session_within_its_memory() {
    let mut lab = Lab::new("memory_cap");
    let program = lab.cc("produce.c");
    // Two rings of 1M each are asked for, and 256K allowed.
    let recorded = lab.record("trace").args(&["--ring-size", "1M", "--memory", "256K"]).run(&[
        program.to_str().unwrap(),
        "1",
        "5000",
        "0",
        "500",
    ]);
    let recorded = recorded.expect(0);
    let read = recorded.read(&lab);
    check_account(&recorded, &read);
    assert!(recorded.summary["rings_bytes_max"].as_u64().unwrap() <= 256 << 10);
    assert!(recorded.outcome.stderr.contains("made smaller to fit into --memory"), "{}", recorded.outcome.stderr);
    // And where nothing fits, the program runs, and the reason is told.
    lab.ring(Ring::Portable);
    let refused = lab.record("refused").args(&["--memory", "64K"]).run(&[program.to_str().unwrap(), "1", "100"]);
    assert_eq!((refused.outcome.code, refused.outcome.number("produced")), (3, 100));
    assert!(refused.outcome.stderr.contains("memory of 64 KiB is used up (--memory)"), "{}", refused.outcome.stderr);
}
