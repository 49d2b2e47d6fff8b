// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane of compact records [spec/ring.md 11]: what its packets say of the thread and the time in front of them.

use std::fs;

use kymo_abi::Clock;
use kymo_abi::ring::Layout;
use tempfile::TempDir;

use super::*;
use crate::compact::RecordHead;
use crate::trace_dir::DiskDir;

const WRAP: u64 = 1 << 27;
const HEAD: usize = write::PacketHead::COMPACT_BYTES;

/// A writer, its lane, and the trace.
struct Bench {
    dir: TempDir,
    memory: Memory,
    lane: Lane,
    streams: Streams,
    head: Mark,
    /// Clock and thread of the newest record.
    newest: (u64, u32),
    clock: u64,
}

/// What a packet says: begin, thread, and its records' clocks (48 bits) and threads.
type Said = (u64, u32, Vec<(u64, u32)>);

impl Bench {
    fn new(kind: RingKind, is_overwritten: bool) -> Bench {
        let layout = Layout::new(kind, Clock::Monotonic, 2, 4096, 4096).unwrap().compact(true);
        let layout = if is_overwritten { layout.overwriting(4096).unwrap() } else { layout };
        let memory = Memory::create(layout, 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let streams = Streams::new(DiskDir::boxed(dir.path()), [7; 16], ClockSource::new(Clock::Monotonic));
        let clock = ClockSource::new(Clock::Monotonic).read() - 1_000_000_000;
        let lane = Lane::new(&memory, 0, clock, clock);
        Bench { dir, memory, lane, streams, head: Mark(0), newest: (0, 0), clock }
    }

    fn ring(&self) -> &RingBlock {
        &self.memory.view().rings()[0]
    }

    fn poke(&self, bytes: &[u8]) {
        for (number, byte) in bytes.iter().enumerate() {
            let mark = Mark(self.head.0.wrapping_add(number as u64));
            let piece = self.memory.pieces(0, mark, Span { bytes: 1, records: 1 })[0];
            // SAFETY: the piece is one byte of the lane, which is mapped and written by this test only [spec/ring.md
            // 3.1].
            unsafe { piece.iov_base.cast::<u8>().write_volatile(*byte) };
        }
    }

    /// Bytes of a record of event 3 without fields, as the writer's sequence makes it.
    fn bytes_of(&self, thread: u32, clock: u64) -> Vec<u8> {
        let (before, known) = self.newest;
        let extended = |id| [&[31][..], &kymo_abi::record_head(id, clock)].concat();
        match () {
            () if thread != known => [extended(0xffff), thread.to_le_bytes().to_vec(), extended(3)].concat(),
            () if clock - before >= WRAP => extended(3),
            () => (3 | ((clock % WRAP) as u32) << 5).to_le_bytes().to_vec(),
        }
    }

    /// A record `after` the one in front of it; `is_published`: all of it happens.
    fn record(&mut self, thread: u32, after: u64, is_published: bool) {
        self.clock += after;
        let bytes = self.bytes_of(thread, self.clock);
        self.poke(&bytes);
        let head = self.head.plus(Span { bytes: bytes.len() as u32, records: 1 });
        let state = u64::from(thread) << 32 | u64::from(head.0 as u32);
        self.ring().state.store(state, Ordering::Relaxed);
        self.ring().last.store(kymo_abi::head_word(3, self.clock), Ordering::Relaxed);
        if is_published {
            self.head = head;
            self.newest = (self.clock, thread);
            self.ring().reserve.store(head.0, Ordering::Relaxed);
            self.ring().head.store(head.0, Ordering::Release);
        }
    }

    fn with_pass<T>(&mut self, act: impl FnOnce(&mut Lane, &Program<'_>, &mut Pass<'_>) -> T) -> T {
        let program = Program { memory: &self.memory, vpid: 42, procname: [0; 16] };
        let source = ClockSource::new(Clock::Monotonic);
        let ns = source.read();
        let streams = &mut self.streams;
        let (take_ns, stopped_at) = (crate::lane::TAKE_NS, None);
        let mut pass = Pass { source, streams, ns, cycles: ns, force: true, take_ns, stopped_at };
        act(&mut self.lane, &program, &mut pass)
    }

    fn look(&mut self) -> u32 {
        self.with_pass(|lane, program, pass| lane.look(program, pass))
    }

    fn said(&self) -> Vec<Said> {
        let name = if self.lane.cpu().is_some() { "user_0_0" } else { "user_t_0" };
        let bytes = fs::read(self.dir.path().join(name)).unwrap_or_default();
        let (mut at, mut all) = (0, Vec::new());
        while at < bytes.len() {
            let word = |offset: usize| u64::from_le_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
            let size = (word(48) / 8) as usize;
            let thread = u32::from_le_bytes(bytes[at + HEAD - 4..at + HEAD].try_into().unwrap());
            let (begin, mut from) = (word(32), at + HEAD);
            let mut cut = Some(Cut { thread, time: begin & TIME_MASK });
            let mut records = Vec::new();
            while from < at + size {
                let head = RecordHead::at(&bytes[from..at + size], &mut cut).expect("a record");
                records.push((head.time, head.thread));
                from += head.bytes;
            }
            all.push((begin, thread, records));
            at += size;
        }
        all
    }
}

#[test]
fn packets_say_thread_and_time_in_front_of_them() {
    let mut bench = Bench::new(RingKind::Rseq, false);
    let mut expect = Vec::new();
    // Threads and pauses; some records are begun before the look and published after it.
    for round in 0..300u64 {
        let (thread, after) =
            (70 + (round / 7 % 3) as u32, [1, 50, WRAP - 1, WRAP, 3 * WRAP][round as usize % 5] / 1000);
        bench.record(thread, after, true);
        expect.push((bench.clock & TIME_MASK, thread));
        if round % 4 == 0 {
            if round % 8 == 0 {
                bench.record(thread, 3, false);
            }
            assert!(bench.look() > 0);
            if round % 8 == 0 {
                // It is published as it was begun.
                bench.clock -= 3;
                bench.record(thread, 3, true);
                expect.push((bench.clock & TIME_MASK, thread));
            }
        }
    }
    bench.look();
    let said = bench.said();
    assert!(said.iter().all(|(begin, _, records)| begin & TIME_MASK == records[0].0));
    assert!(said.iter().skip(1).any(|(_, thread, records)| *thread == records[0].1), "some begin with a short record");
    let records: Vec<_> = said.into_iter().flat_map(|(_, _, records)| records).collect();
    assert_eq!(records, expect);
    assert_eq!((bench.lane.records, bench.lane.damage.len()), (expect.len() as u64, 0));
}

#[test]
fn long_pauses_are_in_extended_headers() {
    let mut bench = Bench::new(RingKind::Rseq, false);
    bench.record(5, 1, true);
    bench.look();
    bench.record(5, WRAP + 7, true);
    bench.look();
    bench.record(5, 9, true);
    bench.look();
    let said = bench.said();
    let begins: Vec<_> = said.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(begins, [WRAP + 7, 9]);
    assert!(said.iter().skip(1).all(|(_, thread, _)| *thread == 5));
}

#[test]
fn a_portable_record_in_progress_is_waited_for_and_the_last_look_takes_all() {
    let mut bench = Bench::new(RingKind::Portable, false);
    bench.record(5, 1, true);
    // Handed out and not published: what last says may be of a later record than the next one.
    bench.ring().reserve.store(bench.head.0 + 100, Ordering::Relaxed);
    assert_eq!(bench.look(), 0);
    assert!(!bench.lane.is_quiet, "it is looked at again soon");
    bench.with_pass(|lane, program, pass| lane.finish(program, pass));
    assert_eq!(bench.said().iter().map(|(_, _, records)| records.len()).sum::<usize>(), 1);
}

#[test]
fn whoever_finds_the_ring_knows_thread_and_time_at_its_tail() {
    let mut bench = Bench::new(RingKind::Rseq, false);
    for round in 0..5 {
        bench.record(5, 1, true);
        bench.record(6, 1, true);
        bench.look();
        bench.record(6, 1000, true);
        let ring = bench.ring();
        let tail = Mark(ring.tail.load(Ordering::Relaxed));
        let cut = Cut::of_tail(bench.memory.layout(), ring, tail).unwrap();
        assert_eq!(cut, Cut { thread: 6, time: (bench.clock - 1000) & TIME_MASK }, "round {round}");
        assert_eq!(compact::first(&bench.memory, 0, tail, Some(cut)), (3, bench.clock & TIME_MASK));
        // A collector that died between the note and tail: what was noted of the tail that stands is there.
        Cut { thread: 9, time: 9 }.note(ring, bench.head);
        assert_eq!(Cut::of_tail(bench.memory.layout(), ring, tail), Some(cut));
        let lane = Lane::new(&bench.memory, 0, bench.clock - 5000, 0);
        assert_eq!((lane.tail, lane.cut), (tail, Some(cut)));
    }
}

#[test]
fn a_mark_without_all_words_of_its_place_is_not_used() {
    let mut bench = Bench::new(RingKind::Rseq, true);
    bench.record(5, 1, true);
    let mark = bench.head;
    bench.record(5, 50, true);
    bench.record(5, 50, true);
    let at = Mark(u64::from(mark.0 as u32));
    let time = (bench.clock - 100) & TIME_MASK;
    let copied = |bench: &mut Bench| {
        bench.ring().tail.store(mark.0 & 0xffff_ffff, Ordering::Relaxed);
        bench.with_pass(|lane, program, pass| lane.freeze(program, pass, None, Vec::new()))
    };
    let whole = [5u64 << 32, (time >> 24) << 32, (time & 0xff_ffff) << 32].map(|word| word | at.0);
    let store = |bench: &Bench, values: [u64; 3]| {
        let view = bench.memory.view();
        view.marks()[0].at[1].store(mark.0, Ordering::Relaxed);
        let places = &view.places()[0];
        let words = [&places.thread[1], &places.high[1], &places.low[1]];
        words.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    };
    store(&bench, whole);
    let intact = copied(&mut bench).expect("all words are there");
    assert_eq!((intact.records(), intact.cut), (2, Some(Cut { thread: 5, time })));
    assert_eq!(intact.begin & TIME_MASK, (time + 50) & TIME_MASK);
    for wrong in 0..3 {
        let mut values = whole;
        values[wrong] ^= 4;
        store(&bench, values);
        assert!(copied(&mut bench).is_none(), "word {wrong}");
    }
}

#[test]
fn triggers_walk_on_from_where_they_were() {
    let mut bench = Bench::new(RingKind::Rseq, false);
    bench.lane.has_triggers = true;
    bench.record(5, 1, true);
    bench.record(5, 20, true);
    let (bytes, unseen) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    let mut cut = bench.lane.looked_cut();
    let first = RecordHead::at(&bytes, &mut cut).unwrap();
    assert_eq!((unseen, first.thread, bytes.len()), (0, 5, 22 + 4));
    bench.lane.looked_at(Span { bytes: 22, records: 1 }, cut);
    let (bytes, _) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    let second = RecordHead::at(&bytes, &mut bench.lane.looked_cut()).unwrap();
    assert_eq!((second.thread, second.time, bytes.len()), (5, bench.clock & TIME_MASK, 4));
    // Taken meanwhile, and more comes: nothing is missed, though the writer uses the place again.
    bench.look();
    let head = std::mem::replace(&mut bench.head, Mark(0));
    bench.poke(&[0; 22 + 4]);
    bench.head = head;
    bench.record(5, 20, true);
    let (bytes, unseen) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    assert_eq!((bytes.len(), unseen), (4 + 4, 0));
    let mut cut = bench.lane.looked_cut();
    assert_eq!(RecordHead::at(&bytes, &mut cut).map(|head| head.time), Some(second.time));
    bench.lane.looked_at(Span { bytes: 4, records: 1 }, cut);
    let third = RecordHead::at(&bytes[4..], &mut cut).unwrap();
    assert_eq!((third.thread, third.time), (5, bench.clock & TIME_MASK));
    // Looked at before it is taken: not again.
    bench.lane.looked_at(Span { bytes: 4, records: 1 }, cut);
    bench.look();
    let (bytes, unseen) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    assert_eq!((bytes.len(), unseen, bench.lane.never_looked()), (0, 0, 0));
}

#[test]
fn of_what_was_taken_as_much_as_a_ring_is_kept_for_triggers() {
    let mut bench = Bench::new(RingKind::Rseq, false);
    bench.lane.has_triggers = true;
    let ring_bytes = bench.memory.layout().ring_bytes;
    bench.record(5, 1, true);
    let mut records = 1;
    while 22 + 4 * (records - 1) <= ring_bytes {
        bench.look();
        bench.record(5, 20, true);
        records += 1;
    }
    bench.look();
    let (bytes, unseen) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    assert_eq!((bytes.len(), unseen), (0, u64::from(records)));
    bench.record(5, 20, true);
    bench.look();
    let (bytes, unseen) = bench.with_pass(|lane, program, pass| lane.fresh(program, pass));
    assert_eq!((bytes.len(), unseen, bench.lane.never_looked()), (4, 0, 1));
    let after = RecordHead::at(&bytes, &mut bench.lane.looked_cut()).unwrap();
    assert_eq!((after.thread, after.time), (5, bench.clock & TIME_MASK));
}
