// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of `latencies` and `worst` [spec/view.md 4.10].

use std::collections::HashMap;

use kymo_analyze::{Key, Latency, Sample, Series};
use kymo_index::cell_range;

use crate::columns::{Answer, Table};
use crate::doing::{By as Waker, by_waker};
use crate::names::NameTable;
use crate::questions::begun::doubt_bits;
use crate::questions::latencies::density::Density;
use crate::questions::latencies::pass::LatencyPass;

pub(crate) fn series_table(
    answer: &mut Answer,
    series: &[(&Key, &Series)],
    latency: &Latency,
    names: &NameTable<'_>,
    missing: u64,
) -> Table {
    let (mut kinds, mut of, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (key, _) in series {
        kinds.push(answer.texts.text(key.what.name()));
        of.push(answer.texts.name(&names.of(key.of)));
        let thread = key.tid.map(|tid| latency.thread_name(tid));
        let name = thread.or(key.process.map(|process| latency.process_name(process))).unwrap_or_default();
        own.push(answer.texts.name(name.as_str()));
    }
    let quantiles: Vec<_> = series.iter().map(|(_, series)| series.quantiles(missing)).collect();
    let mut table = Table::new("series")
        .column("what", kinds)
        .column("of", of)
        .column("process", series.iter().map(|(key, _)| key.process))
        .column("tid", series.iter().map(|(key, _)| key.tid))
        .column("prio", series.iter().map(|(key, _)| key.prio.map(i32::from)))
        .column("cpu", series.iter().map(|(key, _)| key.cpu))
        .column("name", own)
        .column("count", series.iter().map(|(_, series)| series.count()))
        .column("doubtful", series.iter().map(|(_, series)| series.doubtful))
        .column("idle", series.iter().map(|(_, series)| series.idle));
    let known = |value: fn(&Series) -> u64| {
        series.iter().map(move |(_, series)| (series.count() > 0).then(|| value(series))).collect::<Vec<_>>()
    };
    table = table
        .column("min_ns", known(|series| series.min_ns))
        .column("max_ns", known(|series| series.max_ns))
        .column("mean_ns", known(Series::mean_ns));
    for (name, q) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999), ("p9999_ns", 0.9999)] {
        let values = quantiles.iter().map(|all| all.iter().find(|of| of.q == q).map(|of| of.high_ns));
        table = table.column(name, values);
    }
    table
}

pub(crate) fn histogram_table(series: &[(&Key, &Series)]) -> Table {
    let mut buckets = Vec::new();
    for (row, (_, series)) in series.iter().enumerate() {
        buckets.extend(series.histogram.buckets().map(|bucket| (row as u32, bucket)));
    }
    Table::new("histogram")
        .column("series", buckets.iter().map(|(row, _)| *row))
        .column("low_ns", buckets.iter().map(|(_, bucket)| bucket.low))
        .column("high_ns", buckets.iter().map(|(_, bucket)| bucket.high))
        .column("count", buckets.iter().map(|(_, bucket)| bucket.count))
}

pub(crate) fn density_table(answer: &mut Answer, density: &Density) -> Table {
    let cells: Vec<_> = density.cells().collect();
    let kinds: Vec<_> = cells.iter().map(|(what, ..)| answer.texts.text(what.name())).collect();
    Table::new("density")
        .column("what", kinds)
        .column("bin", cells.iter().map(|(_, bin, ..)| *bin))
        .column("low_ns", cells.iter().map(|(_, _, cell, _)| cell_range(*cell).0))
        .column("high_ns", cells.iter().map(|(_, _, cell, _)| cell_range(*cell).1))
        .column("count", cells.iter().map(|(.., count)| *count))
}

pub(crate) fn point_table(answer: &mut Answer, pass: &LatencyPass<'_>, series: &[(&Key, &Series)]) -> Table {
    let rows: HashMap<Key, u32> = series.iter().enumerate().map(|(row, (key, _))| (**key, row as u32)).collect();
    let list = &pass.points.list;
    let (mut names, mut wakers) = (Vec::new(), Vec::new());
    let by = |sample: &Sample| sample.waker.and_then(|waker| by_waker(&waker));
    for (_, sample) in list {
        names.push(answer.texts.name(sample.name.as_str()));
        let waker = match by(sample) {
            Some(Waker::Thread(tid)) => pass.people.name(tid, sample.from).to_string(),
            Some(other) => other.other().unwrap_or_default(),
            None => String::new(),
        };
        wakers.push(answer.texts.name(&waker));
    }
    Table::new("points")
        .column("series", list.iter().map(|(key, _)| rows.get(key).copied()))
        .column("value_ns", list.iter().map(|(_, sample)| sample.value_ns))
        .column("from", list.iter().map(|(_, sample)| answer.time(sample.from)))
        .column("to", list.iter().map(|(_, sample)| answer.time(sample.to)))
        .column("tid", list.iter().map(|(_, sample)| sample.tid))
        .column("name", names)
        .column("process", list.iter().map(|(_, sample)| sample.process))
        .column("prio", list.iter().map(|(_, sample)| sample.prio.map(i32::from)))
        .column("cpu", list.iter().map(|(_, sample)| sample.cpu))
        .column("waker", list.iter().map(|(_, sample)| by(sample).and_then(Waker::tid)))
        .column("waker_name", wakers)
        .column("owner", list.iter().map(|(_, sample)| sample.owner))
        .column("doubt", list.iter().map(|(_, sample)| doubt_bits(sample.doubt)))
}
