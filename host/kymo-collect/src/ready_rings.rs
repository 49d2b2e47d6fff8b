// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rings of a program are ready: their pages are there.

use std::sync::{Arc, Weak};

use rustix::thread::CpuSet;

use crate::memory::Memory;

/// Rings of one program: which pages are there, by its word or ours.
pub(crate) struct ReadyRings {
    pub memory: Weak<Memory>,
    pub serial: u64,
    pub ring_bytes: u64,
    /// By lane.
    pub asked: Vec<bool>,
}

impl ReadyRings {
    /// The state at ATTACH: the program makes those of the CPUs ready that it may run on.
    pub(crate) fn new(memory: &Arc<Memory>, allowed: Option<CpuSet>) -> ReadyRings {
        let lanes = memory.layout().lane_count as usize;
        let asked = (0..lanes).map(|lane| allowed.is_none_or(|set| set.is_set(lane))).collect();
        let ring_bytes = memory.layout().ring_bytes.into();
        ReadyRings { memory: Arc::downgrade(memory), serial: memory.serial(), ring_bytes, asked }
    }

    /// Whether a lane has not been asked for yet. The last lane is the spill lane: it costs memory only when it is
    /// used.
    pub(crate) fn lacks(&self, lane: u32) -> bool {
        self.asked.get(lane as usize).is_some_and(|asked| !asked) && (lane as usize) + 1 < self.asked.len()
    }
}
