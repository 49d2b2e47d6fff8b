// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows of threads and CPUs show in a part of a trace, in columns of a power of two of ns [spec/index.md 5.2].
//! Pixels whose edges are edges of columns are made of these to the nanosecond.

use kymo_analyze::shown::{Calls, STATES};
use kymo_analyze::{CallId, Context, Doing, Doubt, Interrupt, Name};

/// Columns are at most 2 to the power of this many ns long, and times at most so far from 1970 that sums of two fit.
pub(crate) const SHIFT_MAX: u32 = 56;
/// Threads that a cell of a CPU names.
const TIDS_MAX: usize = 4;
/// States of CPUs: unknown, idle, thread.
pub const CPU_STATES: usize = 3;

/// Begin of a stretch that is as old as the trace, ns.
pub const EVER: i64 = -(1 << 61);

/// The edge of a column at a time or before it.
fn down(at: i64, shift: u32) -> i64 {
    at >> shift << shift
}

/// The edge of a column at a time or behind it.
fn up(at: i64, shift: u32) -> i64 {
    down(at - 1, shift) + (1 << shift)
}

/// What lies in one column and does not cover it, or a part of that on its way into a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell<const N: usize> {
    /// ns.
    pub from: i64,
    /// By state, ns.
    pub ns: [u64; N],
    /// Stretches that touch it.
    pub touches: u32,
    /// The first of them began before.
    pub is_joined: bool,
    /// What is doubtful about them.
    pub doubt: Doubt,
    /// Of a CPU: threads with the most time, and how much, ns.
    pub tids: Vec<(i32, u64)>,
}

impl<const N: usize> Cell<N> {
    /// A part of one stretch.
    fn of(from: i64, ns: u64, state: u8, is_joined: bool, doubt: Doubt, tid: Option<i32>) -> Cell<N> {
        let mut all = [0; N];
        all.get_mut(usize::from(state)).into_iter().for_each(|sum| *sum = ns);
        let tids = tid.map(|tid| (tid, ns)).into_iter().collect();
        Cell { from, ns: all, touches: 1, is_joined, doubt, tids }
    }

    /// Adds what follows in the same column.
    fn add(&mut self, later: &Cell<N>) {
        for (sum, ns) in self.ns.iter_mut().zip(later.ns) {
            *sum = sum.saturating_add(ns);
        }
        self.touches = self.touches.saturating_add(later.touches_behind(self.touches));
        self.doubt |= later.doubt;
        for (tid, ns) in &later.tids {
            match self.tids.iter_mut().find(|(known, _)| known == tid) {
                Some((_, sum)) => *sum = sum.saturating_add(*ns),
                None => self.tids.push((*tid, *ns)),
            }
        }
    }

    /// What touches it, and not what comes before it in the same pixel, which has so many.
    pub fn touches_behind(&self, before: u32) -> u32 {
        self.touches - u32::from(self.is_joined && before > 0).min(self.touches)
    }

    /// Keeps the threads with the most time.
    fn trim(&mut self) {
        if self.tids.len() > TIDS_MAX {
            self.tids.sort_by_key(|(tid, ns)| (std::cmp::Reverse(*ns), *tid));
            self.tids.truncate(TIDS_MAX);
        }
    }
}

/// Cells of a row, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells<const N: usize>(pub Vec<Cell<N>>);

impl<const N: usize> Default for Cells<N> {
    fn default() -> Self {
        Cells(Vec::new())
    }
}

impl<const N: usize> Cells<N> {
    /// Adds a part to its column.
    pub(crate) fn put(&mut self, shift: u32, part: &Cell<N>) {
        let from = down(part.from, shift);
        let behind = match self.0.last() {
            Some(last) if last.from < from => self.0.len(),
            Some(last) if last.from == from => self.0.len() - 1,
            None => 0,
            Some(_) => self.0.partition_point(|cell| cell.from < from),
        };
        match self.0.get_mut(behind).filter(|cell| cell.from == from) {
            Some(cell) => cell.add(part),
            None => {
                if behind == self.0.len() {
                    self.0.last_mut().into_iter().for_each(Cell::trim);
                }
                let is_joined = part.is_joined && part.from == from;
                self.0.insert(behind, Cell { from, is_joined, ..part.clone() });
            }
        }
    }

    /// Adds a stretch that is shorter than a column.
    fn spread(&mut self, shift: u32, (from, to): (i64, i64), state: u8, doubt: Doubt) {
        let mut at = from;
        while at < to {
            let end = up(at + 1, shift).min(to);
            self.put(shift, &Cell::of(at, end.abs_diff(at), state, at > from, doubt, None));
            at = end;
        }
    }

    pub(crate) fn finish(&mut self) {
        self.0.last_mut().into_iter().for_each(Cell::trim);
    }
}

/// A stretch that covers a column at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long<T> {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// What it was.
    pub what: T,
    /// What is doubtful about it.
    pub doubt: Doubt,
    /// It is all of a wait for a CPU, of [`LATE_NS`] or more.
    pub is_late: bool,
}

/// What a stretch counts as.
pub trait What: Copy {
    /// The state, by number.
    fn state(&self, calls: &Calls) -> u8;
    /// The thread.
    fn tid(&self) -> Option<i32>;
}

impl What for Doing {
    fn state(&self, calls: &Calls) -> u8 {
        calls.state(self)
    }

    fn tid(&self) -> Option<i32> {
        None
    }
}

impl What for Context {
    fn state(&self, _: &Calls) -> u8 {
        match self {
            Context::Unknown | Context::Interrupt(_) => 0,
            Context::Idle => 1,
            Context::Thread(_) => 2,
        }
    }

    fn tid(&self) -> Option<i32> {
        match *self {
            Context::Thread(tid) => Some(tid),
            _ => None,
        }
    }
}

/// Of interrupts: softirqs and calls of timers in them, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub bool);

impl What for Kind {
    fn state(&self, _: &Calls) -> u8 {
        self.0.into()
    }

    fn tid(&self) -> Option<i32> {
        None
    }
}

/// What a row has, in the order of time.
pub enum Shown<'r, T, const N: usize> {
    /// A part of a column.
    Part(&'r Cell<N>),
    /// A stretch that covers a column. What of it lies in columns that it does not cover is in parts.
    Long(&'r Long<T>),
}

/// A row whose stretches follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<T, const N: usize> {
    /// What was before its first stretch in the trace, which begins with the trace; in no column.
    pub born: Option<Long<T>>,
    /// What covers no column, by column.
    pub cells: Cells<N>,
    /// What covers one, in the order of time.
    pub longs: Vec<Long<T>>,
}

impl<T, const N: usize> Default for Row<T, N> {
    fn default() -> Self {
        Row { born: None, cells: Cells::default(), longs: Vec::new() }
    }
}

impl<T: What, const N: usize> Row<T, N> {
    /// Adds a stretch, which begins where the one before ended or later. Whether it covers a column.
    pub(crate) fn stretch(&mut self, shift: u32, long: &Long<T>, calls: &Calls) -> bool {
        let (from, to) = (long.from, long.to);
        if from == EVER {
            self.born = Some(*long);
        }
        if from == EVER || from >= to {
            return false;
        }
        let (state, tid) = (long.what.state(calls), long.what.tid());
        let part = |from: i64, to: i64| Cell::of(from, to.abs_diff(from), state, from > long.from, long.doubt, tid);
        // The columns that it covers: [first, last).
        let (first, last) = (up(from, shift), down(to, shift));
        if first > last {
            self.cells.put(shift, &part(from, to));
            return false;
        }
        if from < first {
            self.cells.put(shift, &part(from, first));
        }
        if first < last {
            self.longs.push(*long);
        }
        if last < to {
            self.cells.put(shift, &part(last, to));
        }
        first < last
    }

    /// Hands on all of it, in columns of `shift`, which are not shorter than its own of `own`.
    pub fn replay(&self, own: u32, shift: u32, calls: &Calls, mut take: impl FnMut(Shown<'_, T, N>)) {
        let mut cells = self.cells.0.iter().peekable();
        for long in &self.longs {
            // It covers own columns [first, last), and those asked for [begin, end).
            let (first, last) = (up(long.from, own), down(long.to, own));
            let (begin, end) = (up(long.from, shift), down(long.to, shift));
            while let Some(cell) = cells.next_if(|cell| cell.from < first) {
                take(Shown::Part(cell));
            }
            let (state, tid) = (long.what.state(calls), long.what.tid());
            let mut part = |from: i64, to: i64| {
                if from < to {
                    let cell = Cell::of(from, to.abs_diff(from), state, from > long.from, long.doubt, tid);
                    take(Shown::Part(&cell));
                }
            };
            if begin < end {
                part(first, begin);
                take(Shown::Long(long));
                let mut part = |from: i64, to: i64| {
                    if from < to {
                        let cell = Cell::of(from, to.abs_diff(from), state, true, long.doubt, tid);
                        take(Shown::Part(&cell));
                    }
                };
                part(end, last);
            } else if first < begin && begin < last {
                part(first, begin);
                part(begin, last);
            } else {
                part(first, last);
            }
        }
        cells.for_each(|cell| take(Shown::Part(cell)));
    }

    /// Adds all of a row of finer columns, which comes later.
    fn fold(&mut self, shift: u32, later: &Row<T, N>, own: u32, calls: &Calls) {
        self.born = self.born.or(later.born);
        later.replay(own, shift, calls, |shown| match shown {
            Shown::Part(cell) => self.cells.put(shift, cell),
            Shown::Long(long) => self.longs.push(*long),
        });
    }
}

/// A system call that is as long as a column at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongCall {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// Which.
    pub call: CallId,
    /// What it returned.
    pub value: i64,
    /// The thread was blocked in it.
    pub blocked: bool,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// A wait for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Since when the thread could run, ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// By number [`STATES`].
    pub state: u8,
}

/// Waits for a CPU that pictures tell of, ns.
pub const LATE_NS: u64 = 1_000_000;

impl Late {
    /// ns.
    pub fn ns(&self) -> u64 {
        self.to.abs_diff(self.from)
    }

    /// Adds a wait; of those that end in one column the longest stays.
    pub fn put(self, list: &mut Vec<Late>, shift: u32) {
        match list.last_mut() {
            Some(last) if last.to >> shift == self.to >> shift => {
                if last.ns() < self.ns() {
                    *last = self;
                }
            }
            _ => list.push(self),
        }
    }
}

/// What a thread did last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Last {
    /// Anything else.
    #[default]
    Other,
    /// It ran.
    Running,
    /// It ended.
    Ended,
}

impl Last {
    /// Of a stretch.
    pub(crate) fn of(doing: &Doing) -> Last {
        match doing {
            Doing::Running { .. } => Last::Running,
            Doing::Ended => Last::Ended,
            _ => Last::Other,
        }
    }
}

/// What a thread shows in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadPicture {
    /// The thread.
    pub tid: i32,
    /// End of its last stretch up to the end of the part, ns; [`EVER`] where there was none yet.
    pub end: i64,
    /// What that was, as far as it decides what comes behind it.
    pub last: Last,
    /// What it did.
    pub row: Row<Doing, { STATES.len() }>,
    /// Calls that are shorter than a column: their time.
    pub calls: Cells<1>,
    /// All others.
    pub long_calls: Vec<LongCall>,
    /// Long waits for a CPU that are not among the stretches of the row, by end: of each column the longest.
    pub late: Vec<Late>,
}

impl ThreadPicture {
    pub(crate) fn call(&mut self, shift: u32, call: &LongCall) {
        match call.to.abs_diff(call.from) >> shift {
            0 => self.calls.spread(shift, (call.from, call.to), 0, Doubt::NONE),
            _ => self.long_calls.push(*call),
        }
    }

    /// All long waits, by end, those among the stretches too where `is_wanted`.
    pub fn all_late(&self, calls: &Calls, is_wanted: impl Fn(&Long<Doing>) -> bool) -> Vec<Late> {
        let mut all = self.late.clone();
        let late = self.row.longs.iter().filter(|long| long.is_late && is_wanted(long));
        all.extend(late.map(|long| Late { from: long.from, to: long.to, state: calls.state(&long.what) }));
        all.sort_by_key(|late| late.to);
        all
    }

    fn fold(&mut self, shift: u32, later: &ThreadPicture, own: u32, calls: &Calls) {
        let is_no_stretch = |long: &Long<Doing>| up(long.from, shift) >= down(long.to, shift);
        later.all_late(calls, is_no_stretch).into_iter().for_each(|late| late.put(&mut self.late, shift));
        self.row.fold(shift, &later.row, own, calls);
        self.fold_calls(shift, later);
        (self.end, self.last) = (later.end, later.last);
    }

    /// In the order of time: whether a part goes on with the one before it decides what is counted.
    fn fold_calls(&mut self, shift: u32, later: &ThreadPicture) {
        let mut cells = later.calls.0.iter().peekable();
        for call in &later.long_calls {
            while let Some(cell) = cells.next_if(|cell| cell.from <= call.from) {
                self.calls.put(shift, cell);
            }
            self.call(shift, call);
        }
        cells.for_each(|cell| self.calls.put(shift, cell));
    }

    /// Calls in columns of `shift`: the time of shorter ones, and all others.
    pub fn calls_at(&self, shift: u32) -> (Cells<1>, Vec<LongCall>) {
        let mut all = ThreadPicture::default();
        all.fold_calls(shift, self);
        (all.calls, all.long_calls)
    }
}

/// An interrupt, softirq or timer call that is as long as a column at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongInterrupt {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// Which.
    pub interrupt: Interrupt,
    /// What the trace calls it; may be empty.
    pub name: Name,
    /// In between its thread did not run, ns.
    pub away_ns: u64,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// What a CPU shows in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPicture {
    /// The CPU.
    pub cpu: u32,
    /// Who was current. A stretch ends with another one.
    pub row: Row<Context, CPU_STATES>,
    /// The stretch that is not over at the end of the part, as far as it is known.
    pub tail: Option<Long<Context>>,
    /// Time in hard interrupts and in softirqs.
    pub interrupts: Row<Kind, 2>,
    /// Interrupts as long as a column.
    pub long_interrupts: Vec<LongInterrupt>,
    /// Longest one of all that ended, ns.
    pub longest_ns: Option<u64>,
    /// Frequency, the last of each column: when, kHz.
    pub frequency: Vec<(i64, u32)>,
    /// Idle state, the last of each column.
    pub idle: Vec<(i64, Option<u32>)>,
}

/// Adds a value; of a column the last one stays.
pub(crate) fn put_last<T>(list: &mut Vec<(i64, T)>, shift: u32, at: i64, value: T) {
    match list.last_mut() {
        Some(last) if last.0 >> shift == at >> shift => *last = (at, value),
        _ => list.push((at, value)),
    }
}

impl CpuPicture {
    pub(crate) fn interrupt(&mut self, shift: u32, of: &LongInterrupt) {
        if of.to.abs_diff(of.from) >> shift > 0 {
            self.long_interrupts.push(*of);
        }
    }

    fn fold(&mut self, shift: u32, later: &CpuPicture, own: u32, calls: &Calls) {
        self.row.fold(shift, &later.row, own, calls);
        self.tail = later.tail;
        self.interrupts.fold(shift, &later.interrupts, own, calls);
        later.long_interrupts.iter().for_each(|of| self.interrupt(shift, of));
        self.longest_ns = self.longest_ns.max(later.longest_ns);
        later.frequency.iter().for_each(|(at, khz)| put_last(&mut self.frequency, shift, *at, *khz));
        later.idle.iter().for_each(|(at, state)| put_last(&mut self.idle, shift, *at, *state));
    }
}

/// All of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartPicture {
    /// Times are kept as distances from it, ns.
    pub base: i64,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
    /// By number.
    pub threads: Vec<ThreadPicture>,
    /// By number.
    pub cpus: Vec<CpuPicture>,
}

impl PartPicture {
    /// Of parts that follow each other.
    pub fn of(parts: &[PartPicture], shift: u32, calls: &Calls) -> PartPicture {
        let mut all = PartPicture { base: parts.first().map_or(0, |part| part.base), shift, ..PartPicture::default() };
        for part in parts {
            for later in &part.threads {
                all.thread(later.tid).fold(shift, later, part.shift, calls);
            }
            for later in &part.cpus {
                all.cpu(later.cpu).fold(shift, later, part.shift, calls);
            }
        }
        all.finish();
        all
    }

    /// Of a thread; made where there is none.
    pub fn thread(&mut self, tid: i32) -> &mut ThreadPicture {
        let at = self.threads.binary_search_by_key(&tid, |of| of.tid).unwrap_or_else(|at| {
            self.threads.insert(at, ThreadPicture { tid, ..ThreadPicture::default() });
            at
        });
        &mut self.threads[at]
    }

    /// Of a CPU; made where there is none.
    pub fn cpu(&mut self, cpu: u32) -> &mut CpuPicture {
        let at = self.cpus.binary_search_by_key(&cpu, |of| of.cpu).unwrap_or_else(|at| {
            self.cpus.insert(at, CpuPicture { cpu, ..CpuPicture::default() });
            at
        });
        &mut self.cpus[at]
    }

    pub fn finish(&mut self) {
        self.cpus.iter_mut().for_each(|of| of.row.cells.finish());
    }

    /// How much it is.
    pub fn items(&self) -> usize {
        let threads = self.threads.iter().map(|of| {
            of.row.cells.0.len() + of.row.longs.len() + of.calls.0.len() + of.long_calls.len() + of.late.len()
        });
        let cpus = self.cpus.iter().map(|of| {
            let lists = of.long_interrupts.len() + of.frequency.len() + of.idle.len();
            of.row.cells.0.len() + of.row.longs.len() + of.interrupts.cells.0.len() + lists
        });
        threads.chain(cpus).sum()
    }
}
