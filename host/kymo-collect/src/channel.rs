// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of a session: a flight recorder may have rings of their own for rare events, so that busy ones cannot push
//! them out [spec/flight.md 2]. To a program a channel is a session: it has a socket and memory of its own.

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
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Bytes of a ring, where those of the session have `ring_bytes`.
    pub(crate) fn ring_bytes(self, ring_bytes: u32) -> u32 {
        match self {
            Channel::Main => ring_bytes,
            Channel::Rare => ring_bytes.min(RARE_RING_BYTES),
        }
    }
}
