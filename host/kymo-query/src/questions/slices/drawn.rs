// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans as they are drawn [spec/view.md 4.7]: in rows and levels, one by one where they are as long as a pixel, and
//! else as blocks of those that follow each other.

#[cfg(test)]
mod tests;

use kymo_analyze::hash::Map;
use kymo_analyze::{Doubt, LostUntil};
use kymo_index::{BegunSpan, Nesting};

use crate::columns::{Answer, Table, Text};
use crate::pixels::Pixels;
use crate::questions::begun::doubt_bits;
use crate::questions::slices::parts::{OpenSlice, TakeSlices};
use crate::questions::slices::rows::KeyTexts;
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;

/// Slices and blocks of an answer at most.
const DRAWN_MAX: usize = 1 << 20;

/// Shorter spans of one level that follow each other, each in the pixel of the one before or the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Merged {
    row: SliceRow,
    level: u16,
    pixel: u32,
    last: u32,
    count: u32,
    longest_ns: u64,
    longest_at: i64,
}

/// What was drawn so far.
pub(crate) struct Drawn {
    pixels: Pixels,
    nesting: Nesting<SliceRow>,
    /// By row and level: the block that may go on.
    blocks: Map<(SliceRow, u16), Merged>,
    /// That of the row and level that came last: mostly the next span is of these, too.
    last: Option<Merged>,
    shown: Vec<(Slice, u16)>,
    merged: Vec<Merged>,
    /// The deepest level for which there is room.
    deepest: u16,
    /// Spans for which there was no room.
    left_out: u64,
    most: usize,
}

impl Drawn {
    pub(crate) fn new(pixels: Pixels) -> Drawn {
        Drawn::of(pixels, DRAWN_MAX)
    }

    fn of(pixels: Pixels, most: usize) -> Drawn {
        let (nesting, blocks, shown, merged) = (Nesting::default(), Map::default(), Vec::new(), Vec::new());
        Drawn { pixels, nesting, blocks, last: None, shown, merged, deepest: u16::MAX, left_out: 0, most }
    }

    /// From now on these have begun and not ended: their rows and levels.
    pub(crate) fn resume(&mut self, waiting: impl Iterator<Item = (SliceRow, BegunSpan, u16)>) {
        self.nesting = Nesting::default();
        waiting.for_each(|(row, begun, level)| self.nesting.resume(row, begun, level));
    }

    /// When the first of those that are drawn one by one begins, ns.
    pub(crate) fn first(&self) -> Option<i64> {
        self.shown.iter().map(|(slice, _)| slice.from).min()
    }

    /// Spans that are drawn one by one are doubtful where records were lost since their begin.
    pub(crate) fn doubt(&mut self, lost: &mut LostUntil) {
        self.shown.sort_by_key(|(slice, _)| slice.to);
        for (slice, _) in self.shown.iter_mut().filter(|(slice, _)| !slice.open) {
            slice.doubt |= Doubt::LOST.when(slice.from < lost.at(slice.to));
        }
    }

    /// Adds short spans that lie within a pixel: how many, and the length and begin of the longest.
    pub(crate) fn cell(&mut self, (row, level): (SliceRow, u16), pixel: u32, count: u32, longest: (u64, i64)) {
        let (longest_ns, longest_at) = longest;
        self.merge(Merged { row, level, pixel, last: pixel, count, longest_ns, longest_at });
    }

    /// Adds a span, if any of it is in the window; of each row and level in the order of their begins.
    pub(crate) fn add(&mut self, slice: Slice, level: u16) {
        if self.pixels.cut(slice.from, slice.to.saturating_add(1)).is_none() {
            return;
        }
        if self.pixels.shows(slice.to.abs_diff(slice.from)) {
            match self.has_room(level) {
                true => self.shown.push((slice, level)),
                false => self.left_out += 1,
            }
        } else {
            let (pixel, last) = (self.pixels.of(slice.from), self.pixels.of(slice.to));
            let (longest_ns, longest_at) = (slice.to.abs_diff(slice.from), slice.from);
            self.merge(Merged { row: slice.row, level, pixel, last, count: 1, longest_ns, longest_at });
        }
    }

    /// Adds shorter ones to the block before them, or begins another one with them.
    fn merge(&mut self, next: Merged) {
        self.turn_to(next.row, next.level);
        match &mut self.last {
            Some(block) if next.pixel <= block.last + 1 => {
                block.last = block.last.max(next.last);
                block.count = block.count.saturating_add(next.count);
                if next.longest_ns > block.longest_ns {
                    (block.longest_ns, block.longest_at) = (next.longest_ns, next.longest_at);
                }
            }
            last => {
                let done = last.replace(next);
                self.put(done);
            }
        }
    }

    /// The last block is that of this row and level.
    fn turn_to(&mut self, row: SliceRow, level: u16) {
        if self.last.is_some_and(|last| (last.row, last.level) == (row, level)) {
            return;
        }
        if let Some(last) = self.last.take() {
            self.blocks.insert((last.row, last.level), last);
        }
        self.last = self.blocks.remove(&(row, level));
    }

    /// A block has ended.
    fn put(&mut self, block: Option<Merged>) {
        let Some(block) = block else { return };
        match self.has_room(block.level) {
            true => self.merged.push(block),
            false => self.left_out += u64::from(block.count),
        }
    }

    /// Whether there is room for one more of a level. Where there is none, the deeper half of all levels is left out:
    /// what lies within others, but at all times.
    fn has_room(&mut self, level: u16) -> bool {
        while self.shown.len() + self.merged.len() >= self.most && self.deepest > 0 {
            let of_shown = self.shown.iter().map(|(_, level)| *level);
            let deepest = of_shown.chain(self.merged.iter().map(|block| block.level)).max().unwrap_or(0);
            self.deepest = deepest.min(self.deepest) / 2;
            let shown = self.shown.len();
            self.shown.retain(|(_, level)| *level <= self.deepest);
            self.left_out += (shown - self.shown.len()) as u64;
            self.merged.retain(|block| {
                let is_kept = block.level <= self.deepest;
                self.left_out += if is_kept { 0 } else { u64::from(block.count) };
                is_kept
            });
        }
        level <= self.deepest && self.shown.len() + self.merged.len() < self.most
    }

    /// Ends what may have gone on, and sorts all by row and time.
    fn finish(&mut self) {
        let mut open: Vec<Merged> = std::mem::take(&mut self.blocks).into_values().chain(self.last.take()).collect();
        open.sort_unstable_by_key(|block| (block.row, block.level));
        open.into_iter().for_each(|block| self.put(Some(block)));
        self.shown.sort_by_key(|(slice, _)| (slice.row, slice.from, std::cmp::Reverse(slice.to)));
        // There are many, and no two of one key.
        self.merged.sort_unstable_by_key(|block| (block.row, block.pixel, block.level));
    }

    /// The tables of an answer. For how many spans there was no room.
    pub(crate) fn tables(mut self, answer: &mut Answer, keys: &KeyTexts) -> u64 {
        self.finish();
        let table = slice_table(answer, &self.shown, keys);
        answer.push(table);
        let Drawn { pixels, merged, .. } = &self;
        let longest_pixel = |of: &Merged| pixels.of(of.longest_at);
        let tid = |of: &Merged| match of.row {
            SliceRow::Thread(tid) => tid,
            SliceRow::Key(..) => None,
        };
        let span = |of: &Merged| match of.row {
            SliceRow::Key(span, _) => Some(span),
            SliceRow::Thread(_) => None,
        };
        let merged_keys: Vec<_> = merged.iter().map(|of| text_of(answer, keys, of.row)).collect();
        let table = Table::new("merged")
            .column("tid", merged.iter().map(tid))
            .column("span", merged.iter().map(span))
            .column("key", merged_keys)
            .column("level", merged.iter().map(|of| of.level))
            .column("pixel", merged.iter().map(|of| of.pixel))
            .column("pixels", merged.iter().map(|of| of.last - of.pixel + 1))
            .column("count", merged.iter().map(|of| of.count))
            .column("longest_ns", merged.iter().map(|of| of.longest_ns))
            .column("longest_at", merged.iter().map(|of| answer.time(of.longest_at)))
            .column("longest_pixel", merged.iter().map(longest_pixel));
        answer.push(table);
        self.left_out
    }

    /// Whether there are spans of keys that have no row of their own.
    pub(crate) fn has_other_keys(&self) -> bool {
        let is_other = |row: &SliceRow| matches!(row, SliceRow::Key(_, None));
        self.shown.iter().map(|(slice, _)| &slice.row).any(is_other)
            || self.merged.iter().chain(self.blocks.values()).chain(&self.last).map(|block| &block.row).any(is_other)
    }
}

impl TakeSlices for Drawn {
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]) {
        let mut nesting = std::mem::take(&mut self.nesting);
        let ended = ended.into_iter().map(|slice| (slice.row, slice));
        let begun = begun.iter().map(|of| (of.row, of.begun()));
        nesting.part(ended, begun, |_, slice, level| self.add(slice, level));
        self.nesting = nesting;
    }
}

/// The key of a row, as a text of the answer.
fn text_of(answer: &mut Answer, keys: &KeyTexts, row: SliceRow) -> Option<Text> {
    keys.text(row).map(|key| answer.texts.text(key))
}

fn slice_table(answer: &mut Answer, shown: &[(Slice, u16)], keys: &KeyTexts) -> Table {
    let names: Vec<_> = shown.iter().map(|(slice, _)| answer.texts.name(slice.name.as_str())).collect();
    let of_rows: Vec<_> = shown.iter().map(|(slice, _)| text_of(answer, keys, slice.row)).collect();
    let is_by_key = shown.iter().map(|(slice, _)| u8::from(matches!(slice.row, SliceRow::Key(..))));
    Table::new("slices")
        .column("span", shown.iter().map(|(slice, _)| slice.span))
        .column("tid", shown.iter().map(|(slice, _)| slice.tid))
        .column("name", names)
        .column("by_key", is_by_key)
        .column("key", of_rows)
        .column("process", shown.iter().map(|(slice, _)| slice.process))
        .column("level", shown.iter().map(|(_, level)| *level))
        .column("from", shown.iter().map(|(slice, _)| answer.time(slice.from)))
        .column("to", shown.iter().map(|(slice, _)| answer.time(slice.to)))
        .column("cpu", shown.iter().map(|(slice, _)| slice.cpu))
        .column("open", shown.iter().map(|(slice, _)| u8::from(slice.open)))
        .column("doubt", shown.iter().map(|(slice, _)| doubt_bits(slice.doubt)))
}
