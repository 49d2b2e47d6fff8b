// SPDX-License-Identifier: MIT OR Apache-2.0
//! What chunks contain: the stream's attributes, names, records, and how the stream stood.

use std::collections::BTreeMap;

use kymo_abi::split_head;

use crate::chunk::{u16_at, u32_at, u64_at};

/// The version of logs that is known.
pub(crate) const VERSION: u32 = 1;
/// Stamps are CLOCK_MONOTONIC, in nanoseconds; else 1, raw TSC.
pub(crate) const CLOCK_MONOTONIC: u32 = 2;
/// A record without its data.
pub(crate) const RECORD_BYTES: usize = 32;

const HEAD_BYTES: usize = 224;
const TEXT_BYTES: usize = 64;
const END_BYTES: usize = 48;
/// Whether the stream or the log lost some at any time.
const EVER_STREAM: u32 = 1;
const EVER_LOG: u32 = 2;

/// What a stream or log does when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The oldest goes.
    Loop,
    /// The newest does not come in.
    UntilFull,
    /// The stream is written to its log before.
    Flush,
    /// The log grows.
    Append,
    /// A number that has no meaning.
    Unknown(i32),
}

impl From<i32> for Policy {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Loop,
            2 => Self::UntilFull,
            3 => Self::Flush,
            4 => Self::Append,
            other => Self::Unknown(other),
        }
    }
}

/// How a stream was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    pub(crate) version: u32,
    pub(crate) clock: u32,
    /// Identity of the log.
    pub uuid: [u8; 16],
    pub(crate) stamp: u64,
    pub(crate) real_ns: u64,
    /// Nanoseconds since 1970.
    pub created_ns: u64,
    /// Of the stream.
    pub stream_policy: Policy,
    /// Of the log.
    pub log_policy: Policy,
    /// Process that the stream was made for.
    pub target: u32,
    /// The stream's name.
    pub name: String,
    /// Who wrote the log.
    pub version_text: String,
    pub(crate) log_bytes: u64,
    /// Times 2^40, as known when the stream was made; 0 in older logs.
    pub(crate) ns_per_stamp: u64,
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl LogHead {
    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        let ns_per_stamp = content.get(HEAD_BYTES..HEAD_BYTES + 8).map_or(0, |bytes| u64_at(bytes, 0));
        let content = content.get(..HEAD_BYTES)?;
        Some(Self {
            version: u32_at(content, 0),
            clock: u32_at(content, 4),
            uuid: std::array::from_fn(|i| content[8 + i]),
            stamp: u64_at(content, 24),
            real_ns: u64_at(content, 32),
            created_ns: u64_at(content, 40),
            stream_policy: (u32_at(content, 72) as i32).into(),
            log_policy: (u32_at(content, 76) as i32).into(),
            target: u32_at(content, 92),
            name: text(&content[96..96 + TEXT_BYTES]),
            version_text: text(&content[96 + TEXT_BYTES..96 + 2 * TEXT_BYTES]),
            log_bytes: u64_at(content, 64),
            ns_per_stamp,
        })
    }
}

/// How a stream stood when its log was written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub(crate) stamp: u64,
    pub(crate) real_ns: u64,
    /// Events were lost in the stream.
    pub overrun: bool,
    /// Events were dropped from the log.
    pub log_overrun: bool,
    /// The stream was shut down.
    pub is_final: bool,
    /// Blocks that were written, and records in them; 0 in older logs.
    pub(crate) blocks: u64,
    pub(crate) records: u64,
}

impl End {
    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        // What older logs do not have.
        let more = content.get(END_BYTES..END_BYTES + 24).unwrap_or(&[0; 24]);
        let ever = u32_at(more, 16);
        let content = content.get(..END_BYTES)?;
        Some(Self {
            stamp: u64_at(content, 0),
            real_ns: u64_at(content, 8),
            overrun: u32_at(content, 24) != 0 || ever & EVER_STREAM != 0,
            log_overrun: u32_at(content, 36) != 0 || ever & EVER_LOG != 0,
            is_final: u32_at(content, 44) != 0,
            blocks: u64_at(more, 0),
            records: u64_at(more, 8),
        })
    }
}

/// Names by id, up to the first entry that is not whole.
pub(crate) fn decode_names(content: &[u8]) -> BTreeMap<u16, String> {
    let mut names = BTreeMap::new();
    let mut at = 0;
    while let Some(head) = content.get(at..at + 4) {
        let (id, length) = (u16_at(head, 0), usize::from(u16_at(head, 2)));
        let Some(name) = content.get(at + 4..at + 4 + length) else { break };
        names.insert(id, text(name));
        at += 4 + length;
    }
    names
}

/// A record in a block.
pub(crate) struct Record {
    pub(crate) id: u16,
    /// The low 48 bits.
    pub(crate) stamp: u64,
    /// With its data.
    pub(crate) bytes: usize,
}

/// The record that begins at `at`, if a whole one does.
pub(crate) fn record_at(content: &[u8], at: usize) -> Option<Record> {
    let rest = content.get(at..)?;
    let head = rest.get(..RECORD_BYTES)?;
    let bytes = RECORD_BYTES + usize::from(u16_at(head, 28));
    let (id, stamp) = split_head(u64_at(head, 0));
    (bytes <= rest.len()).then_some(Record { id, stamp, bytes })
}
