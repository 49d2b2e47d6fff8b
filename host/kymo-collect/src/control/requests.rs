// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the session's owner asks of the control thread while it runs, and what it is answered.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use kymo_ctf::write::EventClass;
use kymo_ftrace::Naming;
use serde::Serialize;

use crate::Error;
use crate::chunks::RotateJob;
use crate::unknown::Unknown;

/// A request of the owner.
#[derive(Debug)]
pub(crate) enum ToControl {
    /// Switch events on or off.
    Select {
        patterns: Vec<String>,
        on: bool,
        /// What it came to, or why nothing was changed.
        reply: Sender<Result<Changed, String>>,
    },
    /// Events of the kernel that may be recorded from now on; `naming` where there were none before.
    KernelEvents {
        classes: Vec<EventClass>,
        naming: Option<Naming>,
        /// When the metadata has them: directory and uuid of the trace.
        reply: Sender<Result<(PathBuf, [u8; 16]), Error>>,
    },
    /// Ring size of programs that come; with a reply, of those that run too.
    RingBytes(u32, Option<Sender<Offered>>),
    /// What there is to see.
    View(Sender<View>),
    /// The trace goes on in another directory. The answer says why it cannot, or comes when it has.
    Rotate {
        job: RotateJob,
        /// When the drain thread has gone on, too.
        reply: Sender<Result<(), Error>>,
    },
}

/// What switching events on or off came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Events of the running programs that match, `provider:name`; at most 1000.
    pub events: Vec<String>,
    /// Programs that were told to switch something.
    pub programs: u64,
    /// Events of the running programs, of which none matched: for a near miss.
    #[serde(skip)]
    pub known: Vec<String>,
}

/// A program of a running session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramView {
    /// Process id; 0 where it belongs to a pid namespace that the collector does not see.
    pub pid: u32,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// User.
    pub uid: u32,
    /// Name of the process.
    pub comm: String,
    /// Executable.
    pub exe: String,
    /// How it writes its rings.
    pub ring: &'static str,
    /// Bytes of each of its rings; 0 where it has none.
    pub ring_bytes: u32,
    /// Its events.
    pub events: usize,
    /// Those that are switched on.
    pub events_on: usize,
    /// Events that it records without their filter, with the reason; at most 20.
    pub unfiltered: Vec<(String, String)>,
    /// Identity of its memory, by which the drain thread knows it.
    #[serde(skip)]
    pub serial: Option<u64>,
}

/// What the control thread sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// Programs that are connected; at most 1000.
    pub programs: Vec<ProgramView>,
    /// How many they are.
    pub program_count: usize,
    /// Programs that were found and are not attached yet.
    pub arriving: usize,
    /// Programs and records that cannot be counted; at most 100 [spec/session.md 15].
    pub unknown: Vec<Unknown>,
    /// How many they are.
    pub unknown_count: u64,
    /// Programs that were offered other rings and have not answered yet, and how often one refused.
    pub offers_open: usize,
    /// See `offers_open`.
    pub offers_refused: u64,
    /// Ring size of programs that come.
    pub ring_bytes: u32,
    /// Ring memory of all programs, and its bound.
    pub memory_bytes: u64,
    /// See `memory_bytes`.
    pub memory_bytes_max: u64,
    /// What was switched on and off since the start, in order: `+PATTERN`, `-PATTERN`.
    pub changes: Vec<String>,
}

/// What programs became of when other rings were wanted for all that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offered {
    /// They were told, or will be once they have their first rings.
    pub told: u64,
    /// Their rings have that size, or the largest that `--memory` leaves.
    pub same: u64,
    /// They hear nothing any more: KYMO_NO_THREAD=1.
    pub deaf: u64,
    /// There is no memory for two sets of rings at a time.
    pub no_memory: u64,
}
