// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of one CPU, run by run. A run is the time between two switches; it is added up when it ends, because only
//! the switch behind it says whether it was what it seemed to be.

use super::actor::ActorStretch;
use super::amounts::CpuTime;
use crate::doubt::Doubt;
use crate::span::{Context, CpuSpan};
use crate::state::Cpu;

/// What a CPU did. The parts sum up to the stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// In threads that are asked for, without interrupts, ns.
    pub thread_ns: u64,
    /// In interrupts, softirqs and timer calls; those that came while others ran than who is asked for are in
    /// `other_ns`, ns.
    pub interrupt_ns: u64,
    /// For others than who is asked for, ns.
    pub other_ns: u64,
    /// Idle, ns.
    pub idle_ns: u64,
    /// Not known, ns.
    pub unknown_ns: u64,
    /// Of the known time: it was before the CPU's first record, which tells who ran until then, ns.
    pub inferred_ns: u64,
    /// Runs of threads that are asked for.
    pub runs: u64,
    /// The CPU has written records.
    pub has_records: bool,
}

impl CpuUse {
    /// Not idle, for who is asked for, ns.
    pub fn busy_ns(&self) -> u64 {
        self.thread_ns.saturating_add(self.interrupt_ns)
    }

    /// Adds a run that is over. `has_thread`: it was that of a thread; `is_wanted`: of one that is asked for.
    pub(super) fn settle(&mut self, run: &Run, has_thread: bool, is_wanted: bool) {
        let own_ns = run.time.ns.saturating_sub(run.time.interrupted_ns);
        let interrupts = if is_wanted { &mut self.interrupt_ns } else { &mut self.other_ns };
        *interrupts = interrupts.saturating_add(run.time.interrupted_ns);
        let is_idle = run.current == Context::Idle && !run.is_contested;
        let part = match has_thread {
            true if is_wanted => &mut self.thread_ns,
            true => &mut self.other_ns,
            false if is_idle => &mut self.idle_ns,
            false => &mut self.unknown_ns,
        };
        *part = part.saturating_add(own_ns);
        if is_idle || has_thread {
            self.inferred_ns = self.inferred_ns.saturating_add(run.inferred_ns);
        }
        self.runs = self.runs.saturating_add(u64::from(has_thread && is_wanted));
    }

    /// Adds what it did later.
    pub(super) fn plus(&mut self, later: &CpuUse) {
        for (sum, more) in [
            (&mut self.thread_ns, later.thread_ns),
            (&mut self.interrupt_ns, later.interrupt_ns),
            (&mut self.other_ns, later.other_ns),
            (&mut self.idle_ns, later.idle_ns),
            (&mut self.unknown_ns, later.unknown_ns),
            (&mut self.inferred_ns, later.inferred_ns),
            (&mut self.runs, later.runs),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.has_records |= later.has_records;
    }

    /// All parts, ns.
    pub(super) fn total_ns(&self) -> u64 {
        let parts = [self.thread_ns, self.interrupt_ns, self.other_ns, self.idle_ns, self.unknown_ns];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// A run that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// A thread, idle, or not known.
    pub current: Context,
    pub time: CpuTime,
    /// Of that before the CPU's first record, ns.
    pub inferred_ns: u64,
    /// Another thread left the CPU than had entered it: a switch is missing, so the run was shorter than it seems.
    pub is_contested: bool,
}

impl Run {
    pub fn of(current: Context) -> Run {
        Run { current, time: CpuTime::default(), inferred_ns: 0, is_contested: false }
    }

    /// Whose number of a thread it is; `None`: nobody's, or it is not certain.
    pub fn thread(&self) -> Option<i32> {
        match self.current {
            Context::Thread(tid) if !self.is_contested => Some(tid),
            _ => None,
        }
    }
}

/// One CPU on its way through the stretch.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub used: CpuUse,
    run: Run,
    /// When its first span begins, or its first switch was.
    first: Option<i64>,
    /// All before is added up.
    counted_to: i64,
    /// Who ran while that was not known; the first switch tells.
    before_switch: Option<Context>,
    /// What the next span is of, if records contradict each other about it.
    contested: Option<Context>,
    /// Records were lost before the first one.
    is_lost: bool,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            used: CpuUse::default(),
            run: Run::of(Context::Unknown),
            first: None,
            counted_to: i64::MIN,
            before_switch: None,
            contested: None,
            is_lost: false,
        }
    }
}

impl Lane {
    /// Of a CPU in front of a stretch. What it did before is not added up, and its first switch tells who has run only
    /// if none came before and nothing was lost.
    pub fn resumed(cpu: &Cpu) -> Lane {
        let is_told = cpu.current != Context::Unknown || cpu.lost_until > i64::MIN;
        let before_switch = is_told.then_some(Context::Unknown);
        let used = CpuUse { has_records: true, ..CpuUse::default() };
        Lane { used, first: Some(cpu.since), before_switch, ..Lane::default() }
    }

    /// Takes a span. `begin`: when recording began. Gives the run that is over by that.
    pub fn span(&mut self, span: &CpuSpan, begin: i64, stretch: ActorStretch) -> Option<Run> {
        self.used.has_records = true;
        let current = match span.current {
            Context::Unknown => self.before_switch.unwrap_or(Context::Unknown),
            known => {
                self.before_switch = Some(Context::Unknown);
                known
            }
        };
        let over = if current == self.run.current { None } else { self.end() };
        self.run.current = current;
        self.run.is_contested |= self.contested.take() == Some(current);
        if self.first.is_none() && current != Context::Unknown {
            self.infer(begin, span.from, stretch);
        }
        self.first.get_or_insert(span.from);
        let from = span.from.max(self.counted_to).max(begin);
        self.counted_to = self.counted_to.max(span.to);
        if let Some((from, to)) = stretch.cut(from, span.to) {
            self.run.time.add(to.abs_diff(from), matches!(span.context, Context::Interrupt(_)), span.doubt);
        }
        over
    }

    /// The first switch of the CPU, at `at`: who leaves has run until then, because no switch came before.
    pub fn first_switch(&mut self, leaves: Context, at: i64, begin: i64, stretch: ActorStretch) {
        if self.is_lost || self.before_switch.is_some() || self.run.current != Context::Unknown {
            return;
        }
        (self.run.current, self.before_switch) = (leaves, Some(leaves));
        // Of what the CPU has recorded before its first switch, only who ran was not known.
        let known = *self.first.get_or_insert(at);
        self.infer(begin, known, stretch);
        self.counted_to = self.counted_to.max(known);
        self.used.has_records = true;
    }

    /// The CPU's first record says who runs. No switch came before, so it has run since recording began.
    fn infer(&mut self, begin: i64, until: i64, stretch: ActorStretch) {
        if self.is_lost {
            return;
        }
        if let Some((from, to)) = stretch.cut(begin, until) {
            let ns = to.abs_diff(from);
            self.run.time.add(ns, false, Doubt::NONE);
            self.run.inferred_ns = self.run.inferred_ns.saturating_add(ns);
            self.run.time.doubtful_ns = self.run.time.doubtful_ns.saturating_add(ns);
            self.run.time.doubt |= Doubt::START;
        }
    }

    /// Ends the run; another one of the same thread follows.
    pub fn end(&mut self) -> Option<Run> {
        let current = self.run.current;
        let run = std::mem::replace(&mut self.run, Run::of(current));
        (run.time.ns > 0).then_some(run)
    }

    /// Who runs.
    pub fn current(&self) -> Context {
        self.run.current
    }

    /// Records agree, or contradict each other, about who ran until now.
    pub fn contest(&mut self, current: Option<Context>) {
        self.run.is_contested |= self.run.time.ns > 0 && current == Some(self.run.current);
        self.contested = current;
    }

    /// Whether the next stretch may be of somebody else than it seems.
    pub fn is_contested(&self) -> bool {
        self.contested.is_some()
    }

    /// Adds time to the run, up to which all is added up then.
    pub fn spend(&mut self, time: &CpuTime, counted_to: i64) {
        self.run.time.plus(time);
        self.counted_to = counted_to;
    }

    /// Goes on with a run that has begun.
    pub fn go_on(&mut self, run: Run) {
        self.run = run;
    }

    /// Records were lost.
    pub fn lose(&mut self) {
        self.is_lost |= self.first.is_none();
        self.before_switch = Some(Context::Unknown);
    }
}
