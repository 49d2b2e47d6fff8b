// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows of threads and CPUs show in a part of a trace, in columns of a power of two of ns [spec/index.md 5.2].
//! Pixels whose edges are edges of columns are made of these to the nanosecond.

use kymo_analyze::hash::Map;
use kymo_analyze::shown::{Calls, STATES};
use kymo_analyze::{CallId, Context, Doing, Doubt, Interrupt, Name};

use crate::pictures::row::{Cell, Cells, Kind, Long, Part, Row, down, up};

/// Columns are at most 2 to the power of this many ns long, and times at most so far from 1970 that sums of two fit.
pub(crate) const SHIFT_MAX: u32 = 56;
/// States of CPUs: unknown, idle, thread.
pub const CPU_STATES: usize = 3;

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

/// What calls show.
pub enum ShownCall<'r> {
    /// Time in a column.
    Cell(&'r Cell<1>),
    /// A part of a call that is shorter than the columns that are asked for.
    Part(Part),
    /// A call that is not.
    Long(&'r LongCall),
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
    /// Keeps the memory.
    pub(crate) fn clear(&mut self) {
        (self.tid, self.end, self.last, self.row.born) = (0, 0, Last::Other, None);
        self.row.cells.0.clear();
        self.row.longs.clear();
        self.calls.0.clear();
        self.long_calls.clear();
        self.late.clear();
    }

    pub(crate) fn call(&mut self, shift: u32, call: &LongCall) {
        match call.to.abs_diff(call.from) >> shift {
            0 => Part::each(shift, (call.from, call.to), 0, |part| self.calls.put_part(shift, &part)),
            _ => self.long_calls.push(*call),
        }
    }

    /// All long waits, by end, those among the stretches too where `is_wanted`.
    pub fn each_late(&self, calls: &Calls, is_wanted: impl Fn(&Long<Doing>) -> bool, mut take: impl FnMut(Late)) {
        let mut others = self.late.iter().peekable();
        for long in self.row.longs.iter().filter(|long| long.is_late && is_wanted(long)) {
            while let Some(late) = others.next_if(|late| late.to <= long.to) {
                take(*late);
            }
            take(Late { from: long.from, to: long.to, state: calls.state(&long.what) });
        }
        others.for_each(|late| take(*late));
    }

    fn fold(&mut self, shift: u32, later: &ThreadPicture, own: u32, calls: &Calls) {
        let is_no_stretch = |long: &Long<Doing>| up(long.from, shift) >= down(long.to, shift);
        later.each_late(calls, is_no_stretch, |late| late.put(&mut self.late, shift));
        self.row.fold(shift, &later.row, own, calls);
        self.fold_calls(shift, later);
        (self.end, self.last) = (later.end, later.last);
    }

    fn fold_calls(&mut self, shift: u32, later: &ThreadPicture) {
        later.each_call(shift, |shown| match shown {
            ShownCall::Cell(cell) => self.calls.put(shift, cell),
            ShownCall::Part(part) => self.calls.put_part(shift, &part),
            ShownCall::Long(call) => self.long_calls.push(*call),
        });
    }

    /// Calls in columns of `shift`, in the order of time: whether a part goes on with the one before it decides what is
    /// counted.
    pub fn each_call(&self, shift: u32, mut take: impl FnMut(ShownCall<'_>)) {
        let mut cells = self.calls.0.iter().peekable();
        for call in &self.long_calls {
            while let Some(cell) = cells.next_if(|cell| cell.from <= call.from) {
                take(ShownCall::Cell(cell));
            }
            match call.to.abs_diff(call.from) >> shift {
                0 => Part::each(shift, (call.from, call.to), 0, |part| take(ShownCall::Part(part))),
                _ => take(ShownCall::Long(call)),
            }
        }
        cells.for_each(|cell| take(ShownCall::Cell(cell)));
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
    /// Until it is finished: where each thread is.
    pub slots: Map<i32, u32>,
    /// Without anything in them: their memory is used for threads.
    pub spare: Vec<ThreadPicture>,
}

impl PartPicture {
    /// Becomes the picture of parts that follow each other.
    pub fn fold(&mut self, parts: &[PartPicture], shift: u32, calls: &Calls) {
        (self.base, self.shift) = (parts.first().map_or(0, |part| part.base), shift);
        for part in parts {
            for later in &part.threads {
                self.thread(later.tid).fold(shift, later, part.shift, calls);
            }
            for later in &part.cpus {
                self.cpu(later.cpu).fold(shift, later, part.shift, calls);
            }
        }
        self.finish();
    }

    /// Of a thread; made where there is none.
    pub fn thread(&mut self, tid: i32) -> &mut ThreadPicture {
        let slot = *self.slots.entry(tid).or_insert_with(|| {
            self.threads.push(ThreadPicture { tid, ..self.spare.pop().unwrap_or_default() });
            self.threads.len() as u32 - 1
        });
        &mut self.threads[slot as usize]
    }

    /// Of a CPU; made where there is none.
    pub fn cpu(&mut self, cpu: u32) -> &mut CpuPicture {
        let is_there = self.cpus.get(cpu as usize).is_some_and(|of| of.cpu == cpu);
        if is_there {
            return &mut self.cpus[cpu as usize];
        }
        let at = self.cpus.binary_search_by_key(&cpu, |of| of.cpu).unwrap_or_else(|at| {
            self.cpus.insert(at, CpuPicture { cpu, ..CpuPicture::default() });
            at
        });
        &mut self.cpus[at]
    }

    pub fn finish(&mut self) {
        self.slots.clear();
        self.threads.sort_unstable_by_key(|of| of.tid);
        self.cpus.iter_mut().for_each(|of| of.row.cells.finish());
    }

    /// How much it is.
    pub fn items(&self) -> usize {
        let threads = self.threads.iter().map(|of| {
            of.row.cells.0.len() + of.row.longs.len() + of.calls.0.len() + of.long_calls.len() + of.late.len()
        });
        let cpus = self.cpus.iter().map(|of| {
            let lists = of.long_interrupts.len() + of.frequency.len() + of.idle.len();
            let interrupts = of.interrupts.cells.0.len() + of.interrupts.longs.len();
            of.row.cells.0.len() + of.row.longs.len() + interrupts + lists
        });
        threads.chain(cpus).sum()
    }
}
