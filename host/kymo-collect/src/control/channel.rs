// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events a channel records, and a program's connection for the other channel.

use kymo_abi::wire::Hello;

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
        let hello = of.hello.as_ref()?;
        let is_it = |other: &Hello| (other.pid, other.nonce, &other.exe) == (hello.pid, hello.nonce, &hello.exe);
        let is_other = |peer: &&Peer| peer.channel != of.channel && peer.id.pid == of.id.pid && !peer.leaving;
        self.peers.values().filter(is_other).find(|peer| peer.hello.as_ref().is_some_and(is_it))
    }
}
