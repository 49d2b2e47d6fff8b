// SPDX-License-Identifier: MIT OR Apache-2.0
//! The three most telling places of a trace [spec/view.md 4.2]: the longest of three kinds of latency.

use kymo_analyze::{By, Key, Sample, Series, What};

use super::begun::{begin, doubt_bits};
use super::latency_pass::{LatencyPass, LatencyRequest, pass};
use super::only::Only;
use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::pairs;
use crate::parameters::Parameters;
use crate::walk::{Stop, Walk};

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

/// Priorities below this are real-time.
const REAL_TIME: i16 = 100;

/// The worst of a kind.
struct TellingPlace {
    what: What,
    title: String,
    of: String,
    sample: Sample,
    samples: u64,
    next_ns: Option<u64>,
}

/// The worst of a kind, of real-time threads where there is one.
fn place(what: What, title: &str, pass: &LatencyPass<'_>, names: &NameTable<'_>) -> Option<TellingPlace> {
    let all = pass.latency.series();
    let own: Vec<&(&Key, &Series)> = all.iter().filter(|(key, _)| key.what == what).collect();
    let is_real_time = |key: &Key| what == What::Wakeup && key.prio.is_some_and(|prio| prio < REAL_TIME);
    let has_real_time = own.iter().any(|(key, series)| is_real_time(key) && !series.worst.is_empty());
    let of_place = || own.iter().filter(|(key, _)| !has_real_time || is_real_time(key));
    let mut worst: Vec<(&Key, &Sample)> =
        of_place().flat_map(|(key, series)| series.worst.iter().map(move |sample| (*key, sample))).collect();
    worst.sort_by_key(|(_, sample)| (std::cmp::Reverse(sample.value_ns), sample.from));
    let (key, sample) = *worst.first()?;
    let title = if has_real_time { format!("{title} of a real-time thread") } else { title.to_owned() };
    let samples = of_place().map(|(_, series)| series.count()).sum();
    let next_ns = worst.get(1).map(|(_, sample)| sample.value_ns);
    Some(TellingPlace { what, title, of: names.of(key.of), sample: *sample, samples, next_ns })
}

/// Answers `places`.
///
/// # Errors
/// Parameters.
pub fn places(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let spans = pairs::spans(of);
    let what = KINDS.iter().map(|(what, _)| *what).collect();
    let by = By { prio: true, ..By::default() };
    let asked = LatencyRequest { what, spans, by, limit: 1, past: None, bins: None, ending: None };
    let (pass, walked) = pass(of, Walk::new(of, window), &asked, Only::all(), stop)?;
    let (vocabulary, devices) = (&of.classes.vocabulary, pass.devices());
    let names =
        NameTable { vocabulary, devices, spans: &asked.spans, keys: pass.spans.keys(), functions: &Functions::of(of) };
    let found = KINDS.iter().filter_map(|(what, title)| place(*what, title, &pass, &names));
    let places: Vec<TellingPlace> = found.take(PLACES).collect();
    let mut answer = begin("places", of, window);
    let table = table(&mut answer, &places);
    answer.push(table);
    walked.tell(&mut answer);
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
