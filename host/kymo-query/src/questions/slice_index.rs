// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a window from the index [spec/index.md 5.5]: parts as they are there, and at the ends of the window the few
//! records that say what is missing.

use kymo_analyze::{Sink, State};
use kymo_ctf::read::{Item, Passed, Range, Reader};
use kymo_feed::{LossAt, Visit};
use kymo_index::{DamagedSums, IndexedSpans, SpanEnd, SpanItem, SpanStretch, SpansAt};

use super::slice::Slice;
use super::slice_drawn::Drawn;
use super::slice_open::{OpenSlices, Wanted};
use super::slice_parts::{OpenSlice, PART, TakeSlices};
use super::slice_rows::SliceRow;
use crate::error::Error;
use crate::lost_until::LostUntil;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::pixels::Pixels;
use crate::walk::{Few, Gather, Stop, Walk, Walked};

/// The spans of a window.
pub(super) struct IndexedSlices {
    pub drawn: Drawn,
    /// Not ended, when there were too many.
    pub left_out: u64,
    pub walked: Walked,
}

/// The spans that an index has, if these are what is asked for.
pub(super) fn has<'o>(of: &'o Opened, texts: &[String], pixels: &Pixels) -> Option<&'o IndexedSpans> {
    let spans = of.indexes.states.as_ref()?.spans.as_ref()?;
    let is_of_index = !pixels.window().is_empty() && pixels.shift().is_some() && of.traces.len() == 1;
    (is_of_index && spans.texts() == texts).then_some(spans)
}

/// Answers from the index. `Ok(Err(_))`: the records are to be read, as it is damaged, or losses are not in it.
pub(super) fn indexed(
    of: &Opened,
    spans: &IndexedSpans,
    (pixels, tids): (Pixels, &Option<Vec<i32>>),
    stop: &Stop,
) -> Result<Result<IndexedSlices, Option<DamagedSums>>, Error> {
    let is_read = Few::by_fields(classes(of, spans)).streams(of);
    let Some(is_read) = is_read else { return Ok(Err(None)) };
    let drawn = Drawn::new(pixels);
    let mut around = Around { of, spans, is_read, wanted: Wanted { tids }, pixels, drawn };
    let begun = match around.window(stop)? {
        Ok(begun) => begun,
        Err(damaged) => return Ok(Err(Some(damaged))),
    };
    let mut drawn = around.drawn;
    let window = pixels.window();
    // A loss before the window makes a span doubtful that began before it.
    let from = begun.iter().map(|of| of.from).chain(drawn.first()).fold(window.from, i64::min).max(of.base());
    let none = Few::by_fields(vec![false; of.classes.list.len()]);
    let mut losses = Losses { list: Vec::new(), begun, open: OpenSlices::default() };
    let walk = Walk::new(of, Window { from, ..window }).in_pixels(pixels);
    let Some(walked) = walk.run_few(&none, &mut losses, stop)? else { return Ok(Err(None)) };
    let (open, left_out) = std::mem::take(&mut losses.open).newest();
    drawn.part(open.into_iter().map(|(slice, _)| slice).collect(), &[]);
    drawn.doubt(&mut losses.until());
    Ok(Ok(IndexedSlices { drawn, left_out, walked }))
}

/// By class: whether its records are of spans.
fn classes(of: &Opened, spans: &IndexedSpans) -> Vec<bool> {
    let pairs = of.traces.first().and_then(|trace| spans.at(0, trace).ok());
    let mut classes = vec![false; of.classes.list.len()];
    let Some((trace, SpansAt { pairs, .. })) = of.traces.first().zip(pairs) else { return classes };
    for event in (0..trace.metadata.events.len()).filter(|event| pairs.takes(*event)) {
        if let Some(class) = of.classes.at(0, event) {
            classes[class] = true;
        }
    }
    classes
}

/// Parts, and the records around them.
struct Around<'o> {
    of: &'o Opened,
    spans: &'o IndexedSpans,
    /// By stream.
    is_read: Vec<bool>,
    wanted: Wanted<'o>,
    pixels: Pixels,
    drawn: Drawn,
}

impl Around<'_> {
    /// Takes all of the window. What has begun and not ended at its end.
    fn window(&mut self, stop: &Stop) -> Result<Result<Vec<OpenSlice>, DamagedSums>, Error> {
        let window = self.pixels.window();
        let (spans, shift) = (self.spans, self.pixels.shift().unwrap_or_default());
        let (mut first, last) = (spans.part_of(window.from), spans.part_of(window.to));
        let is_at_begin = window.from <= self.of.base() || spans.times(first).0 == Some(window.from);
        let stretches = match (is_at_begin, first < last) {
            (true, true) => spans.stretches(first..last, shift),
            (false, true) => {
                let behind = spans.stretches(first + 1..last, shift);
                [vec![SpanStretch::Records(first)], behind].concat()
            }
            (_, false) => Vec::new(),
        };
        for stretch in stretches {
            stop.check()?;
            let taken = match stretch {
                SpanStretch::Part(place) => {
                    let wanted = self.wanted;
                    spans.part(&place, |tid| wanted.has(tid)).map(|part| {
                        for ((tid, level), items) in part.rows {
                            let row = SliceRow::Thread(tid);
                            items.0.into_iter().for_each(|item| self.item(row, level, part.shift, item));
                        }
                    })
                }
                SpanStretch::Records(part) => self.records(part, spans.times(part).1, stop)?.map(drop),
            };
            if let Err(damaged) = taken {
                return Ok(Err(damaged));
            }
            first = last;
        }
        self.records(first.min(last), Some(window.to), stop)
    }

    fn item(&mut self, row: SliceRow, level: u16, shift: u32, item: SpanItem) {
        match item {
            SpanItem::Cell(cell) => {
                if let Some(pixel) = self.pixels.of_column(cell.column << shift) {
                    let count = u32::try_from(cell.count).unwrap_or(u32::MAX);
                    self.drawn.cell((row, level), pixel, count, (cell.longest_ns, cell.longest_at));
                }
            }
            SpanItem::Whole(span) => self.drawn.add(slice(&span, row), level),
        }
    }

    /// Reads a part from its begin up to a time. What has begun and not ended by then.
    fn records(
        &mut self,
        part: usize,
        to: Option<i64>,
        stop: &Stop,
    ) -> Result<Result<Vec<OpenSlice>, DamagedSums>, Error> {
        let (of, wanted) = (self.of, self.wanted);
        let Some(trace) = of.traces.first() else { return Ok(Err(DamagedSums)) };
        let SpansAt { mut pairs, nesting } = match self.spans.at(part, trace) {
            Ok(at) => at,
            Err(damaged) => return Ok(Err(damaged)),
        };
        let waiting = nesting.waiting().filter(|(tid, ..)| wanted.has(*tid));
        self.drawn.resume(waiting.map(|(tid, begun, level)| (SliceRow::Thread(tid), begun, level)));
        let from = self.spans.times(part).0;
        let range = Range { from_ns: from.map(i128::from), to_ns: to.map(i128::from) };
        let starts = of.indexes.starts_of(&of.traces, range.from_ns, &self.is_read);
        let Some(mut reader) = Reader::between(&of.traces, range, &starts) else { return Ok(Err(DamagedSums)) };
        let begun = |pairs: &kymo_index::SpanPairs| -> Vec<OpenSlice> {
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
                self.drawn.part(std::mem::take(&mut list), &begun(&pairs));
            }
        }
        let open = begun(&pairs);
        self.drawn.part(list, &open);
        Ok(Ok(open))
    }
}

fn slice(of: &SpanEnd, row: SliceRow) -> Slice {
    let SpanEnd { span, tid, process, name, cpu, from, to, doubt } = *of;
    Slice { span, tid, process, name, cpu, from, to, open: false, doubt, row }
}

/// The losses of a window, and what has not ended at its end.
struct Losses {
    list: Vec<LossAt>,
    begun: Vec<OpenSlice>,
    open: OpenSlices,
}

impl Losses {
    fn until(&self) -> LostUntil {
        let mut until = LostUntil::default();
        self.list.iter().for_each(|loss| until.lose(loss));
        until
    }
}

impl Sink for Losses {}

impl Visit for Losses {
    fn looks_at(&self, _: usize) -> bool {
        false
    }

    fn loss(&mut self, loss: &LossAt) {
        self.list.push(*loss);
    }
}

impl Gather for Losses {
    fn open(&mut self, state: &State, to: i64) {
        let until = (to, self.until().at(i64::MAX));
        for begun in std::mem::take(&mut self.begun) {
            self.open.add(begun, String::new(), state, until);
        }
    }
}
