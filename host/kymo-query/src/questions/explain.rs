// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something took so long [spec/view.md 4.15]: the story of `kymo explain`, from the same engine, in rows whose
//! threads, CPUs and times are links.

use kymo_analyze::explain::{Question, Scene, Story, StoryRow};
use kymo_analyze::{By, CpuSpan, Event, Head, Key, Latency, Sample, Sink, State, Thread, ThreadSpan, Until, What};
use kymo_feed::Visit;

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::keep::{Around, Keep, Lead};
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::{begin, doubt_bits};
use crate::questions::latencies::only::Only;
use crate::questions::latencies::pass::{LatencyRequest, pass};
use crate::questions::told::{LEAD, Pieces, SPANS_KEPT, budget_table, note_if_full, tell_read, tid};
use crate::surroundings::Surroundings;
use crate::walk::{Gather, Stop, Walk};

/// Records of the time line where nothing else is asked for, as `kymo explain` has them.
const ROWS: usize = 14;

/// Samples that end at one moment and are looked at.
const SAMPLES_MAX: usize = 256;

/// What is asked about.
struct Place {
    what: Option<What>,
    spans: Vec<String>,
    tid: Option<i32>,
    cpu: Option<u32>,
    from: Option<i64>,
    to: Option<i64>,
    at: Option<i64>,
    lead: Lead,
}

impl Place {
    fn of(of: &Opened, parameters: &mut Parameters) -> Result<Place, Error> {
        let names = || What::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let kind = |text: String| {
            let found = What::ALL.iter().find(|(_, name)| *name == text).map(|(what, _)| *what);
            found.ok_or_else(|| Error::parameter("what", format!("one of {}", names())))
        };
        let cpu = parameters.number("cpu", 0..=u32::MAX as u64 - 1)?;
        let what = parameters.text("what")?.map(kind).transpose()?;
        let spans = parameters.texts("span");
        if !spans.is_empty() && what != Some(What::Span) {
            return Err(Error::parameter("span", "it belongs to what=span"));
        }
        Ok(Place {
            what,
            spans,
            tid: tid(parameters)?,
            cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            from: parameters.time("from", of)?,
            to: parameters.time("to", of)?,
            at: parameters.time("at", of)?,
            lead: Lead::of(parameters, LEAD)?,
        })
    }

    /// A stretch, where one of its ends is given at least, or nothing else.
    fn ends(&self, of: &Opened) -> Result<Option<(i64, i64)>, Error> {
        if self.from.is_none() && self.to.is_none() && self.at.is_some() {
            return Ok(None);
        }
        let (first, end) = of.whole();
        let (from, to) = (self.from.unwrap_or(first), self.to.unwrap_or(end));
        let is_given = self.from.is_some() || self.to.is_some();
        // A sample may be shorter than the clock's steps.
        let is_stretch = from < to || self.what.is_some() && from == to;
        if is_given && !is_stretch { Err(Error::parameter("to", "it is not after from")) } else { Ok(Some((from, to))) }
    }

    /// From what is asked for to the question of a story.
    fn question(&self, notes: &mut Vec<String>, of: &Opened, stop: &Stop) -> Result<Question, Error> {
        let ends = self.ends(of)?;
        let whose = self.tid.is_some() || self.cpu.is_some();
        match (self.what, ends, self.at) {
            (Some(what), Some(ends), None) => self.sample(what, ends, of, stop),
            (Some(_), ..) => Err(Error::parameter("what", "of a latency, from and to say which sample it is")),
            (None, Some((from, to)), None) if whose => {
                let (first, end) = of.whole();
                // Nothing is known behind the last record.
                let (from, to) = (from.max(first), to.min(end.saturating_sub(1)));
                if from >= to {
                    return Err(Error::Trace {
                        message: "the trace has no two moments in that stretch".to_owned(),
                        hint: "kymo record -k sched,irq,syscalls".to_owned(),
                    });
                }
                Ok(match (self.tid, self.cpu) {
                    (Some(tid), _) => Question::stretch(tid, from, to),
                    (None, cpu) => Question::moment(cpu, from, to),
                })
            }
            (None, None, Some(at)) if whose => self.moment(at, notes, of, stop),
            (None, None, Some(at)) => Ok(Question::moment(None, at, at)),
            (None, Some(_), Some(_)) => Err(Error::parameter("at", "either at, or from and to")),
            (None, _, None) => Err(Error::parameter("tid", "whose stretch: tid or cpu; or a moment: at")),
        }
    }

    /// The sample of a latency that lies there.
    fn sample(&self, what: What, (from, to): (i64, i64), of: &Opened, stop: &Stop) -> Result<Question, Error> {
        let spans = match what {
            What::Span if self.spans.is_empty() => pairs::spans(of),
            _ => self.spans.clone(),
        };
        let by = By { prio: true, ..By::default() };
        let asked = LatencyRequest {
            what: vec![what],
            spans,
            by,
            limit: SAMPLES_MAX,
            past: None,
            bins: None,
            ending: Some(to),
        };
        let window = Around::new(of, self.lead).window((from, to));
        // It ends where the sample does: what is open then is none.
        let window = Window { to: to.saturating_add(1).clamp(window.from, window.to), ..window };
        let (pass, _) = pass(of, Walk::new(of, window), &asked, Only::all(), stop)?;
        let is_own = |(_, sample): &&(Key, Sample)| self.tid.is_none_or(|tid| sample.tid == Some(tid));
        let is_there = |(_, sample): &&(Key, Sample)| self.cpu.is_none_or(|cpu| sample.cpu == Some(cpu));
        let all = || pass.longest().iter().filter(is_own).filter(is_there);
        // When a timer was due may have been told before what is read here: then the wake-up begins later.
        let found = all().find(|(_, sample)| sample.from == from);
        let found = found.or_else(|| all().find(|(_, sample)| what == What::Wakeup && sample.from > from));
        let (key, sample) = found.ok_or_else(|| {
            Error::parameter("what", format!("there is no {} from {from} to {to} in the trace", what.name()))
        })?;
        let functions = Functions::of(of);
        let (vocabulary, devices, spans) = (&of.classes.vocabulary, pass.devices(), &asked.spans[..]);
        let names = NameTable { vocabulary, devices, spans, keys: pass.spans.keys(), functions: &functions };
        let mut sample = *sample;
        sample.late_ns = sample.late_ns.saturating_add(sample.from.abs_diff(from));
        sample.from = from;
        Ok(Question::of_sample(what, names.of(key.of), &sample))
    }

    /// The stretch of the thread or of the CPU that contains a moment.
    fn moment(&self, at: i64, notes: &mut Vec<String>, of: &Opened, stop: &Stop) -> Result<Question, Error> {
        let (first, end) = of.whole();
        if at < first || at >= end {
            return Err(Error::parameter("at", "it lies outside of the trace"));
        }
        let mut search = MomentSearch { at, tid: self.tid, cpu: self.cpu, of_thread: None, of_cpu: None };
        // When what goes on then began is in the state in front of it.
        let window = Window { from: at, ..Around::new(of, self.lead).window((at, at)) };
        Walk::new(of, window).until_last_record().run(&mut search, stop)?;
        let missing = |whose: String| Error::Trace {
            message: format!("nothing is known of {whose} at that moment"),
            hint: "kymo record -k sched,irq,syscalls".to_owned(),
        };
        if let Some(tid) = self.tid {
            let (span, late_ns) = search.of_thread.ok_or_else(|| missing(format!("thread {tid}")))?;
            if span.until == Until::End && span.to < end.saturating_sub(1) {
                notes.push(
                    "It goes on for longer: the story is of the part up to where the records were read.".to_owned(),
                );
            }
            return Ok(Question::of_span(&span, late_ns));
        }
        let cpu = self.cpu.unwrap_or_default();
        let span = search.of_cpu.ok_or_else(|| missing(format!("CPU {cpu}")))?;
        Ok(Question { doubt: span.doubt, ..Question::moment(Some(cpu), span.from, span.to) })
    }
}

/// Looks for the stretch that contains a moment.
struct MomentSearch {
    at: i64,
    tid: Option<i32>,
    cpu: Option<u32>,
    of_thread: Option<(ThreadSpan, u64)>,
    of_cpu: Option<CpuSpan>,
}

impl Visit for MomentSearch {
    fn looks_at(&self, _: usize) -> bool {
        false
    }

    fn is_enough(&self) -> bool {
        if self.tid.is_some() { self.of_thread.is_some() } else { self.of_cpu.is_some() }
    }
}

impl Sink for MomentSearch {
    fn event(&mut self, _: &Head, _: &Event, _: &State) {}

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if Some(span.tid) == self.tid && span.from <= self.at && span.to > self.at {
            self.of_thread = Some((*span, Latency::late_ns(span, thread)));
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        if Some(span.cpu) == self.cpu && span.from <= self.at && span.to > self.at {
            self.of_cpu = Some(*span);
        }
    }
}

impl Gather for MomentSearch {}

/// Answers `explain`.
///
/// # Errors
/// Parameters; nothing is known of what is asked about.
pub fn explain(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let place = Place::of(of, parameters)?;
    let rows_max = parameters.limit(ROWS)?;
    if place.what.is_none() && !of.has_switches() {
        return Err(Error::no_switches());
    }
    let mut notes = Vec::new();
    let question = place.question(&mut notes, of, stop)?;
    let stretch = Window { from: question.from, to: question.to };
    let surroundings = Surroundings::of(&of.traces, of.symbols());
    let around = Around::new(of, place.lead);
    let mut keep = Keep::new([question], SPANS_KEPT, &of.classes, surroundings).near(&around);
    let read = around.window(stretch.pair());
    let walked = Walk::new(of, read).until_last_record().run(&mut keep, stop)?;
    let (scenes, known) = keep.take();
    let mut answer = begin("explain", of, stretch);
    tell_read(&mut answer, read);
    answer.notes.extend(notes);
    for scene in &scenes {
        let mut story = scene.story(&of.classes.list, &of.classes.vocabulary, &known, rows_max);
        story.blind.extend(known.reasons());
        tell(&mut answer, scene, &story);
        note_if_full(&mut answer, scene);
    }
    walked.tell_of(&mut answer, Window { to: stretch.to.max(stretch.from.saturating_add(1)), ..stretch });
    Ok(answer)
}

/// All that a story says.
fn tell(answer: &mut Answer, scene: &Scene, story: &Story) {
    answer.set("what", story.what.map(What::name));
    answer.set("of", story.of.as_str());
    answer.set("tid", story.tid);
    answer.set("name", story.name.as_str());
    answer.set("prio", story.prio);
    answer.set("cpu", story.cpu);
    answer.set("late_ns", story.late_ns);
    answer.set("faults", story.faults);
    answer.set("doubt", doubt_bits(story.doubt));
    answer.set("chain_left_out", story.chain_left_out);
    answer.set("chain_left_out_ns", story.chain_left_out_ns);
    let mut pieces = Pieces::new(scene);
    let tables = [
        sentences(answer, &mut pieces, story),
        budget_table(answer, &mut pieces, &story.budget),
        chain(answer, &mut pieces, story),
        records(answer, &mut pieces, story),
        pieces.table(),
    ];
    tables.into_iter().for_each(|table| answer.push(table));
}

/// What is said in sentences, in the order in which `kymo explain` says it.
fn sentences(answer: &mut Answer, pieces: &mut Pieces<'_>, story: &Story) -> Table {
    let mut all: Vec<(&str, &str)> = vec![("headline", &story.headline)];
    all.extend(story.cpus.iter().map(|text| ("cpu", text.as_str())));
    all.extend(story.doubts.iter().map(|text| ("doubt", text.as_str())));
    all.extend(story.missing_events.iter().map(|missing| ("blind", missing.text.as_str())));
    all.extend(story.blind.iter().map(|text| ("blind", text.as_str())));
    for advice in &story.advice {
        all.push(("because", &advice.because));
        all.push(("try", &advice.try_this));
    }
    let mut kinds = Vec::new();
    for (row, (kind, text)) in all.iter().enumerate() {
        kinds.push(answer.texts.text(kind));
        pieces.add(answer, "sentences", row, text);
    }
    Table::new("sentences").column("kind", kinds)
}

/// Who was waited for.
fn chain(answer: &mut Answer, pieces: &mut Pieces<'_>, story: &Story) -> Table {
    for (row, link) in story.chain.iter().enumerate() {
        pieces.add(answer, "chain", row, &link.text);
    }
    let links = || story.chain.iter();
    Table::new("chain")
        .column("from", links().map(|link| answer.time(link.from)))
        .column("to", links().map(|link| answer.time(link.to)))
        .column("tid", links().map(|link| link.tid))
        .column("depth", links().map(|link| link.depth as u32))
        .column("doubt", links().map(|link| doubt_bits(link.doubt)))
}

/// The time line: records, the gap that matters among them, and how many are left out.
fn records(answer: &mut Answer, pieces: &mut Pieces<'_>, story: &Story) -> Table {
    let (mut kinds, mut who, mut events, mut stacks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (row, of) in story.rows.iter().enumerate() {
        let kind = match of {
            StoryRow::Moment(_) => "record",
            StoryRow::Gap(_) => "gap",
            StoryRow::Skipped(_) => "skipped",
        };
        kinds.push(answer.texts.text(kind));
        let moment = if let StoryRow::Moment(moment) = of { Some(moment) } else { None };
        who.push(moment.and_then(|moment| answer.texts.name(&moment.who)));
        events.push(moment.and_then(|moment| answer.texts.name(&moment.event)));
        stacks.push(moment.and_then(|moment| answer.texts.name(&moment.stack.join("\n"))));
        match of {
            StoryRow::Moment(moment) => pieces.add(answer, "records", row, &moment.text),
            StoryRow::Gap(gap) => pieces.add(answer, "records", row, &gap.text),
            StoryRow::Skipped(_) => {}
        }
    }
    let (mut from, mut to, mut cpus, mut tids, mut left_out) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for of in &story.rows {
        let (begins, ends, cpu, tid, count) = match of {
            StoryRow::Moment(moment) => (Some(moment.time), Some(moment.time), moment.cpu, moment.tid, None),
            StoryRow::Gap(gap) => (Some(gap.from), Some(gap.to), gap.cpu, None, None),
            StoryRow::Skipped(count) => (None, None, None, None, Some(*count)),
        };
        from.push(begins.map(|ns| answer.time(ns)));
        to.push(ends.map(|ns| answer.time(ns)));
        cpus.push(cpu);
        tids.push(tid);
        left_out.push(count);
    }
    Table::new("records")
        .column("kind", kinds)
        .column("from", from)
        .column("to", to)
        .column("cpu", cpus)
        .column("tid", tids)
        .column("who", who)
        .column("event", events)
        .column("stack", stacks)
        .column("left_out", left_out)
}
