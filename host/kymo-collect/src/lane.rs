// SPDX-License-Identifier: MIT OR Apache-2.0
//! One lane as the drain thread sees it [spec/ring.md 3.2, 3.4, 4; spec/trace.md 3, 6; spec/session.md 7].
//!
//! Every word that is read is checked first; what fails is damage of this lane and of nothing else. Time comes in as
//! arguments, except the one clock reading that must follow the load of a head.

mod fresh;

use std::sync::atomic::Ordering;

use kymo_abi::ring::{Mark, RingBlock, Span, TIME_MASK};
use kymo_abi::{RingKind, split_head};
use kymo_ctf::write;

use crate::clock::{ClockSource, SKEW, extend};
use crate::compact::{self, Cut, Look};
use crate::flight::{self, Intact, Notes};
use crate::memory::Memory;
use crate::snapshot::SnapshotPart;
use crate::stream::{Class, Packet, Refusal, Stream, Streams};
use crate::summary::{Cause, Lost};

/// A lane's bytes are taken when there are this many, or an eighth of the ring.
const TAKE_BYTES: u32 = 256 << 10;
/// Or when this long passed since it was done last; less while somebody looks at the trace.
pub(crate) const TAKE_NS: u64 = 100_000_000;
/// Losses of one lane and cause that are kept apart; later ones are merged into the last.
const INTERVALS_MAX: usize = 64;
/// A counter may grow by one a nanosecond on each of this many CPUs, and by the slack more.
const CPUS_BOUND: u64 = 1024;
const LOST_SLACK: u64 = 1 << 20;

/// Causes in the order of the counters in a control block.
const CAUSES: [Cause; 3] = [Cause::Full, Cause::Size, Cause::Restart];

/// Records lost between two moments of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub cause: Cause,
    pub records: u64,
    pub from: u64,
    pub to: u64,
}

/// What was found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneDamage {
    pub at: u64,
    pub what: String,
    pub closed: bool,
}

/// What all lanes of one program have in common.
pub(crate) struct Program<'a> {
    pub memory: &'a Memory,
    pub vpid: u32,
    pub procname: [u8; 16],
}

/// What a pass over the lanes brings along.
pub(crate) struct Pass<'a> {
    pub source: ClockSource,
    pub streams: &'a mut Streams,
    /// CLOCK_MONOTONIC at the start of this pass.
    pub ns: u64,
    /// The clock at the start of this pass.
    pub cycles: u64,
    /// Take everything, however little.
    pub force: bool,
    /// Take what there is where this long passed since that was done last.
    pub take_ns: u64,
    /// In place of the present, for rings whose writers are long gone.
    pub stopped_at: Option<u64>,
}

impl Pass<'_> {
    /// The clock.
    fn now(&self) -> u64 {
        self.stopped_at.unwrap_or_else(|| self.source.read())
    }
}

/// The collector's side of one lane.
#[derive(Debug)]
pub(crate) struct Lane {
    number: u32,
    class: Class,
    tail: Mark,
    /// At tail, where records are compact.
    cut: Option<Cut>,
    /// Nobody writes any more.
    is_last: bool,
    closed: bool,
    /// Nothing was in the ring at the last look.
    pub is_quiet: bool,
    /// Bytes that the ring gained from the look before to the last one, and those that were left in it then.
    pub grown: u32,
    pub left: u32,
    /// Counters as they were last seen.
    lost_seen: [u64; 3],
    /// Clock and CLOCK_MONOTONIC before they were last seen.
    seen_cycles: u64,
    seen_ns: u64,
    taken_ns: u64,
    /// Lost records that no packet tells of yet, and those of them that the program counted.
    lost_pending: u64,
    counted_pending: u64,
    /// Records that the program counted as lost, and that packets tell of.
    told: u64,
    /// The records taken last could not be written.
    is_refused: bool,
    /// No record can be older.
    floor: u64,
    stream: Option<Stream>,
    /// Flight recorder: when heads were first seen, and where the snapshot before ended.
    notes: Notes,
    snapshot_end: Mark,
    /// Where triggers have looked up to.
    looked: Mark,
    looked_cut: Option<Cut>,
    /// Triggers look at its records.
    pub has_triggers: bool,
    /// What was taken before they did: from `looked` to tail.
    unlooked: Vec<u8>,
    /// Records that could not be kept for them.
    unseen: u64,
    /// What goes to the summary.
    pub records: u64,
    pub bytes: u64,
    pub lost: Lost,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub intervals: Vec<Interval>,
    pub damage: Vec<LaneDamage>,
}

impl Lane {
    /// A lane of new memory, at clock `cycles` and CLOCK_MONOTONIC `ns`.
    pub(crate) fn new(memory: &Memory, number: u32, cycles: u64, ns: u64) -> Lane {
        let layout = memory.layout();
        let is_spill = number + 1 == layout.lane_count;
        let class = if layout.kind == RingKind::Rseq && !is_spill { Class::Cpu(number) } else { Class::Thread };
        let ring = &memory.view().rings()[number as usize];
        // In overwrite mode tail is the writer's business.
        let tail = if layout.marks_offset == 0 { Mark(ring.tail.load(Ordering::Relaxed)) } else { Mark(0) };
        Lane {
            number,
            class,
            tail,
            cut: Cut::of_tail(layout, ring, tail),
            is_last: false,
            closed: false,
            is_quiet: true,
            grown: 0,
            left: 0,
            lost_seen: [0; 3],
            seen_cycles: cycles,
            seen_ns: ns,
            taken_ns: 0,
            lost_pending: 0,
            counted_pending: 0,
            told: 0,
            is_refused: false,
            floor: cycles,
            stream: None,
            notes: Notes::default(),
            snapshot_end: Mark(0),
            looked: tail,
            looked_cut: layout.is_compact.then(Cut::default),
            has_triggers: false,
            unlooked: Vec::new(),
            unseen: 0,
            records: 0,
            bytes: 0,
            lost: Lost::default(),
            first: None,
            last: None,
            intervals: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Losses up to now are known: `told` of them stand in packets that another collector wrote, the rest is for the
    /// next packet.
    pub(crate) fn losses_are_told(&mut self, memory: &Memory, told: u64, from: u64, to: u64) {
        let ring = &memory.view().rings()[self.number as usize];
        self.lost_seen =
            [&ring.lost_full, &ring.lost_size, &ring.lost_restart].map(|word| word.load(Ordering::Relaxed));
        let mut all = self.lost_seen.iter().fold(0u64, |sum, lost| sum.saturating_add(*lost));
        if self.number == 0 {
            all = all.saturating_add(memory.view().header().lost_lane.load(Ordering::Relaxed));
        }
        if all > told {
            self.lose(Cause::Full, all - told, from, to);
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn cpu(&self) -> Option<u32> {
        match self.class {
            Class::Cpu(cpu) => Some(cpu),
            Class::Thread | Class::Kernel(_) | Class::State | Class::Marks | Class::Maps => None,
            Class::Samples(_) | Class::SampleMaps => None,
        }
    }

    /// Bytes that wait in the ring; of a ring that is overwritten, those that it holds. 0 where its words make no
    /// sense.
    pub(crate) fn waiting(&self, memory: &Memory) -> u32 {
        let ring = &memory.view().rings()[self.number as usize];
        let ring_bytes = memory.layout().ring_bytes;
        if memory.layout().marks_offset != 0 {
            return self.bytes.min(ring_bytes.into()) as u32;
        }
        let head = Mark(ring.head.load(Ordering::Acquire));
        let span = head.since(self.tail);
        if memory.layout().is_plausible(span, ring_bytes) { span.bytes } else { 0 }
    }

    /// Looks at the lane once. Returns the bytes that were taken.
    pub(crate) fn look(&mut self, program: &Program<'_>, pass: &mut Pass<'_>) -> u32 {
        if self.closed {
            (self.grown, self.left) = (0, 0);
            return 0;
        }
        let ring = &program.memory.view().rings()[self.number as usize];
        let Some(Look { head, last, cut }) = Look::at(program.memory.layout(), ring, self.is_last) else {
            // What interrupts its writer ends soon.
            (self.is_quiet, self.grown) = (false, u32::MAX);
            return 0;
        };
        if program.memory.is_damaged() {
            return 0;
        }
        self.count_losses(ring, pass);
        let span = head.since(self.tail);
        self.is_quiet = self.closed || span == Span::default();
        self.grown = span.bytes.saturating_sub(self.left);
        self.left = span.bytes;
        if self.is_quiet {
            return 0;
        }
        let ring_bytes = program.memory.layout().ring_bytes;
        if !program.memory.layout().is_plausible(span, ring_bytes) {
            let what = format!(
                "head {:#x} is {} bytes and {} records ahead of tail {:#x} in a ring of {ring_bytes} bytes",
                head.0, span.bytes, span.records, self.tail.0
            );
            self.close(pass.cycles, what);
            return 0;
        }
        let due = span.bytes >= TAKE_BYTES.min(ring_bytes / 8) || pass.ns.saturating_sub(self.taken_ns) >= pass.take_ns;
        if !due && !pass.force {
            return 0;
        }
        self.take(program, pass, span, last);
        if self.closed || program.memory.is_damaged() {
            return 0;
        }
        self.keep_unlooked(program, head, cut);
        if let Some(cut) = cut {
            cut.note(ring, head);
            self.cut = Some(cut);
        }
        self.tail = head;
        self.left = 0;
        self.taken_ns = pass.ns;
        // Release: the bytes were used before the writer may have them again [spec/ring.md 7].
        ring.tail.store(head.0, Ordering::Release);
        // Behind tail, and for good: records wrap, so the place alone would not say so for ever [spec/session.md 6].
        if ring.told_before.load(Ordering::Relaxed) != self.told {
            ring.told_before.store(self.told, Ordering::Release);
        }
        span.bytes
    }

    /// Flight recorder: sees how far the writer is, and takes nothing.
    pub(crate) fn watch(&mut self, program: &Program<'_>, pass: &mut Pass<'_>) {
        if self.closed {
            return;
        }
        let ring = &program.memory.view().rings()[self.number as usize];
        let head = Mark(ring.head.load(Ordering::Acquire));
        if program.memory.is_damaged() {
            return;
        }
        let now = pass.now();
        self.count_losses(ring, pass);
        let span = head.since(self.tail);
        if self.closed || span == Span::default() {
            return;
        }
        // The ring may have been lapped many times; only the shape of a record binds the numbers.
        if !program.memory.layout().is_plausible(span, u32::MAX) {
            let what = format!(
                "head {:#x} is {} bytes and {} records ahead of {:#x}",
                head.0, span.bytes, span.records, self.tail.0
            );
            return self.close(pass.cycles, what);
        }
        self.notes.note(head, now, program.memory.layout().ring_bytes);
        self.tail = head;
        self.records += u64::from(span.records);
        self.bytes += u64::from(span.bytes);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Flight recorder: copies what is intact, from the last mark that is not after `since` on, into `buffer`.
    pub(crate) fn freeze(
        &mut self,
        program: &Program<'_>,
        pass: &mut Pass<'_>,
        since: Option<u64>,
        buffer: Vec<u8>,
    ) -> Option<Intact> {
        self.watch(program, pass);
        if self.closed {
            return None;
        }
        let now = pass.now();
        let mut intact = flight::copy(program.memory, self.number, &self.notes, since, now, buffer)?;
        if program.memory.is_damaged() {
            return None;
        }
        // Read anew: a writer may have gone on until its head was read.
        intact.end = pass.now().max(intact.begin);
        Some(intact)
    }

    /// Writes what was copied.
    pub(crate) fn write_frozen(
        &mut self,
        program: &Program<'_>,
        pass: &mut Pass<'_>,
        intact: &Intact,
        part: &mut SnapshotPart,
    ) {
        let now = pass.now();
        let gone = (intact.oldest.0.wrapping_sub(self.snapshot_end.0) as i64).max(0) as u64 >> 32;
        let bytes = intact.bytes();
        let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let packet = Packet {
            begin: intact.begin,
            end: intact.end,
            lost: gone,
            program: Some(self.head_of(program)),
            thread: intact.cut.map(|cut| cut.thread),
            pieces: [piece, nothing],
        };
        let mut slot = None;
        if pass.streams.append(&mut slot, self.class, &packet, now).is_ok() {
            part.records += u64::from(intact.records());
            part.bytes += bytes.len() as u64;
            part.overwritten += gone;
            part.reach_back_to(intact.begin);
            self.snapshot_end = intact.head;
        }
        if let Some(stream) = slot {
            pass.streams.release(stream);
        }
    }

    /// Adds what the counters grew by since the last look.
    fn count_losses(&mut self, ring: &RingBlock, pass: &Pass<'_>) {
        let words = [&ring.lost_full, &ring.lost_size, &ring.lost_restart];
        for (index, word) in words.into_iter().enumerate() {
            let value = word.load(Ordering::Relaxed);
            let grown = value.wrapping_sub(self.lost_seen[index]);
            if grown == 0 {
                continue;
            }
            let allowed = allowed_growth(self.seen_ns, pass.ns);
            if grown > allowed {
                let text = CAUSES[index].text();
                let before = self.lost_seen[index];
                self.close(pass.cycles, format!("the counter of losses ({text}) went from {before} to {value}"));
                return;
            }
            self.lost_seen[index] = value;
            self.lose(CAUSES[index], grown, self.seen_cycles, pass.now());
        }
        self.seen_cycles = pass.cycles;
        self.seen_ns = pass.ns;
    }

    /// Counts lost records, to be told of by the next packet.
    pub(crate) fn lose(&mut self, cause: Cause, records: u64, from: u64, to: u64) {
        self.lost_pending = self.lost_pending.saturating_add(records);
        if !matches!(cause, Cause::Damaged | Cause::NotWritten) {
            self.counted_pending = self.counted_pending.saturating_add(records);
        }
        self.note(Interval { cause, records, from, to });
    }

    /// Adds an interval to the report; one that follows on the last of its cause makes that one longer.
    fn note(&mut self, new: Interval) {
        let count = self.lost.of(new.cause);
        *count = count.saturating_add(new.records);
        let of_cause = self.intervals.iter().filter(|old| old.cause == new.cause).count();
        let last = self.intervals.iter_mut().rev().find(|old| old.cause == new.cause);
        // Until writing begins again it is one interval.
        let is_one = (new.cause == Cause::NotWritten && self.is_refused) || of_cause >= INTERVALS_MAX;
        match last {
            Some(old) if is_one || old.to >= new.from => {
                old.records = old.records.saturating_add(new.records);
                old.to = old.to.max(new.to);
            }
            _ => self.intervals.push(new),
        }
    }

    fn close(&mut self, at: u64, what: String) {
        self.closed = true;
        self.damage.push(LaneDamage { at, what, closed: true });
    }

    /// Writes `span` as a packet, or counts why not.
    fn take(&mut self, program: &Program<'_>, pass: &mut Pass<'_>, span: Span, last: u64) {
        let now = pass.now();
        let (id, time) = compact::first(program.memory, self.number, self.tail, self.cut);
        if program.memory.is_damaged() {
            return;
        }
        if id == 0 {
            return self.close(now, format!("the record at {:#x} has the id 0", self.tail.0));
        }
        let begin = extend(time, now);
        let end = self.bound(begin, time, last, now);
        if begin.wrapping_add(SKEW) < self.floor {
            return self.backwards(span, begin, self.floor, now);
        }
        let lost = self.lost_pending;
        let packet = Packet {
            begin,
            end,
            lost,
            program: Some(self.head_of(program)),
            thread: self.cut.map(|cut| cut.thread),
            pieces: program.memory.pieces(self.number, self.tail, span),
        };
        self.announce(program.memory, self.tail.plus(span));
        let written = pass.streams.append(&mut self.stream, self.class, &packet, now);
        if written.is_err() {
            self.withdraw(program.memory);
        }
        match written {
            Ok(()) => {
                self.tell();
                self.is_refused = false;
                self.records += u64::from(span.records);
                self.bytes += u64::from(span.bytes);
                self.first.get_or_insert(begin);
                self.last = self.last.max(Some(end));
            }
            Err(Refusal::Backwards) => self.backwards(span, begin, begin, now),
            Err(Refusal::Unreadable) => program.memory.note_damage(),
            Err(Refusal::Stopped | Refusal::NoFile) => self.refused(span, begin, end),
        }
    }

    /// What was taken could not be written: the next packet tells of it.
    fn refused(&mut self, span: Span, from: u64, to: u64) {
        self.lose(Cause::NotWritten, span.records.into(), from, to);
        self.is_refused = true;
    }

    /// What a packet of this lane says of the program.
    fn head_of(&self, program: &Program<'_>) -> write::Program {
        write::Program { vpid: program.vpid, lane: self.number, procname: program.procname }
    }

    /// Notes for whoever finds the ring after our death how many of its losses packets tell of, once the next one is
    /// written and tail is at `end`. In this order: at each moment either the place says that the packet is not there
    /// yet, or both numbers are equal.
    fn announce(&self, memory: &Memory, end: Mark) {
        if self.counted_pending > 0 {
            let ring = &memory.view().rings()[self.number as usize];
            ring.told_before.store(self.told, Ordering::Release);
            ring.told_at.store(end.0, Ordering::Release);
            ring.told.store(self.told.saturating_add(self.counted_pending), Ordering::Release);
        }
    }

    /// The packet was not written.
    fn withdraw(&self, memory: &Memory) {
        memory.view().rings()[self.number as usize].told.store(self.told, Ordering::Release);
    }

    /// A packet tells of all losses so far.
    fn tell(&mut self) {
        self.told = self.told.saturating_add(std::mem::take(&mut self.counted_pending));
        self.lost_pending = 0;
    }

    /// The file that it writes to and its bytes, if there are any.
    pub(crate) fn file(&self) -> Option<(String, u64)> {
        self.stream.as_ref().and_then(Stream::content)
    }

    /// The trace goes on in another directory: gives the file back.
    pub(crate) fn leave_file(&mut self, streams: &mut Streams) {
        if let Some(stream) = self.stream.take() {
            streams.release(stream);
        }
    }

    /// A clock value that no record of the packet is behind [spec/ring.md 3.4].
    fn bound(&self, begin: u64, first: u64, last: u64, now: u64) -> u64 {
        let ahead = split_head(last).1.wrapping_sub(first) & TIME_MASK;
        let newest = begin.wrapping_add(ahead);
        // `last` is the program's word; the present is a bound too. A loss may be newer than the newest record.
        let is_sane = newest >= begin && newest <= now.wrapping_add(SKEW);
        match is_sane && self.lost_pending == 0 {
            true => newest,
            false => now.max(begin),
        }
    }

    fn backwards(&mut self, span: Span, begin: u64, floor: u64, now: u64) {
        const KEPT: usize = 8;
        if self.damage.len() < KEPT {
            let what =
                format!("{} records begin at clock {begin}, before those that they follow ({floor})", span.records);
            self.damage.push(LaneDamage { at: now, what, closed: false });
        }
        self.lose(Cause::Damaged, span.records.into(), self.seen_cycles.min(now), now);
    }

    /// The writers are gone: nothing follows on what is in the ring.
    pub(crate) fn nobody_writes(&mut self) {
        self.is_last = true;
    }

    /// A portable writer that ended inside of a record left no place for a cut: what it published is taken without one.
    fn look_last(&mut self, program: &Program<'_>, pass: &mut Pass<'_>) {
        if self.cut.is_some() && program.memory.layout().marks_offset == 0 {
            (self.is_last, pass.force) = (true, true);
            self.look(program, pass);
        }
    }

    /// The program has ended and the lane was drained: tells the trace of losses that no packet told of, gives the file
    /// back.
    pub(crate) fn finish(&mut self, program: &Program<'_>, pass: &mut Pass<'_>) {
        self.look_last(program, pass);
        if self.lost_pending > 0 {
            let now = pass.now();
            // Room for this much is kept, on a full disk too.
            pass.streams.try_again();
            let empty = program.memory.pieces(self.number, self.tail, Span::default());
            let packet = Packet {
                begin: now,
                end: now,
                lost: self.lost_pending,
                program: Some(self.head_of(program)),
                thread: self.cut.map(|cut| cut.thread),
                pieces: empty,
            };
            if pass.streams.append(&mut self.stream, self.class, &packet, now).is_ok() {
                self.tell();
                let ring = &program.memory.view().rings()[self.number as usize];
                ring.told.store(self.told, Ordering::Release);
                ring.told_before.store(self.told, Ordering::Release);
            } else {
                pass.streams.owe(self.class, self.lost_pending, (self.head_of(program), self.cut.map(|_| 0)));
            }
        }
        self.leave_file(pass.streams);
    }
}

/// How much a counter of losses can have grown between two moments of CLOCK_MONOTONIC. No machine loses more; what does
/// is not a counter.
pub(crate) fn allowed_growth(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns).saturating_mul(CPUS_BOUND).saturating_add(LOST_SLACK)
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;

#[cfg(test)]
mod compact_tests;
