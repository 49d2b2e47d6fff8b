// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a machine at one moment: its CPUs and threads. How that moves is in `apply` and the files that it
//! uses.

use super::cpu::Cpu;
use super::fault::FaultRule;
use super::thread::{Table, Thread, Threads};
use super::timers::Timers;
use crate::CallId;
use crate::names::{Facts, Vocabulary};

/// CPUs that are followed at most; Linux has fewer.
pub(crate) const CPUS_MAX: u32 = 8192;

/// The state of a machine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) facts: Facts,
    pub(super) futex: Option<CallId>,
    pub(super) sched_yield: Option<CallId>,
    pub(super) faults: FaultRule,
    /// Newest time, ns.
    pub(super) now: i64,
    pub(super) has_begun: bool,
    /// By number.
    pub(super) cpus: Vec<Option<Cpu>>,
    pub(super) threads: Table,
    pub(super) timers: Timers,
    /// Up to when records of any CPU were lost.
    pub(super) lost_until: i64,
    pub(super) clock_backs: u64,
    /// See [`State::chained_switches`].
    pub(super) chained: Option<u64>,
}

impl State {
    /// Nothing is known.
    pub fn new(vocabulary: &Vocabulary) -> State {
        State {
            facts: vocabulary.facts(),
            futex: vocabulary.call_id("futex"),
            sched_yield: vocabulary.call_id("sched_yield"),
            faults: FaultRule::new(vocabulary),
            now: i64::MIN,
            has_begun: false,
            cpus: Vec::new(),
            threads: Table::default(),
            timers: Timers::default(),
            lost_until: i64::MIN,
            clock_backs: 0,
            chained: Some(0),
        }
    }

    /// Goes on with a trace that may have more classes now. System calls that are open keep their numbers.
    pub fn renew(&mut self, vocabulary: &Vocabulary) {
        self.facts = vocabulary.facts();
        (self.futex, self.sched_yield) = (vocabulary.call_id("futex"), vocabulary.call_id("sched_yield"));
        self.faults = FaultRule::new(vocabulary);
    }

    /// The newest time that a record had; none before the first.
    pub fn now(&self) -> Option<i64> {
        self.has_begun.then_some(self.now)
    }

    /// Whether records of any CPU were lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_until > i64::MIN
    }

    /// Whether a thread stays in its process when it is called otherwise than before, and no record says why: where new
    /// threads are recorded and new names are not, and nothing was lost [spec/analyze.md 3.1].
    pub fn allows_new_names(&self) -> bool {
        self.sees_creations() && !self.facts.renames
    }

    /// Whether each new thread is in the trace: none has the number of another one unseen.
    pub(super) fn sees_creations(&self) -> bool {
        self.facts.creations && !self.has_lost()
    }

    /// A CPU that has written a record.
    #[inline]
    pub fn cpu(&self, number: u32) -> Option<&Cpu> {
        self.cpus.get(number as usize)?.as_ref()
    }

    /// The CPUs that have written records.
    pub fn cpus(&self) -> impl Iterator<Item = &Cpu> {
        self.cpus.iter().flatten()
    }

    /// A thread that was spoken of.
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        self.threads.get(tid)
    }

    /// The threads that were spoken of, in no particular order.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter()
    }

    /// How often threads were too many to be followed.
    pub fn threads_left_out(&self) -> u64 {
        self.threads.left_out()
    }

    /// How many switches began with the thread that the one before on their CPU had ended with. `None` when one did
    /// not: where switches are left out (a trace of chosen processes only), what runs on a CPU is not known.
    pub fn chained_switches(&self) -> Option<u64> {
        self.chained
    }

    /// Records whose time was before that of an earlier record of the same CPU.
    pub fn clock_backs(&self) -> u64 {
        self.clock_backs
    }

    /// The futex call, where the trace has it.
    pub(crate) fn futex(&self) -> Option<CallId> {
        self.futex
    }

    /// When a high-resolution timer is due that was started, in its own clock, ns.
    pub fn timer_due(&self, timer: u64) -> Option<i64> {
        self.timers.due(timer)
    }

    /// High-resolution timers that were started and have not expired, and how many were too many to be followed.
    pub fn timers(&self) -> (u64, u64) {
        self.timers.counts()
    }

    /// The threads, for a sink.
    pub fn names(&self) -> Threads<'_> {
        Threads(&self.threads)
    }

    /// A CPU that was met.
    #[inline]
    pub(super) fn cpu_mut(&mut self, number: u32) -> Option<&mut Cpu> {
        self.cpus.get_mut(number as usize)?.as_mut()
    }
}
