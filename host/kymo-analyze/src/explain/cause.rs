// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a piece of time can go to.

use crate::event::{CallId, Interrupt, Off};
use crate::span::{Context, Waker};

/// What a piece of time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The thread ran.
    Running,
    /// The thread would have run, but for this; of a CPU: it was in this.
    Interrupt(Interrupt),
    /// The thread could run, and another one had its CPU.
    Preempted {
        /// That thread; none: not known.
        by: Option<i32>,
        /// With interrupts or preemption off.
        off: Option<Off>,
    },
    /// The thread could run, and this had its CPU.
    WaitInterrupt(Interrupt),
    /// The thread could run, and its CPU had not come out of idle.
    IdleExit,
    /// The thread could run, and its CPU was between threads.
    Switching,
    /// The thread waited.
    Blocked {
        /// The kernel's letter.
        state: u8,
        /// The system call it was in.
        call: Option<CallId>,
        /// Who ended that.
        waker: Option<Waker>,
        /// In a page fault at this address.
        fault: Option<u64>,
    },
    /// Of a CPU: this thread ran.
    Thread {
        /// The thread.
        tid: i32,
        /// With interrupts or preemption off.
        off: Option<Off>,
    },
    /// Of a CPU: it idled.
    Idle,
    /// Not known, not yet made, or ended.
    Unknown,
}

impl Cause {
    /// Its name for programs.
    pub fn kind(self) -> &'static str {
        match self {
            Cause::Running => "running",
            Cause::Interrupt(_) => "interrupt",
            Cause::Preempted { off: Some(Off::Irqs), .. } => "preempted_irqs_off",
            Cause::Preempted { off: Some(Off::Preemption), .. } => "preempted_preemption_off",
            Cause::Preempted { .. } => "preempted",
            Cause::WaitInterrupt(_) => "wait_interrupt",
            Cause::IdleExit => "idle_exit",
            Cause::Switching => "switching",
            Cause::Blocked { fault: Some(_), .. } => "page_fault",
            Cause::Blocked { .. } => "blocked",
            Cause::Thread { off: Some(Off::Irqs), .. } => "thread_irqs_off",
            Cause::Thread { off: Some(Off::Preemption), .. } => "thread_preemption_off",
            Cause::Thread { .. } => "thread",
            Cause::Idle => "idle",
            Cause::Unknown => "unknown",
        }
    }

    /// The thread that the time went to, but for the asked one itself.
    pub fn tid(self) -> Option<i32> {
        match self {
            Cause::Preempted { by, .. } => by,
            Cause::Thread { tid, .. } => Some(tid),
            Cause::Blocked { waker: Some(Waker { context: Context::Thread(tid), .. }), .. } => Some(tid),
            _ => None,
        }
    }
}
