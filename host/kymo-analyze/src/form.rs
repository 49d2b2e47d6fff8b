// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a class of a trace can say: the kinds of events before their fields are found.

use crate::event::{CallId, Interrupt};

/// Fields that a plan looks up at most.
pub(crate) const FIELDS_MAX: usize = 7;

/// What a class says; fields in the order of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Switch,
    Waking,
    Wakeup,
    New,
    Migrate,
    Priority,
    Fork,
    Create,
    Rename,
    Exec,
    Exit,
    Free,
    IrqEnter,
    IrqLeave,
    Raise,
    SoftirqEnter,
    SoftirqLeave,
    VectorEnter(u8),
    VectorLeave(u8),
    HrtimerStart,
    HrtimerCancel,
    HrtimerEnter,
    HrtimerLeave,
    TimerEnter,
    TimerLeave,
    Call(CallId),
    Return(CallId),
    CallByNumber,
    ReturnByNumber,
    IrqsOff,
    IrqsOn,
    PreemptOff,
    PreemptOn,
    Idle,
    Frequency,
    BlockIssue,
    BlockComplete,
    NetQueue,
    NetXmit,
    Fault { user: bool },
    Signal,
    Noise(&'static str),
    Dumped,
}

impl Form {
    /// The interrupt that begins or ends, where the class alone tells it.
    pub(crate) fn vector(vector: u8) -> Interrupt {
        Interrupt::Vector(vector)
    }
}
