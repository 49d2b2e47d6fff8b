// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the control thread and the drain thread tell each other.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use kymo_abi::desc::EventDesc;
use kymo_ctf::write::EventClass;
use serde::Serialize;

use crate::chunks::RotateJob;
use crate::memory::Memory;
use crate::snapshot::SnapshotJob;
use crate::watched::Watching;

/// Maps of one program, as records of the kernel's stream class, and when they were looked at.
#[derive(Clone, Debug)]
pub(crate) struct MapRecords {
    pub begin: u64,
    pub end: u64,
    pub bytes: Vec<u8>,
}

/// What the control thread says.
pub(crate) enum ToDrain {
    /// A program was given memory.
    Add(Box<Added>),
    /// The program with this memory has left it, or was left. It is closed once nobody can write into it any more.
    End {
        /// Of the memory.
        serial: u64,
    },
    /// The program with this memory is recorded no more, whoever writes into it.
    Cut {
        /// Of the memory.
        serial: u64,
    },
    /// Flight recorder: write what the rings hold.
    Snapshot(SnapshotJob),
    /// Go on in another directory; and tell whom when that is done.
    Rotate(RotateJob, Sender<()>),
    /// Triggers look once more, and no more after that.
    Settle,
    /// An event was given the next id.
    Event(Box<(EventClass, EventDesc)>),
    /// A mark: its clock value and its record.
    Mark(u64, Vec<u8>),
    /// Maps of a program: records of the state dump.
    Maps(MapRecords),
    /// How full are the rings?
    Look(Sender<Vec<RingUse>>),
    /// The session has ended.
    Finish,
}

/// A program and its memory.
pub(crate) struct Added {
    pub memory: Arc<Memory>,
    /// Index in the list of processes.
    pub process: usize,
    pub vpid: u32,
    pub procname: [u8; 16],
    /// Bytes that the memory counts for.
    pub charge: u64,
    /// The clock and CLOCK_MONOTONIC before the program had the memory: no record is older.
    pub made_cycles: u64,
    pub made_ns: u64,
}

/// How full a ring is: of those that have been used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingUse {
    /// Identity of the program's memory.
    #[serde(skip)]
    pub serial: u64,
    /// Lane of the memory.
    pub lane: u32,
    /// CPU of the lane, where it has one.
    pub cpu: Option<u32>,
    /// Bytes that wait to be taken; of a flight recorder, bytes that were written, up to a whole ring.
    pub bytes: u32,
    /// Size of the ring.
    pub ring_bytes: u32,
    /// Records that were taken; of a flight recorder, that were written.
    pub records: u64,
    /// Records that were lost.
    pub lost: u64,
}

/// What others may see while the session runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub lost: AtomicU64,
    /// 1 once the trace can no longer be written.
    pub stopped: AtomicU64,
    /// Bytes of memories that have been given back, and not been seen by the control thread yet.
    pub released: Mutex<u64>,
    /// Whether somebody looks at the trace while it is written.
    pub watching: Watching,
    /// Serials and lanes of rings in which a first record was seen, for the control thread.
    pub first: Mutex<Vec<(u64, u32)>>,
}
