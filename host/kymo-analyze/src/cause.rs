// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a sample of a latency test was as long as it was [spec/lab.md 7]: its time, to the last nanosecond, by cause.
//!
//! [`Evidence`] takes the records around the samples; [`Evidence::explain`] gives the budget of one. Which samples, and
//! what their budgets have in common, is for others.

mod budget;
mod evidence;
mod stall;

use crate::doubt::Doubt;
use crate::event::Interrupt;
use crate::name::Name;

pub use evidence::{Evidence, Machine};

/// How a sample comes about, as far as its budget depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// From a timer's expiration to the thread's next reading of the clock.
    Timer,
    /// From another thread's reading of the clock, in front of the call that wakes, to the woken thread's next one.
    Woken,
    /// From one reading of the clock to the next, by a thread that is busy all the time.
    Busy,
    /// From in front of a lock to behind it.
    Lock,
}

/// A sample: a stretch of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The thread that measured.
    pub tid: i32,
    /// The CPU that it is bound to.
    pub cpu: Option<u32>,
    /// ns, on the records' clock.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// How it comes about.
    pub asked: Asked,
}

/// What a part of a sample went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// All CPUs stood still.
    Firmware,
    /// The CPU stood still, in a guest: its host did not run it.
    Steal,
    /// Its timer was due, and interrupts were off.
    IrqsOff {
        /// While this thread ran.
        by: i32,
    },
    /// It should have run, and the thread on its CPU did not give way.
    PreemptionOff {
        /// That thread.
        by: i32,
    },
    /// Its CPU had not come out of idle.
    IdleExit,
    /// An interrupt, softirq or timer call.
    Interrupt(Interrupt),
    /// A non-maskable interrupt.
    Nmi,
    /// A thread of a higher priority, or of the same.
    Thread {
        /// That thread.
        by: i32,
    },
    /// A lock was held, and its owner ran.
    LockOwner {
        /// The owner: who let it go.
        owner: i32,
    },
    /// A lock was held, and its owner could not run.
    LockOwnerWaits {
        /// The owner.
        owner: i32,
        /// The thread that had the CPU meanwhile; none: the owner slept.
        by: Option<i32>,
    },
    /// A page fault.
    Fault,
    /// Its class had used up its time: a thread of a lower priority ran, or none.
    Throttled {
        /// That thread.
        by: Option<i32>,
    },
    /// Threads of normal classes share a CPU.
    RunQueue {
        /// Who ran.
        by: i32,
    },
    /// The CPU's frequency changed.
    Frequency {
        /// To this, kHz.
        khz: u32,
    },
    /// It was stopped by a signal or a debugger.
    Stopped,
    /// The thread that wakes had not done it yet.
    Waker {
        /// That thread.
        tid: i32,
    },
    /// Timers of normal classes may be late by their slack.
    Slack,
    /// Between two threads.
    Switching,
    /// It waited for something else.
    Blocked {
        /// The kernel's letter for how.
        state: u8,
    },
    /// It ran: what it does between its readings of the clock.
    Own,
    /// Not known.
    Remainder,
}

/// How a cause is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ground {
    /// Records say so.
    Seen,
    /// It follows from the absence of records.
    Inferred,
}

/// The time of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it went to.
    pub cause: Cause,
    /// How that is known.
    pub ground: Ground,
    /// ns in all.
    pub ns: u64,
    /// In how many pieces.
    pub pieces: u64,
    /// Name of the thread, or of the interrupt's handler; may be empty.
    pub name: Name,
    /// The thread's priority then, as the kernel counts.
    pub prio: Option<i16>,
}

/// A sample's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Largest first; the sum is the sample.
    pub parts: Vec<Part>,
    /// What is doubtful about any of them.
    pub doubt: Doubt,
    /// Page faults of the thread in it.
    pub faults: u64,
}

impl Cause {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Firmware => "firmware",
            Cause::Steal => "steal",
            Cause::IrqsOff { .. } => "irqs_off",
            Cause::PreemptionOff { .. } => "preemption_off",
            Cause::IdleExit => "idle_exit",
            Cause::Interrupt(Interrupt::Softirq(_) | Interrupt::Timer(_)) => "softirq",
            Cause::Interrupt(_) => "irq",
            Cause::Nmi => "nmi",
            Cause::Thread { .. } => "higher_priority",
            Cause::LockOwner { .. } | Cause::LockOwnerWaits { .. } => "lock_owner",
            Cause::Fault => "page_fault",
            Cause::Throttled { .. } => "throttled",
            Cause::RunQueue { .. } => "run_queue",
            Cause::Frequency { .. } => "frequency",
            Cause::Stopped => "stopped",
            Cause::Waker { .. } => "waker",
            Cause::Slack => "timer_slack",
            Cause::Switching => "switching",
            Cause::Blocked { .. } => "blocked",
            Cause::Own => "own",
            Cause::Remainder => "remainder",
        }
    }

    /// The thread that it names.
    pub fn tid(self) -> Option<i32> {
        match self {
            Cause::IrqsOff { by } | Cause::PreemptionOff { by } | Cause::Thread { by } | Cause::RunQueue { by } => {
                Some(by)
            }
            Cause::LockOwner { owner } | Cause::LockOwnerWaits { owner, .. } => Some(owner),
            Cause::Waker { tid } => Some(tid),
            Cause::Throttled { by } => by,
            _ => None,
        }
    }
}
