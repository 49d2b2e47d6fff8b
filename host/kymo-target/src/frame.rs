// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames among bytes [spec/target.md 3, 7]: found, and checked; what belongs to none is counted.

/// What a frame begins with; its type follows.
const SYNC: [u8; 3] = [0x4B, 0x59, 0xA5];
/// In front of the payload.
pub(crate) const HEAD_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
/// No payload is longer: a record's data have 16 KiB at most.
pub const PAYLOAD_BYTES_MAX: usize = 16384 + 1024;

/// What a frame tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Who sends, and how fast its clock runs.
    Head,
    /// Names of events.
    Names,
    /// Records.
    Events,
}

/// A frame whose checksum is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What its payload is.
    pub kind: FrameKind,
    /// Of the target's start.
    pub boot: u32,
    /// Frames before it since then.
    pub sequence: u32,
    /// Its checksum: two frames that differ have different ones, most of the time.
    pub crc: u32,
    /// What it tells.
    pub payload: Vec<u8>,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// What stands at a place.
enum FrameLook {
    Frame(Frame, usize),
    /// It may become one with more bytes.
    Short,
    Nothing,
}

fn look(bytes: &[u8]) -> FrameLook {
    let known = bytes.len().min(SYNC.len());
    if bytes[..known] != SYNC[..known] {
        return FrameLook::Nothing;
    }
    let Some(head) = bytes.get(..HEAD_BYTES) else { return FrameLook::Short };
    let (length, inverse) = (u16_at(head, 4), u16_at(head, 6));
    let kind = match head[3] {
        1 => FrameKind::Head,
        2 => FrameKind::Names,
        3 => FrameKind::Events,
        _ => return FrameLook::Nothing,
    };
    let payload = usize::from(length);
    if length != !inverse || payload > PAYLOAD_BYTES_MAX || payload % 4 != 0 {
        return FrameLook::Nothing;
    }
    let end = HEAD_BYTES + payload;
    let Some(whole) = bytes.get(..end + CRC_BYTES) else { return FrameLook::Short };
    let sum = u32_at(whole, end);
    if crc32fast::hash(&whole[..end]) != sum {
        return FrameLook::Nothing;
    }
    let (boot, sequence) = (u32_at(head, 8), u32_at(head, 12));
    FrameLook::Frame(
        Frame { kind, boot, sequence, crc: sum, payload: whole[HEAD_BYTES..end].to_vec() },
        end + CRC_BYTES,
    )
}

/// Finds frames in bytes that come in pieces of any size. Keeps no more than a frame that is not whole yet.
#[derive(Debug, Default)]
pub struct Scanner {
    bytes: Vec<u8>,
    /// Bytes that belonged to no frame.
    pub stray_bytes: u64,
}

impl Scanner {
    /// Hands every frame that becomes whole with these bytes to `take`, in their order.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Frame)) {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.bytes.len() {
            match look(&self.bytes[at..]) {
                FrameLook::Frame(frame, length) => {
                    take(frame);
                    at += length;
                }
                FrameLook::Short => break,
                FrameLook::Nothing => {
                    self.stray_bytes += 1;
                    at += 1;
                }
            }
        }
        self.bytes.drain(..at);
    }

    /// Nothing more comes: what looked like a frame that is not whole may have others in it.
    pub fn finish(&mut self, mut take: impl FnMut(Frame)) {
        while !self.bytes.is_empty() {
            self.stray_bytes += 1;
            let rest = self.bytes.split_off(1);
            self.bytes.clear();
            self.push(&rest, &mut take);
        }
    }

    /// Bytes of a frame that is not whole yet.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len()
    }
}
