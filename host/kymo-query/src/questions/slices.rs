// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans between two events, nested by thread or by key [spec/view.md 4.7].

use std::collections::BTreeMap;

use kymo_analyze::{Doubt, Name, Sample, Sink, State};
use kymo_feed::{LossAt, Seen, Visit};

use super::begun::{begin, doubt_bits};
use super::overview::records_about;
use super::slice_rows::{KEYS_MAX, KeyTexts, RowChoice, SliceRow};
use crate::columns::{Answer, Table, Text};
use crate::error::Error;
use crate::lost_until::LostUntil;
use crate::opened::Opened;
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::pixels::{Pixels, levels};
use crate::span::Spans;
use crate::walk::{Few, Gather, Stop, Walk, Walked};

/// Slices that are kept at most.
const SLICES_MAX: usize = 1 << 20;

/// Slices that have not ended, of those.
const OPEN_MAX: usize = 4096;

/// How long before the window is read at least, ns.
const LEAD_NS: u64 = 10_000_000;

/// A span of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub span: u16,
    pub tid: Option<i32>,
    process: Option<i32>,
    name: Name,
    cpu: Option<u32>,
    pub from: i64,
    pub to: i64,
    /// It has not ended in the window.
    pub open: bool,
    doubt: Doubt,
    /// Where it is drawn.
    row: SliceRow,
}

struct Slices<'v> {
    spans: Spans<'v>,
    rows: RowChoice,
    /// Keys that have rows; all of them when the window is read.
    keys: KeyTexts,
    pixels: Pixels,
    tids: Option<Vec<i32>>,
    list: Vec<Slice>,
    /// Shorter than a pixel, when there were too many.
    left_out: u64,
    lost: LostUntil,
    /// Every record is asked for: what has no end is not chosen by its end.
    takes_all: bool,
}

impl Sink for Slices<'_> {}

impl Visit for Slices<'_> {
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let Slices { spans, rows, pixels, tids, list, left_out, lost, .. } = self;
        spans.record(seen, state, &mut |number, key, sample: Sample| {
            let is_of = tids.as_ref().is_none_or(|tids| sample.tid.is_some_and(|tid| tids.contains(&tid)));
            if !seen.is_selected || !is_of || pixels.cut(sample.from, sample.to.saturating_add(1)).is_none() {
                return;
            }
            let slice = Slice {
                span: number,
                tid: sample.tid,
                process: sample.process,
                name: sample.name,
                cpu: sample.cpu,
                from: sample.from,
                to: sample.to,
                open: false,
                doubt: sample.doubt | Doubt::LOST.when(sample.from < lost.at(sample.to)),
                row: rows.row(number, key, sample.tid),
            };
            match list.len() < SLICES_MAX {
                true => list.push(slice),
                false => *left_out += 1,
            }
        });
    }

    fn loss(&mut self, loss: &LossAt) {
        self.lost.lose(loss);
    }
}

impl Gather for Slices<'_> {
    /// What has not ended goes on to the end of the window.
    fn open(&mut self, state: &State, to: i64) {
        self.keys = KeyTexts::of(self.spans.keys());
        if !self.takes_all {
            return;
        }
        let mut open: Vec<(Slice, String)> = Vec::new();
        let lost_until = self.lost.at(i64::MAX);
        for (span, waiting) in self.spans.waiting() {
            let tid = waiting.thread.and_then(|tid| i32::try_from(tid).ok());
            let from = i64::try_from(waiting.ns).unwrap_or(i64::MIN);
            let is_of = self.tids.as_ref().is_none_or(|tids| tid.is_some_and(|tid| tids.contains(&tid)));
            if !is_of || from >= to {
                continue;
            }
            let thread = tid.and_then(|tid| state.thread(tid));
            let doubt = Doubt::LOST.when(from < lost_until);
            let name = thread.map(|thread| thread.name).unwrap_or_default();
            let process = thread.and_then(|thread| thread.process);
            let row = self.rows.row(span, None, tid);
            let key = match row {
                SliceRow::Key(..) => waiting.key_text(),
                SliceRow::Thread(_) => String::new(),
            };
            open.push((Slice { span, tid, process, name, cpu: None, from, to, open: true, doubt, row }, key));
        }
        // The newest, if there are many: one whose end is missing stays open for good.
        open.sort_by_key(|(slice, _)| (std::cmp::Reverse(slice.from), slice.span, slice.tid));
        self.left_out += open.len().saturating_sub(OPEN_MAX) as u64;
        open.truncate(OPEN_MAX);
        for (mut slice, key) in open {
            if let SliceRow::Key(_, number) = &mut slice.row {
                *number = self.keys.number_of(key);
            }
            self.list.push(slice);
        }
    }
}

/// Shorter spans of one level that follow each other, each in the pixel of the one before or the next.
#[derive(Clone, Copy, Debug)]
struct Merged {
    row: SliceRow,
    level: u16,
    pixel: u32,
    last: u32,
    count: u32,
    longest_ns: u64,
    longest_at: i64,
}

/// The spans of a window, on their way to an answer.
pub(super) struct SliceAnswer {
    pub answer: Answer,
    pub list: Vec<Slice>,
    keys: KeyTexts,
    pub walked: Walked,
}

/// Answers `slices`.
///
/// # Errors
/// Parameters; a span or a filter that is none.
pub fn slices(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let pixels = Pixels::new(window, parameters.pixels()?);
    let most = parameters.number("most", 1..=u64::MAX)?;
    let records =
        records_for(of, parameters.clone(), window).filter(|records| most.is_some_and(|most| *records > most));
    // With a window of nothing, what is wrong with the question is said, and which spans there are.
    let pixels =
        if records.is_some() { Pixels::new(Window { to: window.from, ..window }, pixels.count()) } else { pixels };
    let SliceAnswer { mut answer, list, keys, walked } = find("slices", of, parameters, pixels, stop)?;
    if list.iter().any(|slice| matches!(slice.row, SliceRow::Key(_, None))) {
        answer.notes.push(format!("there are more than {KEYS_MAX} keys: the spans of others are one row"));
    }
    if let Some(records) = records {
        answer.about(window.pair());
        answer.set("records", records);
        answer.notes.push(format!("{} million records would be read: zoom in, or choose spans", records / 1_000_000));
    }
    tables(&mut answer, list, &keys, &pixels);
    walked.tell(&mut answer);
    Ok(answer)
}

/// Finds the spans of a window, in columns of pixels.
pub(super) fn find(
    question: &'static str,
    of: &Opened,
    parameters: &mut Parameters,
    pixels: Pixels,
    stop: &Stop,
) -> Result<SliceAnswer, Error> {
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
        let (keys, list, lost) = (KeyTexts::default(), Vec::new(), LostUntil::default());
        Ok::<_, Error>(Slices { spans, rows, keys, pixels, tids, list, left_out: 0, lost, takes_all })
    };
    let (gather, walked, source) = run(of, walk, gather, stop)?;
    answer.set("spans", texts);
    answer.set("source", source);
    answer.set("left_out", gather.left_out);
    answer.set("lead", window.from.abs_diff(from));
    if from > of.base() {
        answer.notes.push("spans that began long before the window are not shown".to_owned());
    }
    if !takes_all {
        answer.notes.push("the filter selects ends: spans that have not ended in the window are not shown".to_owned());
    }
    Ok(SliceAnswer { answer, list: gather.list, keys: gather.keys, walked })
}

/// Goes through a window, and reads no more of it than spans need.
fn run<'o>(
    of: &'o Opened,
    walk: Walk<'o>,
    make: impl Fn() -> Result<Slices<'o>, Error>,
    stop: &Stop,
) -> Result<(Slices<'o>, Walked, &'static str), Error> {
    let mut gather = make()?;
    if let Some(few) = few(of, &gather.spans) {
        if let Some(walked) = walk.run_few(&few, &mut gather, stop)? {
            return Ok((gather, walked, "index"));
        }
        gather = make()?;
    }
    let walked = walk.run(&mut gather, stop)?;
    Ok((gather, walked, "records"))
}

/// The records that spans are made of; `None` where a state is needed, too.
fn few(of: &Opened, spans: &Spans<'_>) -> Option<Few> {
    Few::by_writer(of, spans.classes().to_vec()).filter(|_| spans.need_no_state())
}

/// About how many records are read for the spans of a window, where an index tells.
fn records_for(of: &Opened, mut parameters: Parameters, window: Window) -> Option<u64> {
    let records = records_about(of, window)?;
    let (texts, is_filtered) = (texts(of, &mut parameters), !parameters.texts("filter").is_empty());
    let spans = Spans::new(&texts, &of.traces, &of.classes.vocabulary).ok().filter(|_| !is_filtered);
    let share = spans.and_then(|spans| few(of, &spans)?.share(of)).unwrap_or(1.0);
    Some((records as f64 * share) as u64)
}

/// The spans that are asked for, or those that names of events tell.
fn texts(of: &Opened, parameters: &mut Parameters) -> Vec<String> {
    match parameters.texts("span") {
        own if own.is_empty() => pairs::spans(of),
        own => own,
    }
}

fn tables(answer: &mut Answer, list: Vec<Slice>, keys: &KeyTexts, pixels: &Pixels) {
    let mut by_row: BTreeMap<SliceRow, Vec<Slice>> = BTreeMap::new();
    list.into_iter().for_each(|slice| by_row.entry(slice.row).or_default().push(slice));
    let (mut shown, mut merged) = (Vec::new(), Vec::new());
    for (row, mut own) in by_row {
        own.sort_by_key(|slice| (slice.from, std::cmp::Reverse(slice.to)));
        let stretches: Vec<(i64, i64)> = own.iter().map(|slice| (slice.from, slice.to)).collect();
        let mut open: BTreeMap<u16, Merged> = BTreeMap::new();
        for (slice, level) in own.into_iter().zip(levels(&stretches)) {
            if pixels.shows(slice.to.abs_diff(slice.from)) {
                shown.push((slice, level));
            } else if let Some(done) = merge(open.get_mut(&level), pixels, &slice) {
                merged.extend(open.insert(level, Merged { row, level, ..done }));
            }
        }
        merged.extend(open.into_values());
    }
    let table = slice_table(answer, &shown, keys);
    answer.push(table);
    let longest_pixel = |of: &Merged| pixels.of(of.longest_at);
    let tid = |of: &Merged| match of.row {
        SliceRow::Thread(tid) => tid,
        SliceRow::Key(..) => None,
    };
    let span = |of: &Merged| match of.row {
        SliceRow::Key(span, _) => Some(span),
        SliceRow::Thread(_) => None,
    };
    let merged_keys: Vec<_> = merged.iter().map(|of| text_of(answer, keys, of.row)).collect();
    let table = Table::new("merged")
        .column("tid", merged.iter().map(tid))
        .column("span", merged.iter().map(span))
        .column("key", merged_keys)
        .column("level", merged.iter().map(|of| of.level))
        .column("pixel", merged.iter().map(|of| of.pixel))
        .column("pixels", merged.iter().map(|of| of.last - of.pixel + 1))
        .column("count", merged.iter().map(|of| of.count))
        .column("longest_ns", merged.iter().map(|of| of.longest_ns))
        .column("longest_at", merged.iter().map(|of| answer.time(of.longest_at)))
        .column("longest_pixel", merged.iter().map(longest_pixel));
    answer.push(table);
}

/// Adds a slice to a block, or gives the block that it begins.
fn merge(block: Option<&mut Merged>, pixels: &Pixels, slice: &Slice) -> Option<Merged> {
    let (first, last) = (pixels.of(slice.from), pixels.of(slice.to));
    let ns = slice.to.abs_diff(slice.from);
    match block {
        Some(block) if first <= block.last + 1 => {
            block.last = block.last.max(last);
            block.count = block.count.saturating_add(1);
            if ns > block.longest_ns {
                (block.longest_ns, block.longest_at) = (ns, slice.from);
            }
            None
        }
        _ => {
            let (longest_ns, longest_at) = (ns, slice.from);
            Some(Merged { row: slice.row, level: 0, pixel: first, last, count: 1, longest_ns, longest_at })
        }
    }
}

/// The key of a row, as a text of the answer.
fn text_of(answer: &mut Answer, keys: &KeyTexts, row: SliceRow) -> Option<Text> {
    keys.text(row).map(|key| answer.texts.text(key))
}

fn slice_table(answer: &mut Answer, shown: &[(Slice, u16)], keys: &KeyTexts) -> Table {
    let names: Vec<_> = shown.iter().map(|(slice, _)| answer.texts.name(slice.name.as_str())).collect();
    let of_rows: Vec<_> = shown.iter().map(|(slice, _)| text_of(answer, keys, slice.row)).collect();
    let is_by_key = shown.iter().map(|(slice, _)| u8::from(matches!(slice.row, SliceRow::Key(..))));
    Table::new("slices")
        .column("span", shown.iter().map(|(slice, _)| slice.span))
        .column("tid", shown.iter().map(|(slice, _)| slice.tid))
        .column("name", names)
        .column("by_key", is_by_key)
        .column("key", of_rows)
        .column("process", shown.iter().map(|(slice, _)| slice.process))
        .column("level", shown.iter().map(|(_, level)| *level))
        .column("from", shown.iter().map(|(slice, _)| answer.time(slice.from)))
        .column("to", shown.iter().map(|(slice, _)| answer.time(slice.to)))
        .column("cpu", shown.iter().map(|(slice, _)| slice.cpu))
        .column("open", shown.iter().map(|(slice, _)| u8::from(slice.open)))
        .column("doubt", shown.iter().map(|(slice, _)| doubt_bits(slice.doubt)))
}
