// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of parts as bytes, and back [spec/index.md 5.2].

use std::hash::Hash;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::shown::STATES;
use kymo_analyze::{CallId, Context, Doing, Doubt, Interrupt, Name};

use crate::picture::{
    Cell, Cells, CpuPicture, EVER, Kind, Last, Late, Long, LongCall, LongInterrupt, PartPicture, Row, SHIFT_MAX,
    ThreadPicture,
};

/// Bits in front of the states of a cell.
const IS_JOINED: u64 = 1;
const IS_DOUBTFUL: u64 = 2;
/// All of the column is in the sums: the last one is not kept.
const IS_FULL: u64 = 4;
const FLAGS: u32 = 3;

/// Times lie within this of 1970, so that neither sums nor columns leave the numbers.
const TIME_MAX: i64 = 1 << 62;

/// What a stretch was, as part of bytes.
pub(crate) trait AsBytes: Copy + Eq + Hash {
    fn put(self, put: &mut Put);
    fn take(take: &mut Take<'_>) -> Option<Self>;
}

impl AsBytes for Doing {
    fn put(self, put: &mut Put) {
        Doing::put(self, put);
    }

    fn take(take: &mut Take<'_>) -> Option<Doing> {
        Doing::take(take)
    }
}

impl AsBytes for Context {
    fn put(self, put: &mut Put) {
        Context::put(self, put);
    }

    fn take(take: &mut Take<'_>) -> Option<Context> {
        Context::take(take)
    }
}

/// Values of a piece that come again and again, each once.
struct Words<K>(Vec<K>, Map<K, u64>);

impl<K: Copy + Eq + Hash> Words<K> {
    fn new() -> Words<K> {
        Words(Vec::new(), Map::default())
    }

    fn of(&mut self, word: K) -> u64 {
        *self.1.entry(word).or_insert_with(|| {
            self.0.push(word);
            self.0.len() as u64 - 1
        })
    }

    fn put(&self, put: &mut Put, one: impl Fn(&mut Put, K)) {
        put.number(self.0.len() as u64);
        self.0.iter().for_each(|word| one(put, *word));
    }
}

fn take_words<K>(take: &mut Take<'_>, one: impl Fn(&mut Take<'_>) -> Option<K>) -> Option<Vec<K>> {
    let count = take.count()?;
    (0..count).map(|_| one(take)).collect()
}

/// What a stretch was, what is doubtful about it, and whether it is a late wait.
type StretchWord<T> = (T, Doubt, bool);
/// States and flags of a cell, and what touches it.
type CellWord = (u64, u32);
/// Which call, what it returned, whether it blocked, and what is doubtful about it.
type CallWord = (CallId, i64, bool, Doubt);

/// Puts what is of one base and one length of columns.
struct Writer<T> {
    put: Put,
    base: i64,
    shift: u32,
    stretches: Words<StretchWord<T>>,
    cells: Words<CellWord>,
    calls: Words<CallWord>,
}

impl<T: AsBytes> Writer<T> {
    fn time(&mut self, at: i64) {
        self.put.signed(at.wrapping_sub(self.base));
    }

    fn stretch(&mut self, from: i64, to: i64) {
        self.time(from);
        self.put.number(to.abs_diff(from));
    }

    fn cells<const N: usize>(&mut self, cells: &Cells<N>, with_tids: bool) {
        self.put.number(cells.0.len() as u64);
        let mut before = self.base >> self.shift;
        for cell in &cells.0 {
            let column = cell.from >> self.shift;
            self.put.signed(column.wrapping_sub(before));
            before = column;
            let has = |state: &usize| cell.ns[*state] > 0;
            let states = (0..N).filter(has).fold(0, |states, state| states | 1 << state);
            let sum = cell.ns.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
            let is_full = sum == 1 << self.shift;
            let flags = [(cell.is_joined, IS_JOINED), (!cell.doubt.is_none(), IS_DOUBTFUL), (is_full, IS_FULL)];
            let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
            let word = self.cells.of((states << FLAGS | flags, cell.touches));
            self.put.number(word);
            let count = (0..N).filter(has).count() - usize::from(is_full);
            (0..N).filter(has).take(count).for_each(|state| self.put.number(cell.ns[state]));
            if !cell.doubt.is_none() {
                self.put.byte(cell.doubt.bits());
            }
            if with_tids {
                self.put.number(cell.tids.len() as u64);
                for (tid, ns) in &cell.tids {
                    self.put.signed((*tid).into());
                    self.put.number(*ns);
                }
            }
        }
    }

    fn row<const N: usize>(&mut self, row: &Row<T, N>, with_tids: bool) {
        self.put.byte(row.born.is_some().into());
        if let Some(born) = &row.born {
            self.time(born.to);
            let word = self.stretches.of((born.what, born.doubt, false));
            self.put.number(word);
        }
        self.cells(&row.cells, with_tids);
        self.put.number(row.longs.len() as u64);
        let mut before = self.base;
        for long in &row.longs {
            self.put.signed(long.from.wrapping_sub(before));
            self.put.number(long.to.abs_diff(long.from));
            let word = self.stretches.of((long.what, long.doubt, long.is_late));
            self.put.number(word);
            before = long.to;
        }
    }
}

impl Writer<Doing> {
    fn thread(&mut self, of: &ThreadPicture) {
        self.time(of.end);
        self.put.byte(match of.last {
            Last::Other => 0,
            Last::Running => 1,
            Last::Ended => 2,
        });
        self.row(&of.row, false);
        self.cells(&of.calls, false);
        self.put.number(of.long_calls.len() as u64);
        let mut before = self.base;
        for call in &of.long_calls {
            self.put.signed(call.from.wrapping_sub(before));
            self.put.number(call.to.abs_diff(call.from));
            let word = self.calls.of((call.call, call.value, call.blocked, call.doubt));
            self.put.number(word);
            before = call.to;
        }
        self.put.number(of.late.len() as u64);
        let mut before = self.base;
        for late in &of.late {
            self.put.signed(late.to.wrapping_sub(before));
            self.put.number(late.ns());
            self.put.byte(late.state);
            before = late.to;
        }
    }
}

impl Writer<Context> {
    fn cpu(&mut self, of: &CpuPicture) {
        self.row(&of.row, true);
        self.put.byte(of.tail.is_some().into());
        if let Some(tail) = &of.tail {
            self.stretch(tail.from, tail.to);
            let word = self.stretches.of((tail.what, tail.doubt, false));
            self.put.number(word);
        }
        self.cells(&of.interrupts.cells, false);
        self.put.number(of.interrupts.longs.len() as u64);
        for long in &of.interrupts.longs {
            self.stretch(long.from, long.to);
            self.put.byte(long.what.0.into());
        }
        self.put.number(of.long_interrupts.len() as u64);
        for of in &of.long_interrupts {
            self.stretch(of.from, of.to);
            of.interrupt.put(&mut self.put);
            self.put.text(of.name.as_str());
            self.put.number(of.away_ns);
            self.put.byte(of.doubt.bits());
        }
        self.put.option(of.longest_ns, Put::number);
        self.put.number(of.frequency.len() as u64);
        for (at, khz) in &of.frequency {
            self.time(*at);
            self.put.number((*khz).into());
        }
        self.put.number(of.idle.len() as u64);
        for (at, state) in &of.idle {
            self.time(*at);
            self.put.option(*state, |put, state| put.number(state.into()));
        }
    }
}

/// Rows of a piece: each with its number and its size, so that others can be passed over.
fn put_rows<R, T: AsBytes>(
    part: &PartPicture,
    rows: &[R],
    number: impl Fn(&R) -> i64,
    row: impl Fn(&mut Writer<T>, &R),
) -> Vec<u8> {
    let (base, shift) = (part.base, part.shift);
    let (stretches, cells, calls) = (Words::new(), Words::new(), Words::new());
    let mut writer = Writer { put: Put::default(), base, shift, stretches, cells, calls };
    let mut all = Put::default();
    all.number(rows.len() as u64);
    let mut before = 0;
    for of in rows {
        row(&mut writer, of);
        all.signed(number(of) - before);
        before = number(of);
        all.number(writer.put.0.len() as u64);
        all.0.append(&mut writer.put.0);
    }
    let mut put = Put::default();
    put.signed(base);
    put.number(shift.into());
    writer.stretches.put(&mut put, |put, (what, doubt, is_late)| {
        what.put(put);
        put.byte(doubt.bits());
        put.byte(is_late.into());
    });
    writer.cells.put(&mut put, |put, (states, touches)| {
        put.number(states);
        put.number(touches.into());
    });
    writer.calls.put(&mut put, |put, (call, value, blocked, doubt)| {
        put.number(call.0.into());
        put.signed(value);
        put.byte(blocked.into());
        put.byte(doubt.bits());
    });
    put.0.append(&mut all.0);
    put.0
}

/// Takes what is of one base and one length of columns.
struct Rows<'a, T> {
    take: Take<'a>,
    base: i64,
    shift: u32,
    stretches: Vec<StretchWord<T>>,
    cell_words: Vec<CellWord>,
    call_words: Vec<CallWord>,
}

impl<'a, T: AsBytes> Rows<'a, T> {
    /// All rows that are wanted, in the order of their numbers.
    fn all<R>(
        bytes: &'a [u8],
        is_wanted: impl Fn(i64) -> bool,
        mut row: impl FnMut(&mut Rows<'a, T>, i64) -> Option<R>,
    ) -> Option<(u32, Vec<R>)> {
        let mut take = Take(bytes);
        let base = take.signed().filter(|base| (-TIME_MAX..TIME_MAX).contains(base))?;
        let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
        let stretches = take_words(&mut take, |take| Some((T::take(take)?, doubt(take)?, flag(take)?)))?;
        let cell_words = take_words(&mut take, |take| Some((take.number()?, take.small()?)))?;
        let call_words =
            take_words(&mut take, |take| Some((CallId(take.small()?), take.signed()?, flag(take)?, doubt(take)?)))?;
        let mut rows = Rows { take, base, shift, stretches, cell_words, call_words };
        let (mut all, mut number) = (Vec::new(), 0i64);
        for at in 0..rows.take.count()? {
            let step = rows.take.signed()?;
            number = number.checked_add(step).filter(|_| at == 0 || step > 0)?;
            let bytes = rows.take.small::<usize>()?;
            let (own, rest) = rows.take.0.split_at_checked(bytes)?;
            if is_wanted(number) {
                rows.take = Take(own);
                all.push(row(&mut rows, number)?);
                if !rows.take.is_empty() {
                    return None;
                }
            }
            rows.take = Take(rest);
        }
        rows.take.is_empty().then_some((shift, all))
    }

    fn near(&self, at: i64) -> Option<i64> {
        Some(at).filter(|at| (-TIME_MAX..TIME_MAX).contains(at))
    }

    fn time(&mut self) -> Option<i64> {
        let at = self.base.checked_add(self.take.signed()?)?;
        self.near(at)
    }

    fn end(&mut self, from: i64) -> Option<i64> {
        let to = from.checked_add_unsigned(self.take.number()?)?;
        self.near(to)
    }

    fn stretch(&mut self) -> Option<(i64, i64)> {
        let from = self.time()?;
        Some((from, self.end(from)?))
    }

    fn flag(&mut self) -> Option<bool> {
        flag(&mut self.take)
    }

    fn doubt(&mut self) -> Option<Doubt> {
        doubt(&mut self.take)
    }

    fn stretch_word(&mut self) -> Option<StretchWord<T>> {
        let at = self.take.small::<usize>()?;
        self.stretches.get(at).copied()
    }

    /// A time, kept as the distance from another one.
    fn near_to(&mut self, before: i64) -> Option<i64> {
        let at = before.checked_add(self.take.signed()?)?;
        self.near(at)
    }

    fn list<R>(&mut self, mut one: impl FnMut(&mut Self) -> Option<R>) -> Option<Vec<R>> {
        let count = self.take.count()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn cells<const N: usize>(&mut self, with_tids: bool) -> Option<Cells<N>> {
        let mut column = self.base >> self.shift;
        let mut is_first = true;
        let cells = self.list(|rows| {
            let step = rows.take.signed()?;
            column = column.checked_add(step).filter(|_| is_first || step > 0)?;
            is_first = false;
            let from = column.checked_mul(1 << rows.shift)?;
            let from = rows.near(from)?;
            let word = rows.take.small::<usize>()?;
            let (head, touches) = rows.cell_words.get(word).copied()?;
            let states = head >> FLAGS;
            if states >> N != 0 {
                return None;
            }
            let (mut ns, mut left) = ([0; N], 1u64 << rows.shift);
            let last = (0..N).rev().find(|state| states >> state & 1 != 0);
            for state in (0..N).filter(|state| states >> state & 1 != 0) {
                ns[state] = match head & IS_FULL != 0 && Some(state) == last {
                    true => left,
                    false => rows.take.number()?,
                };
                left = left.checked_sub(ns[state])?;
            }
            let doubt = if head & IS_DOUBTFUL == 0 { Doubt::NONE } else { rows.doubt()? };
            let mut tids = Vec::new();
            if with_tids {
                tids = rows.list(|rows| Some((i32::try_from(rows.take.signed()?).ok()?, rows.take.number()?)))?;
            }
            Some(Cell { from, ns, touches, is_joined: head & IS_JOINED != 0, doubt, tids })
        })?;
        Some(Cells(cells))
    }

    fn row<const N: usize>(&mut self, with_tids: bool) -> Option<Row<T, N>> {
        let mut born = None;
        if self.flag()? {
            let (to, (what, doubt, is_late)) = (self.time()?, self.stretch_word()?);
            born = Some(Long { from: EVER, to, what, doubt, is_late });
        }
        let cells = self.cells(with_tids)?;
        let mut before = self.base;
        let longs = self.list(|rows| {
            let from = rows.near_to(before)?;
            let to = rows.end(from)?;
            let (what, doubt, is_late) = rows.stretch_word()?;
            before = to;
            Some(Long { from, to, what, doubt, is_late })
        })?;
        Some(Row { born, cells, longs })
    }
}

fn flag(take: &mut Take<'_>) -> Option<bool> {
    take.byte().filter(|flag| *flag < 2).map(|flag| flag == 1)
}

fn doubt(take: &mut Take<'_>) -> Option<Doubt> {
    take.byte().map(Doubt::from_bits)
}

fn take_thread(rows: &mut Rows<'_, Doing>, number: i64) -> Option<ThreadPicture> {
    let end = rows.time()?;
    let last = match rows.take.byte()? {
        0 => Last::Other,
        1 => Last::Running,
        2 => Last::Ended,
        _ => return None,
    };
    let (row, calls) = (rows.row(false)?, rows.cells(false)?);
    let mut before = rows.base;
    let long_calls = rows.list(|rows| {
        let from = rows.near_to(before)?;
        let to = rows.end(from)?;
        before = to;
        let word = rows.take.small::<usize>()?;
        let (call, value, blocked, doubt) = rows.call_words.get(word).copied()?;
        Some(LongCall { from, to, call, value, blocked, doubt })
    })?;
    let mut before = rows.base;
    let late = rows.list(|rows| {
        let to = rows.near_to(before)?;
        before = to;
        let from = to.checked_sub_unsigned(rows.take.number()?)?;
        let from = rows.near(from)?;
        let state = rows.take.byte().filter(|state| usize::from(*state) < STATES.len())?;
        Some(Late { from, to, state })
    })?;
    Some(ThreadPicture { tid: i32::try_from(number).ok()?, end, last, row, calls, long_calls, late })
}

fn take_interrupts(rows: &mut Rows<'_, Context>) -> Option<Row<Kind, 2>> {
    let cells = rows.cells(false)?;
    let longs = rows.list(|rows| {
        let ((from, to), what) = (rows.stretch()?, Kind(rows.flag()?));
        Some(Long { from, to, what, doubt: Doubt::NONE, is_late: false })
    })?;
    Some(Row { born: None, cells, longs })
}

fn take_cpu(rows: &mut Rows<'_, Context>, number: i64) -> Option<CpuPicture> {
    let row = rows.row(true)?;
    let mut tail = None;
    if rows.flag()? {
        let (from, to) = rows.stretch()?;
        let (what, doubt, is_late) = rows.stretch_word()?;
        tail = Some(Long { from, to, what, doubt, is_late });
    }
    Some(CpuPicture {
        cpu: u32::try_from(number).ok()?,
        row,
        tail,
        interrupts: take_interrupts(rows)?,
        long_interrupts: rows.list(|rows| {
            let (from, to) = rows.stretch()?;
            let (interrupt, name) = (Interrupt::take(&mut rows.take)?, Name::new(rows.take.text()?));
            Some(LongInterrupt { from, to, interrupt, name, away_ns: rows.take.number()?, doubt: rows.doubt()? })
        })?,
        longest_ns: rows.take.option(Take::number)?,
        frequency: rows.list(|rows| Some((rows.time()?, rows.take.small()?)))?,
        idle: rows.list(|rows| Some((rows.time()?, rows.take.option(Take::small)?)))?,
    })
}

impl PartPicture {
    /// Threads and CPUs, as bytes.
    pub fn encode(&self) -> [Vec<u8>; 2] {
        let threads = put_rows(self, &self.threads, |of| of.tid.into(), Writer::thread);
        [threads, put_rows(self, &self.cpus, |of| of.cpu.into(), Writer::cpu)]
    }
}

/// Threads that are wanted, and the length of columns.
pub(crate) fn take_threads(bytes: &[u8], is_wanted: impl Fn(i32) -> bool) -> Option<(u32, Vec<ThreadPicture>)> {
    Rows::all(bytes, |tid| i32::try_from(tid).is_ok_and(&is_wanted), take_thread)
}

/// All CPUs, and the length of columns.
pub(crate) fn take_cpus(bytes: &[u8]) -> Option<(u32, Vec<CpuPicture>)> {
    Rows::all(bytes, |_| true, take_cpu)
}

#[cfg(test)]
mod tests {
    use kymo_analyze::shown::Calls;
    use kymo_analyze::{Ready, Vocabulary};
    use kymo_testing::Random;
    use proptest::prelude::*;

    use super::*;

    /// Stretches of some threads and CPUs, which follow each other, with columns of 2 to the power of `shift`.
    fn picture(random: &mut Random, base: i64, shift: u32, ends: &mut [i64; 3]) -> PartPicture {
        let calls = Calls::new(&Vocabulary::new());
        let mut part = PartPicture { base, shift, ..PartPicture::default() };
        for (number, end) in ends.iter_mut().enumerate() {
            for _ in 0..random.below(60u32) {
                let from = *end;
                let bits = random.below(14u32);
                *end += 1 + random.below(1i64 << bits);
                let doubt = if random.below(5u32) == 0 { Doubt::LOST } else { Doubt::NONE };
                let (to, is_late) = (*end, random.below(9u32) == 0);
                let (tid, cpu) = (number as i32 + 1, random.below(4u32));
                let doing = match random.below(4u32) {
                    0 => Doing::Running { cpu },
                    1 => Doing::Runnable { why: Ready::Preempted { by: 7 }, cpu: Some(cpu) },
                    2 => Doing::Blocked { state: b'S', call: Some(CallId(3)) },
                    _ => Doing::Unknown,
                };
                part.thread(tid).row.stretch(shift, &Long { from, to, what: doing, doubt, is_late }, &calls);
                let (call, value, blocked) = (CallId(cpu as u16), -5, cpu == 1);
                part.thread(tid).call(shift, &LongCall { from, to, call, value, blocked, doubt });
                part.thread(tid).end = to;
                let what = if cpu == 0 { Context::Idle } else { Context::Thread(random.below(9)) };
                part.cpu(number as u32).row.stretch(shift, &Long { from, to, what, doubt, is_late: false }, &calls);
                let what = Kind(cpu > 1);
                let long = Long { from, to, what, doubt: Doubt::NONE, is_late: false };
                part.cpu(number as u32).interrupts.stretch(shift, &long, &calls);
            }
        }
        part.finish();
        part
    }

    #[test]
    fn pictures_are_what_they_were_and_a_longer_part_is_as_if_painted_at_once() {
        let mut random = Random::new("picture_bytes", 2);
        for _ in 0..200 {
            let shift = random.below(12u32);
            let base = random.below(1i64 << 40) - (1 << 39);
            let parts: Vec<PartPicture> = {
                let mut ends = [base; 3];
                (0..4).map(|_| picture(&mut random, base, shift, &mut ends)).collect()
            };
            for part in &parts {
                let [threads, cpus] = part.encode();
                assert_eq!(take_threads(&threads, |_| true), Some((shift, part.threads.clone())));
                assert_eq!(take_cpus(&cpus), Some((shift, part.cpus.clone())));
                let second: Vec<_> = part.threads.iter().filter(|of| of.tid == 2).cloned().collect();
                assert_eq!(take_threads(&threads, |tid| tid == 2), Some((shift, second)));
            }
            let calls = Calls::new(&Vocabulary::new());
            let at_once = PartPicture::of(&parts, shift + 3, &calls);
            let halves = [&parts[..2], &parts[2..]].map(|parts| PartPicture::of(parts, shift + 1, &calls));
            let in_steps = PartPicture::of(&halves, shift + 3, &calls);
            // Of a CPU's threads only the longest are kept on the way.
            let without_tids = |mut part: PartPicture| {
                for cpu in &mut part.cpus {
                    cpu.row.cells.0.iter_mut().for_each(|cell| cell.tids.clear());
                }
                part
            };
            assert_eq!(without_tids(at_once), without_tids(in_steps));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_of_anyone_as_pictures_never_panic(
            seed in any::<u64>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut random = Random(seed);
            let part = picture(&mut random, 1 << 40, 5, &mut [1 << 40; 3]);
            for mut bytes in part.encode() {
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                let calls = Calls::new(&Vocabulary::new());
                for of in take_threads(&bytes, |_| true).into_iter().flat_map(|found| found.1) {
                    of.row.replay(5, 9, &calls, |_| {});
                    let _ = of.calls_at(9);
                    let _ = of.all_late(&calls, |_| true);
                }
                for of in take_cpus(&bytes).into_iter().flat_map(|found| found.1) {
                    of.row.replay(5, 9, &calls, |_| {});
                    of.interrupts.replay(5, 9, &calls, |_| {});
                }
            }
        }
    }
}
