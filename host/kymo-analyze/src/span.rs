// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the state hands on as it moves: stretches of time of threads, CPUs, interrupts and calls. Findings are made
//! of nothing else.

use serde::Serialize;

use crate::doubt::Doubt;
use crate::event::{CallId, Interrupt, Off};
use crate::name::Name;

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
        /// It went to sleep in a page fault that a record tells of.
        in_fault: bool,
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
