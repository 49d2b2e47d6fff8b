//! Channels of a session: a flight recorder may have rings of their own for rare events, so that busy ones cannot push them out
//! [spec/flight.md 2]. To a program a channel is a session: it has a socket and memory of its own.

use kymo_abi::wire::Hello;
use rustix::fd::OwnedFd;

use super::Control;
use crate::pattern::Patterns;
use crate::peer::Peer;

/// Rings of rare events have no more than this.
const RARE_RING_BYTES: u32 = 256 << 10;

/// Which rings a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// All events, or all but rare ones.
    Main,
    /// Rare events: recorded, not overwritten.
    Rare,
}

impl Channel {
    /// Number of its socket among those of the session, and of its token in the loop.
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Bytes of a ring, where those of the session have `ring_bytes`.
    pub(super) fn ring_bytes(self, ring_bytes: u32) -> u32 {
        match self {
            Channel::Main => ring_bytes,
            Channel::Rare => ring_bytes.min(RARE_RING_BYTES),
        }
    }
}

/// Where programs come to for a channel.
pub(super) struct Door {
    pub channel: Channel,
    /// None once the session ends.
    pub listener: Option<OwnedFd>,
    /// The session's name to programs: unique.
    pub session_name: String,
}

impl Control {
    /// Whether this channel records the event `provider:name` now.
    pub(super) fn wants(&self, channel: Channel, name: &str) -> bool {
        let is_rare = self.config.rare.as_ref().is_some_and(|rare: &Patterns| rare.want(name));
        self.selection.want(name) && is_rare == (channel == Channel::Rare)
    }

    /// The same program's connection for the other channel.
    pub(super) fn sibling(&self, of: &Peer) -> Option<&Peer> {
        let hello = of.hello.as_ref()?;
        let is_it = |other: &Hello| (other.pid, other.nonce, &other.exe) == (hello.pid, hello.nonce, &hello.exe);
        let is_other = |peer: &&Peer| peer.channel != of.channel && peer.id.pid == of.id.pid && !peer.leaving;
        self.peers.values().filter(is_other).find(|peer| peer.hello.as_ref().is_some_and(is_it))
    }
}
