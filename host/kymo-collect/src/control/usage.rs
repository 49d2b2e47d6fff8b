// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that programs make the collector use, by user: but for the texts of descriptions.

use std::collections::BTreeMap;

use crate::peer::Peer;

/// Connections of one user's programs.
pub(super) const CONNECTIONS_MAX: usize = 4096;

/// An executable's path is kept up to here.
pub(super) const EXE_BYTES_MAX: usize = 1024;

/// How much memory programs can make the collector use. The simulation of sessions has smaller limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of one user's programs.
    pub user_bytes: usize,
    /// Bytes of all users' programs.
    pub all_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { user_bytes: 64 << 20, all_bytes: 256 << 20 }
    }
}

/// What the programs of one user take, but for the texts.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    bytes: usize,
    connections: usize,
}

/// What the programs take, by user.
#[derive(Debug, Default)]
pub(super) struct Bounds(BTreeMap<u32, Usage>);

impl Bounds {
    /// Whether one more of this user is taken.
    pub(super) fn admits(&self, uid: u32) -> bool {
        self.0.get(&uid).is_none_or(|usage| usage.connections < CONNECTIONS_MAX)
    }

    pub(super) fn connected(&mut self, peer: &mut Peer) {
        let usage = self.0.entry(peer.id.uid).or_default();
        usage.connections += 1;
        peer.charged = peer.bytes();
        usage.bytes += peer.charged;
    }

    /// The program takes more or less than before.
    pub(super) fn update(&mut self, peer: &mut Peer) {
        let Some(usage) = self.0.get_mut(&peer.id.uid) else { return };
        let now = peer.bytes();
        usage.bytes = usage.bytes + now - peer.charged;
        peer.charged = now;
    }

    pub(super) fn gone(&mut self, peer: &Peer) {
        let Some(usage) = self.0.get_mut(&peer.id.uid) else { return };
        usage.bytes -= peer.charged;
        usage.connections -= 1;
        if usage.connections == 0 {
            self.0.remove(&peer.id.uid);
        }
    }

    /// Bytes of a user's programs.
    pub(super) fn bytes_of(&self, uid: u32) -> usize {
        self.0.get(&uid).map_or(0, |usage| usage.bytes)
    }

    /// Users that have programs.
    pub(super) fn users(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }
}
