// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers [spec/flight.md 3]: what they wait for, what they do, and what they came to.

use std::time::Duration;

use kymo_filter::Filter;
use serde::Serialize;

use crate::snapshot::SnapshotDone;

/// What is done when a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A snapshot into a new directory below that of the session.
    Snapshot,
    /// The session ends.
    Stop,
    /// A mark with the reason.
    Mark,
    /// A command of the shell, with the reason in KYMO_REASON and the newest snapshot in KYMO_SNAPSHOT.
    Run(String),
}

/// What a session watches for, and what then.
#[derive(Clone, Debug)]
pub struct Triggers {
    /// Conditions, each with its text. `kymo_snapshot` of a program is one without being named.
    pub conditions: Vec<Filter>,
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// How much of the past a snapshot has; all where nothing is said.
    pub before: Option<Duration>,
    /// How long a snapshot waits.
    pub after: Duration,
    /// Times that the actions are done.
    pub limit: u64,
    /// Between two times.
    pub pause: Duration,
}

impl Default for Triggers {
    fn default() -> Triggers {
        Triggers {
            conditions: Vec::new(),
            actions: vec![Action::Snapshot],
            before: None,
            after: Duration::ZERO,
            limit: 10,
            pause: Duration::from_secs(1),
        }
    }
}

/// A trigger fired.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    /// What was seen.
    pub reason: String,
    /// Clock value of the record.
    pub record: u64,
    /// Clock value when it was seen.
    pub seen: u64,
}

/// What triggers came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Acted {
    /// Times that the actions were done.
    pub times: u64,
    /// Times that were left out: too soon after another one, or too many.
    pub held_back: u64,
    /// Snapshots that were taken.
    pub snapshots: Vec<SnapshotDone>,
    /// What went wrong.
    pub errors: Vec<String>,
}
