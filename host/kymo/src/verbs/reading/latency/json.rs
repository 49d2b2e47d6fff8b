// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies as one JSON document. Times are ns since 1970 (or of the trace's clock), durations ns.

use kymo_analyze::{Context, Key, Sample, Series, Waker};
use kymo_query::SpanCounts;
use serde_json::{Map, Value, json};

use super::report::LatencyReport;
use crate::verbs::analyze::show;

/// The document.
pub fn document(found: &LatencyReport<'_>) -> anyhow::Result<String> {
    let series = found.latency.series();
    let series: Vec<Value> = series.iter().enumerate().map(|(row, of)| one(found, row, *of)).collect();
    let left = found.latency.left();
    let sum = |count: fn(&SpanCounts) -> u64| found.spans.iter().map(count).sum::<u64>();
    let document = json!({
        "schema": "kymo-latency-1",
        "records": found.totals.records,
        "lost": show::missing(&found.totals.lost),
        "missing_events": found.causes.missing_events.list(),
        "from": found.totals.span.map(|span| span.0),
        "to": found.totals.span.map(|span| span.1),
        "clock_backs": found.clock_backs,
        "unmatched": left.unmatched.iter().map(|(of, count)| json!({ "of": of, "count": count })).collect::<Vec<_>>(),
        "open": left.open + sum(|span| span.unended),
        "dropped": left.dropped + sum(|span| span.dropped),
        "spans_unmatched": sum(|span| span.unbegun),
        "spans": found.spans,
        "hosts": found.told.iter().map(crate::verbs::hosts::ClockAlignment::json).collect::<Vec<_>>(),
        "series": series,
    });
    Ok(serde_json::to_string(&document)?)
}

fn one(found: &LatencyReport<'_>, row: usize, (key, series): (&Key, &Series)) -> Value {
    let is_empty = series.count() == 0;
    let marks = kymo_analyze::Doubt::ALL.iter().zip(series.by_doubt).filter(|(_, count)| *count > 0);
    let marks: Map<String, Value> = marks.map(|((_, name), count)| ((*name).to_owned(), count.into())).collect();
    json!({
        "what": key.what,
        "of": found.names.of(key.of),
        "process": key.process,
        "process_name": key.process.map(|process| found.latency.process_name(process)),
        "tid": key.tid,
        "thread_name": key.tid.map(|tid| found.latency.thread_name(tid)),
        "prio": key.prio,
        "cpu": key.cpu,
        "count": series.count(),
        "doubtful": series.doubtful,
        "marks": marks,
        "idle": series.idle,
        "min": (!is_empty).then_some(series.min_ns),
        "mean": (!is_empty).then(|| series.mean_ns()),
        "max": (!is_empty).then_some(series.max_ns),
        "quantiles": series.quantiles(found.missing()),
        "histogram": series.histogram,
        "worst": series.worst.iter().enumerate().map(|(at, sample)| worst(found, sample, (row, at))).collect::<Vec<_>>(),
    })
}

fn worst(found: &LatencyReport<'_>, sample: &Sample, (row, at): (usize, usize)) -> Value {
    json!({
        "value": sample.value_ns,
        "from": sample.from,
        "to": sample.to,
        "cpu": sample.cpu,
        "tid": sample.tid,
        "process": sample.process,
        "name": sample.name,
        "prio": sample.prio,
        "waker": sample.waker.map(|by| waker(found, &by)),
        "owner": sample.owner.map(|tid| json!({ "tid": tid, "name": found.latency.name_of(tid) })),
        "doubt": sample.doubt,
        "causes": found.causes.of(row, at),
    })
}

fn waker(found: &LatencyReport<'_>, waker: &Waker) -> Value {
    let cpu = (waker.cpu != u32::MAX).then_some(waker.cpu);
    match waker.context {
        Context::Thread(tid) => json!({ "cpu": cpu, "tid": tid, "name": found.latency.name_of(tid) }),
        Context::Interrupt(interrupt) => {
            json!({ "cpu": cpu, "interrupt": found.names.functions.interrupt(interrupt) })
        }
        Context::Idle => json!({ "cpu": cpu, "tid": 0 }),
        Context::Unknown => json!({ "cpu": cpu }),
    }
}
