// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGKILL at random moments: every record that was published before it is in the trace, each one whole [spec/ring.md
//! 1].
//!
//! Victims count in a file what they begin and what they have published. The trace of a writer must be 0, 1, 2, ...
//! without a gap, at least as far as the one says, and at most as far as the other.

use std::collections::HashMap;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use kymo_tests::{Lab, Random, Read, Ring, times};
use rustix::process::Signal;

/// Counters of a victim.
const COUNTERS: usize = 16;
/// Writers of a victim: four threads, and their signal handlers.
const WRITERS: usize = 8;
/// Victims of one session.
const BATCH: usize = 50;

/// The same as check_of in common.h.
fn check_of(a: u64, b: u64) -> u64 {
    let left = a.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let right = b.wrapping_add(0x1234_5678_90ab_cdef).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (left ^ right) ^ ((left ^ right) >> 29)
}

/// Fails if the record is torn.
fn check_record(record: &kymo_tests::Record) {
    let (victim, n) = (record.number("victim"), record.number("n"));
    assert_eq!(record.number("check"), check_of(n, victim), "torn: {record:?}");
    if let Some(filler) = record.fields.get("filler") {
        let expect = format!("{:02x}", n as u8).repeat((n % 320) as usize);
        assert_eq!(filler.as_str(), Some(&*expect), "torn: {record:?}");
    }
}

fn check(read: &Read, counts: &[u64]) -> u64 {
    let mut next: HashMap<(u64, u64), u64> = HashMap::new();
    let mut pids = HashMap::new();
    for record in &read.records {
        check_record(record);
        let (victim, writer, n) = (record.number("victim"), record.number("writer"), record.number("n"));
        assert_eq!(*pids.entry(victim).or_insert(record.pid), record.pid);
        let next = next.entry((victim, writer)).or_default();
        assert_eq!(n, *next, "writer {writer} of victim {victim}");
        *next += 1;
    }
    let mut sum = 0;
    for (victim, counts) in counts.chunks_exact(COUNTERS).enumerate() {
        let (begun, published) = counts.split_at(WRITERS);
        for writer in 0..WRITERS {
            let found = next.get(&(victim as u64, writer as u64)).copied().unwrap_or(0);
            let range = published[writer]..=begun[writer];
            assert!(
                range.contains(&found),
                "writer {writer} of victim {victim}: {found} in the trace, not in {range:?}"
            );
            assert!(writer >= WRITERS / 2 || begun[writer] <= published[writer] + 1);
        }
        sum += published.iter().sum::<u64>();
    }
    sum
}

/// One session; its victims die one after the other.
fn batch(random: &mut Random, number: usize, victims: usize) -> u64 {
    let mut lab = Lab::new(&format!("kill_{number}"));
    let program = lab.cc("victim.c");
    let counts = lab.write("counts", &"\0".repeat(1 << 16));
    let recording = lab.record("trace").args(&["-u", "kill", "--ring-size", "8M", "--memory", "8G"]).attach();
    for victim in 0..victims {
        lab.ring(Ring::BOTH[(victim + number) % 2]);
        let threads = 1 + random.below(4);
        let style = ["-", "v", "s", "vs"][random.below(4) as usize];
        let proc = lab.spawn(&program, &[&victim.to_string(), &threads.to_string(), counts.to_str().unwrap(), style]);
        // Most die while they write, some on their way there.
        if random.below(8) > 0 {
            proc.until("go");
            spin(Duration::from_nanos(random.below(2_000_000)));
        } else {
            spin(Duration::from_nanos(random.below(20_000_000)));
        }
        assert_eq!(proc.end(Signal::KILL).code, 128 + 9);
    }
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    let mut bytes = vec![0; victims * COUNTERS * 8];
    std::fs::File::open(&counts).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let counts: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    check(&recorded.read(&lab), &counts)
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[test]
fn what_a_killed_program_published_is_in_the_trace() {
    let mut random = Random::new("kill", 20_261_121);
    let published: u64 = (0..times(4, 10)).map(|number| batch(&mut random, number, BATCH)).sum();
    // Else the victims died too early for the test to say anything. On an idle machine it is a million.
    assert!(published > 10_000, "{published} records in all");
}
