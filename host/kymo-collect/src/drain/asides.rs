// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that no ring has: marks, and the maps of programs. Each is a packet of its own: they are rare.

use super::messages::MapRecords;
use crate::stream::{Class, Packet, Stream, Streams};

impl MapRecords {
    pub(super) fn write(&self, streams: &mut Streams, slot: &mut Option<Stream>, now: u64) {
        let pieces = [piece_of(&self.bytes), piece_of(&[])];
        let packet = Packet { begin: self.begin, end: self.end, lost: 0, program: None, thread: None, pieces };
        append(streams, slot, Class::Maps, &packet, now);
    }
}

/// A mark, as it is written.
pub(super) struct MarkRecord<'a> {
    pub time: u64,
    /// Marks in front of it that were lost.
    pub lost: u64,
    /// Empty where it tells of lost ones only.
    pub bytes: &'a [u8],
}

impl MarkRecord<'_> {
    /// Writes it. Whether that went well.
    pub(super) fn write(&self, streams: &mut Streams, slot: &mut Option<Stream>, now: u64) -> bool {
        let pieces = [piece_of(self.bytes), piece_of(&[])];
        let packet = Packet { begin: self.time, end: self.time, lost: self.lost, program: None, thread: None, pieces };
        append(streams, slot, Class::Marks, &packet, now)
    }
}

fn piece_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn append(streams: &mut Streams, slot: &mut Option<Stream>, class: Class, packet: &Packet, now: u64) -> bool {
    let appended = streams.append(slot, class, packet, now);
    if let Err(error) = &appended {
        tracing::warn!(?error, "a mark, or the maps of a program, were not written");
    }
    appended.is_ok()
}
