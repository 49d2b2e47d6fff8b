// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables `hosts`, the machines that the traces are of, and `traces`: what each trace says of itself.

use std::path::Path;

use kymo_ctf::read::Trace;
use kymo_ctf::write::EnvValue;
use kymo_export::export::env_text;
use kymo_feed::Missing;
use kymo_query::host_name;
use serde_json::{Map, Value};

use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const HOSTS: Known = Known {
    name: "hosts",
    about: "Machines that the traces are of; traces of one machine that are read together are one row",
    columns: columns! {
        "host" Words "Name of the machine, or directory of the trace where it does not tell";
        "boot" Words "Id of the boot, in base 16: the UUID of the clock";
        "traces" Count "Traces, with the chunks of a session";
        "directory" Words "Directory of the first one";
        "time" Time "First record";
        "end_time" Time "Last record";
        "records" Count "Records";
        "lost_records" Count "Records that were counted as lost";
        "lost_packets" Count "Packets that are missing";
        "has_kernel" Bool "The scheduler's events were recorded";
        "kernel_release" Words "Release of its kernel, as of uname -r: 6.12.57+deb13-amd64";
        "kernel_version" Words "Version of its kernel, as of uname -v: with PREEMPT_RT, and the distribution's package";
        "architecture" Words "Its processors, as of uname -m: x86_64, aarch64";
        "distribution" Words "Its distribution, as of PRETTY_NAME in os-release, where the recorder ran";
    },
};

pub(crate) const TRACES: Known = Known {
    name: "traces",
    about: "Traces, and what each says of itself; the parts of a trace that was recorded in chunks are one row",
    columns: columns! {
        "trace" Words "Its directory, as it was named";
        "host" Words "Name of the machine, or directory of the trace where it does not tell";
        "kernel_release" Words "Release of the machine's kernel, as of uname -r";
        "kernel_version" Words "Version of the machine's kernel, as of uname -v";
        "architecture" Words "The machine's processors, as of uname -m: x86_64, aarch64";
        "distribution" Words "The machine's distribution, as of PRETTY_NAME in os-release";
        "created" Words "When it was begun, as it says it";
        "recorded_by" Words "Program that recorded it, with its version";
        "streams" Count "Its stream files";
        "bytes" Count "Their size";
        "is_indexed" Bool "It has an index, and no damage: it can be divided by time";
        "environment" Text "All that it says of itself, as an object in JSON";
    },
};

/// Columns that need a look at the records, where there is no index.
const COUNTS: std::ops::RangeInclusive<usize> = 6..=8;
const TIMES: std::ops::RangeInclusive<usize> = 4..=5;

/// Sends the row of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let bounds_of = |scan: &Scan| scan.from.or(scan.to).or(scan.end_from).or(scan.end_to).is_some();
    let needs_times = TIMES.into_iter().any(|column| rows.has(column)) || bounds_of(scan);
    let bounds = if needs_times { group.bounds() } else { None };
    let (first, last) = (bounds.map(|of| of.0), bounds.map(|of| of.1));
    if !scan.wants_time(first) || !scan.wants_end(last) {
        return Ok(());
    }
    let (records, missing) = match COUNTS.into_iter().any(|column| rows.has(column)) {
        true => counts(group),
        false => (0, Missing::default()),
    };
    emit.check()?;
    let boot = group.traces.iter().flat_map(|trace| &trace.metadata.clocks).find_map(|clock| clock.uuid);
    let boot = boot.map(|boot| boot.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    rows.push(&[
        group.host.as_str().into(),
        boot.as_deref().into(),
        (group.traces.len() as u64).into(),
        group.traces.first().map(|trace| trace.label.as_str()).into(),
        first.into(),
        last.into(),
        records.into(),
        missing.records.into(),
        missing.packets.into(),
        group.traces.iter().any(kymo_command::input::has_switches).into(),
        first_text(&group.traces, "kernel_release").into(),
        first_text(&group.traces, "kernel_version").into(),
        first_text(&group.traces, "architecture").into(),
        first_text(&group.traces, "distribution").into(),
    ]);
    rows.send(emit)
}

/// What the first of some traces says that says it.
fn first_text<'t>(traces: &'t [Trace], key: &str) -> Option<&'t str> {
    traces.iter().find_map(|trace| env_text(trace, key))
}

/// Sends a row for each trace of a group.
pub(crate) fn traces(group: &Group, _: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let mut first = 0;
    for (dir, parts) in &group.dirs {
        let own = first..first + parts;
        first = own.end;
        push_trace(group, dir, own, rows);
        if rows.is_full() {
            rows.send(emit)?;
        }
    }
    rows.send(emit)
}

/// Adds the row of a trace; `own`: which of the group's are its parts.
fn push_trace(group: &Group, dir: &Path, own: std::ops::Range<usize>, rows: &mut Rows) {
    let traces = &group.traces[own.clone()];
    let indexes = own.map(|part| group.indexes.traces.get(part).and_then(Option::as_ref));
    let is_sound = |index: &kymo_index::TraceIndex| index.streams.iter().all(|stream| stream.damaged == 0);
    let is_indexed = indexes.into_iter().all(|index| index.is_some_and(is_sound));
    let dir = dir.to_string_lossy();
    let host = traces.first().map(host_name).unwrap_or_default();
    let environment = environment(traces).to_string();
    let of = |key: &str| first_text(traces, key);
    rows.push(&[
        dir.as_ref().into(),
        host.as_str().into(),
        of("kernel_release").into(),
        of("kernel_version").into(),
        of("architecture").into(),
        of("distribution").into(),
        of("trace_creation_datetime").into(),
        of("recorded_by").into(),
        traces.iter().map(|trace| trace.streams().count() as u64).sum::<u64>().into(),
        traces.iter().flat_map(Trace::streams).map(|(_, bytes)| bytes as u64).sum::<u64>().into(),
        is_indexed.into(),
        environment.as_str().into(),
    ]);
}

/// The environment of a trace: of the part that tells of a kernel, else of the first one.
fn environment(traces: &[Trace]) -> Value {
    let has_kernel = |trace: &&Trace| env_text(trace, "kernel_release").is_some();
    let value = |value: &EnvValue| match value {
        EnvValue::Int(number) => Value::from(*number),
        EnvValue::Unsigned(number) => Value::from(*number),
        EnvValue::Text(text) => Value::from(text.as_str()),
    };
    let of = traces.iter().find(has_kernel).or_else(|| traces.first());
    let env = of.into_iter().flat_map(|trace| &trace.metadata.env);
    Value::Object(env.map(|(key, of)| (key.clone(), value(of))).collect::<Map<String, Value>>())
}

/// Records, and what is missing: from the index, else by a pass over all of them.
fn counts(group: &Group) -> (u64, Missing) {
    let (mut records, mut missing) = (0u64, Missing::default());
    for (position, trace) in group.traces.iter().enumerate() {
        match group.indexes.traces.get(position).and_then(Option::as_ref) {
            Some(index) => {
                records = records.saturating_add(index.records());
                for [lost, packets, places] in index.streams.iter().map(|stream| stream.lost) {
                    missing.add_all(&Missing { records: lost, packets, places });
                }
            }
            None => {
                let counts = Trace::count(trace, 1);
                records = records.saturating_add(counts.records());
                missing.add(counts.lost_records, counts.lost_packets);
            }
        }
    }
    (records, missing)
}
