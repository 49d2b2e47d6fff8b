// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which latencies of parts a window is made of [spec/index.md 5.3].

use std::ops::Range;

use crate::latency_head::LatencyPlace;
use crate::latency_maker::LATENCY_FAN_OUT;
use crate::latency_part::LatencyPart;
use crate::measuring::UNIT;
use crate::pictures::{Gallery, Stretch};
use crate::pyramid::{DamagedSums, Pyramid};

/// Latencies of a part, by where it is among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStretch {
    place: LatencyPlace,
    level: usize,
    at: usize,
}

impl LatencyStretch {
    /// Which part it is: its level, and its position there.
    pub fn id(&self) -> (usize, usize) {
        (self.level, self.at)
    }
}

/// What a part has where not all of its longest samples are listed.
#[derive(Clone, Debug)]
pub enum LatencyOf {
    /// Its own parts.
    Parts(Vec<LatencyStretch>),
    /// The records from a time on, up to another one.
    Records(i64, i64),
}

/// Parts between two checkpoints that one of a level is.
fn count_of(level: usize) -> usize {
    LATENCY_FAN_OUT.saturating_pow(level as u32).saturating_mul(UNIT)
}

impl Pyramid {
    /// Latencies of a window [from, to), with columns of 2 to the power of `shift` ns at most. `is_from_begin`: the
    /// window has all that is before its end. `Ok(None)`: there are none, or reading the records is the only way.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn latencies(
        &self,
        window: (i64, i64),
        is_from_begin: bool,
        shift: u32,
    ) -> Result<Option<Gallery<LatencyStretch>>, DamagedSums> {
        let whole = self.range(window, is_from_begin).and_then(|range| self.units(range));
        let Some(range) = whole else { return Ok(None) };
        let (mut stretches, mut at, mut has_part) = (Vec::new(), range.start, false);
        while at < range.end {
            if let Some((stretch, count)) = self.longest_latencies(at, range.end, shift) {
                stretches.push(Stretch::Picture(stretch));
                (at, has_part) = (at + count, true);
                continue;
            }
            // Records are chosen by time: it must divide them from the parts around.
            let begin = at;
            at += UNIT;
            while at < range.end && (!self.divides(at) || self.longest_latencies(at, range.end, shift).is_none()) {
                at += UNIT;
            }
            if !self.divides(begin) {
                return Ok(None);
            }
            let from = if begin == 0 { i64::MIN } else { self.after(begin)? };
            stretches.push(Stretch::Records(from, self.after(at)?));
        }
        if !has_part {
            return Ok(None);
        }
        Ok(self.cover_of(range, is_from_begin)?.map(|cover| Gallery { cover, stretches }))
    }

    fn after(&self, boundary: usize) -> Result<i64, DamagedSums> {
        self.head.after.get(boundary).copied().ok_or(DamagedSums)
    }

    /// The part of a range that parts of the lowest level fill.
    fn units(&self, range: Range<usize>) -> Option<Range<usize>> {
        let is_end = |boundary: &usize| boundary % UNIT == 0 && self.divides(*boundary);
        let first = range.clone().find(is_end)?;
        let last = (first + 1..=range.end).rev().find(is_end)?;
        Some(first..last)
    }

    /// Those of the longest part that begins there and ends in time, and how many of the finest level it is.
    fn longest_latencies(&self, at: usize, end: usize, shift: u32) -> Option<(LatencyStretch, usize)> {
        let mut found = None;
        for level in 0..self.latencies.0.len() {
            let count = count_of(level);
            if at % count != 0 || at + count > end {
                break;
            }
            let stretch = self.latency_stretch(level, at / count).filter(|stretch| stretch.place.shift <= shift);
            found = stretch.map(|stretch| (stretch, count)).or(found);
        }
        found
    }

    fn latency_stretch(&self, level: usize, at: usize) -> Option<LatencyStretch> {
        let place = self.latencies.0.get(level)?.get(at).copied().flatten()?;
        Some(LatencyStretch { place, level, at })
    }

    /// The latencies of a part, with cells and the longest where they are wanted.
    ///
    /// # Errors
    /// They are damaged.
    pub fn latencies_of(
        &self,
        stretch: &LatencyStretch,
        with_cells: bool,
        with_longest: bool,
    ) -> Result<LatencyPart, DamagedSums> {
        let place = &stretch.place;
        let read = |piece| self.pieces.read(piece).ok_or(DamagedSums);
        let mut part = LatencyPart::decode(&read(&place.sums)?).ok_or(DamagedSums)?;
        if part.shift != place.shift {
            return Err(DamagedSums);
        }
        if with_cells {
            part.decode_cells(&read(&place.cells)?).ok_or(DamagedSums)?;
        }
        if with_longest {
            part.decode_longest(&read(&place.longest)?).ok_or(DamagedSums)?;
        }
        Ok(part)
    }

    /// What a part is made of. `None`: of records that no time divides from those around them, or what it is made of
    /// had too much.
    pub fn within(&self, of: &LatencyStretch) -> Option<LatencyOf> {
        if let Some(level) = of.level.checked_sub(1) {
            let first = of.at * LATENCY_FAN_OUT;
            let parts = (first..first + LATENCY_FAN_OUT).map(|at| self.latency_stretch(level, at));
            return parts.collect::<Option<_>>().map(LatencyOf::Parts);
        }
        let (begin, end) = (of.at * UNIT, (of.at + 1) * UNIT);
        if !self.divides(begin) || !self.divides(end) {
            return None;
        }
        let from = if begin == 0 { i64::MIN } else { self.after(begin).ok()? };
        Some(LatencyOf::Records(from, self.after(end).ok()?))
    }

    /// Looks through all of them.
    pub(crate) fn check_latencies(&self) -> Result<(), DamagedSums> {
        for (level, parts) in self.latencies.0.iter().enumerate() {
            for stretch in (0..parts.len()).filter_map(|at| self.latency_stretch(level, at)) {
                self.latencies_of(&stretch, true, true)?;
            }
        }
        Ok(())
    }
}
