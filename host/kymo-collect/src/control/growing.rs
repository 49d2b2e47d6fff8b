// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of portable programs follows the threads that exist [spec/session.md 6]: a lane takes memory when a thread
//! claims it.
//!
//! What is in use is asked of the kernel. Each program is told how many lanes it may claim; what claims more is cut
//! off.

use std::time::Instant;

use kymo_abi::wire::ByeReason;

use super::state::Control;
use crate::drain::ToDrain;

impl Control {
    /// Ring memory that is in use.
    pub(super) fn memory_in_use(&self) -> u64 {
        self.memory_used.saturating_add(self.growing.bytes)
    }

    /// Finds out how much memory the portable programs use, and tells them how much more they may.
    pub(super) fn measure(&mut self) {
        let released =
            std::mem::take(&mut *self.wiring.counters.released.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        self.memory_used = self.memory_used.saturating_sub(released);
        let now = self.now();
        let beyond = self.growing.look(self.memory_used, self.config.memory_bytes_max, now);
        self.memory_used_max = self.memory_used_max.max(self.memory_in_use());
        for serial in beyond {
            self.cut_off(serial);
        }
    }

    /// The same when it is time.
    pub(super) fn measure_if_due(&mut self, now: Instant) {
        if self.growing.next_look().is_some_and(|at| at <= now) {
            self.measure();
        }
    }

    /// A program takes memory that it was not given: it is recorded no more, and its memory goes back to the system.
    fn cut_off(&mut self, serial: u64) {
        let token = self.peers.iter().find(|(_, peer)| peer.serial == Some(serial)).map(|(token, _)| *token);
        if let Some(mut peer) = token.and_then(|token| self.peers.remove(&token)) {
            let text = "it took more ring memory than the session (--memory) had given it".to_owned();
            self.refuse(&mut peer, ByeReason::Memory, text);
            self.put_back(token.unwrap_or_default(), peer, true);
        }
        let _ = self.wiring.commands.send(ToDrain::Cut { serial });
    }
}
