// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a trace is cut into chunks, and what each of them came to.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;

use crate::written::Written;

/// When a trace goes on in a new directory by itself, and what stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rotation {
    /// When the newest chunk has so many bytes.
    pub bytes: Option<u64>,
    /// When it is so old.
    #[serde(serialize_with = "milliseconds", rename = "time_ms")]
    pub time: Option<Duration>,
    /// Closed chunks that are kept; all where nothing is said.
    pub keep: Option<u32>,
}

fn milliseconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_millis() as u64).serialize(to)
}

impl Rotation {
    /// Whether a trace is to be cut from its start.
    pub fn is_wanted(&self) -> bool {
        *self != Rotation::default()
    }
}

/// A chunk that is closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chunk {
    /// From 1.
    pub number: u32,
    /// A trace of its own.
    pub dir: PathBuf,
    /// Why it was closed.
    pub reason: String,
    /// Clock value when it was begun: its records are not older than the newest of the chunk before, but for those that
    /// came while the rings were looked at.
    pub start: u64,
    /// Clock value when it was closed.
    pub end: u64,
    /// Records of programs, of the kernel, and marks.
    pub records: u64,
    /// Bytes of its stream files.
    pub bytes: u64,
    /// Records that its packets say were lost.
    pub lost: u64,
    /// Stream files.
    pub streams: u64,
    /// Why it is not complete, if so.
    pub write_error: Option<String>,
    /// It was removed again.
    pub removed: bool,
}

/// A rotation, as the threads that write streams are asked for it.
#[derive(Clone, Debug)]
pub(crate) struct RotateJob {
    /// Directory of the new chunk, which exists.
    pub dir: PathBuf,
    /// Of the new chunk.
    pub uuid: [u8; 16],
    /// Where the answer goes.
    pub reply: Sender<RotatedPart>,
}

/// What one thread wrote into the chunk that it closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RotatedPart {
    pub written: Written,
    pub records: u64,
}

impl RotatedPart {
    pub(crate) fn add(&mut self, other: &RotatedPart) {
        self.records += other.records;
        self.written.add(&other.written);
    }
}
