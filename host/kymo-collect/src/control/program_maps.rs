// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was told of the maps of programs so far.

use std::collections::HashMap;
use std::time::Instant;

use kymo_state::{Maps, Phase, Program, Root};

/// What was told of programs so far.
#[derive(Debug)]
pub(super) struct ProgramMaps {
    pub maps: Maps,
    /// Clock of the newest record.
    pub newest: u64,
    /// The metadata has the classes.
    pub is_described: bool,
    /// By process: the nonce of the program that was looked at last, and when. Another program in the same process has
    /// another nonce.
    looked: HashMap<u32, (u32, Instant)>,
    /// Programs without a connection, whose processes are about to end: a connection ends a moment before its process.
    pub going: Vec<Program>,
}

/// Of those, at most.
const GOING_MAX: usize = 1024;

impl ProgramMaps {
    pub(super) fn new() -> ProgramMaps {
        ProgramMaps {
            maps: Maps::new(Root::default()),
            newest: 0,
            is_described: false,
            looked: HashMap::new(),
            going: Vec::new(),
        }
    }

    /// Why a program is looked at now.
    pub(super) fn phase(&mut self, pid: u32, nonce: u32, now: Instant) -> Phase {
        self.going.retain(|program| program.pid != pid);
        match self.looked.insert(pid, (nonce, now)) {
            Some((known, before)) if known == nonce => {
                let since = now.saturating_duration_since(before);
                Phase::Look { since_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
            }
            _ => Phase::Begin,
        }
    }

    /// Whether a program was looked at.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.looked.contains_key(&pid)
    }

    /// A program has no connection any more; its process may go on.
    pub(super) fn goes(&mut self, program: Program) {
        if self.going.len() < GOING_MAX {
            self.going.push(program);
        }
    }

    /// Those of them whose processes have ended.
    pub(super) fn gone(&mut self) -> Vec<Program> {
        let known = std::mem::take(&mut self.going).into_iter();
        let (gone, going) = known.partition(|program| self.maps.is_over(program.pid));
        self.going = going;
        gone
    }

    /// A program is gone.
    pub(super) fn forget(&mut self, pid: u32) {
        self.maps.forget(pid);
        self.looked.remove(&pid);
    }
}
