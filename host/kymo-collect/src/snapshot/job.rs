// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot: what is asked for, what each thread that holds rings adds, and what it came to.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// Directory of the snapshot: absent or empty.
    pub dir: PathBuf,
    /// Why, for people.
    pub reason: String,
    /// Only this much of the past, and what the granularity of the rings adds: a 32nd of a program's ring, a page of
    /// the kernel's.
    pub before: Option<Duration>,
}

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotDone {
    /// Where it is.
    pub dir: PathBuf,
    /// Why it was taken.
    pub reason: String,
    /// Clock value when it was asked for.
    pub at: u64,
    /// Clock value when the last ring had been copied: nothing that comes later can push out what is in it.
    pub frozen: u64,
    /// Clock value of its oldest record.
    pub oldest: Option<u64>,
    /// Records of programs, of the kernel, and marks.
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Records that no snapshot has: overwritten since the one before, or since the start.
    pub overwritten: u64,
    /// Time that it took.
    #[serde(serialize_with = "seconds")]
    pub took: Duration,
    /// The record that asked for it, if one did.
    pub trigger: Option<TriggerSeen>,
    /// Why writing ended before all was written, if it did.
    pub write_error: Option<String>,
    /// What else is missing or doubtful, if so.
    pub caveats: Vec<String>,
}

fn seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// The record behind a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TriggerSeen {
    /// Clock value of the record.
    pub record: u64,
    /// Clock value when the collector saw it.
    pub seen: u64,
}

/// A snapshot, as the threads that hold rings are asked for it.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotJob {
    /// Directory of the snapshot, which exists.
    pub dir: PathBuf,
    /// Records before this clock value are not wanted.
    pub since: Option<u64>,
    /// Where the answer goes.
    pub reply: Sender<SnapshotPart>,
}

/// One thread's part of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotPart {
    pub records: u64,
    pub bytes: u64,
    /// Records that no snapshot has: overwritten since the one before.
    pub overwritten: u64,
    /// Clock value of the oldest record in it.
    pub oldest: Option<u64>,
    /// Files of the session's directory that belong to it, and how much of them: rare events.
    pub rare: Vec<(String, u64)>,
    /// Clock value when its rings had been copied.
    pub frozen: u64,
    /// Why it is not complete, if so.
    pub error: Option<String>,
}

impl SnapshotPart {
    /// Notes a record's time.
    pub(crate) fn reach_back_to(&mut self, time: u64) {
        self.oldest = Some(self.oldest.map_or(time, |oldest| oldest.min(time)));
    }
}
