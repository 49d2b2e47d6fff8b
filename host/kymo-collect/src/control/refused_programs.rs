// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were refused, and what may change that.

use std::collections::BTreeMap;

use crate::channel::Channel;
use crate::peer::Peer;

/// Programs that are kept in mind.
const REFUSED_MAX: usize = 10_000;

/// A program on a channel. The user is the kernel's word, process id and nonce are the program's: what it says of
/// itself can be wrong for programs of its own user only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProgramIdentity {
    pub uid: u32,
    pub pid: u32,
    /// Of its socket.
    pub nonce: u32,
    /// Index of the channel.
    pub channel: usize,
}

impl ProgramIdentity {
    /// None of a program without a socket of its own.
    pub(super) fn of(peer: &Peer) -> Option<ProgramIdentity> {
        let hello = peer.hello.as_ref().filter(|hello| hello.nonce != 0)?;
        let (uid, channel) = (peer.id.uid, peer.channel.index());
        Some(ProgramIdentity { uid, pid: hello.pid, nonce: hello.nonce, channel })
    }
}

/// What decides whether there is memory for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemorySituation {
    /// Ring memory in use.
    pub in_use: u64,
    /// Size of new rings.
    pub ring_bytes: u32,
}

/// A refusal.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The process, by the kernel's word, and its place in the list of processes.
    pub pid: u32,
    pub process: usize,
    /// For want of memory, in this situation.
    pub memory: Option<MemorySituation>,
}

/// Programs that were refused.
#[derive(Debug, Default)]
pub(super) struct RefusedPrograms(BTreeMap<ProgramIdentity, Refusal>);

impl RefusedPrograms {
    pub(super) fn add(&mut self, identity: ProgramIdentity, refusal: Refusal) {
        if self.0.len() < REFUSED_MAX {
            self.0.insert(identity, refusal);
        }
    }

    pub(super) fn find(&self, identity: ProgramIdentity) -> Option<&Refusal> {
        self.0.get(&identity)
    }

    /// The place of a program that was refused before in the list of processes.
    pub(super) fn place_of(&self, peer: &Peer) -> Option<usize> {
        let own = ProgramIdentity::of(peer)?;
        // On either channel: it is one program.
        let on = |channel: Channel| self.find(ProgramIdentity { channel: channel.index(), ..own });
        let refusal = on(Channel::Main).or_else(|| on(Channel::Rare))?;
        (refusal.pid == peer.id.pid).then_some(refusal.process)
    }
}
