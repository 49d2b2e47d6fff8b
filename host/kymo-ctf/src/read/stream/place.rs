// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of places in a stream.

/// Where a packet begins in its file, and what reading knows there of the packets before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketMark {
    /// Byte in the file.
    pub offset: u64,
    /// Packets before it, damaged ones counted too.
    pub number: u64,
    /// Position of the stream class of the packet before.
    pub class: u32,
    /// The clock, as of the last record before.
    pub time: u64,
    /// Where the content of the last good packet ended, byte in the file.
    pub content_end: u64,
    /// What the last good packet said; `None` where there was none.
    pub previous: Option<PreviousPacket>,
}

/// What is compared with the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreviousPacket {
    /// Its end, cycles.
    pub end: Option<u64>,
    /// Its counter of lost records.
    pub discarded: Option<u64>,
    /// Its number, as it says.
    pub sequence: Option<u64>,
}

/// A place in front of an item of a stream: what a reader gives next when it begins there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketPlace {
    /// The packet.
    pub packet: PacketMark,
    /// In front of a record in that packet; `None`: the packet is not open yet.
    pub inside: Option<Inside>,
}

/// A place between the records of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Bits from the packet's first.
    pub bits: u64,
    /// The clock, as of the record before.
    pub time: u64,
    /// Damage of times that has been said of this packet: outside of it, backwards.
    pub said: [bool; 2],
    /// Of compact records: the thread of the record before.
    pub thread: Option<u32>,
}
