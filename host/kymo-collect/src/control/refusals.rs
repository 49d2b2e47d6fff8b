// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were refused. Their sockets stay, so they would be found, visited and refused again: each is refused
//! once, unless there may be memory for it now, and listed once.

use kymo_abi::wire::ByeReason;

use super::discover::Visit;
use super::refused_programs::{MemorySituation, ProgramIdentity, Refusal};
use super::state::Control;
use crate::channel::Channel;
use crate::peer::Peer;

impl Control {
    /// Whether a program that was found would be refused once more.
    pub(super) fn is_still_refused(&mut self, visit: &Visit, channel: Channel) -> bool {
        let ((pid, nonce), uid) = (visit.identity(), self.outside.owner(visit.dir()));
        let identity = ProgramIdentity { uid, pid, nonce, channel: channel.index() };
        let Some(memory) = self.refused.find(identity).map(|refusal| refusal.memory) else { return false };
        self.measure();
        let now = self.memory_situation();
        memory.is_none_or(|then| now.in_use >= then.in_use && now.ring_bytes == then.ring_bytes)
    }

    fn memory_situation(&self) -> MemorySituation {
        MemorySituation { in_use: self.memory_in_use(), ring_bytes: self.config.ring_bytes }
    }

    /// Keeps in mind that a program was refused.
    pub(super) fn keep_refusal(&mut self, peer: &Peer, reason: ByeReason) {
        let Some(identity) = ProgramIdentity::of(peer) else { return };
        if matches!(reason, ByeReason::End | ByeReason::Scope) {
            return;
        }
        let memory = (reason == ByeReason::Memory).then(|| self.memory_situation());
        self.refused.add(identity, Refusal { pid: peer.id.pid, process: peer.process, memory });
    }
}
