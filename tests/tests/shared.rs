// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that the programs of a user share [spec/session.md 13].

use std::collections::BTreeMap;

use kymo_tests::{Build, Lab, Read, Recorded, Ring, babeltrace, times, trace};
use rustix::process::Signal;

/// Numbers by process; each record says whose it is, as its context does.
fn numbers(read: &Read) -> BTreeMap<u64, Vec<u64>> {
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for record in read.of("brief:rec") {
        assert_eq!((record.pid, record.tid), (record.number("pid"), record.number("pid")), "{record:?}");
        assert_eq!(record.proc, "short", "{record:?}");
        numbers.entry(record.pid).or_default().push(record.number("n"));
    }
    numbers
}

/// Entries of the summary with an outcome.
fn entries(recorded: &Recorded, outcome: &str) -> Vec<serde_json::Value> {
    let list = recorded.summary["processes"].as_array().expect("a list of processes");
    list.iter().filter(|entry| entry["outcome"] == outcome).cloned().collect()
}

/// Records a shell command.
fn record(lab: &Lab, args: &[&str], script: &str) -> Recorded {
    lab.record("trace").args(&["--shared-rings", "--overwrite"]).args(args).run(&["sh", "-c", script]).expect(0)
}

#[test]
fn many_short_programs_lose_nothing_and_each_record_says_whose_it_is() {
    let lab = Lab::new("shared_many");
    lab.cc("short.c");
    let count = times(300, 3000);
    let recorded = record(&lab, &[], &format!("seq {count} | xargs -P8 -I{{}} ./short 10")).lossless();
    let read = recorded.read(&lab);
    babeltrace::agrees(&lab, &recorded.dir, &read);
    let numbers = numbers(&read);
    assert_eq!(numbers.len(), count);
    assert!(numbers.values().all(|numbers| numbers.iter().copied().eq(0..10)), "{numbers:?}");
    let rings = entries(&recorded, "shared_rings");
    assert_eq!(rings.len(), 1, "{rings:?}");
    assert_eq!(rings[0]["records"], 10 * count as u64);
    let programs = entries(&recorded, "attached");
    assert_eq!(programs.len(), count);
    // How many each has written is not known, and not said to be none.
    assert!(programs.iter().all(|program| program["records"].is_null() && program["shares"].is_u64()), "{programs:?}");
    assert_eq!(recorded.summary["recorded_count"], count);
}

#[test]
fn killed_programs_spoil_nothing() {
    let lab = Lab::new("shared_killed");
    lab.cc("short.c");
    let script =
        "seq 100 | xargs -P8 -I{} sh -c 'if [ $(({} % 2)) = 0 ]; then ./short 50; else ./short 50 kill; fi; true'";
    let recorded = record(&lab, &[], script).lossless();
    let numbers = numbers(&recorded.read(&lab));
    assert_eq!(numbers.len(), 100);
    assert!(numbers.values().all(|numbers| numbers.iter().copied().eq(0..50)));
}

#[test]
fn forks_threads_and_portable_programs_have_their_own_ids() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("shared_forks");
        lab.ring(ring);
        lab.build(&Build::new(&["contexts.c"]), "contexts");
        let recorded = record(&lab, &["--memory", "4G"], "./contexts pids; ./contexts pids").lossless();
        let read = recorded.read(&lab);
        babeltrace::agrees(&lab, &recorded.dir, &read);
        assert_eq!(read.records.len(), 10);
        for record in &read.records {
            assert_eq!((record.pid, record.tid), (record.number("pid"), record.number("tid")), "{record:?}");
        }
        // A thread's lane is nobody else's.
        let shared = entries(&recorded, "shared_rings").len();
        assert_eq!(shared, usize::from(ring == Ring::Rseq));
    }
}

#[test]
fn full_rings_count_and_flight_recorders_keep_the_newest() {
    let lab = Lab::new("shared_full");
    lab.cc("short.c");
    let script = "for i in 1 2 3 4; do ./short 200000 & done; wait";
    let full = record(&lab, &["--ring-size", "4K", "--poll-us", "100000"], script);
    let read = full.read(&lab);
    let in_trace: usize = numbers(&read).values().map(Vec::len).sum();
    assert_eq!(in_trace as u64 + full.lost(), 800_000, "each record is there or counted");
    assert!(full.lost() > 0 && read.lost() == full.lost(), "{} lost", full.lost());

    let flight = record(&lab, &["--flight", "--ring-size", "64K"], script);
    let read = trace::read(&lab, &flight.dir.join("snapshot-0001"), &[]).whole();
    babeltrace::agrees(&lab, &flight.dir.join("snapshot-0001"), &read);
    let numbers = numbers(&read);
    assert!(!numbers.is_empty());
    for numbers in numbers.values() {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }
}

#[test]
fn ring_files_are_shared_and_recovered() {
    let lab = Lab::new("shared_recover");
    let short = lab.cc("short.c");
    let rings = lab.path("rings");
    let args = ["--shared-rings", "--ring-dir", rings.to_str().unwrap(), "--poll-us", "1000000"];
    let mut recording = lab.record("trace").args(&args).attach();
    for _ in 0..5 {
        lab.run(&short, &["20"]).expect(0);
    }
    assert_eq!(std::fs::read_dir(&rings).unwrap().count(), 1, "one memory");
    recording.proc().signal(Signal::KILL);
    recording.wait();
    let dir = lab.path("trace");
    lab.kymo(&["recover", rings.to_str().unwrap(), dir.to_str().unwrap()]).expect(0);
    let numbers = numbers(&trace::read(&lab, &dir, &[]).whole());
    assert_eq!(numbers.len(), 5);
    assert!(numbers.values().all(|numbers| numbers.iter().copied().eq(0..20)), "{numbers:?}");
}
