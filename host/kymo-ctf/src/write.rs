// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing: the metadata of a trace as text, and the head of a packet as bytes [spec/trace.md 2, 4, 5].
//!
//! Nothing here opens a file or looks at a record: records go into packets as they lie in memory.

mod class;
mod ctf18;
mod ctf2;
mod head;
mod names;

pub use class::{Base, EventClass, Field, FieldClass, Number, StreamClass, StreamKind};
pub(crate) use class::{FIRST_THREAD, THREAD_EVENT};
pub use ctf2::metadata_ctf2;
pub use ctf18::metadata_ctf18;
pub(crate) use ctf18::{quoted, type_name, types};
pub use head::{PACKET_MAGIC, PacketHead, Program};
pub(crate) use names::{identifier, uuid_text};

/// The value of one entry of the environment [spec/trace.md 5].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// Text, UTF-8. NUL characters are left out when it is written.
    Text(String),
    /// A number.
    Int(i64),
    /// A number above those.
    Unsigned(u64),
}

impl EnvValue {
    /// `None` where it has more than 64 bits.
    pub(crate) fn of_number(number: i128) -> Option<Self> {
        let small = i64::try_from(number).map(Self::Int);
        small.or_else(|_| u64::try_from(number).map(Self::Unsigned)).ok()
    }
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
    /// The offset is from 1970-01-01; otherwise from an origin that nobody knows.
    pub absolute: bool,
}

impl ClockMeta {
    /// `(frequency, seconds, cycles)` with a frequency of at least 1 and cycles below one second.
    fn normalised(&self) -> (u64, i64, u64) {
        let frequency = self.frequency_hz.max(1);
        let whole = i64::try_from(self.offset_cycles / frequency).unwrap_or(i64::MAX);
        (frequency, self.offset_s.saturating_add(whole), self.offset_cycles % frequency)
    }
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
    /// Stream classes; their kinds are distinct.
    pub streams: Vec<StreamClass>,
}
