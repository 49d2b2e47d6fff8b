// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compact records as the collector sees them [spec/ring.md 11]: a short header leaves out the thread and the upper
//! bits of the time, so a packet begins at a place for which both are known.

use std::io;
use std::sync::atomic::Ordering;

use kymo_abi::ring::{Layout, Mark, Places, RingBlock, Span};
use kymo_abi::{RingKind, THREAD_RECORD_ID, compact_head, split_head};

use crate::memory::Memory;

/// Looks at words that a writer is at before the bytes are left for the next time.
const LOOKS_MAX: usize = 64;
/// Bytes of a plain header with its thread.
const PLAIN_BYTES: usize = 12;
/// Bits of time in the lower one of the two words of a place.
const LOW_BITS: u32 = 24;

/// Thread and time (48 bits) in front of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub thread: u32,
    pub time: u64,
}

/// A look at the words of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub head: Mark,
    pub last: u64,
    /// At `head`; `None` where records are not compact, or nothing follows.
    pub cut: Option<Cut>,
}

impl Look {
    /// Pairs with the writer's release: the payload below head, and the counters before it, are visible
    /// [spec/ring.md 7]. `None` where thread and time could not be seen: then the bytes wait for the next look. Unless
    /// nobody writes any more (`is_last`).
    pub(crate) fn at(layout: &Layout, ring: &RingBlock, is_last: bool) -> Option<Look> {
        if !layout.is_compact {
            return Some(Look::plain(ring));
        }
        for _ in 0..LOOKS_MAX {
            let head = ring.head.load(Ordering::Acquire);
            let reserve = ring.reserve.load(Ordering::Acquire);
            let state = ring.state.load(Ordering::Acquire);
            let last = ring.last.load(Ordering::Acquire);
            let is_between_records = layout.kind != RingKind::Portable
                || (reserve == head && ring.reserve.load(Ordering::Acquire) == reserve);
            if is_between_records && ring.head.load(Ordering::Relaxed) == head {
                let cut = Cut { thread: (state >> 32) as u32, time: last >> 16 };
                return Some(Look { head: Mark(head), last, cut: Some(cut) });
            }
            std::hint::spin_loop();
        }
        is_last.then(|| Look::plain(ring))
    }

    fn plain(ring: &RingBlock) -> Look {
        let head = Mark(ring.head.load(Ordering::Acquire));
        Look { head, last: ring.last.load(Ordering::Relaxed), cut: None }
    }
}

impl Cut {
    /// That of a lane's tail: nobody's at the begin of a ring, else as a dead collector has noted it.
    pub(crate) fn of_tail(layout: &Layout, ring: &RingBlock, tail: Mark) -> Option<Cut> {
        let noted = ring.cut.iter().find_map(|words| {
            let state = words.state.load(Ordering::Acquire);
            let cut = Cut { thread: (state >> 32) as u32, time: words.time.load(Ordering::Relaxed) >> 16 };
            (state as u32 == tail.0 as u32).then_some(cut)
        });
        layout.is_compact.then(|| noted.unwrap_or_default())
    }

    /// Notes it for whoever finds the ring after our death, before tail goes to `tail`. What is noted of the present
    /// tail stays.
    pub(crate) fn note(&self, ring: &RingBlock, tail: Mark) {
        let now = ring.tail.load(Ordering::Relaxed) as u32;
        let is_of_now = ring.cut[0].state.load(Ordering::Relaxed) as u32 == now;
        let words = &ring.cut[usize::from(is_of_now)];
        words.time.store(self.time << 16, Ordering::Relaxed);
        words.state.store(u64::from(self.thread) << 32 | u64::from(tail.0 as u32), Ordering::Release);
    }

    /// That of a mark with this number, if all words are of it [spec/ring.md 11.4].
    pub(crate) fn of_mark(places: &Places, number: usize, mark: Mark) -> Option<Cut> {
        let words = [&places.thread[number], &places.high[number], &places.low[number]];
        let [thread, high, low] = words.map(|word| word.load(Ordering::Acquire));
        let is_of_mark = [thread, high, low].iter().all(|word| *word as u32 == mark.0 as u32);
        is_of_mark.then_some(Cut { thread: (thread >> 32) as u32, time: (high >> 32) << LOW_BITS | low >> 32 })
    }

    /// Moves on to the record at the begin of `bytes`. `None` where there is none.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Option<RecordHead> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).filter(|rest| rest.len() >= 4)?;
            let head = compact_head(std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0)), self.time)?;
            at += head.bytes;
            self.time = head.time;
            if head.id != THREAD_RECORD_ID {
                return (at <= bytes.len()).then_some(RecordHead {
                    id: head.id,
                    time: head.time,
                    thread: self.thread,
                    bytes: at,
                });
            }
            self.thread = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
            at += 4;
        }
    }
}

/// Why a program refused its rings, by the errno value that it answered with.
pub(crate) fn refusal(errno: i32, is_compact: bool) -> io::Error {
    let is_of_layout = matches!(errno, libc::EPROTO | libc::EOPNOTSUPP);
    match is_compact && is_of_layout {
        true => io::Error::other("its libkymo does not write compact records; record it without --compact"),
        false => io::Error::from_raw_os_error(errno),
    }
}

/// What stands in front of contexts and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub id: u16,
    /// 48 bits.
    pub time: u64,
    pub thread: u32,
    /// A thread record included.
    pub bytes: usize,
}

impl RecordHead {
    /// That of the record at the begin of `bytes`; `cut`: in front of it, which moves on, if records are compact.
    pub(crate) fn at(bytes: &[u8], cut: &mut Option<Cut>) -> Option<RecordHead> {
        if let Some(cut) = cut {
            return cut.next(bytes);
        }
        let (word, thread) = bytes.get(..PLAIN_BYTES)?.split_at(8);
        let (id, time) = split_head(u64::from_le_bytes(word.try_into().ok()?));
        Some(RecordHead { id, time, thread: u32::from_le_bytes(thread.try_into().ok()?), bytes: PLAIN_BYTES })
    }
}

/// Id and time (48 bits) of the record at `mark`, behind `cut`; id 0 where there is none. A thread record has the time
/// of the record behind it.
pub(crate) fn first(memory: &Memory, lane: u32, mark: Mark, cut: Option<Cut>) -> (u16, u64) {
    let word = memory.header_word(lane, mark);
    let Some(cut) = cut else { return split_head(word) };
    let more = memory.header_word(lane, mark.plus(Span { bytes: 8, records: 0 }));
    let [word, more] = [word, more].map(u64::to_le_bytes);
    let bytes = std::array::from_fn(|at| if at < 8 { word[at] } else { more[at - 8] });
    compact_head(bytes, cut.time).map_or((0, 0), |head| (head.id, head.time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_abi::head_word;

    fn extended(id: u16, time: u64) -> Vec<u8> {
        [&[31][..], &head_word(id, time).to_le_bytes()].concat()
    }

    #[test]
    fn a_cut_moves_from_record_to_record() {
        let mut cut = Some(Cut { thread: 7, time: 1 << 40 });
        let short = (3u32 | 5 << 5).to_le_bytes();
        let check = |bytes: &[u8], cut: &mut Option<Cut>, expect: Option<(u16, u64, u32, usize)>| {
            let found = RecordHead::at(bytes, cut).map(|head| (head.id, head.time, head.thread, head.bytes));
            assert_eq!(found, expect, "{bytes:x?}");
        };
        check(&short, &mut cut, Some((3, (1 << 40) + 5, 7, 4)));
        let thread = [extended(THREAD_RECORD_ID, 99), 8u32.to_le_bytes().to_vec(), extended(300, 99)].concat();
        check(&thread, &mut cut, Some((300, 99, 8, 22)));
        assert_eq!(cut, Some(Cut { thread: 8, time: 99 }));
        check(&extended(4, 100), &mut cut, Some((4, 100, 8, 9)));
        // Cut off anywhere, or nonsense: no record.
        for end in 0..thread.len() {
            check(&thread[..end], &mut cut.clone(), None);
        }
        check(&[0; 28], &mut cut, None);
        check(&30u32.to_le_bytes(), &mut cut, None);
        let plain = [&head_word(9, 50).to_le_bytes()[..], &6u32.to_le_bytes()].concat();
        check(&plain, &mut None, Some((9, 50, 6, 12)));
        check(&plain[..11], &mut None, None);
    }
}
