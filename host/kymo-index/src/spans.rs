// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which parts the spans of a window are made of [spec/index.md 5.5].

pub(crate) mod bytes;
pub(crate) mod flame;
pub(crate) mod head;
pub(crate) mod keeper;
pub(crate) mod maker;
pub(crate) mod nesting;
pub(crate) mod pairs;
pub(crate) mod part;
pub(crate) mod parts;
#[cfg(test)]
mod tests;
pub(crate) mod whole;

use std::ops::Range;
use std::sync::Arc;

use kymo_analyze::{Of, SampleGroup};
use kymo_ctf::read::Trace;

use crate::file::{Piece, Pieces};
use crate::latencies::LatencyStretch;
use crate::latencies::head::LatencyPlace;
use crate::latencies::part::LatencyPart;
use crate::pyramid::DamagedSums;
use crate::pyramid::units::{UnitContent, UnitLevels, UnitPart};
use crate::spans::bytes::take_waiting;
use crate::spans::flame::FlamePart;
use crate::spans::head::{SpanPiece, SpansHead};
use crate::spans::nesting::Nesting;
use crate::spans::pairs::SpanPairs;
use crate::spans::part::SpanPart;
use crate::spans::parts::{OpenSpan, SPAN_FAN_OUT};
use crate::spans::whole::{WholePieces, WholeSpans, take_open};

/// A part of a window.
#[derive(Clone, Copy, Debug)]
pub enum SpanStretch<P> {
    /// A part of the index, by where it is.
    Part(P),
    /// The records of a part of the lowest level, by its number.
    Records(usize),
}

/// Where a part is.
#[derive(Clone, Copy, Debug)]
pub struct SpanPartPlace(SpanPiece);

/// Where it is said where the time of a part went.
#[derive(Clone, Copy, Debug)]
pub struct FlamePlace(Piece);

/// The fewest parts that some of the lowest level are. `place` has the level of a part, and where it is there.
fn fewest<T, P>(
    levels: &[Vec<T>],
    parts: Range<usize>,
    place: impl Fn(&T, (usize, usize)) -> Option<P>,
) -> Vec<SpanStretch<P>> {
    let (mut stretches, mut at) = (Vec::new(), parts.start);
    while at < parts.end {
        let (mut found, mut count) = (SpanStretch::Records(at), 1);
        for (level, parts_of) in levels.iter().enumerate() {
            let length = SPAN_FAN_OUT.saturating_pow(level as u32);
            if at % length != 0 || length > parts.end - at {
                break;
            }
            if let Some(part) = parts_of.get(at / length).and_then(|of| place(of, (level, at / length))) {
                (found, count) = (SpanStretch::Part(part), length);
            }
        }
        stretches.push(found);
        at += count;
    }
    stretches
}

/// Spans in parts: those of a program's own events in the index, or those that somebody chose.
#[derive(Debug)]
pub struct IndexedSpans {
    pub(crate) pieces: Arc<Pieces>,
    pub(crate) head: SpansHead,
    /// Of those that somebody chose.
    pub(crate) whole: Option<WholePieces>,
}

/// What is known at a boundary of parts.
pub struct SpansAt {
    /// What has begun and not ended.
    pub pairs: SpanPairs,
    /// By thread: how deep it lies.
    pub nesting: Nesting<Option<i32>>,
}

impl IndexedSpans {
    /// Pairs of events.
    pub fn texts(&self) -> &[String] {
        &self.head.texts
    }

    /// The part that has a time; behind the last one it is the number of parts.
    pub fn part_of(&self, at: i64) -> usize {
        self.head.over.partition_point(|(over, _)| *over <= at)
    }

    /// From when to when a part goes, ns; `None`: from the begin of the trace, or up to its end.
    pub fn times(&self, part: usize) -> (Option<i64>, Option<i64>) {
        let over = |at: usize| self.head.over.get(at).map(|(over, _)| *over);
        (part.checked_sub(1).and_then(over), over(part))
    }

    /// Stretches of parts with columns of 2 to the power of `shift` ns at most, or of records.
    pub fn stretches(&self, parts: Range<usize>, shift: u32) -> Vec<SpanStretch<SpanPartPlace>> {
        let place = |part: &Option<SpanPiece>, _| part.filter(|part| part.shift <= shift).map(SpanPartPlace);
        fewest(&self.head.levels, parts, place)
    }

    /// Stretches of parts of which it is known where the time went, or of records.
    pub fn flames(&self, parts: Range<usize>) -> Vec<SpanStretch<FlamePlace>> {
        fewest(&self.head.flames, parts, |part, _| part.map(FlamePlace))
    }

    /// Stretches of parts of which it is known how long their spans took, or of records. `shift`: as with
    /// [`IndexedSpans::stretches`]; `is_wanted`: of a part from one time up to another one, which are none at the ends
    /// of the trace.
    pub fn latencies(
        &self,
        parts: Range<usize>,
        shift: u32,
        is_wanted: impl Fn((Option<i64>, Option<i64>)) -> bool,
    ) -> Vec<SpanStretch<LatencyStretch>> {
        fewest(&self.head.latencies.levels, parts, |place, (level, at)| {
            let count = SPAN_FAN_OUT.saturating_pow(level as u32);
            let times = (self.times(at * count).0, self.times(at * count + count - 1).1);
            let place = place.filter(|place| place.shift <= shift && is_wanted(times))?;
            Some(UnitPart { place, level, at })
        })
    }

    /// How long the spans of a part took, with cells where they are wanted.
    ///
    /// # Errors
    /// They are damaged.
    pub fn latencies_of(&self, of: &LatencyStretch, with_cells: bool) -> Result<LatencyPart, DamagedSums> {
        let part = self.head.latencies.read(&of.place, &self.pieces, with_cells, true).ok_or(DamagedSums)?;
        let is_span = |group: SampleGroup, of: Of| match of {
            Of::Span(span) => group == SampleGroup::Span && usize::from(span) < self.head.texts.len(),
            _ => false,
        };
        let all = part.series.iter().map(|of| (of.group, of.of));
        let is_of_spans = all.chain(part.past.iter().map(|of| (of.group, of.of))).all(|(group, of)| is_span(group, of));
        if is_of_spans { Ok(part) } else { Err(DamagedSums) }
    }

    /// What a part is made of. `None`: what it is made of had too much.
    pub fn within(&self, of: &LatencyStretch) -> Option<UnitContent<LatencyPlace>> {
        let levels = UnitLevels { levels: &self.head.latencies.levels, fan_out: SPAN_FAN_OUT };
        levels.parts_of(of).map_or_else(
            || {
                let (from, to) = self.times(of.id().1);
                Some(UnitContent::Records(from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX)))
            },
            |parts| parts.map(UnitContent::Parts),
        )
    }

    /// What spans of a path lie within, and they themselves: pairs, the outermost first.
    pub fn path(&self, number: u32) -> Vec<u16> {
        let (mut path, mut at) = (Vec::new(), Some(number));
        while let Some(&(parent, span)) = at.and_then(|at| self.head.paths.get(at as usize)) {
            path.push(span);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Where the time of a part went.
    ///
    /// # Errors
    /// It is damaged.
    pub fn flame(&self, place: &FlamePlace) -> Result<FlamePart, DamagedSums> {
        let bytes = self.pieces.read(&place.0).ok_or(DamagedSums)?;
        FlamePart::decode(&bytes, self.head.paths.len()).ok_or(DamagedSums)
    }

    /// The spans of a part, in the rows of some threads.
    ///
    /// # Errors
    /// They are damaged.
    pub fn part(&self, place: &SpanPartPlace, wants: impl Fn(Option<i32>) -> bool) -> Result<SpanPart, DamagedSums> {
        let bytes = self.pieces.read(&place.0.piece).ok_or(DamagedSums)?;
        SpanPart::decode(&bytes, wants).filter(|part| part.shift == place.0.shift).ok_or(DamagedSums)
    }

    /// What is known in front of a part.
    ///
    /// # Errors
    /// It is damaged, or the trace does not have these events.
    pub fn at(&self, part: usize, trace: &Trace) -> Result<SpansAt, DamagedSums> {
        let mut pairs = SpanPairs::new(self.texts(), trace).ok_or(DamagedSums)?;
        let mut nesting = Nesting::default();
        if let Some(before) = part.checked_sub(1) {
            let (at, piece) = self.head.over.get(before).ok_or(DamagedSums)?;
            let bytes = self.pieces.read(piece).ok_or(DamagedSums)?;
            let waiting = take_waiting(*at, &bytes).ok_or(DamagedSums)?;
            pairs.resume(&waiting);
            waiting.iter().for_each(|of| nesting.resume(of.tid, (of.span, of.from), of.level));
        }
        Ok(SpansAt { pairs, nesting })
    }

    /// Whether spans of parts are there one by one: no records are needed.
    pub fn has_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Whether all end in the thread that they began in. Else what lies within them is not known at the end of a part.
    pub fn is_of_threads(&self) -> bool {
        self.whole.as_ref().is_none_or(|whole| !whole.is_across)
    }

    /// Spans of a part, one by one.
    ///
    /// # Errors
    /// They are damaged, or not there.
    pub fn whole(&self, part: usize) -> Result<WholeSpans, DamagedSums> {
        let whole = self.whole.as_ref().ok_or(DamagedSums)?;
        let ended = whole.ended(part, &self.pieces).ok_or(DamagedSums)?;
        let begun = self.begun(part + 1)?.into_iter().map(|(open, _)| open).collect();
        Ok(WholeSpans { ended, begun })
    }

    /// What has begun in front of a part, and how deep it lies.
    ///
    /// # Errors
    /// As [`IndexedSpans::whole`].
    pub fn begun(&self, part: usize) -> Result<Vec<(OpenSpan, u16)>, DamagedSums> {
        let Some(before) = part.checked_sub(1) else { return Ok(Vec::new()) };
        let whole = self.whole.as_ref().ok_or(DamagedSums)?;
        let (at, piece) = self.head.over.get(before).copied().unwrap_or((0, whole.end));
        let bytes = self.pieces.read(&piece).ok_or(DamagedSums)?;
        take_open(at, &bytes).ok_or(DamagedSums)
    }

    /// Looks through all of them.
    pub(crate) fn check(&self) -> Result<(), DamagedSums> {
        for part in self.head.levels.iter().flatten().flatten() {
            self.part(&SpanPartPlace(*part), |_| true)?;
        }
        for part in self.head.flames.iter().flatten().flatten() {
            self.flame(&FlamePlace(*part))?;
        }
        for (level, parts) in self.head.latencies.levels.iter().enumerate() {
            for (at, place) in parts.iter().enumerate() {
                place.map_or(Ok(()), |place| self.latencies_of(&UnitPart { place, level, at }, true).map(drop))?;
            }
        }
        for (at, piece) in &self.head.over {
            let bytes = self.pieces.read(piece).ok_or(DamagedSums)?;
            take_waiting(*at, &bytes).ok_or(DamagedSums)?;
        }
        Ok(())
    }
}
