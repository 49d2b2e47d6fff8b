// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events a channel records, and a program's connection for the other channel.

use super::state::Control;
use crate::channel::Channel;
use crate::pattern::Patterns;
use crate::peer::Peer;

impl Control {
    /// Whether this channel records the event `provider:name` now.
    pub(super) fn wants(&self, channel: Channel, name: &str) -> bool {
        let is_rare = self.config.rare.as_ref().is_some_and(|rare: &Patterns| rare.want(name));
        self.selection.want(name) && is_rare == (channel == Channel::Rare)
    }

    /// The same program's connection for the other channel.
    pub(super) fn sibling(&self, of: &Peer) -> Option<&Peer> {
        self.connections(of).find(|peer| peer.channel != of.channel)
    }

    /// Whether the same program has its memory on another connection for this channel: we found each other both ways
    /// [spec/session.md 3].
    pub(super) fn is_served_elsewhere(&self, of: &Peer) -> bool {
        let is_named = of.hello.as_ref().is_some_and(|hello| hello.nonce != 0);
        is_named && self.connections(of).any(|peer| peer.channel == of.channel && peer.serial.is_some())
    }

    /// Other connections of the same program.
    fn connections<'s>(&'s self, of: &Peer) -> impl Iterator<Item = &'s Peer> {
        let is_it = |other: &Peer| match (&other.hello, &of.hello) {
            (Some(other), Some(hello)) => (other.pid, other.nonce, &other.exe) == (hello.pid, hello.nonce, &hello.exe),
            _ => false,
        };
        let others = self.peers.values().filter(|peer| !peer.leaving && !std::ptr::eq(*peer, of));
        others.filter(move |peer| peer.id.pid == of.id.pid && is_it(peer))
    }
}
