// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pieces that a log is made of, each with a checksum.

/// First word of every chunk: "KYMILOG1" in memory.
pub(crate) const MAGIC: u64 = 0x3147_4f4c_494d_594b;
/// Bytes of a chunk's head.
pub(crate) const HEAD_BYTES: usize = 64;
/// No chunk is longer.
const CHUNK_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    Head,
    Names,
    Events,
    End,
}

/// A chunk whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) kind: ChunkKind,
    /// Where it begins.
    pub(crate) offset: usize,
    /// With head and padding.
    pub(crate) bytes: usize,
    used: usize,
    pub(crate) sequence: u64,
    pub(crate) stamp: u64,
    pub(crate) log: u64,
    /// Records of the log before this one; 0 in older logs.
    pub(crate) first: u64,
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

impl Chunk {
    /// The chunk that begins at `offset`, if a whole one does.
    pub(crate) fn at(bytes: &[u8], offset: usize) -> Option<Self> {
        let rest = bytes.get(offset..)?;
        let head = rest.get(..HEAD_BYTES)?;
        if u64_at(head, 0) != MAGIC {
            return None;
        }
        let kind = match u32_at(head, 8) {
            1 => ChunkKind::Head,
            2 => ChunkKind::Names,
            3 => ChunkKind::Events,
            4 => ChunkKind::End,
            _ => return None,
        };
        let (length, used) = (u32_at(head, 12) as usize, u32_at(head, 16) as usize);
        if !(HEAD_BYTES..=CHUNK_BYTES_MAX).contains(&length) || length % 8 != 0 || used > length - HEAD_BYTES {
            return None;
        }
        let content = rest.get(..length)?.get(HEAD_BYTES..HEAD_BYTES + used)?;
        let mut crc = crc32fast::Hasher::new();
        [&head[..20], &[0; 4], &head[24..], content].iter().for_each(|piece| crc.update(piece));
        if crc.finalize() != u32_at(head, 20) {
            return None;
        }
        let (sequence, stamp, log) = (u64_at(head, 24), u64_at(head, 32), u64_at(head, 40));
        Some(Self { kind, offset, bytes: length, used, sequence, stamp, log, first: u64_at(head, 56) })
    }

    /// What is in it.
    pub(crate) fn content(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset + HEAD_BYTES..self.offset + HEAD_BYTES + self.used]
    }
}
