//! What the state hands on as it moves: stretches of time of threads, CPUs, interrupts and calls. Findings are made
//! of nothing else.

use serde::Serialize;

use crate::doubt::Doubt;
use crate::event::{CallId, Event, Interrupt, Off};
use crate::name::Name;
use crate::record::Head;
use crate::state::{State, Thread};

/// What a CPU is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Not known.
    Unknown,
    /// Its idle thread.
    Idle,
    /// A thread.
    Thread(i32),
    /// An interrupt, softirq or timer call.
    Interrupt(Interrupt),
}

/// Who wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waker {
    /// The CPU that it ran on.
    pub cpu: u32,
    /// What the CPU was in the middle of.
    pub context: Context,
}

/// Why a thread can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ready {
    /// It was woken.
    Woken(Waker),
    /// It was made, and woken for the first time.
    New(Waker),
    /// It ran, and another thread took its CPU.
    Preempted {
        /// That thread.
        by: i32,
    },
    /// It ran, and gave way.
    GaveWay {
        /// To that thread.
        to: i32,
    },
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Not known.
    Unknown,
    /// It was made, and cannot run yet.
    Forked,
    /// It runs.
    Running {
        /// On this CPU.
        cpu: u32,
    },
    /// It can run, and waits for a CPU.
    Runnable {
        /// Why.
        why: Ready,
        /// The CPU, where it is known.
        cpu: Option<u32>,
    },
    /// It waits for something else.
    Blocked {
        /// The kernel's letter for how; `?` where it is not known.
        state: u8,
        /// The system call it is in.
        call: Option<CallId>,
    },
    /// It has ended.
    Ended,
}

/// How a stretch of a thread came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Somebody woke it.
    Woken(Waker),
    /// It runs.
    Runs {
        /// On this CPU.
        cpu: u32,
    },
    /// Anything else that the next span shows.
    Next,
    /// The trace ended.
    End,
}

/// A thread did one thing in [from, to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    /// The thread.
    pub tid: i32,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// What it did.
    pub doing: Doing,
    /// Since when it can run, if it waits for a CPU: at the wake-up, which may be before `from`. Else `from`.
    pub ready_from: i64,
    /// What came then.
    pub until: Until,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// A CPU was in the middle of one thing in [from, to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSpan {
    /// The CPU.
    pub cpu: u32,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The innermost of what it did.
    pub context: Context,
    /// Under that: a thread, idle, or not known.
    pub current: Context,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// An interrupt, softirq or timer call, from entry to exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptSpan {
    /// Which.
    pub interrupt: Interrupt,
    /// What the trace calls it; may be empty.
    pub name: Name,
    /// The CPU where it ended.
    pub cpu: u32,
    /// What it interrupted.
    pub current: Context,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// In between its thread did not run, ns (softirqs of PREEMPT_RT).
    pub away_ns: i64,
    /// Of a softirq: when it was raised, and what is doubtful about that.
    pub raised: Option<i64>,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// A system call, from entry to exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSpan {
    /// Which.
    pub call: CallId,
    /// Its first two arguments.
    pub args: [u64; 2],
    /// What it returned.
    pub value: i64,
    /// The thread.
    pub tid: i32,
    /// The CPU where it returned.
    pub cpu: u32,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// It is the futex call.
    pub is_futex: bool,
    /// The thread was blocked in it.
    pub blocked: bool,
    /// Of a futex: who woke the thread in a futex call on the same address.
    pub owner: Option<i32>,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// Interrupts or preemption were off on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffSpan {
    /// Which.
    pub what: Off,
    /// The CPU.
    pub cpu: u32,
    /// What was current when they went on.
    pub current: Context,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// Who takes what the state hands on.
pub trait Sink {
    /// An event, before the state moves by it.
    fn event(&mut self, _head: &Head, _event: &Event, _state: &State) {}
    /// A stretch of a thread is over; the thread as it was in it.
    fn thread(&mut self, _span: &ThreadSpan, _thread: &Thread) {}
    /// A stretch of a CPU is over.
    fn cpu(&mut self, _span: &CpuSpan) {}
    /// An interrupt is over.
    fn interrupt(&mut self, _span: &InterruptSpan, _threads: Threads<'_>) {}
    /// A system call is over.
    fn call(&mut self, _span: &CallSpan, _thread: &Thread) {}
    /// Interrupts or preemption are on again.
    fn off(&mut self, _span: &OffSpan, _threads: Threads<'_>) {}
    /// Records of a CPU, or of all where there is none, were lost between two times.
    fn lost(&mut self, _cpu: Option<u32>, _from: i64, _to: i64) {}
    /// An end came without its beginning.
    fn unmatched(&mut self, _of: Unmatched) {}
}

/// What an end without beginning is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmatched {
    /// Interrupts, softirqs, timer calls.
    Interrupt,
    /// System calls.
    Call,
    /// Interrupts or preemption off.
    Off,
}

/// The threads that are known, while the state moves.
#[derive(Clone, Copy)]
pub struct Threads<'a>(pub(crate) &'a crate::state::Table);

impl<'a> Threads<'a> {
    /// A thread.
    pub fn get(&self, tid: i32) -> Option<&'a Thread> {
        self.0.get(tid)
    }
}

/// Takes nothing.
impl Sink for () {}

/// Both take everything.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.0.event(head, event, state);
        self.1.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.0.thread(span, thread);
        self.1.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.0.cpu(span);
        self.1.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.0.interrupt(span, threads);
        self.1.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.0.call(span, thread);
        self.1.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.0.off(span, threads);
        self.1.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.0.lost(cpu, from, to);
        self.1.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.0.unmatched(of);
        self.1.unmatched(of);
    }
}

impl<S: Sink> Sink for &mut S {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        (**self).event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        (**self).thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        (**self).cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        (**self).interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        (**self).call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        (**self).off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        (**self).lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        (**self).unmatched(of);
    }
}
