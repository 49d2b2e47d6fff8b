// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that are four between two checkpoints, or four of the level below [spec/index.md 5.3, 5.4]: which of them a
//! window is made of, and what they are made of themselves.

use std::ops::Range;

use crate::latency_maker::LATENCY_FAN_OUT;
use crate::measuring::UNIT;
use crate::pictures::{Gallery, Stretch};
use crate::pyramid::{DamagedSums, Pyramid};

/// A part, by where it is among all. `P`: where what it has is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPart<P> {
    pub(crate) place: P,
    level: usize,
    at: usize,
}

impl<P> UnitPart<P> {
    /// Which part it is: its level, and its position there.
    pub fn id(&self) -> (usize, usize) {
        (self.level, self.at)
    }
}

/// What a part is made of.
#[derive(Clone, Debug)]
pub enum UnitContent<P> {
    /// Its own parts.
    Parts(Vec<UnitPart<P>>),
    /// The records from a time on, up to another one.
    Records(i64, i64),
}

/// Where parts are, by level.
pub(crate) type UnitLevels<P> = [Vec<Option<P>>];

/// The part at a position of a level.
pub(crate) fn unit_part<P: Copy>(levels: &UnitLevels<P>, level: usize, at: usize) -> Option<UnitPart<P>> {
    let place = levels.get(level)?.get(at).copied().flatten()?;
    Some(UnitPart { place, level, at })
}

/// All of them.
pub(crate) fn all_units<P: Copy>(levels: &UnitLevels<P>) -> impl Iterator<Item = UnitPart<P>> {
    let of_level = move |(level, parts): (usize, &Vec<Option<P>>)| {
        (0..parts.len()).filter_map(move |at| unit_part(levels, level, at))
    };
    levels.iter().enumerate().flat_map(of_level)
}

/// Parts between two checkpoints that one of a level is.
fn count_of(level: usize) -> usize {
    LATENCY_FAN_OUT.saturating_pow(level as u32).saturating_mul(UNIT)
}

/// The longest part that begins there and ends in time, of those that fit, and how many of the finest level it is.
fn longest<P: Copy>(
    levels: &UnitLevels<P>,
    (at, end): (usize, usize),
    fits: &impl Fn(&P) -> bool,
) -> Option<(UnitPart<P>, usize)> {
    let mut found = None;
    for level in 0..levels.len() {
        let count = count_of(level);
        if at % count != 0 || at + count > end {
            break;
        }
        let part = unit_part(levels, level, at / count).filter(|part| fits(&part.place));
        found = part.map(|part| (part, count)).or(found);
    }
    found
}

impl Pyramid {
    /// The parts of a window [from, to), of those that fit. `is_from_begin`: the window has all that is before its end.
    /// `Ok(None)`: there are none, or reading the records is the only way.
    pub(crate) fn units<P: Copy>(
        &self,
        levels: &UnitLevels<P>,
        window: (i64, i64),
        is_from_begin: bool,
        fits: impl Fn(&P) -> bool,
    ) -> Result<Option<Gallery<UnitPart<P>>>, DamagedSums> {
        let whole = self.range(window, is_from_begin).and_then(|range| self.unit_range(range));
        let Some(range) = whole else { return Ok(None) };
        let (mut stretches, mut at, mut has_part) = (Vec::new(), range.start, false);
        while at < range.end {
            if let Some((part, count)) = longest(levels, (at, range.end), &fits) {
                stretches.push(Stretch::Picture(part));
                (at, has_part) = (at + count, true);
                continue;
            }
            // Records are chosen by time: it must divide them from the parts around.
            let begin = at;
            at += UNIT;
            while at < range.end && (!self.divides(at) || longest(levels, (at, range.end), &fits).is_none()) {
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
    fn unit_range(&self, range: Range<usize>) -> Option<Range<usize>> {
        let is_end = |boundary: &usize| boundary % UNIT == 0 && self.divides(*boundary);
        let first = range.clone().find(is_end)?;
        let last = (first + 1..=range.end).rev().find(is_end)?;
        Some(first..last)
    }

    /// What a part is made of. `None`: of records that no time divides from those around them, or what it is made of
    /// had too much.
    pub(crate) fn unit_content<P: Copy>(&self, levels: &UnitLevels<P>, of: &UnitPart<P>) -> Option<UnitContent<P>> {
        if let Some(level) = of.level.checked_sub(1) {
            let first = of.at * LATENCY_FAN_OUT;
            let parts = (first..first + LATENCY_FAN_OUT).map(|at| unit_part(levels, level, at));
            return parts.collect::<Option<_>>().map(UnitContent::Parts);
        }
        let (begin, end) = (of.at * UNIT, (of.at + 1) * UNIT);
        if !self.divides(begin) || !self.divides(end) {
            return None;
        }
        let from = if begin == 0 { i64::MIN } else { self.after(begin).ok()? };
        Some(UnitContent::Records(from, self.after(end).ok()?))
    }
}
