// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of spans went [spec/index.md 5.5]: sums of a part by thread and by what spans lie within. They add up
//! to those of a longer part.

use std::collections::BTreeMap;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;

use crate::latencies::samples::TIME_MAX;
use crate::spans::nesting::{BegunSpan, WaitingPlaces, divided, within};
use crate::spans::part::SpanEnd;

/// Kinds of spans that lie within the same ones, of a trace at most.
pub(crate) const PATHS_MAX: usize = 1 << 16;
/// Spans within each other that are kept apart.
pub const FLAME_DEPTH_MAX: u16 = 128;
/// Sums of a part at most. A part with more is read.
const ROWS_MAX: usize = 1 << 16;

/// Spans of one kind, within the same ones: the path of the innermost of these, which comes before it, and the number
/// of the pair.
pub type FlamePath = (Option<u32>, u16);

/// Spans of a thread that have the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameSums {
    /// How many.
    pub count: u64,
    /// With what lies within, ns.
    pub total_ns: u64,
    /// The longest, and of equal ones the first: begin and end, ns.
    pub longest: (i64, i64),
}

/// Which of two stretches is the longer one, and of equal ones the first.
pub fn longer(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    let length = |of: (i64, i64)| of.1.abs_diff(of.0);
    if length(b) > length(a) || length(b) == length(a) && b.0 < a.0 { b } else { a }
}

impl FlameSums {
    /// Of one span.
    pub fn of((from, to): (i64, i64)) -> FlameSums {
        FlameSums { count: 1, total_ns: to.abs_diff(from), longest: (from, to) }
    }

    fn add(&mut self, other: &FlameSums) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest = longer(self.longest, other.longest);
    }
}

/// A span that began before its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameCrossing {
    /// Its thread.
    pub tid: Option<i32>,
    /// Number of its path.
    pub path: u32,
    /// Begin and end, ns.
    pub stretch: (i64, i64),
}

/// The spans that end in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlamePart {
    /// As that of the spans of the part, ns.
    pub from: i64,
    /// By thread and number of the path, of those that begin in it.
    pub rows: BTreeMap<(Option<i32>, u32), FlameSums>,
    /// The others.
    pub crossing: Vec<FlameCrossing>,
    /// Spans that have no path, because there are too many, or too deep ones.
    pub left_out: u64,
}

impl FlamePart {
    fn add(&mut self, tid: Option<i32>, path: u32, sums: &FlameSums) {
        self.rows.entry((tid, path)).and_modify(|own| own.add(sums)).or_insert(*sums);
    }

    fn take(&mut self, of: FlameCrossing) {
        match of.stretch.0 < self.from {
            true => self.crossing.push(of),
            false => self.add(of.tid, of.path, &FlameSums::of(of.stretch)),
        }
    }

    /// Of parts that follow each other.
    pub(crate) fn of(parts: &[FlamePart]) -> Option<FlamePart> {
        let mut all = FlamePart { from: parts.first()?.from, ..FlamePart::default() };
        for part in parts {
            part.rows.iter().for_each(|((tid, path), sums)| all.add(*tid, *path, sums));
            part.crossing.iter().for_each(|of| all.take(*of));
            all.left_out = all.left_out.saturating_add(part.left_out);
        }
        Some(all)
    }

    /// Whether there is no more than a part may have.
    pub(crate) fn fits(&self) -> bool {
        self.rows.len() + self.crossing.len() <= ROWS_MAX
    }

    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        put.signed(self.from);
        put.number(self.left_out);
        let put_of = |put: &mut Put, tid: Option<i32>, path: u32, (from, to): (i64, i64)| {
            put.option(tid, |put, tid| put.signed(tid.into()));
            put.number(path.into());
            put.signed(from.wrapping_sub(self.from));
            put.number(to.abs_diff(from));
        };
        put.number(self.rows.len() as u64);
        for ((tid, path), sums) in &self.rows {
            put_of(&mut put, *tid, *path, sums.longest);
            put.number(sums.count);
            put.number(sums.total_ns);
        }
        put.number(self.crossing.len() as u64);
        self.crossing.iter().for_each(|of| put_of(&mut put, of.tid, of.path, of.stretch));
        put.0
    }

    /// The same again. `paths`: how many there are.
    pub(crate) fn decode(bytes: &[u8], paths: usize) -> Option<FlamePart> {
        let mut take = Take(bytes);
        let near = |at: i64| (-TIME_MAX..TIME_MAX).contains(&at).then_some(at);
        let mut part = FlamePart { from: near(take.signed()?)?, ..FlamePart::default() };
        part.left_out = take.number()?;
        let base = part.from;
        let one = |take: &mut Take<'_>| {
            let tid = take.option(|take| i32::try_from(take.signed()?).ok())?;
            let path = take.small::<u32>().filter(|path| (*path as usize) < paths)?;
            let from = near(base.checked_add(take.signed()?)?)?;
            Some(FlameCrossing { tid, path, stretch: (from, near(from.checked_add_unsigned(take.number()?)?)?) })
        };
        for _ in 0..take.count()? {
            let FlameCrossing { tid, path, stretch } = one(&mut take)?;
            let sums = FlameSums { longest: stretch, count: take.number()?, total_ns: take.number()? };
            part.rows.insert((tid, path), sums);
        }
        let count = take.count()?;
        part.crossing = (0..count).map(|_| one(&mut take)).collect::<Option<_>>()?;
        take.is_empty().then_some(part)
    }
}

/// Numbers paths, and sums up parts.
#[derive(Default)]
pub(crate) struct FlameMaker {
    /// All paths, by number.
    pub paths: Vec<FlamePath>,
    depths: Vec<u16>,
    known: Map<FlamePath, u32>,
}

impl FlameMaker {
    /// The path of spans within others; none where there are too many.
    fn path(&mut self, of: FlamePath) -> Option<u32> {
        if let Some(known) = self.known.get(&of) {
            return Some(*known);
        }
        let depth = of.0.map_or(0, |parent| self.depths[parent as usize] + 1);
        if self.paths.len() >= PATHS_MAX || depth >= FLAME_DEPTH_MAX {
            return None;
        }
        let number = self.paths.len() as u32;
        self.paths.push(of);
        self.depths.push(depth);
        self.known.insert(of, number);
        Some(number)
    }

    /// Takes the spans that ended in a part, and those that have begun and not ended.
    pub fn part(
        &mut self,
        from: i64,
        ended: &[SpanEnd],
        begun: impl Iterator<Item = (Option<i32>, BegunSpan)>,
    ) -> FlamePart {
        let mut part = FlamePart { from, ..FlamePart::default() };
        for (tid, (ended, begun)) in divided(ended.iter().map(|span| (span.tid, *span)), begun, []) {
            let all = WaitingPlaces::<u32>::default().next(ended, &begun);
            let paths = within(&all, false, |parent, span, _| self.path((parent, span)));
            for (span, path) in all.iter().zip(paths).filter_map(|(of, path)| Some((of.ended?, path))) {
                match path {
                    Some(path) => part.take(FlameCrossing { tid, path, stretch: (span.from, span.to) }),
                    None => part.left_out += 1,
                }
            }
        }
        part
    }
}
