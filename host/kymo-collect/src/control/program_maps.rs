// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was told of the maps of programs so far.

use kymo_state::{Maps, Root};

/// What was told of programs so far.
#[derive(Debug)]
pub(super) struct ProgramMaps {
    pub maps: Maps,
    /// Clock of the newest record.
    pub newest: u64,
    /// The metadata has the class.
    pub is_described: bool,
}

impl ProgramMaps {
    pub(super) fn new() -> ProgramMaps {
        ProgramMaps { maps: Maps::new(Root::default()), newest: 0, is_described: false }
    }

    /// A program is gone.
    pub(super) fn forget(&mut self, pid: u32) {
        self.maps.forget(pid);
    }
}
