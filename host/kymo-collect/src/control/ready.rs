// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings are made ready before records need their pages [spec/session.md 6]: a program touches those of the CPUs that
//! it may run on when it attaches. Here it is asked for the others: of CPUs that its threads could be moved to, if
//! `--memory` has room for them, and of every CPU on which a first record is seen, such as one that came online or was
//! added to its cpuset.

use std::sync::Arc;

use kymo_abi::RingKind;
use kymo_abi::wire::FromCollector;

use super::state::Control;
use crate::channel::Channel;
use crate::memory::Memory;
use crate::peer::Peer;
use crate::ready_rings::ReadyRings;

impl Control {
    /// Whether a program can be asked: it has lanes for CPUs, its own, and hears.
    pub(super) fn can_make_ready(&self, peer: &Peer) -> bool {
        let hello = peer.hello.as_ref();
        hello.is_some_and(|hello| hello.nonce != 0 && RingKind::from_code(hello.kind) == Some(RingKind::Rseq))
            && !self.shares(peer)
    }

    /// The program has its rings: asks for those of the CPUs that its threads could be moved to, as far as there is
    /// memory.
    pub(super) fn make_reachable_ready(&mut self, peer: &mut Peer) {
        let Some(ready) = &peer.ready else { return };
        let free = self.config.memory_bytes_max.saturating_sub(self.memory_in_use());
        let mut lanes = self.outside.reachable(peer.id.pid);
        lanes.retain(|&lane| ready.lacks(lane));
        // Rings of other programs that come go before these.
        lanes.truncate(usize::try_from(free / 2 / ready.ring_bytes).unwrap_or(usize::MAX));
        self.ask_for(peer, lanes);
    }

    /// Rings in which a first record was seen.
    pub(super) fn make_seen_ready(&mut self) {
        let seen =
            std::mem::take(&mut *self.wiring.counters.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for (serial, lane) in seen {
            let is_it =
                |peer: &Peer| peer.ready.as_ref().is_some_and(|ready| ready.serial == serial && ready.lacks(lane));
            let Some(token) = self.peers.iter().find(|(_, peer)| is_it(peer)).map(|(token, _)| *token) else {
                continue;
            };
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            self.ask_for(&mut peer, vec![lane]);
            self.put_back(token, peer, true);
        }
    }

    fn ask_for(&mut self, peer: &mut Peer, lanes: Vec<u32>) {
        let Some(ready) = peer.ready.as_mut().filter(|_| !lanes.is_empty()) else { return };
        for lane in &lanes {
            ready.asked[*lane as usize] = true;
        }
        let charge = lanes.len() as u64 * ready.ring_bytes;
        // Given back with the memory.
        if let Some(memory) = ready.memory.upgrade() {
            memory.charge_more(charge);
            self.memory_used += charge;
            self.memory_used_max = self.memory_used_max.max(self.memory_in_use());
        }
        peer.say(&FromCollector::Ready(lanes), None);
    }

    /// Keeps in mind which rings of a new memory are ready, where others can be asked for.
    pub(super) fn watch_ready(&self, peer: &mut Peer, memory: &Arc<Memory>) {
        let is_watched = self.can_make_ready(peer) && peer.channel == Channel::Main;
        peer.ready = is_watched.then(|| ReadyRings::new(memory, self.outside.affinity(peer.id.pid)));
    }
}
