// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which parts the spans of a window are made of [spec/index.md 5.5].

use std::ops::Range;
use std::sync::Arc;

use kymo_ctf::read::Trace;

use crate::file::Pieces;
use crate::nesting::Nesting;
use crate::pyramid::DamagedSums;
use crate::span_bytes::take_waiting;
use crate::span_head::{SpanPiece, SpansHead};
use crate::span_maker::SPAN_FAN_OUT;
use crate::span_pairs::SpanPairs;
use crate::span_part::SpanPart;

/// A part of a window.
#[derive(Clone, Copy, Debug)]
pub enum SpanStretch {
    /// Spans of a part of the index, by where it is.
    Part(SpanPartPlace),
    /// The records of a part of the lowest level, by its number.
    Records(usize),
}

/// Where a part is.
#[derive(Clone, Copy, Debug)]
pub struct SpanPartPlace(SpanPiece);

/// The spans of a program's own events in the index.
#[derive(Debug)]
pub struct IndexedSpans {
    pub(crate) pieces: Arc<Pieces>,
    pub(crate) head: SpansHead,
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
    pub fn stretches(&self, parts: Range<usize>, shift: u32) -> Vec<SpanStretch> {
        let (mut stretches, mut at) = (Vec::new(), parts.start);
        while at < parts.end {
            let (mut found, mut count) = (SpanStretch::Records(at), 1);
            for (level, parts_of) in self.head.levels.iter().enumerate() {
                let length = SPAN_FAN_OUT.saturating_pow(level as u32);
                if at % length != 0 || length > parts.end - at {
                    break;
                }
                let part = parts_of.get(at / length).copied().flatten().filter(|part| part.shift <= shift);
                if let Some(part) = part {
                    (found, count) = (SpanStretch::Part(SpanPartPlace(part)), length);
                }
            }
            stretches.push(found);
            at += count;
        }
        stretches
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

    /// Looks through all of them.
    pub(crate) fn check(&self) -> Result<(), DamagedSums> {
        for part in self.head.levels.iter().flatten().flatten() {
            self.part(&SpanPartPlace(*part), |_| true)?;
        }
        for (at, piece) in &self.head.over {
            let bytes = self.pieces.read(piece).ok_or(DamagedSums)?;
            take_waiting(*at, &bytes).ok_or(DamagedSums)?;
        }
        Ok(())
    }
}
