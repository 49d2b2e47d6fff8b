// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of threads as rows show them, and as sums over time are kept [spec/view.md 4.6, spec/index.md 5.1]: what
//! a thread does, in twelve classes. Who changes them changes what indexes have: [`crate::STATE_VERSION`] rises.

use crate::{CallId, Doing, Ready, Vocabulary};

/// Names of the states, by number.
pub const STATES: [&str; 12] = [
    "unknown",
    "running",
    "preempted",
    "woken",
    "gave_way",
    "lock",
    "uninterruptible",
    "waiting",
    "sleeping",
    "stopped",
    "absent",
    "page_fault",
];

/// Not known.
pub const UNKNOWN: u8 = 0;
/// On a CPU.
pub const RUNNING: u8 = 1;
/// Another thread took its CPU.
pub const PREEMPTED: u8 = 2;
/// Woken, and waits for a CPU.
pub const WOKEN: u8 = 3;
/// It gave way.
pub const GAVE_WAY: u8 = 4;
/// Blocked in the futex call.
pub const LOCK: u8 = 5;
/// The kernel's state D.
pub const UNINTERRUPTIBLE: u8 = 6;
/// Blocked in anything else.
pub const WAITING: u8 = 7;
/// Sleeps for a time that it chose.
pub const SLEEPING: u8 = 8;
/// Stopped, by a signal or a debugger.
pub const STOPPED: u8 = 9;
/// Not made yet, or ended.
pub const ABSENT: u8 = 10;
/// Blocked in a page fault that a record tells of.
pub const PAGE_FAULT: u8 = 11;

/// The system calls that decide what a blocked thread waits for.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    futex: [Option<CallId>; 3],
    sleep: [Option<CallId>; 4],
}

impl Calls {
    /// Those of a trace.
    pub fn new(vocabulary: &Vocabulary) -> Calls {
        let id = |name: &str| vocabulary.call_id(name);
        Calls {
            futex: ["futex", "futex_wait", "futex_time64"].map(id),
            sleep: ["nanosleep", "clock_nanosleep", "nanosleep_time32", "clock_nanosleep_time32"].map(id),
        }
    }

    /// The state of a thread that does this.
    pub fn state(&self, doing: &Doing) -> u8 {
        match *doing {
            Doing::Unknown => UNKNOWN,
            Doing::Forked | Doing::Ended => ABSENT,
            Doing::Running { .. } => RUNNING,
            Doing::Runnable { why: Ready::Preempted { .. }, .. } => PREEMPTED,
            Doing::Runnable { why: Ready::GaveWay { .. }, .. } => GAVE_WAY,
            Doing::Runnable { .. } => WOKEN,
            Doing::Blocked { state: b'T' | b't', .. } => STOPPED,
            Doing::Blocked { state: b'I', .. } => SLEEPING,
            Doing::Blocked { in_fault: true, .. } => PAGE_FAULT,
            Doing::Blocked { call, .. } if call.is_some() && self.futex.contains(&call) => LOCK,
            Doing::Blocked { call, .. } if call.is_some() && self.sleep.contains(&call) => SLEEPING,
            Doing::Blocked { state: b'D', .. } => UNINTERRUPTIBLE,
            Doing::Blocked { .. } => WAITING,
        }
    }
}
