// SPDX-License-Identifier: MIT OR Apache-2.0
//! One lane against a program that keeps to the rules, and against one that does not. Time is made up: CLOCK_MONOTONIC
//! in nanoseconds is the clock of records, and every pass says when it is.

use std::fs;
use std::path::Path;

use kymo_abi::ring::{Layout, RING_BYTES_MIN};
use kymo_abi::{Clock, head_word};
use kymo_ctf::write::PacketHead;
use tempfile::TempDir;

use super::*;
use crate::trace_dir::DiskDir;

const RING: u32 = 65_536;
const SECOND: u64 = 1_000_000_000;

/// A lane, the program that writes it, and the trace that it goes to.
struct Bench {
    dir: TempDir,
    memory: Memory,
    lane: Lane,
    streams: Streams,
    head: Mark,
    /// Clock of the next record.
    clock: u64,
    take_ns: u64,
    written: Vec<u8>,
}

impl Bench {
    /// Lane 0 of 2, whose head and tail begin at `start`.
    fn new(ring_bytes: u32, start: u64) -> Bench {
        let layout = Layout::new(RingKind::Rseq, Clock::Monotonic, 2, ring_bytes, 4096).unwrap();
        let memory = Memory::create(layout, 1).unwrap();
        let ring = &memory.view().rings()[0];
        ring.head.store(start, Ordering::Relaxed);
        ring.tail.store(start, Ordering::Relaxed);
        let dir = tempfile::tempdir().unwrap();
        let streams = Streams::new(DiskDir::boxed(dir.path()), [7; 16], ClockSource::new(Clock::Monotonic));
        let clock = ClockSource::new(Clock::Monotonic).read();
        // Long before the first record, so that what is due is due at the first look.
        let lane = Lane::new(&memory, 0, clock - SECOND, clock - SECOND);
        let (head, clock) = (Mark(start), clock - SECOND / 2);
        Bench { dir, lane, memory, streams, head, clock, take_ns: TAKE_NS, written: Vec::new() }
    }

    fn ring(&self) -> &RingBlock {
        &self.memory.view().rings()[0]
    }

    /// Writes bytes where the program would.
    fn poke(&self, at: Mark, bytes: &[u8]) {
        for (number, byte) in bytes.iter().enumerate() {
            let mark = Mark(at.0.wrapping_add(number as u64));
            let piece = self.memory.pieces(0, mark, Span { bytes: 1, records: 1 })[0];
            // SAFETY: the piece is one byte of the lane, which is mapped and written by this test only [spec/ring.md
            // 3.1].
            unsafe { piece.iov_base.cast::<u8>().write_volatile(*byte) };
        }
    }

    /// One record of `bytes`, the header included, at the present clock.
    fn record(&mut self, bytes: u32) {
        self.record_at(bytes, self.clock);
        self.clock += 100;
    }

    fn record_at(&mut self, bytes: u32, clock: u64) {
        let word = head_word(5, clock);
        let mut record = word.to_le_bytes().to_vec();
        record.extend((8..bytes).map(|number| (number ^ (self.written.len() as u32)) as u8));
        self.poke(self.head, &record);
        self.written.extend_from_slice(&record);
        self.head = self.head.plus(Span { bytes, records: 1 });
        self.ring().last.store(word, Ordering::Relaxed);
        self.ring().head.store(self.head.0, Ordering::Release);
    }

    fn look(&mut self, force: bool) -> u32 {
        let ns = ClockSource::new(Clock::Monotonic).read();
        self.look_at(ns, force)
    }

    fn look_at(&mut self, ns: u64, force: bool) -> u32 {
        let program = Program { memory: &self.memory, vpid: 42, procname: *b"bench\0\0\0\0\0\0\0\0\0\0\0" };
        let mut pass = Pass {
            source: ClockSource::new(Clock::Monotonic),
            streams: &mut self.streams,
            ns,
            cycles: ns,
            force,
            take_ns: self.take_ns,
            stopped_at: None,
        };
        self.lane.look(&program, &mut pass)
    }

    fn finish(&mut self) {
        let program = Program { memory: &self.memory, vpid: 42, procname: [0; 16] };
        let ns = ClockSource::new(Clock::Monotonic).read();
        let mut pass = Pass {
            source: ClockSource::new(Clock::Monotonic),
            streams: &mut self.streams,
            ns,
            cycles: ns,
            force: true,
            take_ns: self.take_ns,
            stopped_at: None,
        };
        self.lane.finish(&program, &mut pass);
    }

    fn packets(&self) -> Vec<Seen> {
        packets(&self.dir.path().join("user_0_0"))
    }

    #[track_caller]
    fn check_content(&self) {
        let content: Vec<u8> = self.packets().into_iter().flat_map(|packet| packet.content).collect();
        assert!(content == self.written, "{} bytes in the trace, {} written", content.len(), self.written.len());
    }
}

/// A packet as it is in the file.
#[derive(Debug)]
struct Seen {
    begin: u64,
    end: u64,
    seq: u64,
    discarded: u64,
    content: Vec<u8>,
}

fn packets(path: &Path) -> Vec<Seen> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut at = 0;
    let mut list = Vec::new();
    while at < bytes.len() {
        let word = |offset: usize| u64::from_le_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
        let size = (word(48) / 8) as usize;
        assert_eq!(word(48), word(56));
        list.push(Seen {
            begin: word(32),
            end: word(PacketHead::END_OFFSET),
            seq: word(64),
            discarded: word(72),
            content: bytes[at + PacketHead::USER_BYTES..at + size].to_vec(),
        });
        at += size;
    }
    assert_eq!(at, bytes.len(), "a torn packet");
    list
}

#[test]
fn records_arrive_as_they_were_written_across_both_wraps() {
    // Just below the carry from the byte half into the record half, and below the end of 64 bits.
    for start in [0, 0xffff_ff00, u64::MAX - 500, (7 << 32) | 0xffff_fff0] {
        let mut bench = Bench::new(RING_BYTES_MIN, start);
        for round in 0..200u32 {
            for size in [12, 13, 100, 700] {
                bench.record(size + round % 7);
            }
            assert!(bench.look(true) > 0);
            assert_eq!(bench.ring().tail.load(Ordering::Relaxed), bench.head.0);
        }
        assert_eq!((bench.lane.records, bench.lane.damage.len()), (800, 0), "{start:#x}");
        bench.check_content();
        let packets = bench.packets();
        assert!(packets.windows(2).all(|pair| pair[0].end <= pair[1].begin && pair[0].seq + 1 == pair[1].seq));
    }
}

#[test]
fn little_is_taken_late_and_much_at_once() {
    let mut bench = Bench::new(RING, 0);
    let now = ClockSource::new(Clock::Monotonic).read();
    bench.record(12);
    assert_eq!(bench.look_at(now, false), 12, "nothing was taken for long");
    bench.record(12);
    assert_eq!(bench.look_at(now + TAKE_NS - 1, false), 0);
    assert_eq!(bench.look_at(now + TAKE_NS, false), 12);
    for _ in 0..8 {
        bench.record(1024);
    }
    assert_eq!(bench.look_at(now + TAKE_NS + 1, false), 8192, "an eighth of the ring");
    // Somebody looks at the trace.
    let (now, age) = (now + TAKE_NS + 1, crate::watched::AGE.as_nanos() as u64);
    bench.take_ns = age;
    bench.record(12);
    assert_eq!(bench.look_at(now + age - 1, false), 0);
    assert_eq!(bench.look_at(now + age, false), 12);
}

#[test]
fn a_late_end_is_lowered_to_the_next_begin() {
    let mut bench = Bench::new(RING, 0);
    bench.record(20);
    let begun = bench.clock + 5_000;
    // A record that was begun and never published: last is ahead of head.
    bench.ring().last.store(head_word(5, begun), Ordering::Relaxed);
    bench.look(true);
    assert_eq!(bench.packets()[0].end, begun);
    bench.record(20);
    let second = bench.clock - 100;
    bench.look(true);
    let packets = bench.packets();
    assert_eq!((packets[0].end, packets[1].begin), (second, second));
    assert!(packets[0].begin < second);
}

#[test]
fn losses_are_exact_and_dated() {
    let mut bench = Bench::new(RING, 0);
    bench.ring().lost_full.store(3, Ordering::Relaxed);
    bench.record(20);
    bench.look(true);
    bench.ring().lost_full.store(10, Ordering::Relaxed);
    bench.ring().lost_size.store(1, Ordering::Relaxed);
    bench.look(true);
    bench.record(20);
    bench.look(true);
    bench.ring().lost_restart.store(2, Ordering::Relaxed);
    bench.look(true);
    bench.finish();
    assert_eq!((bench.lane.lost.full, bench.lane.lost.size, bench.lane.lost.restart), (10, 1, 2));
    // An opening packet dates the first loss, a closing one tells of the last.
    let discarded: Vec<_> = bench.packets().iter().map(|packet| (packet.discarded, packet.content.len())).collect();
    assert_eq!(discarded, [(0, 0), (3, 20), (11, 20), (13, 0)]);
    assert!(bench.lane.intervals.iter().all(|interval| interval.from < interval.to));
}

#[test]
fn losses_without_a_record_make_a_packet_of_their_own() {
    let mut bench = Bench::new(RING, 0);
    bench.ring().lost_full.store(9, Ordering::Relaxed);
    bench.look(true);
    bench.finish();
    let discarded: Vec<_> = bench.packets().iter().map(|packet| packet.discarded).collect();
    assert_eq!(discarded, [0, 9]);
}

/// A lane with one honest record, then `spoil`, then a look: the lane must be given up, with this text in the report.
#[track_caller]
fn check_damage(expect: &str, spoil: impl Fn(&mut Bench)) {
    let mut bench = Bench::new(RING, 0);
    bench.record(20);
    bench.look(true);
    let files = bench.packets().len();
    spoil(&mut bench);
    bench.look(true);
    bench.look(true);
    let [damage] = &bench.lane.damage[..] else { panic!("{:?}", bench.lane.damage) };
    assert!(damage.closed && damage.what.contains(expect), "{damage:?}");
    bench.finish();
    assert_eq!((bench.packets().len(), bench.lane.records), (files, 1));
}

#[test]
fn hostile_words_close_the_lane() {
    let head = |value: u64| move |bench: &mut Bench| bench.ring().head.store(value, Ordering::Relaxed);
    check_damage("ahead of tail", head(0));
    check_damage("ahead of tail", head(u64::MAX));
    check_damage("ahead of tail", head((2 << 32) | 20));
    check_damage("ahead of tail", head((1 << 32) | 40));
    check_damage("ahead of tail", head((9 << 32) | 100));
    check_damage("ahead of tail", head((2 << 32) | (20 + RING as u64 + 1)));
    check_damage("has the id 0", head((2 << 32) | 40));
    check_damage("ring full", |bench| bench.ring().lost_full.store(u64::MAX, Ordering::Relaxed));
    check_damage("too long", |bench| bench.ring().lost_size.store(1 << 60, Ordering::Relaxed));
    check_damage("restarted", |bench| {
        bench.ring().lost_restart.store(1 << 50, Ordering::Relaxed);
    });
}

#[test]
fn a_hostile_tail_harms_only_its_writer() {
    let mut bench = Bench::new(RING, 0);
    bench.record(20);
    bench.ring().tail.store(0x1234_5678_9abc_def0, Ordering::Relaxed);
    bench.look(true);
    bench.record(20);
    bench.look(true);
    bench.check_content();
    assert!(bench.lane.damage.is_empty());
}

#[test]
fn time_stamps_that_run_backwards_are_counted_and_not_written() {
    let mut bench = Bench::new(RING, 0);
    bench.record(20);
    bench.look(true);
    let honest = bench.written.clone();
    bench.record_at(20, bench.clock - 10_000);
    bench.look(true);
    // Older than the memory.
    bench.record_at(20, bench.clock - 20 * SECOND);
    bench.look(true);
    bench.written = honest;
    bench.record(20);
    bench.look(true);
    bench.check_content();
    assert_eq!((bench.lane.records, bench.lane.lost.damaged, bench.lane.damage.len()), (2, 2, 2));
    assert_eq!(bench.packets().last().unwrap().discarded, 2);
}

#[test]
fn a_hostile_last_cannot_put_the_end_into_the_future() {
    for last in [0, u64::MAX, 1 << 63] {
        let mut bench = Bench::new(RING, 0);
        bench.record(20);
        bench.ring().last.store(last, Ordering::Relaxed);
        bench.look(true);
        let packet = &bench.packets()[0];
        let now = ClockSource::new(Clock::Monotonic).read();
        assert!(packet.begin <= packet.end && packet.end <= now + SKEW, "{last:#x}: {packet:?}");
    }
}

#[test]
fn a_full_disk_ends_writing_but_not_draining() {
    let mut bench = Bench::new(RING, 0);
    bench.record(20);
    bench.look(true);
    bench.streams.stopped = Some(("no space".to_owned(), 1));
    for _ in 0..3 {
        bench.record(20);
        assert_eq!(bench.look(true), 20, "the ring goes on");
    }
    assert_eq!((bench.lane.records, bench.lane.lost.not_written), (1, 3));
    assert_eq!(bench.packets().len(), 1);
    // One stretch, however many looks it took.
    assert_eq!(bench.lane.intervals.len(), 1);
}

#[test]
fn what_could_not_be_written_is_told_by_the_next_packet() {
    let mut bench = Bench::new(RING, 0);
    let stop = |bench: &mut Bench| bench.streams.stopped = Some(("no space".to_owned(), 1));
    bench.record(20);
    bench.look(true);
    for (count, pause) in [(3, true), (5, false)] {
        stop(&mut bench);
        for _ in 0..count {
            bench.record(20);
            bench.look(true);
        }
        if pause {
            bench.streams.try_again();
            assert!(!bench.streams.is_writing(), "nobody knows yet");
            bench.record(20);
            bench.look(true);
            assert!(bench.streams.is_writing());
        }
    }
    // The end: no record comes any more, and an empty packet tells of the rest.
    bench.finish();
    let discarded: Vec<_> = bench.packets().iter().map(|packet| packet.discarded).collect();
    assert_eq!(discarded, [0, 3, 8]);
    assert!(bench.packets()[2].content.is_empty());
    assert_eq!((bench.lane.records, bench.lane.lost.total()), (2, 8));
}

/// A file with rings that is cut short while the collector reads it: nothing of what stands in the place of the rest is
/// taken.
#[test]
fn zeros_in_the_place_of_a_ring_are_no_records() {
    for cut in [0u64, 4096, 8192, 12_288, 20_000] {
        let mut bench = Bench::new(RING, 0);
        let rings = tempfile::tempdir().unwrap();
        bench.memory = Memory::create_in(rings.path(), *bench.memory.layout(), 1).unwrap();
        for _ in 0..1000 {
            bench.record(20);
        }
        bench.look(true);
        for _ in 0..1000 {
            bench.record(20);
        }
        let path = fs::read_dir(rings.path()).unwrap().next().unwrap().unwrap().path();
        fs::File::options().write(true).open(path).unwrap().set_len(cut).unwrap();
        bench.look(true);
        bench.look(true);
        bench.finish();
        assert!(bench.memory.is_damaged(), "{cut}");
        assert_eq!((bench.lane.records, bench.lane.lost.total(), bench.lane.damage.len()), (1000, 0, 0), "{cut}");
        bench.written.truncate(20_000);
        bench.check_content();
    }
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Whatever stands in the words, a look ends, and what is in the file is whole packets.
        #[test]
        fn no_word_wedges_or_panics(words: [u64; 6], near_head: u16, near_records in 0u64..4) {
            let mut bench = Bench::new(RING_BYTES_MIN, 0);
            bench.record(20);
            let ring = bench.ring();
            ring.last.store(words[1], Ordering::Relaxed);
            ring.tail.store(words[2], Ordering::Relaxed);
            ring.lost_full.store(words[3] >> (words[4] % 64), Ordering::Relaxed);
            ring.head.store(u64::from(near_head) + (near_records << 32), Ordering::Relaxed);
            bench.look(true);
            bench.ring().head.store(words[0], Ordering::Relaxed);
            bench.look(true);
            bench.finish();
            bench.packets();
        }
    }
}
