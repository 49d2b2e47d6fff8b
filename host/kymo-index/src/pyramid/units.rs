// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that lie between two checkpoints, or are some of the level below [spec/index.md 5.3, 5.4]: which of them a
//! window is made of, and what they are made of themselves.

use crate::pictures::{Gallery, Stretch};
use crate::pyramid::{DamagedSums, Pyramid};

/// A part, by where it is among all. `P`: where what it has is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPart<P> {
    pub(crate) place: P,
    pub(crate) level: usize,
    pub(crate) at: usize,
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

/// Where parts are.
#[derive(Clone, Copy)]
pub(crate) struct UnitLevels<'a, P> {
    /// By level; `None` where there was too much.
    pub levels: &'a [Vec<Option<P>>],
    /// Parts of a level that are one of the next.
    pub fan_out: usize,
}

impl<P: Copy> UnitLevels<'_, P> {
    fn part(&self, level: usize, at: usize) -> Option<UnitPart<P>> {
        let place = self.levels.get(level)?.get(at).copied().flatten()?;
        Some(UnitPart { place, level, at })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = UnitPart<P>> {
        let parts = self
            .levels
            .iter()
            .enumerate()
            .flat_map(|(level, parts)| parts.iter().enumerate().map(move |(at, place)| (level, at, place)));
        parts.filter_map(|(level, at, place)| place.map(|place| UnitPart { place, level, at }))
    }

    /// The parts that a part is made of, which are none where it had too much. `None`: it is of the lowest level.
    pub fn parts_of(&self, of: &UnitPart<P>) -> Option<Option<Vec<UnitPart<P>>>> {
        let level = of.level.checked_sub(1)?;
        let first = of.at * self.fan_out;
        Some((first..first + self.fan_out).map(|at| self.part(level, at)).collect())
    }

    /// The longest part that begins there and ends in time, of those that fit, and how many of the finest level it is.
    fn longest(&self, (at, end): (usize, usize), fits: &impl Fn(&P) -> bool) -> Option<(UnitPart<P>, usize)> {
        let (mut found, mut count) = (None, 1usize);
        for level in 0..self.levels.len() {
            if at % count != 0 || at + count > end {
                break;
            }
            let part = self.part(level, at / count).filter(|part| fits(&part.place));
            found = part.map(|part| (part, count)).or(found);
            count = count.saturating_mul(self.fan_out);
        }
        found
    }
}

impl Pyramid {
    /// The parts of a window [from, to), of those that fit. `is_from_begin`: the window has all that is before its end.
    /// `Ok(None)`: there are none, or reading the records is the only way.
    pub(crate) fn units<P: Copy>(
        &self,
        of: UnitLevels<'_, P>,
        window: (i64, i64),
        is_from_begin: bool,
        fits: impl Fn(&P) -> bool,
    ) -> Result<Option<Gallery<UnitPart<P>>>, DamagedSums> {
        let Some(range) = self.range(window, is_from_begin) else { return Ok(None) };
        let (mut stretches, mut at, mut has_part) = (Vec::new(), range.start, false);
        while at < range.end {
            if let Some((part, count)) = of.longest((at, range.end), &fits) {
                stretches.push(Stretch::Picture(part));
                (at, has_part) = (at + count, true);
                continue;
            }
            // Records are chosen by time: it must divide them from the parts around.
            let begin = at;
            at += 1;
            while at < range.end && (!self.divides(at) || of.longest((at, range.end), &fits).is_none()) {
                at += 1;
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

    /// What a part is made of. `None`: of records that no time divides from those around them, or what it is made of
    /// had too much.
    pub(crate) fn unit_content<P: Copy>(&self, levels: UnitLevels<'_, P>, of: &UnitPart<P>) -> Option<UnitContent<P>> {
        if let Some(parts) = levels.parts_of(of) {
            return parts.map(UnitContent::Parts);
        }
        let (begin, end) = (of.at, of.at + 1);
        if !self.divides(begin) || !self.divides(end) {
            return None;
        }
        let from = if begin == 0 { i64::MIN } else { self.after(begin).ok()? };
        Some(UnitContent::Records(from, self.after(end).ok()?))
    }
}
