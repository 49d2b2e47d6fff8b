// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts all spans of a choice into parts like those of the index, of the whole trace, while answers are still read
//! [spec/view.md 6.1].

use std::fs::File;
use std::io;
use std::sync::Arc;

use kymo_analyze::hash::Map;
use kymo_analyze::{Sample, Sink, State};
use kymo_feed::{Seen, Visit, recorders};
use kymo_filter::PairLatency;
use kymo_index::{IndexedSpans, KeepHow, NotKept, OpenSpan, RowSpan, SpanEnd, SpanKeeper, SpanRow, StreamCounts};

use crate::error::Error;
use crate::kept::{Keeping, KeptSpans, SpanChoice};
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::slices::rows::{KeyTexts, RowChoice};
use crate::slice_row::SliceRow;
use crate::span::Spans;
use crate::walk::{Few, Gather, Stop, Walk};

/// What an answer says while its spans are not in parts yet.
const BEING_MADE: &str = "an index of these spans is being made: soon windows of them will be quick";

/// Whether it is worth it: of a trace that is read from its begin.
fn is_worth(of: &Opened, records_min: u64) -> bool {
    let (Some(whole), Some(_)) = (of.indexes.whole(), &of.indexes.states) else { return false };
    let records = whole.iter().flat_map(|index| &index.streams).map(StreamCounts::records);
    of.traces.len() == 1 && !of.is_growing() && records.fold(0, u64::saturating_add) >= records_min
}

/// Spans that are kept; else what to say about that, if something is.
pub(crate) fn kept(of: &Opened, texts: &[String], rows: &RowChoice) -> Result<Arc<KeptSpans>, Option<String>> {
    let how = of.kept.how.as_ref();
    if !how.is_some_and(|how| !texts.is_empty() && is_worth(of, how.records_min)) {
        return Err(None);
    }
    let choice = SpanChoice { texts: texts.to_vec(), is_by_key: rows.by_key().to_vec() };
    match of.kept.ask(&choice) {
        Keeping::Kept(kept) => Ok(kept),
        Keeping::Asked | Keeping::Made => Err(Some(BEING_MADE.to_owned())),
        Keeping::Not(why) => Err(Some(format!("these spans are read each time: there is no index of them, as {why}"))),
    }
}

/// Makes what the last answers asked for and is not there, if nobody does: for who opened the traces to call behind
/// each answer, on another thread. Reads the whole trace. Whether something was made.
///
/// # Errors
/// It was stopped, or the trace cannot be read.
pub fn keep_spans(of: &Opened, stop: &Stop) -> Result<bool, Error> {
    let Some((how, choice)) = of.kept.how.as_ref().zip(of.kept.next()) else { return Ok(false) };
    let (keeping, error) = match keep(of, &choice, (&how.file, how.how), stop) {
        Ok(Ok(kept)) => (Some(Keeping::Kept(Arc::new(kept))), None),
        Ok(Err(why)) => (Some(Keeping::Not(why.to_string())), None),
        Err(error) => (None, Some(error)),
    };
    of.kept.put(&choice, keeping);
    error.map_or(Ok(true), Err)
}

/// Numbers of rows that are not those of threads.
#[derive(Default)]
struct RowNumbers {
    list: Vec<SliceRow>,
    known: Map<SliceRow, i32>,
}

impl RowNumbers {
    fn of(&mut self, row: SliceRow) -> i32 {
        *self.known.entry(row).or_insert_with(|| {
            self.list.push(row);
            i32::try_from(self.list.len() - 1).unwrap_or(i32::MAX)
        })
    }
}

/// Hands spans on as they end.
struct Keeper<'k, 'f, 'v> {
    to: &'k mut SpanKeeper<'f>,
    spans: Spans<'v>,
    choice: &'k RowChoice,
    numbers: RowNumbers,
}

/// The row of a span, as parts have it.
fn row_of(choice: &RowChoice, numbers: &mut RowNumbers, span: u16, key: Option<u32>, tid: Option<i32>) -> SpanRow {
    let row = choice.row(span, key, tid);
    match row {
        SliceRow::Thread(tid) if !choice.has_keys() => tid,
        _ => Some(numbers.of(row)),
    }
}

impl Keeper<'_, '_, '_> {
    /// What has begun and not ended.
    fn begun(&mut self) -> Vec<OpenSpan> {
        let waiting: Vec<_> = self.spans.waiting().collect();
        let open = waiting.into_iter().filter_map(|(span, waiting)| {
            let tid = waiting.thread.and_then(|tid| i32::try_from(tid).ok());
            let key = self.choice.has_keys().then(|| self.spans.key_of(&waiting)).flatten();
            let row = row_of(self.choice, &mut self.numbers, span, key, tid);
            Some(OpenSpan { row, tid, of: (span, i64::try_from(waiting.ns).ok()?) })
        });
        open.collect()
    }
}

impl Sink for Keeper<'_, '_, '_> {}

impl Visit for Keeper<'_, '_, '_> {
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true)
    }

    fn is_enough(&self) -> bool {
        self.to.is_refused()
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        if self.to.is_refused() || !self.looks_at(seen.class) {
            return;
        }
        let (time, spans) = (seen.head.time, &self.spans);
        if self.to.is_over(time, || spans.pairs().iter().map(PairLatency::open).sum()) {
            let begun = self.begun();
            self.to.end_part(time, &begun);
        }
        self.to.reach(time);
        let Keeper { to, spans, choice, numbers } = self;
        spans.record(seen, state, &mut |ended, sample: Sample| {
            let Sample { tid, process, name, cpu, from, to: until, doubt, .. } = sample;
            let row = row_of(choice, numbers, ended.number, ended.key, tid);
            let span = SpanEnd { span: ended.number, tid, process, name, cpu, from, to: until, doubt };
            to.end(RowSpan { row, begun_by: ended.begun_by, span });
        });
    }
}

impl Gather for Keeper<'_, '_, '_> {}

/// Which records are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Of streams that have such events.
    Few,
    All,
}

/// Keeps the spans of a choice, of all records, in a file that `file` makes. `Ok(Err(_))`: why they cannot be kept.
pub(crate) fn keep(
    of: &Opened,
    choice: &SpanChoice,
    (file, how): (impl Fn() -> io::Result<File>, KeepHow),
    stop: &Stop,
) -> Result<Result<KeptSpans, NotKept>, Error> {
    stop.check()?;
    for reading in [Reading::Few, Reading::All] {
        let file = match file() {
            Ok(file) => file,
            Err(error) => return Ok(Err(error.into())),
        };
        match keep_in(of, choice, (file, how), reading, stop) {
            Ok(kept) => return Ok(kept),
            Err(Some(error)) => return Err(error),
            Err(None) => {}
        }
    }
    Ok(Err(NotKept::Times))
}

/// The same in one file. `Err(None)`: not with so few records.
fn keep_in(
    of: &Opened,
    choice: &SpanChoice,
    (file, how): (File, KeepHow),
    reading: Reading,
    stop: &Stop,
) -> Result<Result<KeptSpans, NotKept>, Option<Error>> {
    let (mut numbers, mut keys) = (RowNumbers::default(), Vec::new());
    let rows = RowChoice::of(choice.is_by_key.clone());
    let kept = IndexedSpans::keep((file, &choice.texts), how, recorders(&of.traces), |to| {
        let spans = Spans::new(&choice.texts, &of.traces, &of.classes.vocabulary);
        let mut spans = spans.map_err(|refused| Some(refused.into()))?;
        if rows.has_keys() {
            spans.keep_keys_apart(Box::new(KeyTexts::default()));
        }
        let few = Few::for_spans(of, &spans);
        let mut keeper = Keeper { to, spans, choice: &rows, numbers: RowNumbers::default() };
        let (from, to) = of.whole();
        let walk = Walk::new(of, Window { from, to });
        let is_read = match (reading, few) {
            (Reading::Few, Some(few)) => walk.run_alone(&few, &mut keeper, stop)?,
            (Reading::Few, None) => false,
            (Reading::All, _) => walk.run_open(&mut keeper, stop).map(|()| true)?,
        };
        let begun = keeper.begun();
        (numbers, keys) = (keeper.numbers, keeper.spans.keys().to_vec());
        // Some record may not say who wrote it.
        if is_read { Ok(begun) } else { Err(None) }
    })?;
    let rows = rows.has_keys().then_some(numbers.list);
    Ok(kept.map(|spans| KeptSpans { spans, rows, keys }))
}
