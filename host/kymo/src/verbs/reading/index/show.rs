// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an index has, as text and as JSON.

use kymo_feed::Missing;
use kymo_index::{Buckets, Built, CPU_PARTS, Indexes, StreamCounts, TraceIndex};
use serde_json::{Value, json};

use crate::verbs::analyze::feed::Input;
use crate::verbs::analyze::show::{Times, duration};

/// Columns of the picture of a trace.
const COLUMNS: usize = 64;
/// From few to many.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is shown.
pub struct IndexReport<'a> {
    pub input: &'a Input,
    pub indexes: &'a Indexes,
    pub built: &'a Built,
    /// For which it was built.
    pub seconds: f64,
}

/// Sums over all streams.
#[derive(Default)]
struct Sums {
    streams: usize,
    bytes: u64,
    records: u64,
    packets: u64,
    lost: [u64; 3],
    damaged: u64,
}

impl IndexReport<'_> {
    fn known(&self) -> impl Iterator<Item = &TraceIndex> {
        self.indexes.traces.iter().flatten()
    }

    fn sums(&self) -> Sums {
        let sizes = self.input.traces.iter().flat_map(|trace| trace.streams()).map(|(_, bytes)| bytes as u64);
        let mut sums = Sums { bytes: sizes.sum(), ..Sums::default() };
        for stream in self.known().flat_map(|index| &index.streams) {
            sums.streams += 1;
            sums.records = sums.records.saturating_add(stream.records());
            sums.packets = sums.packets.saturating_add(stream.packets);
            sums.damaged = sums.damaged.saturating_add(stream.damaged);
            sums.lost.iter_mut().zip(stream.lost).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
        sums
    }

    /// Of each trace: its records and losses over time.
    fn pictures(&self) -> Vec<Vec<Column>> {
        let of = |(index, trace): (&TraceIndex, &kymo_ctf::read::Trace)| {
            let clock = trace.metadata.clocks.first()?;
            let level = index.level(COLUMNS)?;
            let ns = |cycles| clock.nanoseconds(cycles);
            Some(columns(&level, trace.metadata.events.len(), index.streams.len(), &ns))
        };
        let all = self.indexes.traces.iter().zip(&self.input.traces);
        all.filter_map(|(index, trace)| of((index.as_ref()?, trace))).collect()
    }

    /// By CPU: ns by what it did.
    fn cpus(&self) -> Vec<(usize, [u64; CPU_PARTS.len()])> {
        let Some(times) = self.indexes.states.as_ref().and_then(|states| states.cpus()) else { return Vec::new() };
        let of_cpu = |cpu: usize| {
            let part =
                |part| times.row(cpu * CPU_PARTS.len() + part).iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
            (cpu, std::array::from_fn(part))
        };
        let all = (0..times.rows().div_ceil(CPU_PARTS.len())).map(of_cpu);
        all.filter(|(_, parts)| parts.iter().any(|ns| *ns > 0)).collect()
    }
}

/// A stretch of time.
struct Column {
    from: i128,
    to: i128,
    records: u64,
    lost: u64,
}

/// Columns of a level of a trace with so many events and streams; at most [`COLUMNS`].
fn columns(level: &Buckets, events: usize, streams: usize, ns: &dyn Fn(u64) -> i128) -> Vec<Column> {
    let sum = |first: usize, column: usize| {
        let cells = (first..first + streams).map(|row| level.row(row).get(column).copied().unwrap_or(0));
        cells.fold(0u64, u64::saturating_add)
    };
    let width = level.columns().div_ceil(COLUMNS).max(1);
    let column = |first: usize| {
        let range = first..(first + width).min(level.columns());
        let (from, to) = (level.times(range.start).0, level.times(range.end - 1).1);
        let total = |row| range.clone().map(|column| sum(row, column)).fold(0u64, u64::saturating_add);
        Column { from: ns(from), to: ns(to), records: total(events), lost: total(events + streams) }
    };
    (0..level.columns()).step_by(width).map(column).collect()
}

/// For people.
pub fn report(found: &IndexReport<'_>, times: &Times) -> String {
    let (sums, built) = (found.sums(), found.built);
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let mut text = format!("index     {}, {:.2} MiB", built.path.display(), mib(built.bytes));
    text += &match built.is_new {
        true => {
            let rate = sums.records as f64 / found.seconds.max(1e-9) / 1e6;
            format!(", built in {:.2} s ({rate:.1} M records/s)\n", found.seconds)
        }
        false => ", holds\n".to_owned(),
    };
    text += &format!("trace     {:.1} MiB in {} streams, {} packets\n", mib(sums.bytes), sums.streams, sums.packets);
    text += &format!("records   {}", sums.records);
    if let Some((first, last)) = found.indexes.bounds(&found.input.traces) {
        text += &format!(", {} to {}", times.text(first), times.text(last));
    }
    text.push('\n');
    let [records, packets, places] = sums.lost;
    let lost = Missing { records, packets, places };
    if !lost.is_none() {
        text += &format!("lost      {}\n", lost.text());
    }
    if sums.damaged > 0 {
        text += &format!("damaged   in {} places\n", sums.damaged);
    }
    text += &format!("states    {} checkpoints\n", found.indexes.states.as_ref().map_or(0, |of| of.checkpoints.len()));
    for (cpu, parts) in found.cpus() {
        text += &format!("cpu {cpu:<5} {}\n", shares(&parts));
    }
    for picture in found.pictures() {
        text += &bars(&picture);
    }
    text
}

fn shares(parts: &[u64]) -> String {
    let all = parts.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns)).max(1);
    let share = |(name, ns): (&&str, &u64)| format!("{name} {:.1} %", *ns as f64 / all as f64 * 100.0);
    let there = CPU_PARTS.iter().zip(parts).filter(|(_, ns)| **ns > 0);
    there.map(share).collect::<Vec<_>>().join(", ")
}

/// A bar for each column, and how long a column is.
fn bars(picture: &[Column]) -> String {
    let Some(width) = picture.first().map(|column| column.to - column.from) else { return String::new() };
    let most = picture.iter().map(|column| column.records).max().unwrap_or(0).max(1);
    let bar = |column: &Column| match column.records {
        0 => ' ',
        records => BARS[((u128::from(records) * 8 - 1) / u128::from(most)).min(7) as usize],
    };
    let line: String = picture.iter().map(bar).collect();
    let width = duration(u64::try_from(width).unwrap_or(u64::MAX));
    format!("over time {line} {width} a column, {most} records at most\n")
}

/// For programs.
pub fn document(found: &IndexReport<'_>) -> String {
    let (sums, built) = (found.sums(), found.built);
    let bounds = found.indexes.bounds(&found.input.traces);
    let stream = |(counts, (name, bytes)): (&StreamCounts, (&str, usize))| {
        json!({
            "name": name,
            "bytes": bytes,
            "records": counts.records(),
            "packets": counts.packets,
            "lost": { "records": counts.lost[0], "packets": counts.lost[1], "places": counts.lost[2] },
            "damaged": counts.damaged,
        })
    };
    let known = found.indexes.traces.iter().zip(&found.input.traces);
    let streams: Vec<Value> = known
        .flat_map(|(index, trace)| index.iter().flat_map(|index| index.streams.iter().zip(trace.streams())))
        .map(stream)
        .collect();
    let column =
        |of: &Column| json!({ "from": clamp(of.from), "to": clamp(of.to), "records": of.records, "lost": of.lost });
    let pictures: Vec<Vec<Value>> =
        found.pictures().iter().map(|picture| picture.iter().map(column).collect()).collect();
    let cpu = |(cpu, parts): &(usize, [u64; CPU_PARTS.len()])| {
        let parts: serde_json::Map<String, Value> =
            CPU_PARTS.iter().zip(parts).map(|(name, ns)| (format!("{name}_ns"), (*ns).into())).collect();
        json!({ "cpu": cpu, "time": parts })
    };
    json!({
        "schema": "kymo-index-1",
        "path": built.path,
        "bytes": built.bytes,
        "built": built.is_new,
        "seconds": found.seconds,
        "from": bounds.map(|bounds| bounds.0),
        "to": bounds.map(|bounds| bounds.1),
        "records": sums.records,
        "lost": { "records": sums.lost[0], "packets": sums.lost[1], "places": sums.lost[2] },
        "damaged": sums.damaged,
        "checkpoints": found.indexes.states.as_ref().map_or(0, |states| states.checkpoints.len()),
        "streams": streams,
        "cpus": found.cpus().iter().map(cpu).collect::<Vec<_>>(),
        "columns": pictures,
    })
    .to_string()
}

fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
