// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that no ring has: marks, and the maps of programs. Each is a packet of its own: they are rare.

use crate::stream::{Class, Packet, Stream, Streams};

/// Maps of one program, as records of the kernel's stream class, and when they were looked at.
#[derive(Clone, Debug)]
pub(crate) struct MapRecords {
    pub begin: u64,
    pub end: u64,
    pub bytes: Vec<u8>,
}

impl MapRecords {
    pub(super) fn write(&self, streams: &mut Streams, slot: &mut Option<Stream>, now: u64) {
        append(streams, slot, Class::Maps, (self.begin, self.end), 0, &self.bytes, now);
    }
}

/// Writes a mark, which tells of `lost` marks in front of it. Whether it was written.
pub(super) fn write_mark(
    streams: &mut Streams,
    slot: &mut Option<Stream>,
    (time, lost): (u64, u64),
    bytes: &[u8],
    now: u64,
) -> bool {
    append(streams, slot, Class::Marks, (time, time), lost, bytes, now)
}

fn append(
    streams: &mut Streams,
    slot: &mut Option<Stream>,
    class: Class,
    (begin, end): (u64, u64),
    lost: u64,
    bytes: &[u8],
    now: u64,
) -> bool {
    let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let packet = Packet { begin, end, lost, program: None, pieces: [piece, nothing] };
    let appended = streams.append(slot, class, &packet, now);
    if let Err(error) = &appended {
        tracing::warn!(?error, "a mark, or the maps of a program, were not written");
    }
    appended.is_ok()
}
