// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in the trace, and what was lost [spec/view.md 4.1]. Counts come from the index where there is one, else all
//! records are counted.

use std::collections::BTreeMap;

use kymo_analyze::{Field, ValueKind};
use kymo_ctf::read::{Item, Passed, Reader};
use kymo_ctf::write::EnvValue;
use kymo_feed::LossAt;
use serde_json::{Map, Value, json};

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::learn::is_state;
use crate::opened::Opened;
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::begin;
use crate::walk::{self, LossLog, Stop, Walk};

/// Rows of losses where a question does not say.
const LOSSES: usize = 1000;

/// What there is.
#[derive(Default)]
struct Counts {
    /// By name: records, and whether they are a kernel's.
    events: BTreeMap<String, (u64, bool)>,
    lost_places: u64,
}

impl Counts {
    fn add(&mut self, of: &Opened, trace: usize, event: usize, records: u64) {
        let Some(class) = of.traces.get(trace).and_then(|trace| trace.metadata.events.get(event)) else { return };
        let is_kernel = of.classes.is_of_kernel(trace, event);
        let known = self.events.entry(class.name.clone()).or_insert((0, is_kernel));
        known.0 = known.0.saturating_add(records);
    }

    fn of(of: &Opened) -> Counts {
        let mut counts = Counts::default();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        match of.indexes.whole() {
            Some(indexes) => {
                for (trace, stream) in indexes
                    .iter()
                    .enumerate()
                    .flat_map(|(trace, index)| index.streams.iter().map(move |of| (trace, of)))
                {
                    stream.events.iter().for_each(|event| counts.add(of, trace, event.event, event.records));
                    counts.lost_places = counts.lost_places.saturating_add(stream.lost[2]);
                }
            }
            None => {
                for (trace, opened) in of.traces.iter().enumerate() {
                    let found = opened.count(threads);
                    let events = found.events.iter().enumerate();
                    events.for_each(|(event, records)| counts.add(of, trace, event, *records));
                    counts.lost_places = counts.lost_places.saturating_add(found.lost_places);
                }
            }
        }
        counts
    }
}

/// All losses: those that the index lists, and from one pass over the rest.
fn losses(of: &Opened, stop: &Stop) -> Result<LossLog, Error> {
    let (from, to) = of.whole();
    if let Ok(Some(log)) = Walk::new(of, Window { from, to }).known_losses() {
        return Ok(log);
    }
    let mut log = LossLog::default();
    let states = of.indexes.states.as_ref();
    // Where sums are damaged, the records are there.
    let cover = states.and_then(|states| states.pyramid.cover((from, to), true).ok().flatten());
    let mut reader = match cover {
        Some(cover) => {
            let listed = cover.parts.iter().flat_map(|part| &part.losses);
            listed.for_each(|loss| log.take(loss, None));
            walk::reader(of, Window { from: cover.records_from, to })
        }
        None => Reader::new(&of.traces),
    };
    let mut passed = 0u32;
    while let Some(item) = reader.pass() {
        stop.check_some(&mut passed)?;
        if let Passed::Loss { .. } = item {
            if let Some(Item::Loss(loss)) = reader.current() {
                log.take(&LossAt::of(&loss), None);
            }
        }
    }
    Ok(log)
}

fn env(value: &EnvValue) -> Value {
    match value {
        EnvValue::Text(text) => json!(text),
        EnvValue::Int(number) => json!(number),
        EnvValue::Unsigned(number) => json!(number),
    }
}

/// Whether an event of a program has a number.
fn has_values(of: &Opened) -> bool {
    let is_number = |field: &Field| matches!(field.kind, ValueKind::Integer | ValueKind::Float);
    let has = |trace: usize, event: usize| {
        let class = of.classes.at(trace, event).and_then(|class| of.classes.list.get(class));
        let is_of_user = !of.classes.is_of_kernel(trace, event);
        is_of_user && class.is_some_and(|class| !is_state(&class.name) && class.fields.iter().any(is_number))
    };
    let mut traces = of.traces.iter().enumerate();
    traces.any(|(trace, opened)| (0..opened.metadata.events.len()).any(|event| has(trace, event)))
}

/// What the trace can answer, and how to record the rest.
fn answers(of: &Opened) -> Value {
    let facts = of.classes.vocabulary.facts();
    let spans = pairs::spans(of);
    let rows = [
        ("who ran, who waited", facts.switches, "-k sched"),
        ("interrupts and softirqs", facts.interrupts, "-k irq"),
        ("system calls, lock waits", facts.calls, "-k syscalls"),
        ("disk requests", facts.requests, "-k block"),
        ("interrupts off, preemption off", facts.off, "-k 'preemptirq:*'"),
        ("spans of your events", !spans.is_empty(), "-u with events x:begin and x:end"),
        ("values of your events", has_values(of), "-u"),
    ];
    let row = |(question, can, options): &(&str, bool, &str)| json!({ "question": question, "can": can, "record_with": options });
    rows.iter().map(row).collect()
}

/// Answers `summary`.
///
/// # Errors
/// Parameters.
pub fn summary(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let limit = parameters.limit(LOSSES)?;
    let (from, to) = of.whole();
    let mut answer = begin("summary", of, Window { from, to });
    let counts = Counts::of(of);
    stop.check()?;
    let traces = of.traces.iter().map(|trace| {
        let entries = trace.metadata.env.iter().map(|(key, value)| (key.clone(), env(value)));
        json!({ "name": trace.label, "env": Value::Object(entries.collect::<Map<String, Value>>()) })
    });
    answer.set("name", of.name.clone());
    answer.set("traces", traces.collect::<Vec<Value>>());
    answer.set("records", counts.events.values().map(|(records, _)| *records).fold(0, u64::saturating_add));
    answer.set("bytes", of.traces.iter().flat_map(|trace| trace.streams()).map(|(_, bytes)| bytes as u64).sum::<u64>());
    answer.set("has_index", of.indexes.states.is_some());
    answer.set("has_results", of.results.is_some());
    answer.set("answers", answers(of));
    answer.set("caveats", of.caveats.clone());
    let mut events: Vec<(&String, &(u64, bool))> = counts.events.iter().filter(|(_, count)| count.0 > 0).collect();
    events.sort_by_key(|(_, count)| std::cmp::Reverse(count.0));
    let names: Vec<_> = events.iter().map(|(name, _)| answer.texts.text(name)).collect();
    let table = Table::new("events")
        .column("name", names)
        .column("records", events.iter().map(|(_, count)| count.0))
        .column("is_kernel", events.iter().map(|(_, count)| u8::from(count.1)));
    answer.push(table);
    let log = if counts.lost_places > 0 { losses(of, stop)? } else { LossLog::default() };
    log.tell(&mut answer, limit);
    Ok(answer)
}
