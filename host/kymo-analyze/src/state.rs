//! The state of a machine as its records tell it [spec/analyze.md 3].
//!
//! [`State::apply`] takes any event at any time, in any order. A clone of a state is a checkpoint: with the records
//! behind it,
//! it hands on the same spans as a state that saw all records.

mod cpu;
mod encode;
mod interrupt;
mod sched;
mod thread;

use crate::CallId;
use crate::doubt::Doubt;
use crate::event::Event;
use crate::names::{Facts, Vocabulary};
use crate::record::Head;
use crate::span::{Context, Doing, Sink, ThreadSpan, Threads, Until, Waker};

pub use cpu::{Cpu, Frame, Since};
pub use encode::VERSION as STATE_VERSION;
pub(crate) use sched::futex_waits;
pub(crate) use thread::Table;
pub use thread::{Call, Thread};

/// CPUs that are followed at most; Linux has fewer.
const CPUS_MAX: u32 = 8192;

/// The state of a machine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    facts: Facts,
    futex: Option<CallId>,
    sched_yield: Option<CallId>,
    /// Newest time, ns.
    now: i64,
    has_begun: bool,
    /// By number.
    cpus: Vec<Option<Cpu>>,
    threads: Table,
    /// Up to when records of any CPU were lost.
    lost_until: i64,
    clock_backs: u64,
}

impl State {
    /// Nothing is known.
    pub fn new(vocabulary: &Vocabulary) -> State {
        State {
            facts: vocabulary.facts(),
            futex: vocabulary.call_id("futex"),
            sched_yield: vocabulary.call_id("sched_yield"),
            now: i64::MIN,
            has_begun: false,
            cpus: Vec::new(),
            threads: Table::default(),
            lost_until: i64::MIN,
            clock_backs: 0,
        }
    }

    /// The newest time that a record had; none before the first.
    pub fn now(&self) -> Option<i64> {
        self.has_begun.then_some(self.now)
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

    /// Records whose time was before that of an earlier record of the same CPU.
    pub fn clock_backs(&self) -> u64 {
        self.clock_backs
    }

    /// Moves by a record that says nothing of the kernel, but was written by a CPU at a time.
    pub fn pass(&mut self, head: &Head, sink: &mut impl Sink) {
        let (at, _) = self.time_of(head);
        if let (Some(cpu), Some(_)) = (self.meet(head, at), head.tid) {
            self.check_current(cpu, head, at, sink);
        }
    }

    /// Moves by an event.
    #[inline]
    pub fn apply(&mut self, head: &Head, event: &Event, sink: &mut impl Sink) {
        sink.event(head, event, self);
        let (at, is_back) = self.time_of(head);
        if is_back {
            self.mark_back(head, event);
        }
        self.follow(head, event, at, sink);
        if is_back {
            self.mark_back(head, event);
        }
    }

    #[inline]
    fn follow(&mut self, head: &Head, event: &Event, at: i64, sink: &mut impl Sink) {
        if let Event::Dumped { .. } = event {
            return self.dumped(event, at, sink);
        }
        let cpu = self.meet(head, at);
        if let Some(cpu) = cpu {
            self.check_current(cpu, head, at, sink);
        }
        match *event {
            Event::Switch { .. }
            | Event::Wake { .. }
            | Event::Migrate { .. }
            | Event::Priority { .. }
            | Event::Fork { .. }
            | Event::Create { .. }
            | Event::Rename { .. }
            | Event::Exec { .. }
            | Event::Exit { .. }
            | Event::Free { .. } => self.scheduled(cpu, event, at, sink),
            Event::Call { call, args } => self.call(cpu, head.tid, call, args, at),
            Event::Return { call, value } => self.returned((cpu, head.tid), call, value, at, sink),
            _ => self.interrupted(cpu, event, at, sink),
        }
    }

    /// Takes note that records of a CPU, or of all, are missing between two times.
    pub fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64, sink: &mut impl Sink) {
        sink.lost(cpu, from, to);
        self.advance(from);
        let at = self.now;
        self.lost_until = self.lost_until.max(to);
        let numbers: Vec<u32> = match cpu {
            Some(number) => vec![number],
            None => self.cpus().map(|cpu| cpu.number).collect(),
        };
        for number in numbers {
            let Some(cpu) = self.cpus.get_mut(number as usize).and_then(Option::as_mut) else { continue };
            cpu.lost_until = cpu.lost_until.max(to);
            let (span, thread) = (cpu.cut(at), cpu.thread());
            cpu.forget();
            span.iter().for_each(|span| sink.cpu(span));
            if let Some(tid) = thread {
                self.turn(tid, Doing::Unknown, at, Doubt::LOST, sink);
            }
        }
    }

    /// Ends all that is open, at the newest time or at `end`.
    pub fn finish(&mut self, end: Option<i64>, sink: &mut impl Sink) {
        if !self.has_begun {
            return;
        }
        end.into_iter().for_each(|end| self.advance(end));
        let (at, lost_until) = (self.now, self.lost_until);
        for cpu in self.cpus.iter_mut().flatten() {
            cpu.doubt |= Doubt::END;
            cpu.cut(at).iter().for_each(|span| sink.cpu(span));
        }
        for thread in self.threads.iter_mut() {
            thread.doubt |= Doubt::END;
            let doing = thread.doing;
            if let Some(span) = thread.becomes(doing, at, Until::End, lost_until) {
                sink.thread(&span, thread);
            }
        }
    }

    /// The time of a record, never before that of an earlier one, and whether it went back on its CPU.
    #[inline]
    fn time_of(&mut self, head: &Head) -> (i64, bool) {
        self.advance(head.time);
        let Some(cpu) = head.cpu.and_then(|cpu| self.cpus.get_mut(cpu as usize)).and_then(Option::as_mut) else {
            return (self.now, false);
        };
        let is_back = head.time < cpu.newest;
        cpu.newest = cpu.newest.max(head.time);
        self.clock_backs += u64::from(is_back);
        (self.now, is_back)
    }

    /// Marks what a record touches whose time went back: what ends with it, and what begins.
    #[cold]
    fn mark_back(&mut self, head: &Head, event: &Event) {
        let mut tids = match *event {
            Event::Switch { prev, next, .. } => vec![prev, next],
            Event::Wake { tid, .. } => vec![tid],
            _ => Vec::new(),
        };
        if let Some(cpu) = head.cpu.and_then(|number| self.cpu_mut(number)) {
            cpu.mark(Doubt::CLOCK);
            tids.extend(cpu.thread());
        }
        for tid in tids {
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.doubt |= Doubt::CLOCK;
                thread.call.iter_mut().for_each(|call| call.doubt |= Doubt::CLOCK);
            }
        }
    }

    #[inline]
    fn advance(&mut self, time: i64) {
        self.now = if self.has_begun { self.now.max(time) } else { time };
        self.has_begun = true;
    }

    /// The CPU of a record, which is known from now on.
    #[inline]
    fn meet(&mut self, head: &Head, at: i64) -> Option<u32> {
        let number = head.cpu.filter(|&number| number < CPUS_MAX)?;
        if self.cpus.len() <= number as usize {
            self.cpus.resize(number as usize + 1, None);
        }
        self.cpus[number as usize].get_or_insert_with(|| {
            let mut cpu = Cpu::new(number, at);
            cpu.newest = head.time;
            cpu
        });
        Some(number)
    }

    /// A CPU that was met.
    #[inline]
    fn cpu_mut(&mut self, number: u32) -> Option<&mut Cpu> {
        self.cpus.get_mut(number as usize)?.as_mut()
    }

    /// Holds the thread that a record names against the one that should run.
    #[inline]
    fn check_current(&mut self, cpu: u32, head: &Head, at: i64, sink: &mut impl Sink) {
        let Some(tid) = head.tid else { return };
        let current = self.cpu_mut(cpu).map(|cpu| cpu.current);
        if current.is_some_and(|current| current != context_of(tid)) {
            self.put(cpu, tid, at, sink);
        }
    }

    /// The CPU runs a thread without a switch that the trace has.
    #[cold]
    fn put(&mut self, number: u32, tid: i32, at: i64, sink: &mut impl Sink) {
        let Some(cpu) = self.cpu_mut(number) else { return };
        let before = cpu.current;
        let missed = Doubt::MISSED.when(before != Context::Unknown);
        cpu.doubt |= missed;
        if let Some(span) = cpu.cut(at) {
            sink.cpu(&span);
        }
        cpu.current = context_of(tid);
        cpu.current_doubt = Doubt::GUESSED;
        cpu.doubt = Doubt::GUESSED | missed;
        if let Context::Thread(before) = before {
            self.mark_thread(before, Doubt::MISSED);
            self.turn(before, Doing::Unknown, at, Doubt::MISSED, sink);
        }
        if tid != 0 {
            self.leave_other_cpu(tid, number, at, sink);
            self.run(tid, number, at, Doubt::GUESSED | missed, sink);
        }
    }

    #[inline]
    fn mark_thread(&mut self, tid: i32, doubt: Doubt) {
        if let Some(thread) = self.threads.get_mut(tid) {
            thread.doubt |= doubt;
        }
    }

    /// A thread that is said to run here cannot be current elsewhere.
    #[inline]
    fn leave_other_cpu(&mut self, tid: i32, here: u32, at: i64, sink: &mut impl Sink) {
        let Some(Doing::Running { cpu: other }) = self.threads.get(tid).map(|thread| thread.doing) else { return };
        if other == here {
            return;
        }
        if let Some(cpu) = self.cpu_mut(other).filter(|cpu| cpu.current == Context::Thread(tid)) {
            cpu.doubt |= Doubt::MISSED;
            let span = cpu.cut(at);
            cpu.forget();
            cpu.doubt = Doubt::MISSED;
            span.iter().for_each(|span| sink.cpu(span));
        }
        self.mark_thread(tid, Doubt::MISSED);
    }

    /// A thread does something else from now on.
    #[inline]
    fn turn(&mut self, tid: i32, doing: Doing, at: i64, doubt: Doubt, sink: &mut impl Sink) {
        let lost_until = self.lost_until;
        let Some(thread) = self.threads.entry(tid, at) else { return };
        let before = thread.doing;
        if let Some(span) = thread.becomes(doing, at, Until::Next, lost_until) {
            emit(sink, &span, thread, before);
        }
        thread.doubt = doubt;
    }

    /// What a CPU is in the middle of, as who wakes.
    #[inline]
    fn waker(&self, cpu: Option<u32>, tid: Option<i32>) -> Waker {
        let known = cpu.and_then(|number| self.cpu(number));
        let context = match known.map(Cpu::context) {
            None | Some(Context::Unknown) => tid.map_or(Context::Unknown, context_of),
            Some(context) => context,
        };
        Waker { cpu: cpu.unwrap_or(u32::MAX), context }
    }
}

/// Hands a span on with the thread as it was in it.
#[inline]
fn emit(sink: &mut impl Sink, span: &ThreadSpan, thread: &mut Thread, before: Doing) {
    let after = std::mem::replace(&mut thread.doing, before);
    sink.thread(span, thread);
    thread.doing = after;
}

/// A thread, or idle.
#[inline]
fn context_of(tid: i32) -> Context {
    if tid == 0 { Context::Idle } else { Context::Thread(tid) }
}

impl State {
    /// The threads, for a sink.
    pub fn names(&self) -> Threads<'_> {
        Threads(&self.threads)
    }
}
