// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compact records [spec/ring.md 11] through the whole pipe: each with its thread and its time, and few bytes.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_tests::{Lab, Read, Ring, babeltrace, skip, trace};
use rustix::process::Signal;

/// Whether this processor's programs write such records.
fn is_available() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        skip("compact", "compact records are for x86-64");
    }
    cfg!(target_arch = "x86_64")
}

/// Each record is of the thread that it names itself, and each thread's numbers follow each other.
fn check(read: &Read) {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &read.records {
        assert_eq!(record.tid, record.number("tid"), "{record:?}");
        if record.event != "compact:handler" {
            let n = next.entry(record.tid).or_insert_with(|| record.number("n"));
            assert_eq!(record.number("n"), *n, "{record:?}");
            *n += 1;
        }
    }
}

/// Bytes of the programs' stream files.
fn stream_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a trace").flatten();
    let of_programs = files.filter(|file| file.file_name().to_string_lossy().starts_with("user_"));
    of_programs.map(|file| file.metadata().expect("a file").len()).sum()
}

#[test]
fn every_record_has_its_thread_whatever_the_ring_and_the_format() {
    if !is_available() {
        return;
    }
    for (ring, format) in Ring::BOTH.into_iter().flat_map(|ring| [(ring, "ctf-1.8"), (ring, "ctf2")]) {
        let mut lab = Lab::new("compact_threads");
        lab.ring(ring);
        let program = lab.cc("compact.c");
        let mut args = vec!["--compact", "--overwrite"];
        args.extend((format == "ctf2").then_some("--ctf2"));
        let recorded =
            lab.record("trace").args(&args).run(&[program.to_str().unwrap(), "6000", "4"]).expect(0).lossless();
        let read = recorded.read(&lab).whole();
        let made: u64 = recorded.outcome.stdout.trim().trim_start_matches("made=").parse().expect("a count");
        assert_eq!(read.records.len() as u64, made, "{ring:?}");
        check(&read);
        if format != "ctf2" {
            babeltrace::first_agrees(&lab, &recorded.dir);
        }
        // From an index, from a moment on, and by thread.
        let later = trace::read(&lab, &recorded.dir, &["--from", "+100ms"]);
        assert!(!later.records.is_empty() && later.records.len() < read.records.len());
        assert!(later.records.iter().all(|record| record.tid == record.number("tid")));
        let thread = read.records[0].tid.to_string();
        let of_thread = trace::read(&lab, &recorded.dir, &["--filter", &format!("*: $tid == {thread}")]);
        let expect = read.records.iter().filter(|record| record.tid.to_string() == thread).count();
        assert_eq!(of_thread.records.len(), expect);
    }
}

#[test]
fn a_record_of_one_integer_takes_8_bytes() {
    if !is_available() {
        return;
    }
    let lab = Lab::new("compact_bytes");
    let program = lab.cc("compact.c");
    let command = ["taskset", "-c", "0", program.to_str().unwrap(), "200000"];
    let recorded = lab.record("trace").args(&["--compact", "--ring-size", "16M"]).run(&command).expect(0).lossless();
    let read = recorded.read(&lab).whole();
    trace::assert_counts_up(&read.numbers("compact:one", "n"), 200_000);
    let bytes = stream_bytes(&recorded.dir) as f64 / 200_000.0;
    assert!(bytes < 8.1, "{bytes} bytes for each record");
}

#[test]
fn contexts_shared_rings_and_chunks_go_with_it() {
    if !is_available() {
        return;
    }
    for ring in Ring::BOTH {
        let mut lab = Lab::new("compact_others");
        lab.ring(ring);
        let program = lab.cc("compact.c");
        let command = [program.to_str().unwrap(), "4000", "3"];
        for args in [&["--context", "prio"][..], &["--shared-rings"], &["--rotate-size", "64K"]] {
            let args = [&["--compact", "--overwrite", "--memory", "4G"], args].concat();
            let recorded = lab.record("trace").args(&args).run(&command).expect(0).lossless();
            let read = recorded.read(&lab).whole();
            assert!(read.records.len() >= 12_000, "{args:?}: {}", read.records.len());
            check(&read);
            let has_prio = read.records.iter().all(|record| record.contexts.contains_key("prio"));
            assert_eq!(has_prio, args.contains(&"prio"), "{args:?}");
        }
    }
}

#[test]
fn snapshots_and_recovered_rings_know_the_thread() {
    if !is_available() {
        return;
    }
    for ring in Ring::BOTH {
        let mut lab = Lab::new("compact_flight");
        lab.ring(ring);
        let program = lab.cc("compact.c");
        let program = program.to_str().unwrap();
        let args = ["--compact", "--flight", "--ring-size", "64K"];
        let flight = lab.record("flight").args(&args).run(&[program, "20000", "3"]).expect(0);
        let dir = flight.dir.join("snapshot-0001");
        let read = trace::read(&lab, &dir, &[]).whole();
        assert!(read.records.len() > 500, "{}", read.records.len());
        assert!(read.records.iter().all(|record| record.tid == record.number("tid")));
        babeltrace::first_agrees(&lab, &dir);

        let rings = lab.path("rings");
        let args = ["--compact", "--ring-dir", rings.to_str().unwrap(), "--ring-size", "4M", "--poll-us", "1000"];
        let mut recording = lab.record("recovered").args(&args).attach();
        lab.run(program, &["4000", "3", "kill"]);
        recording.proc().signal(Signal::KILL);
        recording.wait();
        let dir = lab.path("recovered");
        lab.kymo(&["recover", rings.to_str().unwrap(), dir.to_str().unwrap()]).expect(0);
        let read = trace::read(&lab, &dir, &[]).whole();
        assert!(read.records.len() >= 12_000, "{}", read.records.len());
        check(&read);
    }
}

#[test]
fn a_trigger_sees_the_thread() {
    if !is_available() {
        return;
    }
    let lab = Lab::new("compact_trigger");
    let program = lab.cc("compact.c");
    let trigger = ["--trigger", "compact:rec: n == 9001", "--trigger-limit", "1"];
    let args = [&["--compact", "--flight"], &trigger[..]].concat();
    let flight = lab.record("flight").args(&args).run(&[program.to_str().unwrap(), "20000", "2"]).expect(0);
    let reason = flight.summary["flight"]["snapshots"][0]["reason"].as_str().unwrap_or_default().to_owned();
    let read = trace::read(&lab, &flight.dir.join("snapshot-0001"), &[]).whole();
    let fired = read.of("compact:rec").filter(|record| record.number("n") == 9001);
    let threads: Vec<u64> = fired.map(|record| record.tid).collect();
    assert!(threads.iter().any(|thread| reason.contains(&format!("/{thread}]"))), "{threads:?}: {reason}");
}
