// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of stretches in columns of a power of two of ns [spec/index.md 5.2]: stretches that cover a column as a whole,
//! and sums of all others.

use kymo_analyze::shown::Calls;
use kymo_analyze::{Context, Doing, Doubt};

/// Threads that a cell of a CPU names.
const TIDS_MAX: usize = 4;

/// Begin of a stretch that is as old as the trace, ns.
pub const EVER: i64 = -(1 << 61);

/// The edge of a column at a time or before it.
pub(crate) fn down(at: i64, shift: u32) -> i64 {
    at >> shift << shift
}

/// The edge of a column at a time or behind it.
pub(crate) fn up(at: i64, shift: u32) -> i64 {
    down(at - 1, shift) + (1 << shift)
}

/// A part of one stretch, in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// ns.
    pub from: i64,
    /// ns.
    pub ns: u64,
    /// By number.
    pub state: u8,
    /// The stretch began before.
    pub is_joined: bool,
    /// What is doubtful about it.
    pub doubt: Doubt,
    /// Of a CPU: the thread.
    pub tid: Option<i32>,
}

impl Part {
    /// The parts of a stretch in columns of `shift`.
    pub(crate) fn each(shift: u32, (from, to): (i64, i64), state: u8, mut take: impl FnMut(Part)) {
        let mut at = from;
        while at < to {
            let end = up(at + 1, shift).min(to);
            let (ns, is_joined) = (end.abs_diff(at), at > from);
            take(Part { from: at, ns, state, is_joined, doubt: Doubt::NONE, tid: None });
            at = end;
        }
    }

    /// How many stretches more it is, behind so many in the same pixel.
    pub fn touches_behind(&self, before: u32) -> u32 {
        u32::from(!self.is_joined || before == 0)
    }
}

/// What lies in one column and does not cover it, or what of that lay in a shorter one.
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
    /// Nothing yet.
    fn empty(from: i64, is_joined: bool) -> Cell<N> {
        Cell { from, ns: [0; N], touches: 0, is_joined, doubt: Doubt::NONE, tids: Vec::new() }
    }

    /// Adds what follows in the same column.
    fn add(&mut self, later: &Cell<N>) {
        for (sum, ns) in self.ns.iter_mut().zip(later.ns) {
            *sum = sum.saturating_add(ns);
        }
        self.touches = self.touches.saturating_add(later.touches_behind(self.touches));
        self.doubt |= later.doubt;
        later.tids.iter().for_each(|(tid, ns)| self.add_tid(*tid, *ns));
    }

    /// Adds a part of one stretch, which follows in the same column.
    fn add_part(&mut self, later: &Part) {
        self.ns.get_mut(usize::from(later.state)).into_iter().for_each(|sum| *sum = sum.saturating_add(later.ns));
        self.touches = self.touches.saturating_add(later.touches_behind(self.touches));
        self.doubt |= later.doubt;
        later.tid.into_iter().for_each(|tid| self.add_tid(tid, later.ns));
    }

    fn add_tid(&mut self, tid: i32, ns: u64) {
        match self.tids.iter_mut().find(|(known, _)| *known == tid) {
            Some((_, sum)) => *sum = sum.saturating_add(ns),
            None => self.tids.push((tid, ns)),
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
    /// Adds a cell to its column, which may be longer than its own.
    pub(crate) fn put(&mut self, shift: u32, cell: &Cell<N>) {
        self.of_column(shift, cell.from, cell.is_joined).add(cell);
    }

    /// Adds a part of a stretch to its column.
    pub(crate) fn put_part(&mut self, shift: u32, part: &Part) {
        self.of_column(shift, part.from, part.is_joined).add_part(part);
    }

    /// The cell of the column that has this time; if there is none yet, what comes is its first.
    fn of_column(&mut self, shift: u32, at: i64, is_joined: bool) -> &mut Cell<N> {
        let from = down(at, shift);
        let place = match self.0.last() {
            Some(last) if last.from < from => self.0.len(),
            Some(last) if last.from == from => self.0.len() - 1,
            None => 0,
            Some(_) => self.0.partition_point(|cell| cell.from < from),
        };
        if self.0.get(place).is_none_or(|cell| cell.from != from) {
            if self.0.is_empty() {
                self.0.reserve(16);
            }
            if place == self.0.len() {
                self.0.last_mut().into_iter().for_each(Cell::trim);
            }
            self.0.insert(place, Cell::empty(from, is_joined && at == from));
        }
        &mut self.0[place]
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

impl<T: What> Long<T> {
    /// What it is in columns of `shift`, which are not shorter than those of `own`, of which it covers one.
    pub(crate) fn each<const N: usize>(
        &self,
        (own, shift): (u32, u32),
        calls: &Calls,
        take: &mut impl FnMut(Shown<'_, T, N>),
    ) {
        // It covers own columns [first, last), and those asked for [begin, end).
        let (first, last) = (up(self.from, own), down(self.to, own));
        let (begin, end) = (up(self.from, shift), down(self.to, shift));
        let (state, tid) = (self.what.state(calls), self.what.tid());
        let mut part = |from: i64, to: i64| {
            if from < to {
                let (ns, is_joined, doubt) = (to.abs_diff(from), from > self.from, self.doubt);
                take(Shown::Part(Part { from, ns, state, is_joined, doubt, tid }));
            }
        };
        if begin < end {
            part(first, begin);
            take(Shown::Long(self));
            let (from, ns, doubt) = (end, last.abs_diff(end), self.doubt);
            if end < last {
                take(Shown::Part(Part { from, ns, state, is_joined: true, doubt, tid }));
            }
        } else if first < begin && begin < last {
            part(first, begin);
            part(begin, last);
        } else {
            part(first, last);
        }
    }
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
    /// What lies in a column.
    Cell(&'r Cell<N>),
    /// A part of a stretch that covers a column, but none of those that are asked for.
    Part(Part),
    /// A stretch that covers a column. What of it lies in columns that it does not cover is in parts.
    Long(&'r Long<T>),
}

/// Takes a row in the order of time.
pub(crate) trait TakeRow<T, const N: usize> {
    fn born(&mut self, long: Long<T>);
    fn cell(&mut self, cell: Cell<N>);
    fn long(&mut self, long: Long<T>);
}

impl<T, const N: usize> TakeRow<T, N> for Row<T, N> {
    fn born(&mut self, long: Long<T>) {
        self.born = Some(long);
    }

    fn cell(&mut self, cell: Cell<N>) {
        self.cells.0.push(cell);
    }

    fn long(&mut self, long: Long<T>) {
        self.longs.push(long);
    }
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
        let part = |from: i64, to: i64| {
            let (ns, is_joined, doubt) = (to.abs_diff(from), from > long.from, long.doubt);
            Part { from, ns, state, is_joined, doubt, tid }
        };
        // The columns that it covers: [first, last).
        let (first, last) = (up(from, shift), down(to, shift));
        if first > last {
            self.cells.put_part(shift, &part(from, to));
            return false;
        }
        if from < first {
            self.cells.put_part(shift, &part(from, first));
        }
        if first < last {
            self.longs.push(*long);
        }
        if last < to {
            self.cells.put_part(shift, &part(last, to));
        }
        first < last
    }

    /// Hands on all of it, in columns of `shift`, which are not shorter than its own of `own`.
    pub fn replay(&self, own: u32, shift: u32, calls: &Calls, mut take: impl FnMut(Shown<'_, T, N>)) {
        let mut cells = self.cells.0.iter().peekable();
        for long in &self.longs {
            let first = up(long.from, own);
            while let Some(cell) = cells.next_if(|cell| cell.from < first) {
                take(Shown::Cell(cell));
            }
            long.each((own, shift), calls, &mut take);
        }
        cells.for_each(|cell| take(Shown::Cell(cell)));
    }

    /// Adds all of a row of finer columns, which comes later.
    pub(crate) fn fold(&mut self, shift: u32, later: &Row<T, N>, own: u32, calls: &Calls) {
        self.born = self.born.or(later.born);
        later.replay(own, shift, calls, |shown| match shown {
            Shown::Cell(cell) => self.cells.put(shift, cell),
            Shown::Part(part) => self.cells.put_part(shift, &part),
            Shown::Long(long) => self.longs.push(*long),
        });
    }
}
