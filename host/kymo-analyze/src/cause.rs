// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to a thread, or on a CPU, in a stretch of time, and why: the one set of rules for causes
//! [spec/analyze.md 6]. `kymo explain`, `kymo critical`, `kymo latency --explain` and `--explain` of the laboratory
//! use it alike.
//!
//! [`Evidence`] takes the records around the stretch; [`Evidence::segments`] divides it into pieces with a cause each,
//! [`Evidence::explain`] sums them up. Which stretches, and how causes are told, is for others.

mod beside_idle;
mod blocked;
mod cpu;
mod events;
mod evidence;
mod limit;
mod ready;
mod segments;
mod stall;
mod sum;
mod wait;

use crate::doubt::Doubt;
use crate::event::{CallId, Interrupt};
use crate::name::Name;
use crate::span::Waker;

pub(crate) use events::is_by_timer;
pub use events::{AnswerPart, EventKind, MissingEvent, MissingEvents};
pub use evidence::{Evidence, Machine, QUOTA_TIMER};
pub(crate) use limit::group_text;
pub use limit::{Group, GroupFound, Limit};
pub use segments::Segment;

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
    /// Any stretch of a thread's time: what it waited for is what its system calls and timers say.
    Stretch,
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
        /// The thread that had the CPU meanwhile; none: not known.
        by: Option<i32>,
    },
    /// A lock was held, and its owner slept.
    LockOwnerSleeps {
        /// The owner.
        owner: i32,
        /// In this system call.
        call: Option<CallId>,
    },
    /// A page fault.
    Fault,
    /// Its class had used up its time: a thread of a lower priority ran, or none.
    Throttled {
        /// That thread.
        by: Option<i32>,
        /// What stopped it.
        limit: Limit,
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
    /// It was stopped.
    Stopped {
        /// Who did that.
        by: Option<i32>,
        /// By a debugger; else by a signal.
        traced: bool,
    },
    /// The thread that wakes ran, and had not done it yet.
    Waker {
        /// That thread.
        tid: i32,
    },
    /// The thread that wakes slept.
    WakerSleeps {
        /// That thread.
        tid: i32,
        /// In this system call.
        call: Option<CallId>,
    },
    /// Timers of normal classes may be late by their slack.
    Slack,
    /// Between two threads.
    Switching,
    /// It waited for something else.
    Blocked {
        /// The kernel's letter for how.
        state: u8,
        /// The system call it was in.
        call: Option<CallId>,
        /// Who ended that.
        waker: Option<Waker>,
    },
    /// It ran: what it does by itself.
    Own,
    /// Of a CPU: this thread ran.
    Ran {
        /// The thread.
        tid: i32,
    },
    /// Of a CPU: it idled.
    Idle,
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
pub struct CausePart {
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
    /// The CPU of its first piece.
    pub cpu: Option<u32>,
    /// What is doubtful about any of its pieces.
    pub doubt: Doubt,
}

/// A sample's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Largest first; the sum is the sample.
    pub parts: Vec<CausePart>,
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
            Cause::Interrupt(Interrupt::Softirq(_) | Interrupt::Timer(_) | Interrupt::Soft) => "softirq",
            Cause::Interrupt(_) => "irq",
            Cause::Nmi => "nmi",
            Cause::Thread { .. } => "higher_priority",
            Cause::LockOwner { .. } | Cause::LockOwnerWaits { .. } | Cause::LockOwnerSleeps { .. } => "lock_owner",
            Cause::Fault => "page_fault",
            Cause::Throttled { .. } => "throttled",
            Cause::RunQueue { .. } => "run_queue",
            Cause::Frequency { .. } => "frequency",
            Cause::Stopped { .. } => "stopped",
            Cause::Waker { .. } | Cause::WakerSleeps { .. } => "waker",
            Cause::Slack => "timer_slack",
            Cause::Switching => "switching",
            Cause::Blocked { .. } => "blocked",
            Cause::Own => "own",
            Cause::Ran { .. } => "thread",
            Cause::Idle => "idle",
            Cause::Remainder => "remainder",
        }
    }

    /// Whether it is told of a CPU: the same on two CPUs is two things.
    pub(crate) fn is_of_cpu(self) -> bool {
        !matches!(
            self,
            Cause::Own
                | Cause::Blocked { .. }
                | Cause::Fault
                | Cause::LockOwner { .. }
                | Cause::LockOwnerSleeps { .. }
                | Cause::Waker { .. }
                | Cause::WakerSleeps { .. }
                | Cause::Stopped { .. }
                | Cause::Slack
                | Cause::Firmware
        )
    }

    /// The limit that stopped the thread.
    pub fn limit(self) -> Option<Limit> {
        match self {
            Cause::Throttled { limit, .. } => Some(limit),
            _ => None,
        }
    }

    /// The thread that it names.
    pub fn tid(self) -> Option<i32> {
        match self {
            Cause::IrqsOff { by } | Cause::PreemptionOff { by } | Cause::Thread { by } | Cause::RunQueue { by } => {
                Some(by)
            }
            Cause::LockOwner { owner } | Cause::LockOwnerWaits { owner, .. } | Cause::LockOwnerSleeps { owner, .. } => {
                Some(owner)
            }
            Cause::Waker { tid } | Cause::WakerSleeps { tid, .. } | Cause::Ran { tid } => Some(tid),
            Cause::Throttled { by, .. } | Cause::Stopped { by, .. } => by,
            _ => None,
        }
    }
}
