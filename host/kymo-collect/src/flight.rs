// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane of a flight recorder: what is intact in a ring that its writer goes on to overwrite [spec/ring.md 10].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use kymo_abi::ring::{CHUNKS, Mark, Span, TIME_MASK};

use crate::clock::extend;
use crate::compact::{self, Cut, RecordHead};
use crate::memory::Memory;

/// Pairs of a head and the clock when it was first seen that are kept for one lane.
const NOTES_MAX: usize = 64;
/// A head that did not leave its chunk is noted again after this share of the time that 48 bits hold.
const NOTE_CYCLES: u64 = TIME_MASK / 8;

/// When heads were first seen: a record holds 48 bits of its time, and a ring may be older than they tell.
#[derive(Debug, Default)]
pub(crate) struct Notes(VecDeque<(Mark, u64)>);

impl Notes {
    /// `head` is what a look at `cycles` found.
    pub(crate) fn note(&mut self, head: Mark, cycles: u64, ring_bytes: u32) {
        if let Some((newest, at)) = self.0.back() {
            let chunk = |mark: &Mark| mark.0 as u32 / (ring_bytes / CHUNKS).max(1);
            let is_same = chunk(newest) == chunk(&head) && cycles.wrapping_sub(*at) < NOTE_CYCLES;
            if *newest == head || is_same {
                return;
            }
        }
        if self.0.len() >= NOTES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((head, cycles));
    }

    /// A clock value that the record at `mark` is not younger than.
    fn bound(&self, mark: Mark, now: u64) -> u64 {
        let behind = self.0.iter().find(|(head, _)| (head.0 as u32).wrapping_sub(mark.0 as u32) as i32 > 0);
        behind.map_or(now, |(_, cycles)| *cycles)
    }
}

/// What was intact: bytes of whole records, copied.
pub(crate) struct Intact {
    /// Copied bytes up to `head`; the last of them are the records.
    copy: Vec<u8>,
    /// Where the oldest record begins that is still whole.
    pub oldest: Mark,
    /// Where the records begin that are wanted.
    pub from: Mark,
    /// In front of these, where records are compact.
    pub cut: Option<Cut>,
    /// Where they end.
    pub head: Mark,
    /// Clock value of the first record.
    pub begin: u64,
    /// A clock value that no record is behind, once it was read behind the copy.
    pub end: u64,
}

impl Intact {
    /// The records.
    pub(crate) fn bytes(&self) -> &[u8] {
        let span = self.head.since(self.from);
        &self.copy[self.copy.len() - span.bytes as usize..]
    }

    /// How many they are.
    pub(crate) fn records(&self) -> u32 {
        self.head.since(self.from).records
    }

    /// The memory, for another copy.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.copy
    }
}

/// Copies what is intact on a lane, from the last mark that is not after `since` (clock) on, into `buffer`. `None`
/// where nothing is: an empty ring, a writer that was faster than the copy, or a program that broke the rules.
pub(crate) fn copy(
    memory: &Memory,
    lane: u32,
    notes: &Notes,
    since: Option<u64>,
    now: u64,
    buffer: Vec<u8>,
) -> Option<Intact> {
    let (view, ring_bytes) = (memory.view(), memory.layout().ring_bytes);
    let ring = &view.rings()[lane as usize];
    let head = Mark(ring.head.load(Ordering::Acquire));
    let tail = || ring.tail.load(Ordering::Acquire) as u32;
    let is_above = |mark: &Mark, tail: u32| (mark.0 as u32).wrapping_sub(tail) as i32 >= 0;
    let places = view.places().get(lane as usize);
    let marked = |(number, mark): (usize, &AtomicU64)| {
        let mark = Mark(mark.load(Ordering::Acquire));
        match places {
            Some(places) => Some((mark, Some(Cut::of_mark(places, number, mark)?))),
            None => Some((mark, None)),
        }
    };
    let mut marks: Vec<(Mark, Option<Cut>)> =
        view.marks()[lane as usize].at.iter().enumerate().filter_map(marked).collect();
    let tail_before = tail();
    marks.retain(|(mark, _)| {
        let span = head.since(*mark);
        is_above(mark, tail_before) && span != Span::default() && memory.layout().is_plausible(span, ring_bytes)
    });
    // The longest way back first.
    marks.sort_by_key(|(mark, _)| std::cmp::Reverse(head.since(*mark).bytes));
    marks.dedup();
    let time_of = |mark: Mark, (id, time): (u16, u64)| (id != 0).then(|| extend(time, notes.bound(mark, now)));
    // The words are looked at in place, and the writer may be at them: at worst more is copied than is wanted.
    let is_early = |&(mark, cut): &(Mark, Option<Cut>), since: u64| {
        time_of(mark, compact::first(memory, lane, mark, cut)).is_some_and(|time| time <= since)
    };
    let wanted = since.and_then(|since| marks.iter().rposition(|mark| is_early(mark, since))).unwrap_or(0);
    let (copied, _) = *marks.get(wanted)?;
    let copy = memory.copy_of(lane, copied, head.since(copied), buffer);
    // The copy is complete before tail is looked at: what was overwritten meanwhile lies below it.
    fence(Ordering::Acquire);
    let tail_behind = tail();
    let whole = |(mark, _): &&(Mark, Option<Cut>)| is_above(mark, tail_behind);
    let (oldest, _) = *marks.iter().find(whole)?;
    let (from, cut) = *marks[wanted..].iter().find(whole)?;
    let at = copy.len().checked_sub(head.since(from).bytes as usize)?;
    let first = RecordHead::at(copy.get(at..)?, &mut cut.clone())?;
    Some(Intact { begin: time_of(from, (first.id, first.time))?, end: now, oldest, from, cut, copy, head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_ring_is_dated_by_when_its_head_was_first_seen() {
        let mut notes = Notes::default();
        let ring_bytes = 4096;
        let day = 1 << 48;
        notes.note(Mark(100), 1000, ring_bytes);
        notes.note(Mark(100), 5 * day, ring_bytes);
        notes.note(Mark(900), 9 * day + 7, ring_bytes);
        assert_eq!(notes.bound(Mark(0), 20 * day), 1000);
        assert_eq!(notes.bound(Mark(100), 20 * day), 9 * day + 7);
        assert_eq!(notes.bound(Mark(900), 20 * day), 20 * day);
        // A record of 48 bits' age and more: five days of ticks ago, not the newest value that fits.
        assert_eq!(extend(990 & TIME_MASK, notes.bound(Mark(0), 20 * day)), 990);
    }

    #[test]
    fn notes_are_bounded() {
        let mut notes = Notes::default();
        for number in 0..10_000u64 {
            notes.note(Mark(number * 4096), number * 10, 4096);
        }
        assert_eq!(notes.0.len(), NOTES_MAX);
        assert_eq!(notes.0.back(), Some(&(Mark(9999 * 4096), 99_990)));
    }
}
