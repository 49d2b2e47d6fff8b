// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs of POSIX Trace streams [spec/posix.md 7]: read, judged, and turned into a CTF 1.8 trace. The records stay as
//! they are: a block of a log becomes a packet. Has no clock, and opens nothing.
//!
//! ```
//! # fn show(bytes: &[u8]) -> Result<(), kymo_posix::Error> {
//! let log = kymo_posix::Log::read("motor.log", bytes)?;
//! println!("{} records", log.records());
//! for caveat in &log.caveats {
//!     eprintln!("{caveat}");
//! }
//! # Ok(())
//! # }
//! ```

mod chunk;
mod ctf;
mod head;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

pub use head::{End, LogHead, Policy};

use chunk::{Chunk, ChunkKind};
use kymo_abi::ring::TIME_MASK;

/// Why bytes are not a log that can be read: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes do not begin with a log's head.
    #[error(
        "{label}: not a log of POSIX Trace: it does not begin with a head that is whole; records cannot be dated without it"
    )]
    NoHead {
        /// What messages call the log.
        label: String,
    },
    /// The log comes from a machine of the other byte order.
    #[error("{label}: written in the other byte order; only logs of little-endian machines are read")]
    ByteOrder {
        /// What messages call the log.
        label: String,
    },
    /// The log is of a later version.
    #[error("{label}: a log of version {version}, and this program knows version {known}: use a newer one", known = head::VERSION)]
    Version {
        /// What messages call the log.
        label: String,
        /// Of the log.
        version: u32,
    },
}

/// What is wrong with a log that can be read all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// Bytes that belong to no whole chunk of this log.
    Damage {
        /// Byte offset.
        at: usize,
        /// How many.
        bytes: usize,
    },
    /// A block whose records make no sense from a place on.
    Block {
        /// Its number.
        sequence: u64,
        /// Records in front of that place.
        records: u32,
    },
    /// Blocks that are not there.
    Missing {
        /// The first one's number.
        first: u64,
        /// How many.
        count: u64,
        /// Records that were in them, where the log tells.
        records: Option<u64>,
    },
    /// The stream was not shut down: the log ends with its last flush.
    Unfinished,
    /// Nothing says how fast the clock ran: times are counted in cycles.
    NoFrequency,
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage { at, bytes } => write!(f, "byte {at}: {bytes} bytes belong to no whole chunk of the log"),
            Self::Block { sequence, records } => write!(f, "block {sequence}: cannot be read behind {records} records"),
            Self::Missing { first, count, records: Some(records) } => {
                write!(f, "{count} blocks with {records} records are missing from number {first} on")
            }
            Self::Missing { first, count, records: None } => {
                write!(
                    f,
                    "{count} blocks are missing from number {first} on; how many records were in them is not known"
                )
            }
            Self::Unfinished => {
                f.write_str("the stream was not shut down: what came after its last flush is not there")
            }
            Self::NoFrequency => f.write_str("the log does not say how fast its clock ran: times are only an order"),
        }
    }
}

/// Records of one flush or part of one, in the order of time.
#[derive(Clone, Debug)]
struct Block {
    sequence: u64,
    /// Stamp of the first record, in full; and of the last one.
    begin: u64,
    end: u64,
    records: u32,
    /// Records of the log before it; 0 in older logs.
    first: u64,
    /// Of the whole chunk.
    chunk_bytes: u64,
    /// Bytes of the log.
    content: Range<usize>,
}

/// A log in memory.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    /// How the stream was made.
    pub head: LogHead,
    /// How it stood at the end, or at the last flush.
    pub end: Option<End>,
    /// Names of events by id.
    pub names: BTreeMap<u16, String>,
    /// What is wrong with the log.
    pub caveats: Vec<Caveat>,
    bytes: &'a [u8],
    blocks: Vec<Block>,
}

/// Whether bytes begin like a log, of whatever byte order.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.starts_with(&chunk::MAGIC.to_le_bytes()) || bytes.starts_with(&chunk::MAGIC.to_be_bytes())
}

impl<'a> Log<'a> {
    /// Reads a log, which messages call `label`. What is damaged is left out, and said in `caveats`.
    pub fn read(label: &str, bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.starts_with(&chunk::MAGIC.to_be_bytes()) {
            return Err(Error::ByteOrder { label: label.to_owned() });
        }
        let no_head = || Error::NoHead { label: label.to_owned() };
        let first = Chunk::at(bytes, 0).filter(|chunk| chunk.kind == ChunkKind::Head).ok_or_else(no_head)?;
        let head = LogHead::decode(first.content(bytes)).ok_or_else(no_head)?;
        if head.version != head::VERSION {
            return Err(Error::Version { label: label.to_owned(), version: head.version });
        }
        let mut log = Self { head, end: None, names: BTreeMap::new(), caveats: Vec::new(), bytes, blocks: Vec::new() };
        log.read_chunks(first.log);
        // A block that was written again has more in it.
        log.blocks.sort_by_key(|block| (block.sequence, std::cmp::Reverse(block.records)));
        log.blocks.dedup_by_key(|block| block.sequence);
        log.judge();
        Ok(log)
    }

    /// Records in the log.
    pub fn records(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.records)).sum()
    }

    /// One walk over all bytes. Where no good chunk begins, the next one is looked for.
    fn read_chunks(&mut self, id: u64) {
        let (mut names, mut end) = (None, None);
        let mut damage: Option<usize> = None;
        let mut at = 0;
        while at + chunk::HEAD_BYTES <= self.bytes.len() {
            let Some(chunk) = Chunk::at(self.bytes, at).filter(|chunk| chunk.log == id) else {
                // Places in a file that nothing was written to are not damage.
                if self.bytes[at..at + 8] != [0; 8] {
                    damage.get_or_insert(at);
                }
                at += 8;
                continue;
            };
            self.note_damage(damage.take(), at);
            match chunk.kind {
                ChunkKind::Names if names.is_none_or(|(sequence, _)| chunk.sequence >= sequence) => {
                    names = Some((chunk.sequence, chunk));
                }
                ChunkKind::End if end.is_none_or(|(sequence, _)| chunk.sequence >= sequence) => {
                    end = Some((chunk.sequence, chunk));
                }
                ChunkKind::Events => self.add_block(&chunk),
                _ => {}
            }
            at += chunk.bytes;
        }
        let left = self.bytes.len();
        let rest = self.bytes[at.min(left)..].iter().any(|&byte| byte != 0).then_some(at);
        self.note_damage(damage.or(rest), left);
        if let Some((_, chunk)) = names {
            self.names = head::decode_names(chunk.content(self.bytes));
        }
        self.end = end.and_then(|(_, chunk)| End::decode(chunk.content(self.bytes)));
    }

    fn note_damage(&mut self, from: Option<usize>, to: usize) {
        if let Some(at) = from {
            self.caveats.push(Caveat::Damage { at, bytes: to - at });
        }
    }

    /// The records of a block, up to the first that makes no sense.
    fn add_block(&mut self, chunk: &Chunk) {
        let content = chunk.content(self.bytes);
        let (mut at, mut records, mut stamp) = (0, 0, chunk.stamp);
        while let Some(record) = head::record_at(content, at) {
            stamp = stamp.wrapping_add(record.stamp.wrapping_sub(stamp) & TIME_MASK);
            if record.id == 0 || stamp < chunk.stamp {
                break;
            }
            at += record.bytes;
            records += 1;
        }
        if at != content.len() {
            self.caveats.push(Caveat::Block { sequence: chunk.sequence, records });
        }
        if records > 0 {
            let begin = chunk.offset + chunk::HEAD_BYTES;
            let content = begin..begin + at;
            self.blocks.push(Block {
                sequence: chunk.sequence,
                begin: chunk.stamp,
                end: stamp,
                records,
                first: chunk.first,
                chunk_bytes: chunk.bytes as u64,
                content,
            });
        }
    }

    /// Whether blocks say which records of the log they have.
    fn is_numbered(&self) -> bool {
        self.end.is_some_and(|end| end.blocks > 0) || self.blocks.iter().any(|block| block.first > 0)
    }

    /// The number of the first block that there should be: a log that goes round has the last ones only.
    fn first_block(&self) -> u64 {
        let (Policy::Loop, Some(first), Some(last)) = (self.head.log_policy, self.blocks.first(), self.blocks.last())
        else {
            return 0;
        };
        let end = self.end.map_or(0, |end| end.blocks).max(last.sequence + 1);
        end.saturating_sub((self.head.log_bytes / first.chunk_bytes.max(1)).max(2))
    }

    /// Blocks that are missing in front of one, or with the number of blocks behind the last: first, count, records.
    fn missing_at(&self, index: usize) -> Option<(u64, u64, Option<u64>)> {
        let before = index.checked_sub(1).map(|index| &self.blocks[index]);
        let from = before.map_or_else(|| self.first_block(), |block| block.sequence + 1);
        let (to, records) = match self.blocks.get(index) {
            Some(block) => (block.sequence, block.first),
            None => self.end.map_or((0, 0), |end| (end.blocks, end.records)),
        };
        let count = to.checked_sub(from).filter(|&count| count > 0)?;
        // What a log that goes round has overwritten is not known to be more or less than these.
        let until = before.map_or((from == 0).then_some(0), |block| Some(block.first + u64::from(block.records)));
        let records = until.filter(|_| self.is_numbered()).and_then(|until| records.checked_sub(until));
        Some((from, count, records))
    }

    /// Records that are missing in front of a block, or behind the last; `None` where that is not known.
    fn lost_at(&self, index: usize) -> Option<u64> {
        self.missing_at(index).map_or(Some(0), |(_, _, records)| records)
    }

    /// What the log as a whole lacks.
    fn judge(&mut self) {
        let first = self.first_block();
        self.blocks.retain(|block| block.sequence >= first);
        let missing = (0..=self.blocks.len()).filter_map(|index| self.missing_at(index));
        let missing: Vec<_> =
            missing.map(|(first, count, records)| Caveat::Missing { first, count, records }).collect();
        self.caveats.extend(missing);
        if !self.end.is_some_and(|end| end.is_final) {
            self.caveats.push(Caveat::Unfinished);
        }
        if self.frequency().is_none() {
            self.caveats.push(Caveat::NoFrequency);
        }
    }

    /// Cycles of the clock in a second.
    fn frequency(&self) -> Option<u64> {
        if self.head.clock == head::CLOCK_MONOTONIC {
            return Some(1_000_000_000);
        }
        self.measured_frequency().or_else(|| {
            // What was known when the stream was made.
            let hertz = (1_000_000_000_u128 << 40).checked_div(u128::from(self.head.ns_per_stamp))?;
            u64::try_from(hertz).ok().filter(|&hertz| hertz > 1000)
        })
    }

    fn measured_frequency(&self) -> Option<u64> {
        let end = self.end?;
        let cycles = end.stamp.checked_sub(self.head.stamp)?;
        let ns = end.real_ns.checked_sub(self.head.real_ns).filter(|&ns| ns > 0)?;
        let hertz = u64::try_from(u128::from(cycles) * 1_000_000_000 / u128::from(ns)).ok()?;
        (hertz > 1000).then_some(hertz)
    }
}
