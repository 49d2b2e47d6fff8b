// SPDX-License-Identifier: MIT OR Apache-2.0
//! What frames say [spec/target.md 3]. Whatever does not add up is no content.

use kymo_abi::ring::TIME_MASK;
use kymo_abi::split_head;

use crate::frame::{u16_at, u32_at, u64_at};

const VERSION: u32 = 1;
const HEAD_BYTES: usize = 28;
const EVENTS_BYTES: usize = 16;
const RECORD_BYTES: usize = 20;
const AHEAD_MAX: u64 = 1 << 47;
const FINAL: u16 = 1;
const TRUNCATED: u16 = 1;

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamHead {
    pub(crate) hz: u32,
    pub(crate) stamp: u64,
    /// Records lost on the target, and sent, up to here.
    pub(crate) lost: u32,
    pub(crate) records: u32,
    pub(crate) is_final: bool,
    pub(crate) name: String,
}

impl StreamHead {
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let fixed = payload.get(..HEAD_BYTES)?;
        let hz = u32_at(fixed, 4);
        (u32_at(fixed, 0) == VERSION && hz > 0).then(|| Self {
            hz,
            stamp: u64_at(fixed, 8),
            lost: u32_at(fixed, 16),
            records: u32_at(fixed, 20),
            is_final: u16_at(fixed, 26) & FINAL != 0,
            name: text(&payload[HEAD_BYTES..]),
        })
    }

    /// Of a frame that cannot be read: the version it has.
    pub(crate) fn other_version(payload: &[u8]) -> Option<u32> {
        let version = payload.get(..4).map(|bytes| u32_at(bytes, 0))?;
        (version != VERSION).then_some(version)
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Ids and names, all of them or none.
pub(crate) fn decode_names(payload: &[u8]) -> Option<Vec<(u16, String)>> {
    let mut names = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let head = rest.get(..4)?;
        let (id, length) = (u16_at(head, 0), usize::from(u16_at(head, 2)));
        let name = rest.get(4..4 + length)?;
        names.push((id, text(name)));
        rest = rest.get(4 + length.next_multiple_of(4)..)?;
    }
    Some(names)
}

/// One record of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the event, on the target.
    pub id: u16,
    /// Its time in full, on the target's clock.
    pub stamp: u64,
    /// Who wrote it.
    pub thread: u32,
    /// Where it was called, the low 32 bits.
    pub address: u32,
    /// The data were longer.
    pub is_truncated: bool,
    /// Its data.
    pub data: Vec<u8>,
}

/// Records of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) lost: u32,
    pub(crate) first: u32,
    pub(crate) records: Vec<Record>,
}

impl Events {
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let fixed = payload.get(..EVENTS_BYTES)?;
        let mut stamp = u64_at(fixed, 0);
        let begins = payload.get(EVENTS_BYTES..EVENTS_BYTES + 8).map(|word| split_head(u64_at(word, 0)).1);
        if begins != Some(stamp & TIME_MASK) {
            return None;
        }
        let mut records = Vec::new();
        let mut rest = &payload[EVENTS_BYTES..];
        while !rest.is_empty() {
            let record = Self::record(rest, &mut stamp)?;
            rest = rest.get(RECORD_BYTES + record.data.len().next_multiple_of(4)..)?;
            records.push(record);
        }
        let events = Self { lost: u32_at(fixed, 8), first: u32_at(fixed, 12), records };
        (!events.records.is_empty()).then_some(events)
    }

    fn record(bytes: &[u8], stamp: &mut u64) -> Option<Record> {
        let head = bytes.get(..RECORD_BYTES)?;
        let (id, low) = split_head(u64_at(head, 0));
        let length = usize::from(u16_at(head, 18));
        // A clock that went back looks like one that is far ahead.
        let ahead = low.wrapping_sub(*stamp) & TIME_MASK;
        *stamp = stamp.checked_add(ahead).filter(|_| ahead <= AHEAD_MAX)?;
        let data = bytes.get(RECORD_BYTES..RECORD_BYTES + length)?.to_vec();
        (id != 0).then_some(Record {
            id,
            stamp: *stamp,
            thread: u32_at(head, 8),
            address: u32_at(head, 12),
            is_truncated: u16_at(head, 16) & TRUNCATED != 0,
            data,
        })
    }
}
