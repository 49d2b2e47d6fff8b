// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several formats ask of traces and records.

use std::collections::HashMap;

use kymo_ctf::read::{EventClass, FieldInfo, Fields, Metadata, Record, RecordPart, Trace, Value};
use kymo_ctf::write::EnvValue;

/// Contexts that are columns of all records already.
const KNOWN: [&str; 6] = ["cpu_id", "vpid", "pid", "vtid", "tid", "procname"];

/// Whether a context of records is one of the columns that all tables have (`cpu`, `pid`, `tid`, `proc`).
pub fn is_known_context(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// A text of the environment.
pub fn env_text<'t>(trace: &'t Trace, key: &str) -> Option<&'t str> {
    trace.metadata.env.iter().find(|(known, _)| known == key).and_then(|(_, value)| match value {
        EnvValue::Text(text) => Some(text.as_str()),
        EnvValue::Int(_) | EnvValue::Unsigned(_) => None,
    })
}

/// Whether all times are since 1970.
pub(super) fn is_absolute(traces: &[Trace]) -> bool {
    traces.iter().flat_map(|trace| &trace.metadata.clocks).all(|clock| clock.absolute)
}

/// Whether records of a class were written by a kernel: its stream has a tid, or no process.
pub(super) fn is_kernel(record: &Record<'_>) -> bool {
    let has = |name| record.packet_context.get(name).is_some() || record.common_context.get(name).is_some();
    !has("vpid") && !has("vtid")
}

/// Which records were written by a kernel: by what a trace says of itself, else as [`is_kernel`] has it.
pub(super) struct Domains(Vec<Option<bool>>);

impl Domains {
    pub(super) fn new(traces: &[Trace]) -> Domains {
        let domain = |trace: &Trace| match env_text(trace, "domain") {
            // A trace of kymo has both kinds of streams.
            _ if env_text(trace, "recorded_by").is_some_and(|by| by.starts_with("kymo")) => None,
            Some("kernel") => Some(true),
            Some("ust" | "bare") => Some(false),
            _ => None,
        };
        Domains(traces.iter().map(domain).collect())
    }

    pub(super) fn is_kernel(&self, record: &Record<'_>) -> bool {
        self.0.get(record.trace).copied().flatten().unwrap_or_else(|| is_kernel(record))
    }
}

/// Finds records whose time lies before that of the one in front of them: the reader gives them in the order of time,
/// but for those whose time cannot be right.
#[derive(Default)]
pub(super) struct TimeOrder {
    latest: Option<i128>,
}

impl TimeOrder {
    /// Whether a record's time goes back.
    pub(super) fn goes_back(&mut self, ns: i128) -> bool {
        let latest = *self.latest.get_or_insert(ns);
        self.latest = Some(latest.max(ns));
        ns < latest
    }

    /// The latest time of all.
    pub(super) fn latest(&self) -> Option<i128> {
        self.latest
    }
}

/// Whether an event is one of a state dump.
pub(super) fn is_state(event: &EventClass) -> bool {
    event.name.starts_with("lttng_statedump_") || event.name.starts_with("kymo_statedump_")
}

/// Fields of a payload, and behind them the contexts that are not shown elsewhere, as `$NAME`.
pub(super) fn all_fields<'a>(
    record: &Record<'a>,
    names: &'a ContextNames,
) -> impl Iterator<Item = (&'a str, Value<'a>)> {
    let common = record.common_context;
    // A context that all records have is the one of that name.
    let own = record.context.iter().filter(move |(name, _)| common.get(name).is_none());
    let contexts = common.iter().chain(own);
    let contexts = contexts.filter_map(|(name, value)| names.get(name).map(|name| (name, value)));
    record.payload.iter().chain(contexts)
}

/// The contexts of all records of an event's stream, and those of the event alone.
pub fn all_contexts(metadata: &Metadata, event: usize) -> Vec<FieldInfo<'_>> {
    [metadata.contexts(event), metadata.own_contexts(event)].concat()
}

/// The columns of an event: the fields of its payload, and behind them the contexts that are not shown elsewhere, those
/// of all records first. Lengths of other fields are none.
pub fn column_fields(metadata: &Metadata, event: usize) -> Vec<(RecordPart, FieldInfo<'_>)> {
    let (common, own) = (metadata.contexts(event), metadata.own_contexts(event));
    let is_common = |name: &str| common.iter().any(|context| context.name == name);
    let own: Vec<FieldInfo<'_>> = own.into_iter().filter(|info| !is_common(info.name)).collect();
    let payload = metadata.events.get(event).map_or_else(Vec::new, |event| metadata.fields(event));
    let payload = payload.into_iter().map(|info| (RecordPart::Payload, info));
    let common = common.into_iter().map(|info| (RecordPart::CommonContext, info));
    let contexts = common.chain(own.into_iter().map(|info| (RecordPart::Context, info)));
    let contexts = contexts.filter(|(_, info)| !is_known_context(info.name));
    payload.chain(contexts).filter(|(_, info)| !info.is_length).collect()
}

/// The name of such a column.
pub fn column_name(part: RecordPart, info: &FieldInfo<'_>) -> String {
    format!("{}{}", if part == RecordPart::Payload { "" } else { "$" }, info.name)
}

/// The fields of a part of a record.
pub fn part_of<'a>(record: &Record<'a>, part: RecordPart) -> Fields<'a> {
    match part {
        RecordPart::CommonContext => record.common_context,
        RecordPart::Context => record.context,
        RecordPart::Payload => record.payload,
    }
}

/// Event classes, each by the first of all traces that is the same: chunks of one session have theirs in common.
pub struct Classes(Vec<Vec<(usize, usize)>>);

impl Classes {
    /// Of all events of these traces.
    pub fn new(traces: &[Trace]) -> Classes {
        let mut classes: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut by_name: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (trace, opened) in traces.iter().enumerate() {
            let metadata = &opened.metadata;
            let mut own = Vec::new();
            for (event, class) in metadata.events.iter().enumerate() {
                let known = by_name.entry(&class.name).or_default();
                let is_same = |&&(other, position): &&(usize, usize)| {
                    let other = &traces[other].metadata;
                    other.fields(&other.events[position]) == metadata.fields(class)
                        && other.contexts(position) == metadata.contexts(event)
                        && other.own_contexts(position) == metadata.own_contexts(event)
                };
                let first = known.iter().find(is_same).copied().unwrap_or((trace, event));
                if first == (trace, event) {
                    known.push(first);
                }
                own.push(first);
            }
            classes.push(own);
        }
        Classes(classes)
    }

    /// The class of a record: trace and position of the event that stands for it.
    pub fn of(&self, record: &Record<'_>) -> (usize, usize) {
        self.0[record.trace][record.event_position]
    }
}

/// Contexts of traces with `$` in front, made once.
pub(super) struct ContextNames(HashMap<String, String>);

impl ContextNames {
    pub(super) fn new(traces: &[Trace]) -> ContextNames {
        let infos = traces.iter().flat_map(|trace| {
            let metadata = &trace.metadata;
            (0..metadata.events.len()).flat_map(move |event| all_contexts(metadata, event))
        });
        let named = infos.filter(|info| !info.is_length && !is_known_context(info.name));
        ContextNames(named.map(|info| (info.name.to_owned(), format!("${}", info.name))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
