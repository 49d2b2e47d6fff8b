// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a packet: CTF's packet header and packet context [spec/trace.md 2].

use super::class::StreamKind;

/// First word of every packet, in CTF 1.8 and in CTF 2.
pub const PACKET_MAGIC: u32 = 0xC1FC_1FC1;

/// Whose rings a packet's records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Process, as it sees itself.
    pub vpid: u32,
    /// Lane of the process's ring memory.
    pub lane: u32,
    /// Name of the program: UTF-8, NUL padded.
    pub procname: [u8; 16],
}

/// The head of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// The trace.
    pub uuid: [u8; 16],
    /// The stream file, counted within the stream class.
    pub stream_instance: u64,
    /// Full clock value of the first record.
    pub begin: u64,
    /// Full clock value, at least that of the last record.
    pub end: u64,
    /// Bytes of records, without this head.
    pub content_bytes: u64,
    /// Packets before this one in the file.
    pub seq: u64,
    /// Records lost up to `end`, cumulative over the file.
    pub discarded: u64,
    /// CPU of the lane; `u32::MAX` where not known.
    pub cpu: u32,
    /// The program: `Some` in streams of [`StreamKind::User`], `None` in those of the kernel.
    pub program: Option<Program>,
}

impl PacketHead {
    /// Bytes of a head in a stream of programs; the records follow.
    pub const USER_BYTES: usize = 108;

    /// The same in a stream of compact records.
    pub const COMPACT_BYTES: usize = 112;

    /// Bytes of a head in a stream of the kernel.
    pub const KERNEL_BYTES: usize = 84;

    /// Byte offset of `timestamp_end` in a packet, for lowering it afterwards [spec/trace.md 3].
    pub const END_OFFSET: usize = 40;

    /// What [`Self::encode`] made of a head in a stream of programs.
    pub fn decode_user(bytes: &[u8; Self::USER_BYTES]) -> PacketHead {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        PacketHead {
            uuid: std::array::from_fn(|i| bytes[4 + i]),
            stream_instance: word(24),
            begin: word(32),
            end: word(40),
            content_bytes: (word(48) / 8).saturating_sub(Self::USER_BYTES as u64),
            seq: word(64),
            discarded: word(72),
            cpu: half(80),
            program: Some(Program { vpid: half(84), lane: half(88), procname: std::array::from_fn(|i| bytes[92 + i]) }),
        }
    }

    /// Bytes of this head.
    pub fn bytes(&self) -> usize {
        if self.program.is_some() { Self::USER_BYTES } else { Self::KERNEL_BYTES }
    }

    /// The bytes that begin the packet.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_of(self.bytes())
    }

    /// The same for compact records of a program; the first of them is of the thread `vtid`, unless it says otherwise.
    pub fn encode_compact(&self, vtid: u32) -> Vec<u8> {
        let mut out = self.encode_of(Self::COMPACT_BYTES);
        out.extend_from_slice(&vtid.to_le_bytes());
        out
    }

    fn encode_of(&self, head_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(head_bytes);
        let kind = if self.program.is_some() { StreamKind::User } else { StreamKind::Kernel };
        let bits = self.content_bytes.saturating_add(head_bytes as u64).saturating_mul(8);
        out.extend_from_slice(&PACKET_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&kind.id().to_le_bytes());
        out.extend_from_slice(&self.stream_instance.to_le_bytes());
        for word in [self.begin, self.end, bits, bits, self.seq, self.discarded] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.cpu.to_le_bytes());
        if let Some(program) = &self.program {
            out.extend_from_slice(&program.vpid.to_le_bytes());
            out.extend_from_slice(&program.lane.to_le_bytes());
            out.extend_from_slice(&program.procname);
        }
        out
    }
}
