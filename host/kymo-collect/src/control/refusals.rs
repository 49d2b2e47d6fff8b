// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were refused. Their sockets stay, so they would be found, visited and refused again: each is refused
//! once, unless there may be memory for it now, and listed once.

use std::collections::BTreeMap;

use kymo_abi::wire::ByeReason;

use super::discover::Visit;
use super::state::Control;
use crate::channel::Channel;
use crate::peer::Peer;

/// Programs that are kept in mind.
const REFUSED_MAX: usize = 10_000;

/// A program: its user, by the kernel's word; its process id and the nonce of its socket, by its own. What it says of
/// itself can thus be wrong for programs of its own user only.
/// And the channel.
type Identity = (u32, u32, u32, usize);

/// What decides whether there is memory for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Situation {
    /// Ring memory in use.
    pub in_use: u64,
    /// Size of new rings.
    pub ring_bytes: u32,
}

#[derive(Debug)]
struct Refusal {
    /// Its process, by the kernel's word, and its place in the list of processes.
    pid: u32,
    process: usize,
    /// For want of memory, in this situation.
    memory: Option<Situation>,
}

/// Programs that were refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    programs: BTreeMap<Identity, Refusal>,
}

impl Refusals {
    /// The place of a program that was refused before in the list of processes.
    pub(super) fn place_of(&self, peer: &Peer) -> Option<usize> {
        let refusal = self.programs.get(&identity(peer)?)?;
        (refusal.pid == peer.id.pid).then_some(refusal.process)
    }
}

/// None of a program without a socket of its own.
fn identity(peer: &Peer) -> Option<Identity> {
    let hello = peer.hello.as_ref()?;
    (hello.nonce != 0).then_some((peer.id.uid, hello.pid, hello.nonce, peer.channel.index()))
}

impl Control {
    /// Whether a program that was found would be refused once more.
    pub(super) fn is_still_refused(&mut self, visit: &Visit, channel: Channel) -> bool {
        let ((pid, nonce), uid) = (visit.identity(), self.outside.owner(visit.dir()));
        let refusal = self.refusals.programs.get(&(uid, pid, nonce, channel.index()));
        let Some(memory) = refusal.map(|refusal| refusal.memory) else { return false };
        memory.is_none_or(|then| {
            let now = self.situation();
            now.in_use >= then.in_use && now.ring_bytes == then.ring_bytes
        })
    }

    fn situation(&mut self) -> Situation {
        self.measure();
        Situation { in_use: self.memory_in_use(), ring_bytes: self.config.ring_bytes }
    }

    /// Keeps in mind that a program was refused.
    pub(super) fn keep_refusal(&mut self, peer: &Peer, reason: ByeReason) {
        let Some(identity) = identity(peer) else { return };
        let is_kept = !matches!(reason, ByeReason::End | ByeReason::Scope);
        if is_kept && self.refusals.programs.len() < REFUSED_MAX {
            let memory = (reason == ByeReason::Memory)
                .then_some(Situation { in_use: self.memory_in_use(), ring_bytes: self.config.ring_bytes });
            self.refusals.programs.insert(identity, Refusal { pid: peer.id.pid, process: peer.process, memory });
        }
    }
}
