// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans between two events, nested by thread or by key [spec/view.md 4.7].

pub(super) mod drawn;
pub(super) mod index;
pub(super) mod keep;
pub(super) mod open;
pub(super) mod parts;
pub(super) mod read;
pub(super) mod rows;
pub(super) mod slice;

use kymo_analyze::{Doubt, LostUntil, Sample, Sink, State};
use kymo_feed::{LossAt, Seen, Visit};
use kymo_filter::Waiting;

use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::pixels::Pixels;
use crate::questions::begun::{begin, damage_note};
use crate::questions::framed::{self, tell_frame};
use crate::questions::overview::records_about;
use crate::questions::slices::drawn::Drawn;
use crate::questions::slices::keep::kept;
use crate::questions::slices::open::{OpenSlices, Wanted};
use crate::questions::slices::parts::{OpenSlice, PART, TakeSlices};
use crate::questions::slices::read::{Indexed, IndexedSlices, KnownSpans};
use crate::questions::slices::rows::{KEYS_MAX, KeyTexts, RowChoice};
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;
use crate::span::Spans;
use crate::walk::{Few, Gather, Stop, Walk, Walked};

/// How long before the window is read at least, ns.
const LEAD_NS: u64 = 10_000_000;

struct Slices<'v, T> {
    spans: Spans<'v>,
    rows: RowChoice,
    /// Keys that have rows; all of them when the window is read.
    keys: KeyTexts,
    tids: Option<Vec<i32>>,
    /// Those of the part that is read, and those before the window too: what began beside them lies above them.
    list: Vec<Slice>,
    /// Takes each part.
    taker: T,
    /// Not ended, when there were too many.
    left_out: u64,
    lost: LostUntil,
    /// Every record is asked for: what has no end is not chosen by its end.
    takes_all: bool,
}

impl<T> Sink for Slices<'_, T> {}

impl<T: TakeSlices> Slices<'_, T> {
    /// Hands the slices of a part on, with what has begun.
    fn part(&mut self) {
        let keys = KeyTexts::of(self.spans.keys());
        let begun = self.spans.waiting().filter_map(|(span, waiting)| {
            let (tid, from) = self.begin_of(&waiting)?;
            let row = match self.rows.row(span, None, tid) {
                SliceRow::Key(..) => SliceRow::Key(span, Some(keys.known(&waiting.key_text())?)),
                of_thread @ SliceRow::Thread(_) => of_thread,
            };
            Some(OpenSlice { row, span, tid, from })
        });
        let begun: Vec<OpenSlice> = begun.collect();
        self.taker.part(std::mem::take(&mut self.list), &begun);
    }

    /// Thread and time of a begin, of those that are asked for.
    fn begin_of(&self, waiting: &Waiting) -> Option<(Option<i32>, i64)> {
        let tid = waiting.thread.and_then(|tid| i32::try_from(tid).ok());
        Wanted { tids: &self.tids }.has(tid).then_some((tid, i64::try_from(waiting.ns).unwrap_or(i64::MIN)))
    }
}

impl<T: TakeSlices> Visit for Slices<'_, T> {
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let Slices { spans, rows, tids, list, lost, .. } = self;
        spans.record(seen, state, &mut |ended, sample: Sample| {
            let is_of = Wanted { tids }.has(sample.tid);
            if !seen.is_selected || !is_of {
                return;
            }
            list.push(Slice {
                span: ended.number,
                tid: sample.tid,
                process: sample.process,
                name: sample.name,
                cpu: sample.cpu,
                from: sample.from,
                to: sample.to,
                open: false,
                doubt: sample.doubt | Doubt::LOST.when(sample.from < lost.at(sample.to)),
                row: rows.row(ended.number, ended.key, sample.tid),
            });
        });
        if self.list.len() >= PART {
            self.part();
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.lost.lose(loss.from, loss.to);
    }
}

impl<T: TakeSlices> Gather for Slices<'_, T> {
    /// What has not ended goes on to the end of the window.
    fn open(&mut self, state: &State, to: i64) {
        self.keys = KeyTexts::of(self.spans.keys());
        if !self.takes_all {
            return;
        }
        let (mut open, until) = (OpenSlices::default(), (to, self.lost.at(i64::MAX)));
        for (span, waiting) in self.spans.waiting() {
            let Some((tid, from)) = self.begin_of(&waiting) else { continue };
            let row = self.rows.row(span, None, tid);
            let key = match row {
                SliceRow::Key(..) => waiting.key_text(),
                SliceRow::Thread(_) => String::new(),
            };
            open.add(OpenSlice { row, span, tid, from }, key, state, until);
        }
        let (open, left_out) = open.newest();
        self.left_out += left_out;
        for (mut slice, key) in open {
            if let SliceRow::Key(_, number) = &mut slice.row {
                *number = self.keys.number_of(key);
            }
            self.list.push(slice);
        }
    }
}

/// The spans of a window, on their way to an answer.
pub(super) struct SliceAnswer<T> {
    pub answer: Answer,
    pub taken: T,
    keys: KeyTexts,
    /// That had not ended, and for which there was no room.
    left_out: u64,
    pub walked: Walked,
}

/// Answers `slices`.
///
/// # Errors
/// Parameters; a span or a filter that is none.
pub fn slices(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let pixels = framed::pixels(of, parameters)?;
    let window = pixels.window();
    let most = parameters.number("most", 1..=u64::MAX)?;
    let mut told = None;
    let make = |spans: KnownSpans<'_>, tids: &_| match pixels.shift() {
        Some(_) => index::indexed(of, spans, (pixels, tids), stop),
        None => Ok(Err(None)),
    };
    let asker = Asker { question: "slices", has_rows: true };
    let mut found = match from_index(asker, of, parameters.clone(), window, make)? {
        Ok(found) => found,
        Err(note) => {
            told = note;
            let records =
                records_for(of, parameters.clone(), window).filter(|records| most.is_some_and(|most| *records > most));
            // With a window of nothing, what is wrong with the question is said, and which spans there are.
            let read = records.map_or(pixels, |_| Pixels::new(Window { to: window.from, ..window }, pixels.count()));
            let mut found = find("slices", of, parameters, (read, || Drawn::new(read)), stop)?;
            if let Some(records) = records {
                let answer = &mut found.answer;
                answer.about(window.pair());
                answer.set("records", records);
                let millions = records / 1_000_000;
                answer.notes.push(format!("{millions} million records would be read: zoom in, or choose spans"));
            }
            found
        }
    };
    found.answer.notes.extend(told);
    tell_frame(&mut found.answer, &pixels);
    let SliceAnswer { mut answer, taken: drawn, keys, left_out, walked } = found;
    if drawn.has_other_keys() {
        answer.notes.push(format!("there are more than {KEYS_MAX} keys: the spans of others are one row"));
    }
    let left_out = left_out + drawn.tables(&mut answer, &keys);
    answer.set("left_out", left_out);
    if left_out > 0 {
        answer.notes.push(format!(
            "{left_out} spans are not shown, because there are too many, first those within others: zoom in"
        ));
    }
    walked.tell_of(&mut answer, window);
    Ok(answer)
}

/// Who answers with spans in parts.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    pub question: &'static str,
    /// Spans have rows, which may be those of keys.
    pub has_rows: bool,
}

/// Answers from the index, or from spans that are kept, by what `make` makes of them for some threads; else what to say
/// about that, if something is.
pub(super) fn from_index<T>(
    asker: Asker,
    of: &Opened,
    mut parameters: Parameters,
    window: Window,
    make: impl FnOnce(KnownSpans<'_>, &Option<Vec<i32>>) -> Result<Indexed<T>, Error>,
) -> Result<Result<SliceAnswer<T>, Option<String>>, Error> {
    let (tids, texts) = (parameters.tids()?, texts(of, &mut parameters));
    let mut rows = RowChoice::take(&mut parameters, &texts)?;
    if !asker.has_rows {
        rows = RowChoice::of_threads(&texts);
    }
    let is_whole = parameters.texts("filter").is_empty() && parameters.text("lead")?.is_none();
    // Of keys it is not known which are of a thread.
    if !is_whole || window.is_empty() || of.traces.len() != 1 || rows.has_keys() && tids.is_some() {
        return Ok(Err(None));
    }
    let indexed = of.indexes.states.as_ref().and_then(|states| states.spans.as_ref());
    let (found, keys) = match indexed.filter(|spans| spans.texts() == texts) {
        Some(spans) => (make(KnownSpans::of_threads(spans), &tids)?, KeyTexts::default()),
        None => match kept(of, &texts, &rows) {
            Ok(kept) => (make(KnownSpans::of_kept(&kept), &tids)?, KeyTexts::of(&kept.keys)),
            Err(note) => return Ok(Err(note)),
        },
    };
    let IndexedSlices { taken, left_out, losses } = match found {
        Ok(found) => found,
        Err(damaged) => return Ok(Err(damaged.map(damage_note))),
    };
    let mut answer = begin(asker.question, of, window);
    answer.set("spans", texts);
    answer.set("source", "index");
    // What began at any time before is there.
    answer.set("lead", window.from.abs_diff(of.base()));
    let walked = Walked::of_losses(of, losses);
    Ok(Ok(SliceAnswer { answer, taken, keys, left_out, walked }))
}

/// Finds the spans of a window, in columns of pixels, for what takes them.
pub(super) fn find<T: TakeSlices>(
    question: &'static str,
    of: &Opened,
    parameters: &mut Parameters,
    (pixels, taker): (Pixels, impl Fn() -> T),
    stop: &Stop,
) -> Result<SliceAnswer<T>, Error> {
    let window = pixels.window();
    let tids = parameters.tids()?;
    let lead = parameters.number("lead", 0..=u64::MAX)?.unwrap_or(window.ns().max(LEAD_NS));
    let texts = texts(of, parameters);
    let rows = RowChoice::take(parameters, &texts)?;
    let mut answer = begin(question, of, window);
    let from = window.from.saturating_sub_unsigned(lead).max(of.base());
    let read = Window { from, to: window.to };
    let walk = Walk::new(of, read).in_pixels(pixels).filtered(parameters)?;
    let takes_all = walk.is_all();
    let gather = || {
        let mut spans = Spans::new(&texts, &of.traces, &of.classes.vocabulary)?;
        if rows.has_keys() {
            spans.keep_keys_apart(Box::new(KeyTexts::default()));
        }
        let (rows, tids) = (rows.clone(), tids.clone());
        let (keys, list, lost, taker) = (KeyTexts::default(), Vec::new(), LostUntil::default(), taker());
        Ok::<_, Error>(Slices { spans, rows, keys, tids, list, taker, left_out: 0, lost, takes_all })
    };
    let (mut gather, walked, source) = run(of, walk, gather, stop)?;
    gather.taker.part(gather.list, &[]);
    answer.set("spans", texts);
    answer.set("source", source);
    answer.set("lead", window.from.abs_diff(from));
    if from > of.base() {
        answer.notes.push("spans that began long before the window are not shown".to_owned());
    }
    if !takes_all {
        answer.notes.push("the filter selects ends: spans that have not ended in the window are not shown".to_owned());
    }
    Ok(SliceAnswer { answer, taken: gather.taker, keys: gather.keys, left_out: gather.left_out, walked })
}

/// Goes through a window, and reads no more of it than spans need.
fn run<'o, T: TakeSlices>(
    of: &'o Opened,
    walk: Walk<'o>,
    make: impl Fn() -> Result<Slices<'o, T>, Error>,
    stop: &Stop,
) -> Result<(Slices<'o, T>, Walked, &'static str), Error> {
    let mut gather = make()?;
    if let Some(few) = Few::for_spans(of, &gather.spans) {
        if let Some(walked) = walk.run_few(&few, &mut gather, stop)? {
            return Ok((gather, walked, "index"));
        }
        gather = make()?;
    }
    let walked = walk.run(&mut gather, stop)?;
    Ok((gather, walked, "records"))
}

/// About how many records are read for the spans of a window, where an index tells.
fn records_for(of: &Opened, mut parameters: Parameters, window: Window) -> Option<u64> {
    let records = records_about(of, window)?;
    let (texts, is_filtered) = (texts(of, &mut parameters), !parameters.texts("filter").is_empty());
    let spans = Spans::new(&texts, &of.traces, &of.classes.vocabulary).ok().filter(|_| !is_filtered);
    let share = spans.and_then(|spans| Few::for_spans(of, &spans)?.share(of)).unwrap_or(1.0);
    Some((records as f64 * share) as u64)
}

/// The spans that are asked for, or those that names of events tell.
fn texts(of: &Opened, parameters: &mut Parameters) -> Vec<String> {
    match parameters.texts("span") {
        own if own.is_empty() => pairs::spans(of),
        own => own,
    }
}
