// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pass over the records of a window, from the nearest checkpoint of the index on: with the state in front of it, the
//! losses in it, and an end as soon as nobody wants the answer.

mod few;

use std::sync::atomic::{AtomicBool, Ordering};

use kymo_analyze::State;
use kymo_ctf::read::{Loss, Range, Reader, Record};
use kymo_feed::{Choose, LossAt, Visit, Walker};
use kymo_index::{Cover, DamagedSums, Gallery, PartSums, PicturePlace, Stretch, range};

use crate::choose::Chosen;
use crate::columns::{Answer, Lost, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::pixels::Pixels;

pub use few::Few;

/// Losses that an answer lists at most.
pub(crate) const LOSSES_MAX: usize = 4096;

/// Items between two questions whether somebody still waits.
const LOOK_EVERY: u32 = 4096;

/// Ends a question before it is answered; shared with who waits for the answer.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Nobody wants the answer from now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody still wants it.
    pub fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    /// An error where nobody wants it.
    pub fn check(&self) -> Result<(), Error> {
        if self.goes_on() { Ok(()) } else { Err(Error::Stopped) }
    }

    /// The same for each of many items, of which it counts the `passed` ones: it looks every few thousand.
    pub(crate) fn check_some(&self, passed: &mut u32) -> Result<(), Error> {
        *passed = passed.wrapping_add(1);
        if *passed % LOOK_EVERY == 0 { self.check() } else { Ok(()) }
    }
}

/// Records that are missing somewhere between two times: one loss, or several of one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSpan {
    /// From the begin of the first to the end of the last, with the sums of all.
    pub all: LossAt,
    /// How many losses these are.
    pub count: u32,
}

impl LossSpan {
    /// Of one loss.
    pub fn of(loss: &LossAt) -> LossSpan {
        LossSpan { all: *loss, count: 1 }
    }

    fn add(&mut self, other: &LossSpan) {
        let (all, more) = (&mut self.all, &other.all);
        (all.from, all.to) = (all.from.min(more.from), all.to.max(more.to));
        all.records = all.records.saturating_add(more.records);
        all.packets = all.packets.saturating_add(more.packets);
        self.count = self.count.saturating_add(other.count);
    }
}

/// The losses of a window.
#[derive(Clone, Debug, Default)]
pub struct LossLog {
    list: Vec<LossSpan>,
    sum: Lost,
}

impl LossLog {
    /// Takes one; those of one CPU and process that lie in one pixel are one.
    pub fn take(&mut self, loss: &LossAt, pixels: Option<&Pixels>) {
        self.put(LossSpan::of(loss), pixels);
    }

    fn put(&mut self, span: LossSpan, pixels: Option<&Pixels>) {
        let loss = &span.all;
        self.sum.records = self.sum.records.saturating_add(loss.records);
        self.sum.packets = self.sum.packets.saturating_add(loss.packets);
        self.sum.places += 1;
        let is_of_same = |known: &&mut LossSpan| (known.all.cpu, known.all.process) == (loss.cpu, loss.process);
        let newest = self.list.iter_mut().rev().take(64).find(is_of_same);
        let is_same = |pixels: &Pixels, known: &LossAt| {
            let pixel = pixels.of(known.from);
            let is_within = known.from.min(loss.from) >= pixels.window().from;
            is_within && pixel == pixels.of(loss.from) && pixel == pixels.of(loss.to) && pixel == pixels.of(known.to)
        };
        match (newest, pixels) {
            (Some(known), Some(pixels)) if is_same(pixels, &known.all) => known.add(&span),
            _ => self.list.push(span),
        }
    }

    /// Takes those of another part of the window.
    pub(crate) fn append(&mut self, other: LossLog) {
        other.list.iter().for_each(|span| self.put(*span, None));
    }

    /// The sum of all.
    pub fn sum(&self) -> Lost {
        self.sum
    }

    /// All of them, in the order of time.
    pub fn list(&self) -> &[LossSpan] {
        &self.list
    }

    /// Adds sums and a table to an answer, with the largest where there are more than `most`.
    pub fn tell(mut self, answer: &mut Answer, most: usize) {
        answer.lost = self.sum;
        if self.list.len() > most {
            answer.notes.push(format!("{} losses; the {most} largest are listed", self.list.len()));
            self.list.sort_by_key(|loss| std::cmp::Reverse((loss.all.records, loss.all.packets)));
            self.list.truncate(most);
        }
        self.list.sort_by_key(|loss| loss.all.from);
        let table = table(answer, &self.list);
        answer.push(table);
    }
}

/// The table of losses.
pub fn table(answer: &Answer, losses: &[LossSpan]) -> Table {
    Table::new("losses")
        .column("from", losses.iter().map(|loss| answer.time(loss.all.from)))
        .column("to", losses.iter().map(|loss| answer.time(loss.all.to)))
        .column("cpu", losses.iter().map(|loss| loss.all.cpu))
        .column("records", losses.iter().map(|loss| loss.all.records))
        .column("packets", losses.iter().map(|loss| loss.all.packets))
        .column("process", losses.iter().map(|loss| loss.all.process))
        .column("count", losses.iter().map(|loss| loss.count))
}

/// A visitor that is also shown what is open when the window begins and ends.
pub trait Gather: Visit {
    /// The state in front of the first record.
    fn begin(&mut self, _state: &State) {}

    /// The state behind the last record of the window, before all that is open ends with it.
    fn open(&mut self, _state: &State, _to: i64) {}
}

/// A visitor that takes what the index has in place of records. `P`: where that is.
pub trait TakePictures<P = PicturePlace>: Gather {
    /// Names and losses of a part of the window; all of them come before its pictures.
    fn sums(&mut self, part: &PartSums);

    /// From now on names of threads are known, and those that the records tell are not wanted; or they are again.
    fn names_are_known(&mut self, are_known: bool);

    /// What the index has of a part of the window.
    fn picture(&mut self, place: &P) -> Result<(), DamagedSums>;
}

/// What to walk.
pub struct Walk<'o> {
    of: &'o Opened,
    window: Window,
    pixels: Option<Pixels>,
    chosen: Option<Chosen>,
    /// What is open ends with the trace, as in the verbs, and not with the window.
    to_end_of_trace: bool,
}

/// Chooses by filters, and keeps losses.
struct Watched<'w> {
    chosen: Option<&'w mut Chosen>,
    pixels: Option<&'w Pixels>,
    losses: LossLog,
}

impl Choose for Watched<'_> {
    fn begin(&mut self, state: &State) {
        if let Some(chosen) = &mut self.chosen {
            chosen.begin(state);
        }
    }

    fn selects<'a>(&'a mut self, record: &mut Record<'a>) -> bool {
        match &mut self.chosen {
            Some(chosen) => chosen.selects(record),
            None => true,
        }
    }

    fn lost(&mut self, loss: &Loss<'_>) {
        self.losses.take(&LossAt::of(loss), self.pixels);
        if let Some(chosen) = &mut self.chosen {
            chosen.lost(loss);
        }
    }
}

/// What a pass leaves behind.
pub struct Walked {
    /// The state at the end of the window.
    pub state: State,
    /// What was lost.
    pub losses: LossLog,
    /// What filters have to say.
    pub notes: Vec<String>,
}

impl Walked {
    /// Where nothing is known but losses.
    pub fn of_losses(of: &Opened, losses: LossLog) -> Walked {
        Walked { state: State::new(&of.classes.vocabulary), losses, notes: Vec::new() }
    }

    /// Adds notes and losses to an answer.
    pub fn tell(self, answer: &mut Answer) {
        answer.notes.extend(self.notes);
        self.losses.tell(answer, LOSSES_MAX);
    }

    /// The same, with the losses of a part of the window.
    pub fn tell_of(self, answer: &mut Answer, part: Window) {
        let mut losses = LossLog::default();
        let touches = |loss: &&LossSpan| loss.all.from < part.to && loss.all.to >= part.from;
        self.losses.list.iter().filter(touches).for_each(|loss| losses.put(*loss, None));
        Walked { losses, ..self }.tell(answer);
    }
}

impl<'o> Walk<'o> {
    /// All records of a window.
    pub fn new(of: &'o Opened, window: Window) -> Walk<'o> {
        Walk { of, window, pixels: None, chosen: None, to_end_of_trace: false }
    }

    /// Losses of one pixel are one.
    #[must_use]
    pub fn in_pixels(mut self, pixels: Pixels) -> Walk<'o> {
        self.pixels = Some(pixels);
        self
    }

    /// Those that the filters of a question select are marked.
    pub fn filtered(mut self, parameters: &mut Parameters) -> Result<Walk<'o>, Error> {
        let filters = parameters.texts("filter");
        if !filters.is_empty() {
            self.chosen = Some(Chosen::new(&self.of.traces, &filters)?);
        }
        Ok(self)
    }

    /// What is open at the end of the trace ends with its last record.
    #[must_use]
    pub fn until_last_record(mut self) -> Walk<'o> {
        self.to_end_of_trace = true;
        self
    }

    /// What is walked.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether every record is asked for.
    pub fn is_all(&self) -> bool {
        self.chosen.is_none()
    }

    /// Shows everything to the visitor.
    pub fn run(mut self, visit: &mut impl Gather, stop: &Stop) -> Result<Walked, Error> {
        let (losses, walker) = self.pass(self.window, LossLog::default(), visit, true, stop)?;
        Ok(self.end(walker, losses, visit))
    }

    /// Shows the records; what is open at the end of the window goes on.
    pub fn run_open(mut self, visit: &mut impl Gather, stop: &Stop) -> Result<(), Error> {
        self.pass(self.window, LossLog::default(), visit, true, stop).map(drop)
    }

    /// Shows the records that sums of the index do not have, and in between `take` gets these. For who asks for no
    /// filter: sums are of all records.
    pub fn run_around<G: Gather>(
        mut self,
        cover: &Cover,
        visit: &mut G,
        take: impl Fn(&mut G, &PartSums),
        stop: &Stop,
    ) -> Result<Result<Walked, DamagedSums>, Error> {
        let mut losses = LossLog::default();
        if let Some(to) = cover.records_to.filter(|to| *to > self.window.from) {
            let before = Window { from: self.window.from, to };
            losses = self.pass(before, losses, visit, true, stop)?.0;
        }
        for part in &cover.parts {
            stop.check()?;
            take(visit, part);
            part.losses.iter().for_each(|loss| losses.take(loss, self.pixels.as_ref()));
        }
        let behind = Window { from: cover.records_from, to: self.window.to };
        let (losses, walker) = self.pass(behind, losses, visit, true, stop)?;
        Ok(self.all_losses(losses).map(|losses| self.end(walker, losses, visit)))
    }

    /// Sums have the losses of the streams that they are made of. The index has all, or there are no others.
    fn all_losses(&self, of_sums: LossLog) -> Result<LossLog, DamagedSums> {
        Ok(self.known_losses().map_err(|_| DamagedSums)?.unwrap_or(of_sums))
    }

    /// Shows the pictures of the index in place of the records that they are of. For who asks for no filter. Where they
    /// are damaged, what was taken is of no use.
    pub fn run_pictures<P>(
        mut self,
        of: &Gallery<P>,
        visit: &mut impl TakePictures<P>,
        stop: &Stop,
    ) -> Result<Result<Walked, DamagedSums>, Error> {
        let (cover, mut losses) = (&of.cover, LossLog::default());
        match cover.records_to.filter(|to| *to > self.window.from) {
            Some(to) => {
                let before = Window { from: self.window.from, to };
                losses = self.pass(before, losses, visit, true, stop)?.0;
            }
            None => visit.begin(&begin(self.of, self.window, stop)?.1.state),
        }
        for part in &cover.parts {
            visit.sums(part);
            part.losses.iter().for_each(|loss| losses.take(loss, self.pixels.as_ref()));
        }
        visit.names_are_known(true);
        for stretch in &of.stretches {
            stop.check()?;
            match stretch {
                Stretch::Picture(place) => {
                    if let Err(damaged) = visit.picture(place) {
                        return Ok(Err(damaged));
                    }
                }
                Stretch::Records(from, to) => {
                    // Its losses are in the sums.
                    let part = Window { from: self.window.from.max(*from), to: *to };
                    self.pass(part, LossLog::default(), visit, false, stop)?;
                }
            }
        }
        visit.names_are_known(false);
        let behind = Window { from: cover.records_from, to: self.window.to };
        let (losses, walker) = self.pass(behind, losses, visit, false, stop)?;
        Ok(self.all_losses(losses).map(|losses| self.end(walker, losses, visit)))
    }

    /// The records of a part of the window; the first one, where `is_first`.
    fn pass<G: Gather>(
        &mut self,
        part: Window,
        losses: LossLog,
        visit: &mut G,
        is_first: bool,
        stop: &Stop,
    ) -> Result<(LossLog, Walker<'o>), Error> {
        let (mut reader, mut walker) = begin(self.of, part, stop)?;
        if is_first {
            visit.begin(&walker.state);
        }
        let goes_on = || stop.goes_on();
        let mut watched = Watched { chosen: self.chosen.as_mut(), pixels: self.pixels.as_ref(), losses };
        let looks_at_few = (0..self.of.classes.list.len()).any(|class| !visit.looks_at(class));
        let is_whole = match looks_at_few && watched.chosen.is_none() {
            _ if part.is_empty() => true,
            true => {
                let mut lost = |loss: &LossAt| watched.losses.take(loss, watched.pixels);
                walker.follow_while(&mut reader, &mut lost, visit, &goes_on)
            }
            false => walker.go_while(&mut reader, &mut watched, visit, &goes_on),
        };
        if is_whole { Ok((watched.losses, walker)) } else { Err(Error::Stopped) }
    }

    /// What is open at the end of the window ends.
    fn end(self, mut walker: Walker<'o>, losses: LossLog, visit: &mut impl Gather) -> Walked {
        let is_to_end = !self.of.is_growing() && self.of.bounds.is_none_or(|(_, last)| self.window.to > last);
        let end = (!(is_to_end && self.to_end_of_trace)).then_some(self.window.to);
        // Of what was not read it is not known what was open.
        if !self.window.is_empty() && !visit.is_enough() {
            visit.open(&walker.state, self.window.to);
            walker.state.finish(end, visit);
        }
        let notes = self.chosen.map_or_else(Vec::new, |chosen| {
            let mut notes = chosen.notes();
            notes.extend(chosen.conclude());
            notes
        });
        Walked { state: walker.state, losses, notes }
    }
}

/// A reader of the records of a window, and the state in front of them.
pub fn begin<'o>(of: &'o Opened, window: Window, stop: &Stop) -> Result<(Reader<'o>, Walker<'o>), Error> {
    let mut walker = Walker::new(&of.classes);
    // Of an empty window nothing is read.
    if window.from > of.base() && !window.is_empty() {
        let goes_on = || stop.goes_on();
        let before = range::state_before_while(&of.traces, &of.classes, &of.indexes, window.from, &goes_on);
        walker = before.ok_or(Error::Stopped)?;
        walker.begin_range(window.from);
    }
    Ok((reader(of, window), walker))
}

/// The times between which the items of a window are. What reaches to an end of the trace is read as the verbs read a
/// whole trace: with losses before the first record and behind the last.
fn ends(of: &Opened, window: Window) -> (Option<i64>, Option<i64>) {
    let is_cut = of.is_growing() || of.bounds.is_some_and(|(_, last)| window.to <= last);
    match window.is_empty() {
        true => (Some(window.from), Some(window.from)),
        false => ((window.from > of.base()).then_some(window.from), is_cut.then_some(window.to)),
    }
}

/// A reader of the items of a window.
pub fn reader(of: &Opened, window: Window) -> Reader<'_> {
    let (from, to) = ends(of, window);
    range::reader(&of.traces, &of.indexes, from.map(i128::from), to.map(i128::from))
}

/// The same of some streams, with an index of them. `None`: their places are not where they were.
pub fn reader_of<'o>(of: &'o Opened, window: Window, is_read: &[bool]) -> Option<Reader<'o>> {
    let (from, to) = ends(of, window);
    let range = Range { from_ns: from.map(i128::from), to_ns: to.map(i128::from) };
    Reader::between(&of.traces, range, &of.indexes.starts_of(&of.traces, range.from_ns, is_read))
}
