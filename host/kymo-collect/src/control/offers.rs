// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other rings for programs that run [spec/session.md 10, spec/ring.md 5.6].
//!
//! A program is offered a second memory. It answers when its writers are in that and nobody is inside of the first any
//! more, which is emptied then for the last time. Both count for `--memory` until then.

use kymo_abi::RingKind;

use super::requests::Offered;
use super::state::Control;
use super::state::Heard;
use crate::channel::Channel;
use crate::drain::ToDrain;
use crate::peer::{Offer, Peer};

impl Control {
    /// Offers rings of the present size to the programs that run; those of rare events stay.
    pub(super) fn offer_all(&mut self) -> Offered {
        let mut offered = Offered::default();
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            if peer.serial.is_some() && peer.channel == Channel::Main && !peer.leaving {
                *self.offer(&mut peer).of(&mut offered) += 1;
            }
            self.put_back(token, peer, true);
        }
        offered
    }

    fn offer(&mut self, peer: &mut Peer) -> Answer {
        let Some(hello) = &peer.hello else { return Answer::Same };
        // Without a socket of its own it has no helper thread.
        if hello.nonce == 0 {
            return Answer::Deaf;
        }
        if peer.serial.is_some_and(|serial| self.is_shared(serial)) {
            return Answer::Same;
        }
        let kind = RingKind::from_code(hello.kind).unwrap_or(RingKind::Portable);
        if !peer.is_mapped || peer.offer.is_some() {
            peer.offer_again = true;
            return Answer::Told;
        }
        peer.offer_again = false;
        let planned = self.plan_memory(peer).map(|(layout, _)| layout.ring_bytes);
        if peer.ring_bytes == self.wished_ring_bytes(kind, peer.channel) || planned == Some(peer.ring_bytes) {
            return Answer::Same;
        }
        match self.offer_memory(peer) {
            Ok((serial, layout)) => {
                peer.offer = Some(Offer { serial, ring_bytes: layout.ring_bytes });
                Answer::Told
            }
            Err(text) => {
                self.caveat(format!("process {} keeps its rings: {text}", peer.id.pid));
                Answer::NoMemory
            }
        }
    }

    /// The offer that was put off is made now.
    pub(super) fn offer_again(&mut self, peer: &mut Peer) {
        if peer.offer_again {
            self.offer(peer);
        }
    }

    /// A program's answer to its offer: one of the two memories is drained for the last time.
    pub(super) fn answered(&mut self, peer: &mut Peer, error: u32) -> Heard {
        let Some(offer) = peer.offer.take() else { return Ok(()) };
        let mut over = Some(offer.serial);
        if error == 0 {
            self.make_reachable_ready(peer);
            over = peer.serial.replace(offer.serial);
            peer.ring_bytes = offer.ring_bytes;
            if let Some(entry) = self.processes.get_mut(peer.process) {
                entry.ring_bytes = offer.ring_bytes;
            }
        } else {
            self.offers_refused += 1;
            let error = std::io::Error::from_raw_os_error(error as i32);
            self.caveat(format!("process {} keeps its rings: it could not take others: {error}", peer.id.pid));
        }
        if let Some(serial) = over {
            let _ = self.wiring.commands.send(ToDrain::End { serial });
        }
        self.offer_again(peer);
        Ok(())
    }

    /// Programs that have not answered their offer.
    pub(super) fn offers_open(&self) -> usize {
        self.peers.values().filter(|peer| peer.offer.is_some() || peer.offer_again).count()
    }
}

/// What became of one program.
enum Answer {
    Told,
    Same,
    Deaf,
    NoMemory,
}

impl Answer {
    fn of(self, offered: &mut Offered) -> &mut u64 {
        match self {
            Answer::Told => &mut offered.told,
            Answer::Same => &mut offered.same,
            Answer::Deaf => &mut offered.deaf,
            Answer::NoMemory => &mut offered.no_memory,
        }
    }
}
