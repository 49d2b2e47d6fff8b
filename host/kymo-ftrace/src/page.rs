// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of one sub-buffer, as `per_cpu/cpuN/trace_pipe_raw` gives it [spec/kernel.md 4].
//!
//! A [`Page`] is a copy of a sub-buffer, or the [`Parts`] of one that is mapped.
//! Little endian only: who opens the buffer refuses others. Nothing in a page is trusted: what does not fit ends the
//! walk with an error, and the records in front of it stand. A walk allocates nothing and looks at each head once.

pub mod probe;
#[cfg(test)]
mod tests;

use crate::format::PageFormat;
use std::ops::ControlFlow;

/// One sub-buffer: its time stamp, what was missed in front of it, its records.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    time: u64,
    missed: Missed,
    data: &'a [u8],
    data_offset: usize,
}

/// A sub-buffer where the kernel wrote it: only the parts that the kernel does not write to any more, and copies of the
/// others [spec/kernel.md 4.1].
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The first bytes, the head among them.
    pub head: &'a [u8],
    /// The records that the kernel counts as read, from the first one of the sub-buffer on.
    pub data: &'a [u8],
    /// What stands behind the records: the number of missed events, where the head says that it does.
    pub behind: &'a [u8],
}

/// Events that were overwritten before anyone read them, in front of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Nothing was missed.
    None,
    /// So many events.
    Some(u64),
    /// At least one: the page had no room for the number. The `overrun` of `per_cpu/cpuN/stats` decides.
    Unknown,
}

/// One record, not yet decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// On the buffer's trace clock, in its ticks.
    pub time: u64,
    /// Begins with `common_type`. A multiple of 4 bytes: up to 3 behind the last field mean nothing.
    pub data: &'a [u8],
    /// Where the record's head stands, in bytes from the beginning of the page.
    pub offset: usize,
}

/// What in a page does not fit. Offsets count in bytes from the beginning of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Less than the head of a page.
    #[error("a page of {bytes} bytes is shorter than its head of {head_bytes}; read whole sub-buffers")]
    Short {
        /// Of the page.
        bytes: u32,
        /// Of the head.
        head_bytes: u32,
    },
    /// The page format has a commit word that is not of 4 or 8 bytes.
    #[error("a commit word of {0} bytes is unknown; the format of the pages must come from events/header_page")]
    CommitBytes(u16),
    /// The commit word holds bits that mean nothing.
    #[error("the commit word {0:#x} has unknown bits; skip the page and count its records as lost")]
    Commit(u64),
    /// The committed size is more than the page has.
    #[error("the page says that it holds {committed} bytes of records, and has room for {room}; skip it")]
    Size {
        /// As the commit word says.
        committed: u32,
        /// What follows the head of the page.
        room: u32,
    },
    /// Less is committed than was read.
    #[error("the page says that it holds {committed} bytes of records, and the kernel counts {read} as read; skip it")]
    Behind {
        /// As the commit word says.
        committed: u32,
        /// As the kernel's description of the ring says.
        read: u32,
    },
    /// Bytes at the end that are no head.
    #[error("byte {offset}: {bytes} bytes are left, too few for a record; skip to the next page")]
    Trailing {
        /// Where they begin.
        offset: u32,
        /// 1 to 3.
        bytes: u32,
    },
    /// A head whose second word is behind the committed data.
    #[error("byte {offset}: a head of type {type_len} without its second word; skip to the next page")]
    NoWord {
        /// Of the head.
        offset: u32,
        /// Its type.
        type_len: u8,
    },
    /// A record that ends behind the committed data, or a length that no record has.
    #[error("byte {offset}: a record of {bytes} bytes does not fit, {room} are left; skip to the next page")]
    Length {
        /// Of the head.
        offset: u32,
        /// As the head or its second word says.
        bytes: u32,
        /// What follows the head.
        room: u32,
    },
    /// A delta that leads past the end of 64 bits.
    #[error("byte {offset}: the time delta leads beyond 64 bits; skip to the next page")]
    Time {
        /// Of the head.
        offset: u32,
    },
}

/// Events were missed in front of this page.
const MISSED: u32 = 1 << 31;
/// Their number stands behind the committed data.
const MISSED_STORED: u32 = 1 << 30;

impl<'a> Page<'a> {
    /// Reads the head of a sub-buffer; `bytes` is the whole of it, of whatever size the instance has.
    pub fn parse(bytes: &'a [u8], format: &PageFormat) -> Result<Page<'a>, PageError> {
        let head_bytes = head_bytes(format);
        let short = PageError::Short { bytes: clip(bytes.len()), head_bytes: clip(head_bytes) };
        let data_offset = usize::from(format.data_offset);
        if bytes.len() < head_bytes {
            return Err(short);
        }
        let time = read_word(bytes, format.time_offset.into(), 8).ok_or(short)?;
        let commit = read_commit(bytes, format)?;
        let committed = (commit & !(MISSED | MISSED_STORED)) as usize;
        let room = bytes.get(data_offset..).ok_or(short)?;
        let Some((data, behind)) = room.split_at_checked(committed) else {
            return Err(PageError::Size { committed: clip(committed), room: clip(room.len()) });
        };
        let missed = missed(commit, behind, format);
        Ok(Page { time, missed, data, data_offset })
    }

    /// The same of a sub-buffer that is mapped. The kernel may be adding to it: the commit word tells only of what was
    /// missed, and the records are those of `parts`.
    pub fn of_parts(parts: Parts<'a>, format: &PageFormat) -> Result<Page<'a>, PageError> {
        let Parts { head, data, behind } = parts;
        let head_bytes = head_bytes(format);
        let short = PageError::Short { bytes: clip(head.len()), head_bytes: clip(head_bytes) };
        if head.len() < head_bytes {
            return Err(short);
        }
        let time = read_word(head, format.time_offset.into(), 8).ok_or(short)?;
        let commit = read_commit(head, format)?;
        let committed = commit & !(MISSED | MISSED_STORED);
        if (committed as usize) < data.len() {
            return Err(PageError::Behind { committed, read: clip(data.len()) });
        }
        Ok(Page { time, missed: missed(commit, behind, format), data, data_offset: format.data_offset.into() })
    }

    /// The time stamp of the page, from which its first delta counts.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// What was lost between the page before and this one.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// The bytes of the committed records, their heads included.
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }

    /// Walks the records, in the order in which they were written.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        self.records_behind(0, self.time)
    }

    /// The same from `taken` bytes of records on, the last of which is of `time`. None where there are not so many.
    #[inline]
    pub(crate) fn records_behind(&self, taken: usize, time: u64) -> Records<'a> {
        let rest = self.data.get(taken..).unwrap_or_default();
        Records { rest, time, end: self.data_offset + self.data.len() }
    }
}

/// What the flags of a commit word say, and the bytes behind the committed ones.
fn missed(commit: u32, behind: &[u8], format: &PageFormat) -> Missed {
    match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => Missed::None,
        (true, false) => Missed::Unknown,
        // A page that was cut off behind its records has lost the number, and no more.
        (true, true) => read_word(behind, 0, format.commit_bytes.into()).map_or(Missed::Unknown, Missed::Some),
    }
}

/// The end of the last part of the head.
fn head_bytes(format: &PageFormat) -> usize {
    let time_end = usize::from(format.time_offset) + 8;
    let commit_end = usize::from(format.commit_offset) + usize::from(format.commit_bytes);
    time_end.max(commit_end).max(format.data_offset.into())
}

/// The low half of the commit word. The kernel adds the flag of bit 31 as a negative `int`, so the high half of a word
/// of 64 bits may be all ones.
fn read_commit(bytes: &[u8], format: &PageFormat) -> Result<u32, PageError> {
    let word = read_word(bytes, format.commit_offset.into(), format.commit_bytes.into())
        .ok_or(PageError::CommitBytes(format.commit_bytes))?;
    match word >> 32 {
        0 => Ok(word as u32),
        0xFFFF_FFFF if word as u32 & MISSED != 0 => Ok(word as u32),
        _ => Err(PageError::Commit(word)),
    }
}

/// A number of 4 or 8 bytes; None where it does not fit.
fn read_word(bytes: &[u8], offset: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(offset..)?;
    match count {
        4 => bytes.first_chunk().map(|word| u32::from_le_bytes(*word).into()),
        8 => bytes.first_chunk().map(|word| u64::from_le_bytes(*word)),
        _ => None,
    }
}

/// A page has at most 1 GiB; what is larger comes from no page and is only shown.
fn clip(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A walk over the records of a page. Ends behind the last one, or behind the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    /// What is not yet read.
    rest: &'a [u8],
    /// Of the last head.
    time: u64,
    /// The offset of the end of `rest` in the page.
    end: usize,
}

const PADDING: u8 = 29;
const TIME_EXTEND: u8 = 30;
const TIME_STAMP: u8 = 31;
/// An absolute stamp has so many bits; the others are those of the time before.
const STAMP_BITS: u32 = 59;

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, PageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let offset = self.end - self.rest.len();
            let Some((head, behind)) = self.rest.split_first_chunk() else { return self.trailing(offset) };
            let head = u32::from_le_bytes(*head);
            let (type_len, delta) = ((head & 31) as u8, head >> 5);
            // Data of 4 x type_len bytes: by far the most of all heads.
            if matches!(type_len, 1..=28) {
                let time = self.time.checked_add(delta.into());
                let (Some(time), Some((data, rest))) = (time, behind.split_at_checked(4 * usize::from(type_len)))
                else {
                    return self.bad_record(offset, time, 4 * u32::from(type_len), behind);
                };
                (self.time, self.rest) = (time, rest);
                return Some(Ok(RawRecord { time, data, offset }));
            }
            match self.other(offset, type_len, delta, behind) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(item) => return item,
            }
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

type PageStep<'a> = ControlFlow<Option<Result<RawRecord<'a>, PageError>>>;

impl<'a> Records<'a> {
    /// The time from which the next record's delta counts.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Heads with a second word: long records, padding, times.
    fn other(&mut self, offset: usize, type_len: u8, delta: u32, behind: &'a [u8]) -> PageStep<'a> {
        if type_len == PADDING && delta == 0 {
            self.rest = &[];
            return ControlFlow::Break(None);
        }
        let Some((word, data)) = behind.split_first_chunk() else {
            return self.fail(PageError::NoWord { offset: clip(offset), type_len });
        };
        let word = u32::from_le_bytes(*word);
        if type_len == TIME_EXTEND || type_len == TIME_STAMP {
            return self.step_time(offset, type_len, u64::from(delta) + (u64::from(word) << 27), data);
        }
        if type_len == 0 && delta == 0 && word == 0 {
            self.rest = &[];
            return ControlFlow::Break(None);
        }
        let time = self.time.checked_add(delta.into());
        // The length counts its own word, and keeps the heads aligned.
        let bytes = word.checked_sub(4).filter(|bytes| bytes % 4 == 0);
        let parts = bytes.and_then(|bytes| data.split_at_checked(bytes as usize));
        let (Some(time), Some((data, rest))) = (time, parts) else {
            return ControlFlow::Break(self.bad_record(offset, time, word, behind));
        };
        (self.time, self.rest) = (time, rest);
        if type_len == PADDING {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Some(Ok(RawRecord { time, data, offset })))
    }

    /// A head that only carries time.
    fn step_time(&mut self, offset: usize, type_len: u8, ticks: u64, rest: &'a [u8]) -> PageStep<'a> {
        let time =
            if type_len == TIME_STAMP { Some(full_time(ticks, self.time)) } else { self.time.checked_add(ticks) };
        let Some(time) = time else { return self.fail(PageError::Time { offset: clip(offset) }) };
        (self.time, self.rest) = (time, rest);
        ControlFlow::Continue(())
    }

    fn fail(&mut self, error: PageError) -> PageStep<'a> {
        self.rest = &[];
        ControlFlow::Break(Some(Err(error)))
    }

    #[cold]
    fn bad_record(
        &mut self,
        offset: usize,
        time: Option<u64>,
        bytes: u32,
        behind: &[u8],
    ) -> Option<Result<RawRecord<'a>, PageError>> {
        self.rest = &[];
        let offset = clip(offset);
        Some(Err(match time {
            None => PageError::Time { offset },
            Some(_) => PageError::Length { offset, bytes, room: clip(behind.len()) },
        }))
    }

    /// The end of the data, good or not.
    #[cold]
    fn trailing(&mut self, offset: usize) -> Option<Result<RawRecord<'a>, PageError>> {
        let bytes = clip(self.rest.len());
        self.rest = &[];
        (bytes > 0).then_some(Err(PageError::Trailing { offset: clip(offset), bytes }))
    }
}

/// The time that is nearest to `before` and ends in the 59 bits of `stamp`. So a stamp that has passed the end of its
/// bits is later, and one of a clock that went back a little is earlier, not 18 years later. Of two as near, the later
/// one.
fn full_time(stamp: u64, before: u64) -> u64 {
    const SPAN: u64 = 1 << STAMP_BITS;
    let time = before & !(SPAN - 1) | stamp;
    if time < before && before - time >= SPAN / 2 {
        time.checked_add(SPAN).unwrap_or(time)
    } else if time > before && time - before > SPAN / 2 {
        time.checked_sub(SPAN).unwrap_or(time)
    } else {
        time
    }
}
