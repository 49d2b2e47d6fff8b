//! Writing: the metadata of a trace as text, and the head of a packet as bytes [spec/trace.md 2, 4, 5].
//!
//! Nothing here opens a file or looks at a record: records go into packets as they lay in the ring.

mod ctf18;
mod ctf2;
mod plan;

pub use ctf2::metadata_ctf2;
pub use ctf18::metadata_ctf18;

/// First word of every packet, in CTF 1.8 and in CTF 2.
pub const PACKET_MAGIC: u32 = 0xC1FC_1FC1;

/// The value of one entry of the environment [spec/trace.md 5].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// Text, UTF-8. NUL characters are left out when it is written.
    Text(String),
    /// A number.
    Int(i64),
}

/// The clock of a trace [spec/trace.md 3].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockMeta {
    /// `tsc` or `monotonic`; other names are made into identifiers.
    pub name: String,
    /// The boot id: equal on traces that share this clock.
    pub uuid: [u8; 16],
    /// For people.
    pub description: String,
    /// Cycles per second. 0 is written as 1, because no reader accepts 0.
    pub frequency_hz: u64,
    /// Whole seconds from 1970-01-01 to cycle 0.
    pub offset_s: i64,
    /// Cycles to be added to `offset_s`. May exceed a second: it is normalised when written.
    pub offset_cycles: u64,
    /// Uncertainty of a reading, cycles.
    pub precision_cycles: u64,
}

impl ClockMeta {
    /// `(frequency, seconds, cycles)` with a frequency of at least 1 and cycles below one second.
    fn normalised(&self) -> (u64, i64, u64) {
        let frequency = self.frequency_hz.max(1);
        let whole = i64::try_from(self.offset_cycles / frequency).unwrap_or(i64::MAX);
        (frequency, self.offset_s.saturating_add(whole), self.offset_cycles % frequency)
    }
}

/// An event type and the id that its records carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventClass {
    /// The low 16 bits of a record's header.
    pub id: u16,
    /// What the event looks like.
    pub desc: kymo_abi::desc::EventDesc,
}

/// All that the metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMeta {
    /// The trace, also in each packet.
    pub uuid: [u8; 16],
    /// The environment, in the order of writing. Keys are made into identifiers.
    pub env: Vec<(String, EnvValue)>,
    /// The one clock.
    pub clock: ClockMeta,
    /// Event types; ids are distinct.
    pub events: Vec<EventClass>,
    /// Enumerations that fields of `events` name. One that is missing makes its fields plain integers.
    pub enums: Vec<kymo_abi::desc::EnumDesc>,
}

/// The head of a packet: CTF's packet header and packet context [spec/trace.md 2].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// The trace.
    pub uuid: [u8; 16],
    /// The stream file, counted within the trace.
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
    /// Process, as it sees itself.
    pub vpid: u32,
    /// Lane of the process's ring memory.
    pub lane: u32,
    /// Name of the program: UTF-8, NUL padded.
    pub procname: [u8; 16],
}

impl PacketHead {
    /// Bytes of an encoded head; the records follow.
    pub const BYTES: usize = 108;

    /// Byte offset of `timestamp_end` in a packet, for lowering it afterwards [spec/trace.md 3].
    pub const END_OFFSET: usize = 40;

    /// The bytes that begin the packet.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0u8; Self::BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        let bits = self.content_bytes.saturating_add(Self::BYTES as u64).saturating_mul(8);
        put(&PACKET_MAGIC.to_le_bytes());
        put(&self.uuid);
        put(&0u32.to_le_bytes());
        put(&self.stream_instance.to_le_bytes());
        for word in [self.begin, self.end, bits, bits, self.seq, self.discarded] {
            put(&word.to_le_bytes());
        }
        for word in [self.cpu, self.vpid, self.lane] {
            put(&word.to_le_bytes());
        }
        put(&self.procname);
        bytes
    }
}
