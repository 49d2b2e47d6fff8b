// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of a part one by one: from its records, as the index knows what has begun in front of it [spec/index.md
//! 5.5], or as they are kept [spec/view.md 6.1].

use std::ops::Range;

use kymo_ctf::read::{Item, Passed, Range as Times, Reader};
use kymo_index::{BegunSpan, DamagedSums, IndexedSpans, RowSpan, SpanEnd, SpanPairs, SpanRow, SpansAt, WholeSpans};

use crate::error::Error;
use crate::kept::KeptSpans;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::slices::open::Wanted;
use crate::questions::slices::parts::{OpenSlice, PART, TakeSlices};
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;
use crate::walk::{Few, LossLog, Stop};

/// The spans of a window.
pub(crate) struct IndexedSlices<T> {
    pub taken: T,
    /// Not ended, when there were too many.
    pub left_out: u64,
    pub losses: LossLog,
}

/// What is made of the index; else what is wrong with it, if something is.
pub(crate) type Indexed<T> = Result<IndexedSlices<T>, Option<DamagedSums>>;

/// What takes spans that are read from somewhere on.
pub(crate) trait TakeRead: TakeSlices {
    /// What comes now goes on here. What has begun: rows and levels.
    fn resume(&mut self, waiting: Vec<(SliceRow, BegunSpan, u16)>);
}

/// Spans in parts, of the index or kept.
#[derive(Clone, Copy)]
pub(crate) struct KnownSpans<'o> {
    pub spans: &'o IndexedSpans,
    /// By number; none where rows are those of threads.
    pub rows: Option<&'o [SliceRow]>,
}

impl<'o> KnownSpans<'o> {
    /// Those of the index.
    pub(crate) fn of_threads(spans: &'o IndexedSpans) -> KnownSpans<'o> {
        KnownSpans { spans, rows: None }
    }

    /// Those that are kept.
    pub(crate) fn of_kept(kept: &'o KeptSpans) -> KnownSpans<'o> {
        KnownSpans { spans: &kept.spans, rows: kept.rows.as_deref() }
    }

    /// A row.
    pub(crate) fn row(self, row: SpanRow) -> SliceRow {
        let number = row.and_then(|number| usize::try_from(number).ok());
        self.rows.map_or(SliceRow::Thread(row), |rows| {
            number.and_then(|number| rows.get(number)).copied().unwrap_or(SliceRow::Thread(None))
        })
    }
}

/// Reads the spans of parts.
pub(crate) struct SpanReader<'o> {
    of: &'o Opened,
    pub spans: &'o IndexedSpans,
    known: KnownSpans<'o>,
    /// By stream.
    is_read: Vec<bool>,
    pub wanted: Wanted<'o>,
}

/// The parts of a window.
pub(crate) struct PartsAround {
    /// That in which the window begins, where it does not begin with it.
    pub head: Option<usize>,
    /// Those that lie in it.
    pub parts: Range<usize>,
    /// That in which it ends.
    pub tail: usize,
}

impl<'o> SpanReader<'o> {
    /// Of some threads; none where it is not known which streams have such records.
    pub(crate) fn new(of: &'o Opened, known: KnownSpans<'o>, wanted: Wanted<'o>) -> Option<SpanReader<'o>> {
        let spans = known.spans;
        if spans.has_whole() {
            return Some(SpanReader { of, spans, known, is_read: Vec::new(), wanted });
        }
        let trace = of.traces.first()?;
        let pairs = spans.at(0, trace).ok()?.pairs;
        let mut is_wanted = vec![false; of.classes.list.len()];
        for event in (0..trace.metadata.events.len()).filter(|event| pairs.takes(*event)) {
            of.classes.at(0, event).into_iter().for_each(|class| is_wanted[class] = true);
        }
        Some(SpanReader { of, spans, known, is_read: Few::by_fields(is_wanted).streams(of)?, wanted })
    }

    /// The parts of a window.
    pub(crate) fn around(&self, window: Window) -> PartsAround {
        let (first, tail) = (self.spans.part_of(window.from), self.spans.part_of(window.to));
        let is_at_begin = window.from <= self.of.base() || self.spans.times(first).0 == Some(window.from);
        let head = Some(first).filter(|_| !is_at_begin && first < tail);
        PartsAround { head, parts: (first + usize::from(head.is_some())).min(tail)..tail, tail }
    }

    /// The row of a span.
    pub(crate) fn row(&self, row: SpanRow) -> SliceRow {
        self.known.row(row)
    }

    /// Whether a row is asked for; of keys all are.
    pub(crate) fn wants(&self, row: SpanRow) -> bool {
        self.known.rows.is_some() || self.wanted.has(row)
    }

    /// Takes a part from its begin up to a time. What has begun and not ended by then.
    pub(crate) fn part(
        &self,
        part: usize,
        to: Option<i64>,
        taker: &mut impl TakeRead,
        stop: &Stop,
    ) -> Result<Result<Vec<OpenSlice>, DamagedSums>, Error> {
        match self.spans.has_whole() {
            true => Ok(self.whole(part, to, taker)),
            false => self.records(part, to, taker, stop),
        }
    }

    /// A part whose spans are there one by one.
    fn whole(&self, part: usize, to: Option<i64>, taker: &mut impl TakeRead) -> Result<Vec<OpenSlice>, DamagedSums> {
        let (before, WholeSpans { ended, begun }) = (self.spans.begun(part)?, self.spans.whole(part)?);
        let before = before.into_iter().filter(|(open, _)| self.wanted.has(open.tid));
        taker.resume(before.map(|(open, level)| (self.row(open.row), open.of, level)).collect());
        let is_before = |at: i64| to.is_none_or(|to| at < to);
        let (mut list, mut open) = (Vec::new(), Vec::new());
        for RowSpan { row, begun_by, span } in ended {
            let row = self.row(row);
            if is_before(span.to) {
                if self.wanted.has(span.tid) {
                    list.push(slice(&span, row));
                }
            } else if is_before(span.from) && self.wanted.has(begun_by) {
                let row = match row {
                    SliceRow::Thread(_) => SliceRow::Thread(begun_by),
                    of_key @ SliceRow::Key(..) => of_key,
                };
                open.push(OpenSlice { row, span: span.span, tid: begun_by, from: span.from });
            }
        }
        let begun = begun.iter().filter(|open| is_before(open.of.1) && self.wanted.has(open.tid));
        open.extend(begun.map(|own| {
            let (span, from) = own.of;
            OpenSlice { row: self.row(own.row), span, tid: own.tid, from }
        }));
        taker.part(list, &open);
        Ok(open)
    }

    /// Reads a part from its begin up to a time. What has begun and not ended by then.
    fn records(
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
pub(crate) fn slice(of: &SpanEnd, row: SliceRow) -> Slice {
    let SpanEnd { span, tid, process, name, cpu, from, to, doubt } = *of;
    Slice { span, tid, process, name, cpu, from, to, open: false, doubt, row }
}
