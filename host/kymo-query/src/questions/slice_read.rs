// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans from the records of a part of the index, which knows what has begun in front of it [spec/index.md 5.5].

use std::ops::Range;

use kymo_ctf::read::{Item, Passed, Range as Times, Reader};
use kymo_index::{BegunSpan, DamagedSums, IndexedSpans, SpanEnd, SpanPairs, SpansAt};

use super::slice::Slice;
use super::slice_open::Wanted;
use super::slice_parts::{OpenSlice, PART, TakeSlices};
use super::slice_rows::SliceRow;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::walk::{Few, LossLog, Stop};

/// The spans of a window.
pub(super) struct IndexedSlices<T> {
    pub taken: T,
    /// Not ended, when there were too many.
    pub left_out: u64,
    pub losses: LossLog,
}

/// What is made of the index; else what is wrong with it, if something is.
pub(super) type Indexed<T> = Result<IndexedSlices<T>, Option<DamagedSums>>;

/// What takes spans that are read from somewhere on.
pub(super) trait TakeRead: TakeSlices {
    /// What comes now goes on here. What has begun: rows and levels.
    fn resume(&mut self, waiting: Vec<(SliceRow, BegunSpan, u16)>);
}

/// Reads the spans of parts.
pub(super) struct SpanReader<'o> {
    of: &'o Opened,
    pub spans: &'o IndexedSpans,
    /// By stream.
    is_read: Vec<bool>,
    pub wanted: Wanted<'o>,
}

/// The parts of a window.
pub(super) struct PartsAround {
    /// That in which the window begins, where it does not begin with it.
    pub head: Option<usize>,
    /// Those that lie in it.
    pub parts: Range<usize>,
    /// That in which it ends.
    pub tail: usize,
}

impl<'o> SpanReader<'o> {
    /// Of some threads; none where it is not known which streams have such records.
    pub(super) fn new(of: &'o Opened, spans: &'o IndexedSpans, wanted: Wanted<'o>) -> Option<SpanReader<'o>> {
        let trace = of.traces.first()?;
        let pairs = spans.at(0, trace).ok()?.pairs;
        let mut is_wanted = vec![false; of.classes.list.len()];
        for event in (0..trace.metadata.events.len()).filter(|event| pairs.takes(*event)) {
            of.classes.at(0, event).into_iter().for_each(|class| is_wanted[class] = true);
        }
        Some(SpanReader { of, spans, is_read: Few::by_fields(is_wanted).streams(of)?, wanted })
    }

    /// The parts of a window.
    pub(super) fn around(&self, window: Window) -> PartsAround {
        let (first, tail) = (self.spans.part_of(window.from), self.spans.part_of(window.to));
        let is_at_begin = window.from <= self.of.base() || self.spans.times(first).0 == Some(window.from);
        let head = Some(first).filter(|_| !is_at_begin && first < tail);
        PartsAround { head, parts: (first + usize::from(head.is_some())).min(tail)..tail, tail }
    }

    /// Reads a part from its begin up to a time. What has begun and not ended by then.
    pub(super) fn part(
        &self,
        part: usize,
        to: Option<i64>,
        taker: &mut impl TakeRead,
        stop: &Stop,
    ) -> Result<Result<Vec<OpenSlice>, DamagedSums>, Error> {
        let (of, wanted) = (self.of, self.wanted);
        let at = of.traces.first().ok_or(DamagedSums).and_then(|trace| self.spans.at(part, trace));
        let SpansAt { mut pairs, nesting } = match at {
            Ok(at) => at,
            Err(damaged) => return Ok(Err(damaged)),
        };
        let waiting = nesting.waiting().filter(|(tid, ..)| wanted.has(*tid));
        taker.resume(waiting.map(|(tid, begun, level)| (SliceRow::Thread(tid), begun, level)).collect());
        let from = self.spans.times(part).0;
        let range = Times { from_ns: from.map(i128::from), to_ns: to.map(i128::from) };
        let starts = of.indexes.starts_of(&of.traces, range.from_ns, &self.is_read);
        let Some(mut reader) = Reader::between(&of.traces, range, &starts) else { return Ok(Err(DamagedSums)) };
        let begun = |pairs: &SpanPairs| -> Vec<OpenSlice> {
            let all = pairs.begun().filter(|(tid, _)| wanted.has(*tid));
            all.map(|(tid, (span, from))| OpenSlice { row: SliceRow::Thread(tid), span, tid, from }).collect()
        };
        let (mut list, mut passed) = (Vec::new(), 0u32);
        while let Some(next) = reader.pass() {
            stop.check_some(&mut passed)?;
            let Passed::Record { event, .. } = next else { continue };
            let Some(Item::Record(record)) = pairs.takes(event).then(|| reader.current()).flatten() else { continue };
            let is_said = pairs.record(&record, |span| {
                if wanted.has(span.tid) {
                    list.push(slice(&span, SliceRow::Thread(span.tid)));
                }
            });
            if !is_said {
                return Ok(Err(DamagedSums));
            }
            if list.len() >= PART {
                taker.part(std::mem::take(&mut list), &begun(&pairs));
            }
        }
        let open = begun(&pairs);
        taker.part(list, &open);
        Ok(Ok(open))
    }
}

/// A span on its way to an answer.
pub(super) fn slice(of: &SpanEnd, row: SliceRow) -> Slice {
    let SpanEnd { span, tid, process, name, cpu, from, to, doubt } = *of;
    Slice { span, tid, process, name, cpu, from, to, open: false, doubt, row }
}
