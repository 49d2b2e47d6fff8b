// SPDX-License-Identifier: MIT OR Apache-2.0
//! The three most telling places of a trace [spec/view.md 4.2]: the longest of three kinds of latency.

use kymo_analyze::{By, Key, Sample, SampleGroup, Series, Sink, What};
use kymo_feed::Visit;

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::{begin, doubt_bits};
use crate::questions::latencies::index::indexed;
use crate::questions::latencies::only::Only;
use crate::questions::latencies::pass::{LatencyPass, LatencyRequest, pass};
use crate::walk::{Few, Gather, LOSSES_MAX, LossLog, Stop, Walk};

/// Kinds that are looked for, the most telling first, and their titles.
const KINDS: [(What, &str); 7] = [
    (What::Wakeup, "Worst wake-up"),
    (What::Futex, "Longest wait for a lock or a condition"),
    (What::Span, "Longest span"),
    (What::Irq, "Longest interrupt"),
    (What::Softirq, "Longest softirq"),
    (What::Block, "Longest disk request"),
    (What::Syscall, "Longest system call"),
];

/// Places that are shown.
const PLACES: usize = 3;

/// The worst of a kind.
struct TellingPlace {
    what: What,
    title: String,
    of: String,
    sample: Sample,
    samples: u64,
    next_ns: Option<u64>,
}

/// Looks at no record: for the state behind a window.
struct NobodyLooks;

impl Visit for NobodyLooks {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for NobodyLooks {}

impl Gather for NobodyLooks {}

fn real_time(title: &str) -> String {
    format!("{title} of a real-time thread")
}

/// Looks for the worst of a kind, of real-time threads where there is one.
struct Places<'o> {
    of: &'o Opened,
    walk: Walk<'o>,
    spans: Vec<String>,
    /// All kinds, from the records; none while the index has what is asked for.
    records: Option<LatencyPass<'o>>,
    /// Losses, from what was looked for first.
    losses: Option<LossLog>,
    notes: Vec<String>,
}

impl<'o> Places<'o> {
    fn new(of: &'o Opened, walk: Walk<'o>, spans: Vec<String>) -> Places<'o> {
        Places { of, walk, spans, records: None, losses: None, notes: Vec::new() }
    }

    fn asked(&self, what: Vec<What>, by: By) -> LatencyRequest {
        LatencyRequest { what, spans: self.spans.clone(), by, limit: 2, past: None, bins: None, ending: None }
    }

    fn place(&mut self, what: What, title: &str, stop: &Stop) -> Result<Option<TellingPlace>, Error> {
        if self.records.is_none() {
            if what == What::Wakeup {
                if let Some(Some(place)) = self.of_index(what, Only::real_time(), title, stop)? {
                    return Ok(Some(place));
                }
            }
            if let Some(place) = self.of_index(what, Only::all(), title, stop)? {
                return Ok(place);
            }
            if what == What::Span {
                return self.of_spans(title, stop);
            }
            self.read(stop)?;
        }
        Ok(self.of_records(what, title))
    }

    /// Reads all records.
    fn read(&mut self, stop: &Stop) -> Result<(), Error> {
        let what = KINDS.iter().map(|(what, _)| *what).collect();
        let asked = self.asked(what, By { prio: true, ..By::default() });
        let (pass, walked) = pass(self.of, Walk::new(self.of, self.walk.window()), &asked, Only::all(), stop)?;
        self.losses = Some(walked.losses);
        self.records = Some(pass);
        Ok(())
    }

    fn of_records(&self, what: What, title: &str) -> Option<TellingPlace> {
        let pass = self.records.as_ref()?;
        let all = pass.latency.series();
        let own: Vec<&(&Key, &Series)> = all.iter().filter(|(key, _)| key.what == what).collect();
        let is_real_time = |series: &Series| series.worst.first().is_some_and(Sample::is_real_time);
        let has_real_time = what == What::Wakeup && own.iter().any(|(_, series)| is_real_time(series));
        let of_place = || own.iter().filter(|(_, series)| !has_real_time || is_real_time(series));
        let mut worst: Vec<(&Key, &Sample)> =
            of_place().flat_map(|(key, series)| series.worst.iter().map(move |sample| (*key, sample))).collect();
        worst.sort_by_key(|(key, sample)| (sample.rank(), **key));
        let (key, sample) = *worst.first()?;
        let title = if has_real_time { real_time(title) } else { title.to_owned() };
        let samples = of_place().map(|(_, series)| series.count()).sum();
        let next_ns = worst.get(1).map(|(_, sample)| sample.value_ns);
        let of = self.names(pass, &Functions::of(self.of)).of(key.of);
        Some(TellingPlace { what, title, of, sample: *sample, samples, next_ns })
    }

    /// From the index; the outer `None`: it lacks what is asked for.
    fn of_index(
        &mut self,
        what: What,
        only: Only<'o>,
        title: &str,
        stop: &Stop,
    ) -> Result<Option<Option<TellingPlace>>, Error> {
        let is_real_time = what == What::Wakeup && !only.takes_group(SampleGroup::Woken);
        let spans = if what == What::Span { self.spans.clone() } else { Vec::new() };
        let asked = LatencyRequest { spans, ..self.asked(vec![what], By::default()) };
        let Ok((pass, walked)) = indexed(self.of, &self.walk, &asked, only, &mut self.notes, stop)? else {
            return Ok(None);
        };
        self.losses.get_or_insert(walked.losses);
        let title = if is_real_time { real_time(title) } else { title.to_owned() };
        let told = self.told(&pass, what, title);
        Ok(Some(match what {
            What::Span => told.map(|place| self.with_thread(place, stop)).transpose()?,
            _ => told,
        }))
    }

    /// The longest span, from the records of spans alone where that is possible.
    fn of_spans(&mut self, title: &str, stop: &Stop) -> Result<Option<TellingPlace>, Error> {
        let asked = self.asked(vec![What::Span], By::default());
        let mut pass = LatencyPass::new(self.of, &asked, Only::all())?;
        let few = Few::by_writer(self.of, pass.spans.classes().to_vec()).filter(|_| pass.spans.need_no_state());
        let walked = match few {
            Some(few) => self.walk.run_few(&few, &mut pass, stop)?,
            None => None,
        };
        let Some(walked) = walked else {
            self.read(stop)?;
            return Ok(self.of_records(What::Span, title));
        };
        pass.finish(&walked);
        self.losses.get_or_insert(walked.losses);
        let found = self.told(&pass, What::Span, title.to_owned());
        found.map(|place| self.with_thread(place, stop)).transpose()
    }

    /// Records of spans alone do not tell the priority of their thread.
    fn with_thread(&self, place: TellingPlace, stop: &Stop) -> Result<TellingPlace, Error> {
        let end = Window { from: place.sample.to, to: place.sample.to.saturating_add(1) };
        let walked = Walk::new(self.of, end).run(&mut NobodyLooks, stop)?;
        let thread = place.sample.tid.and_then(|tid| walked.state.thread(tid));
        let prio = thread.and_then(|thread| thread.prio);
        Ok(TellingPlace { sample: Sample { prio, ..place.sample }, ..place })
    }

    /// The longest of a pass over one kind.
    fn told(&self, pass: &LatencyPass<'o>, what: What, title: String) -> Option<TellingPlace> {
        let (key, sample) = *pass.longest().first()?;
        let next_ns = pass.longest().get(1).map(|(_, sample)| sample.value_ns);
        let of = self.names(pass, &Functions::of(self.of)).of(key.of);
        Some(TellingPlace { what, title, of, sample, samples: pass.points.samples, next_ns })
    }

    fn names<'p>(&'p self, pass: &'p LatencyPass<'o>, functions: &'p Functions<'_>) -> NameTable<'p> {
        let vocabulary = &self.of.classes.vocabulary;
        NameTable { vocabulary, devices: pass.devices(), spans: &self.spans, keys: pass.spans.keys(), functions }
    }
}

/// Answers `places`.
///
/// # Errors
/// Parameters.
pub fn places(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let spans = match (parameters.number("spans", 0..=1)?, parameters.texts("span")) {
        (Some(0), _) => Vec::new(),
        (_, own) if own.is_empty() => pairs::spans(of),
        (_, own) => own,
    };
    let mut places = Places::new(of, Walk::new(of, window), spans);
    let mut list = Vec::new();
    for (what, title) in KINDS {
        if list.len() < PLACES {
            list.extend(places.place(what, title, stop)?);
        }
    }
    let mut answer = begin("places", of, window);
    answer.set("source", if places.records.is_some() { "records" } else { "index" });
    answer.set("has_spans", !pairs::spans(of).is_empty());
    let table = table(&mut answer, &list);
    answer.push(table);
    answer.notes.extend(places.notes);
    places.losses.unwrap_or_default().tell(&mut answer, LOSSES_MAX);
    Ok(answer)
}

fn table(answer: &mut Answer, places: &[TellingPlace]) -> Table {
    let (mut kinds, mut titles, mut names, mut of) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for place in places {
        kinds.push(answer.texts.text(place.what.name()));
        titles.push(answer.texts.text(&place.title));
        names.push(answer.texts.name(place.sample.name.as_str()));
        of.push(answer.texts.name(&place.of));
    }
    Table::new("places")
        .column("kind", kinds)
        .column("title", titles)
        .column("value_ns", places.iter().map(|place| place.sample.value_ns))
        .column("from", places.iter().map(|place| answer.time(place.sample.from)))
        .column("to", places.iter().map(|place| answer.time(place.sample.to)))
        .column("tid", places.iter().map(|place| place.sample.tid))
        .column("name", names)
        .column("prio", places.iter().map(|place| place.sample.prio.map(i32::from)))
        .column("cpu", places.iter().map(|place| place.sample.cpu))
        .column("of", of)
        .column("samples", places.iter().map(|place| place.samples))
        .column("next_ns", places.iter().map(|place| place.next_ns))
        .column("doubt", places.iter().map(|place| doubt_bits(place.sample.doubt)))
}
