// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows show of threads beside their state [spec/view.md 4.6]: the CPU, and who was behind it.

use kymo_analyze::{Context, Doing, Ready, Waker};

pub use kymo_analyze::shown::*;

/// The CPU of what a thread does.
pub fn cpu(doing: &Doing) -> Option<u32> {
    match *doing {
        Doing::Running { cpu } => Some(cpu),
        Doing::Runnable { cpu, .. } => cpu,
        _ => None,
    }
}

/// Who made a thread able to run, or took its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A thread.
    Thread(i32),
    /// What a CPU was in the middle of, which was no thread.
    Other(Context),
}

/// Who it was; none where it is not of that state, or not known.
pub fn by(doing: &Doing) -> Option<By> {
    let Doing::Runnable { why, .. } = *doing else { return None };
    match why {
        Ready::Woken(waker) | Ready::New(waker) => by_waker(&waker),
        Ready::Preempted { by } => Some(By::Thread(by)),
        Ready::GaveWay { to } => Some(By::Thread(to)),
    }
}

/// Who woke it; none where that is not known.
pub fn by_waker(waker: &Waker) -> Option<By> {
    match waker.context {
        Context::Thread(tid) => Some(By::Thread(tid)),
        Context::Unknown => None,
        context => Some(By::Other(context)),
    }
}

impl By {
    /// The thread; 0 for the idle one.
    pub fn tid(self) -> Option<i32> {
        match self {
            By::Thread(tid) => Some(tid),
            By::Other(Context::Idle) => Some(0),
            By::Other(_) => None,
        }
    }

    /// Its name, where it is an interrupt or idleness.
    pub fn other(self) -> Option<String> {
        match self {
            By::Other(Context::Interrupt(interrupt)) => Some(interrupt.to_string()),
            By::Other(Context::Idle) => Some("idle".to_owned()),
            _ => None,
        }
    }
}
