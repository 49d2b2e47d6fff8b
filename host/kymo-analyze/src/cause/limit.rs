// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that throttle a thread, and the control group whose limit it is: by word, and in words.

use std::fmt;

/// What may stop a thread that has used up its share of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Real-time throttling of the CPU, or of the thread's control group.
    RealTime,
    /// That of the control group: another real-time thread ran meanwhile.
    RealTimeGroup,
    /// Real-time throttling, or the server that gives normal threads their share (Linux 6.12 and later).
    FairServer,
    /// The budget of a thread of SCHED_DEADLINE.
    Deadline,
    /// The CPU quota of a control group.
    Quota,
}

/// The control group of a thread, and when it was found there. No record tells of a move, so it may be in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its path.
    pub path: String,
    /// When.
    pub found: GroupFound,
}

/// When the control group of a thread was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFound {
    /// In the state dump of a trace.
    StateDump,
    /// When a snapshot was taken, behind the sample that it is for.
    Snapshot,
}

impl GroupFound {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            GroupFound::StateDump => "state_dump",
            GroupFound::Snapshot => "snapshot",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = match self.found {
            GroupFound::StateDump => "state dump",
            GroupFound::Snapshot => "snapshot",
        };
        write!(to, "{} (at the time of the {when})", self.path)
    }
}

impl Limit {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Limit::RealTime => "real_time",
            Limit::RealTimeGroup => "real_time_group",
            Limit::FairServer => "fair_server",
            Limit::Deadline => "deadline",
            Limit::Quota => "quota",
        }
    }

    /// The limit in words, with the control group whose limit it is, where that is known.
    pub fn text(self, group: Option<&Group>) -> String {
        match self {
            Limit::RealTime => "real-time throttling".to_owned(),
            Limit::RealTimeGroup => format!("real-time throttling of {}", group_text(group)),
            Limit::FairServer => "the fair server or real-time throttling".to_owned(),
            Limit::Deadline => "its SCHED_DEADLINE budget".to_owned(),
            Limit::Quota => format!("the CPU quota of {}", group_text(group)),
        }
    }

    /// Whether it is the limit of a control group, as far as records tell.
    pub(super) fn is_of_group(self) -> bool {
        matches!(self, Limit::RealTimeGroup | Limit::Quota)
    }
}

/// `its control group /a`.
pub(crate) fn group_text(group: Option<&Group>) -> String {
    group.map_or("its control group".to_owned(), |group| format!("its control group {group}"))
}
