// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the control thread. What it does with it is in the files beside this one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use super::discover::Discovery;
use super::growing_memories::GrowingMemories;
use super::outside::Outside;
use super::program_maps::ProgramMaps;
use super::refused_programs::RefusedPrograms;
use super::requests::ToControl;
use super::selection::Selection;
use super::shared_rings::SharedRings;
use super::usage::{Bounds, Limits};
use crate::channel::Channel;
use crate::clock::{Calibration, Estimate};
use crate::drain::{Counters, ToDrain};
use crate::filters::Filters;
use crate::ids::Registry;
use crate::metadata::Metadata;
use crate::peer::Peer;
use crate::session::Config;
use crate::spares::Spares;
use crate::summary::{ProcessSummary, Unfiltered};
use crate::texts::Texts;
use crate::unknown::Unknowns;

/// Programs that the summary lists.
pub(super) const PROCESSES_MAX: usize = 10_000;

/// Remarks that the summary lists.
pub(super) const CAVEATS_MAX: usize = 50;

/// What the control thread leaves behind.
pub(crate) struct ControlEnd {
    pub estimate: Estimate,
    pub end: u64,
    pub processes: Vec<ProcessSummary>,
    pub process_count: u64,
    pub recorded_count: u64,
    pub rings_bytes_max: u64,
    pub seen: BTreeMap<String, bool>,
    pub unfiltered: Vec<Unfiltered>,
    pub unfiltered_count: u64,
    pub caveats: Vec<String>,
    pub rings_not_kept: u64,
    pub unknown: Unknowns,
}

/// What the control thread has in common with the drain thread and with the session's owner.
pub(crate) struct Wiring {
    /// To the drain thread.
    pub commands: Sender<ToDrain>,
    /// What the session's owner asks.
    pub requests: Receiver<ToControl>,
    /// The session is to end.
    pub stop: Arc<AtomicU64>,
    pub counters: Arc<Counters>,
    /// Programs that have ring memory.
    pub programs: Arc<AtomicU64>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has been done yet.
    New,
    /// Programs come and go.
    Running,
    /// Programs were told to go, and have until then.
    Leaving(Instant),
    /// All is over.
    Over,
}

/// The state of the control thread.
pub(crate) struct Control {
    pub(super) config: Config,
    /// Events that are wanted now.
    pub(super) selection: Selection,
    /// Which records of them.
    pub(super) filters: Filters,
    /// A filter fits events now that did not before.
    pub(super) refit: bool,
    pub(super) phase: Phase,
    pub(super) outside: Box<dyn Outside>,
    pub(super) wiring: Wiring,
    /// The channels, and the session's name to programs on each: unique.
    pub(super) channels: Vec<(Channel, String)>,
    /// Clock value of the newest mark.
    pub(super) newest_mark: u64,
    pub(super) maps: ProgramMaps,
    pub(super) listener_paused: Option<Instant>,
    pub(super) discovery: Discovery,
    pub(super) peers: BTreeMap<u64, Peer>,
    pub(super) next_token: u64,
    pub(super) texts: Texts,
    pub(super) bounds: Bounds,
    pub limits: Limits,
    /// Programs that were refused.
    pub(super) refused: RefusedPrograms,
    /// Programs of other users, whose rings are no files.
    pub(super) rings_not_kept: u64,
    pub(super) registry: Registry,
    /// Events that the metadata on disk has.
    pub(super) written_events: usize,
    pub(super) metadata: Metadata,
    pub(super) calibration: Calibration,
    pub(super) refined: usize,
    pub(super) next_refinement: Instant,
    /// A memory that is ready for the next program.
    pub spares: Option<Spares>,
    pub(super) memory_used: u64,
    pub(super) memory_used_max: u64,
    /// Memory of programs that claim lanes one by one; not in `memory_used`.
    pub(super) growing: GrowingMemories,
    pub(super) next_serial: u64,
    /// Rings that programs share.
    pub(super) shared: Vec<SharedRings>,
    pub(super) processes: Vec<ProcessSummary>,
    pub(super) process_count: u64,
    pub(super) recorded_count: u64,
    pub(super) caveats: Vec<String>,
    /// Programs and records that cannot be counted.
    pub(super) unknown: Unknowns,
    /// Events that are recorded without their filter, the first of them, and how many they are.
    pub(super) unfiltered: Vec<Unfiltered>,
    pub(super) unfiltered_count: u64,
    /// Offers of other rings that were refused.
    pub(super) offers_refused: u64,
    pub(super) ending: bool,
}

/// Whether a message kept to the protocol; the text says how not.
pub(super) type Heard = Result<(), String>;
