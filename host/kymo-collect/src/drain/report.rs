// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the drain thread leaves behind.

use crate::lane::Lane;
use crate::stream::Streams;
use crate::summary::{Damage, Loss, Lost};
use crate::unknown::Unknowns;

/// What a program's lanes came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    pub bytes: u64,
    pub lost: Lost,
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// Whether its writers wait for room, and records that did: the program's own word.
    pub may_wait: bool,
    pub waits: u64,
}

impl Totals {
    pub(super) fn add(&mut self, lane: &Lane) {
        self.records += lane.records;
        self.bytes += lane.bytes;
        self.lost.add(&lane.lost);
        self.first = [self.first, lane.first].into_iter().flatten().min();
        self.last = self.last.max(lane.last);
    }
}

/// The thread's result.
pub(crate) struct Report {
    /// Totals by index of the process.
    pub processes: Vec<(usize, Totals)>,
    pub losses: Vec<Loss>,
    pub losses_left_out: u64,
    pub damage: Vec<Damage>,
    /// What the rings do not tell.
    pub unknown: Unknowns,
    /// Marks written, and marks that could not be.
    pub marks: u64,
    pub marks_lost: u64,
    /// Triggers: records that were overwritten before they were looked at, and conditions that no event fits.
    pub unseen: u64,
    pub unfit: Vec<String>,
    pub streams: Streams,
    /// Clock value when the last ring had been emptied.
    pub end: u64,
}
