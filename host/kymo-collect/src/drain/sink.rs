// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the records of a session go: into stream files at once, or nowhere until a snapshot is asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use super::messages::MapRecords;
use crate::kernel::Queue;
use crate::priority;
use crate::running::Running;
use crate::watch::Watch;

/// Programs that have ended whose rings are kept.
const ENDED_MAX: usize = 8;
/// Bytes of maps of programs that are kept.
const MAPS_BYTES_MAX: usize = 8 << 20;
/// Marks that are kept.
const MARKS_MAX: usize = 1000;

/// Where records go.
pub(crate) enum Sink {
    /// Into stream files, at once.
    Stream,
    /// Rings are overwritten, and read for snapshots only.
    Flight(Box<Flight>),
}

/// What a flight recorder keeps beside the rings of the programs that run.
pub(crate) struct Flight {
    /// Triggers, until they have looked for the last time.
    pub watch: Option<Watch>,
    /// Records of the kernel that triggers ask for too.
    pub kernel_records: Option<Arc<Queue>>,
    /// Real-time priority while it looks for triggers and copies rings; 0: none.
    pub(super) priority: u8,
    /// Programs that have ended, whose last moments may be wanted.
    pub(super) ended: VecDeque<Running>,
    /// The newest marks, with their times.
    pub(super) marks: VecDeque<(u64, Vec<u8>)>,
    /// Maps of the programs, those that have ended too.
    pub(super) maps: VecDeque<MapRecords>,
    /// Memory of copies, for the next ones.
    pub(super) buffers: Vec<Vec<u8>>,
}

impl Flight {
    pub(crate) fn new(watch: Option<Watch>, kernel_records: Option<Arc<Queue>>, priority: u8) -> Flight {
        let (ended, marks, maps) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Flight { watch, kernel_records, priority, ended, marks, maps, buffers: Vec::new() }
    }

    pub(super) fn keep_mark(&mut self, time: u64, bytes: &[u8]) {
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((time, bytes.to_vec()));
    }

    pub(super) fn keep_maps(&mut self, records: MapRecords) {
        let kept = |maps: &VecDeque<MapRecords>| maps.iter().map(|maps| maps.bytes.len()).sum::<usize>();
        while !self.maps.is_empty() && kept(&self.maps) + records.bytes.len() > MAPS_BYTES_MAX {
            self.maps.pop_front();
        }
        self.maps.push_back(records);
    }

    /// Keeps the rings of a program that has ended. Returns those that are kept no longer.
    pub(super) fn keep_ended(&mut self, running: Running) -> Option<Running> {
        self.ended.push_back(running);
        if self.ended.len() > ENDED_MAX { self.ended.pop_front() } else { None }
    }

    /// With the load that makes a moment worth keeping, a thread among equals comes too late for it.
    pub(super) fn take_priority(&self, is_urgent: bool) {
        match is_urgent {
            true => priority::raise(self.priority),
            false => priority::lower_from(self.priority),
        }
    }
}

impl Sink {
    /// The flight recorder, where it is one.
    pub(super) fn flight(&mut self) -> Option<&mut Flight> {
        match self {
            Sink::Stream => None,
            Sink::Flight(flight) => Some(flight),
        }
    }

    /// Whether triggers look at every record.
    pub(super) fn has_triggers(&self) -> bool {
        matches!(self, Sink::Flight(flight) if flight.watch.is_some())
    }

    /// Whether the kernel's records come, too.
    pub(super) fn has_kernel_records(&self) -> bool {
        matches!(self, Sink::Flight(flight) if flight.kernel_records.is_some())
    }
}
