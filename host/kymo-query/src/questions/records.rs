// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of records, search and their number [spec/view.md 4.12, 4.13, 4.19]: the records that `kymo read` prints, with
//! what it learns of their threads.

use kymo_ctf::read::{Item, Loss, Record};
use kymo_export::json::{Wide, push_fields};
use kymo_feed::{LossAt, clamp};

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::filter::Filters;
use crate::learn::{Learn, is_state};
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::begin;
use crate::walk::{self, LossSpan, Stop};

/// How far a search goes back at first, ns; then four times as far, again and again.
const BACK_NS: u64 = 10_000_000;

/// A row of the table.
#[derive(Clone, Debug)]
struct RecordRow {
    time: i64,
    trace: u16,
    cpu: Option<u32>,
    tid: Option<i32>,
    process: Option<i32>,
    name: String,
    event: String,
    fields: String,
}

impl RecordRow {
    fn of(record: &Record<'_>) -> RecordRow {
        let mut fields = Vec::new();
        push_fields(&mut fields, record.payload.iter(), Wide::Text);
        let number = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
        RecordRow {
            time: clamp(record.ns),
            trace: record.trace.min(usize::from(u16::MAX) - 1) as u16,
            cpu: record.cpu,
            tid: number(record.vtid),
            process: number(record.vpid),
            name: record.procname.to_owned(),
            event: record.event.name.clone(),
            fields: String::from_utf8_lossy(&fields).into_owned(),
        }
    }
}

/// What is taken of a stretch.
trait Take {
    /// Takes a record that is selected. Whether more are wanted.
    fn record(&mut self, record: &Record<'_>) -> bool;
    /// Takes a loss.
    fn loss(&mut self, loss: &Loss<'_>);
}

/// Shows the selected records of a window to `take`, until it has enough. What filters have to say.
fn read(of: &Opened, window: Window, texts: &[String], take: &mut dyn Take, stop: &Stop) -> Result<Vec<String>, Error> {
    let mut filters = Filters::new(&of.traces, texts)?;
    let (mut reader, walker) = walk::begin(of, window, stop)?;
    let mut learn = Learn::new(&of.traces);
    learn.iter_mut().for_each(|learn| learn.begin(&walker.state));
    filters.begin(&walker.state);
    let mut passed = 0u32;
    while let Some(item) = reader.next() {
        stop.check_some(&mut passed)?;
        match item {
            Item::Record(mut record) => {
                if let Some(learn) = &mut learn {
                    learn.record(&mut record);
                }
                let is_shown = !is_state(&record.event.name);
                if filters.matches(&record, is_shown) && is_shown && !take.record(&record) {
                    break;
                }
            }
            Item::Loss(loss) => {
                learn.iter_mut().for_each(|learn| learn.loss(&loss));
                filters.lost(&loss);
                take.loss(&loss);
            }
        }
    }
    let mut notes = filters.notes();
    notes.extend(filters.conclude());
    Ok(notes)
}

/// A page.
#[derive(Default)]
struct Page {
    /// Records that are passed over first.
    skip: u64,
    limit: usize,
    rows: Vec<RecordRow>,
    /// Losses, each before so many rows.
    losses: Vec<(u32, LossSpan)>,
    has_more: bool,
}

impl Take for Page {
    fn record(&mut self, record: &Record<'_>) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.rows.len() < self.limit {
            self.rows.push(RecordRow::of(record));
        } else {
            self.has_more = true;
        }
        !self.has_more
    }

    fn loss(&mut self, loss: &Loss<'_>) {
        if self.skip == 0 && self.losses.len() < self.limit {
            self.losses.push((self.rows.len() as u32, LossSpan::of(&LossAt::of(loss))));
        }
    }
}

/// Answers `records`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn records(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let (at, row) = (parameters.time("at", of)?, parameters.number("row", 0..=u64::MAX)?);
    if at.is_some() && row.is_some() {
        return Err(Error::parameter("row", "either at or row"));
    }
    let limit = parameters.limit(200)?;
    let filters = parameters.texts("filter");
    let read_from = at.map_or(window.from, |at| at.clamp(window.from, window.to));
    let mut page = Page { skip: row.unwrap_or(0), limit, ..Page::default() };
    let read_window = Window { from: read_from, to: window.to };
    let notes = read(of, read_window, &filters, &mut page, stop)?;
    let mut answer = begin("records", of, window);
    answer.notes = notes;
    answer.set("has_more", page.has_more);
    answer.set("row", row);
    tell(&mut answer, &page.rows);
    for (_, loss) in &page.losses {
        answer.lost.records = answer.lost.records.saturating_add(loss.all.records);
        answer.lost.packets = answer.lost.packets.saturating_add(loss.all.packets);
        answer.lost.places += 1;
    }
    let losses: Vec<LossSpan> = page.losses.iter().map(|(_, loss)| *loss).collect();
    let table = walk::table(&answer, &losses).column("before", page.losses.iter().map(|(before, _)| *before));
    answer.push(table);
    Ok(answer)
}

fn tell(answer: &mut Answer, rows: &[RecordRow]) {
    let (mut names, mut events, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        names.push(answer.texts.name(&row.name));
        events.push(answer.texts.text(&row.event));
        fields.push(answer.texts.text(&row.fields));
    }
    let table = Table::new("records")
        .column("time", rows.iter().map(|row| answer.time(row.time)))
        .column("trace", rows.iter().map(|row| row.trace))
        .column("cpu", rows.iter().map(|row| row.cpu))
        .column("tid", rows.iter().map(|row| row.tid))
        .column("process", rows.iter().map(|row| row.process))
        .column("name", names)
        .column("event", events)
        .column("fields", fields);
    answer.push(table);
}

/// How many there are.
struct RecordCount(u64);

impl Take for RecordCount {
    fn record(&mut self, _: &Record<'_>) -> bool {
        self.0 += 1;
        true
    }

    fn loss(&mut self, _: &Loss<'_>) {}
}

/// Answers `count`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn count(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let filters = parameters.texts("filter");
    let mut counted = RecordCount(0);
    let notes = read(of, window, &filters, &mut counted, stop)?;
    let mut answer = begin("count", of, window);
    answer.notes = notes;
    answer.set("rows", counted.0);
    Ok(answer)
}

/// The first, or the last that comes.
struct RecordSearch {
    is_first: bool,
    row: Option<RecordRow>,
}

impl Take for RecordSearch {
    fn record(&mut self, record: &Record<'_>) -> bool {
        self.row = Some(RecordRow::of(record));
        !self.is_first
    }

    fn loss(&mut self, _: &Loss<'_>) {}
}

/// Answers `search`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn search(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let filters = parameters.texts("filter");
    if filters.is_empty() {
        return Err(Error::parameter("filter", "it is missing"));
    }
    let (first, end) = of.whole();
    let at = parameters.time("at", of)?.ok_or_else(|| Error::parameter("at", "it is missing"))?;
    let is_next = match parameters.text("direction")?.as_deref() {
        None | Some("next") => true,
        Some("previous") => false,
        Some(_) => return Err(Error::parameter("direction", "next or previous")),
    };
    let mut found = RecordSearch { is_first: is_next, row: None };
    let mut notes = Vec::new();
    if is_next {
        let from = at.saturating_add(1).clamp(first, end);
        notes = read(of, Window { from, to: end }, &filters, &mut found, stop)?;
    } else {
        let (mut to, mut ns) = (at.clamp(first, end), BACK_NS);
        while found.row.is_none() && to > first {
            let from = to.saturating_sub_unsigned(ns).max(first);
            notes = read(of, Window { from, to }, &filters, &mut found, stop)?;
            (to, ns) = (from, ns.saturating_mul(4));
        }
    }
    let mut answer = begin("search", of, Window { from: first, to: end });
    answer.notes = notes;
    answer.set("found", found.row.is_some());
    let rows: Vec<RecordRow> = found.row.into_iter().collect();
    tell(&mut answer, &rows);
    Ok(answer)
}
