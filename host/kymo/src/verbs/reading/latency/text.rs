// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies as text: a table of all, then the worst of each.

use kymo_analyze::{Doubt, Key, Name, Series, Unmatched, What};
use kymo_query::SpanCounts;

use super::args::{LatencyArgs, shows_worst};
use super::report::LatencyReport;
use crate::verbs::analyze::show::{Times, duration, table, who};

/// The whole report.
pub fn report(found: &LatencyReport<'_>, args: &LatencyArgs, times: &Times) -> String {
    let all = found.latency.series();
    if all.is_empty() {
        return String::new();
    }
    let head = ["what", "samples", "doubtful", "min", "mean", "p50", "p99", "p99.9", "max"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(all.iter().map(|(key, series)| line(found, key, series)));
    let mut text = table(&lines);
    for (row, (key, series)) in all.iter().enumerate().filter(|(_, (key, _))| shows_worst(key, args)) {
        if args.histogram {
            text += &histogram(found, key, series);
        }
        text += &worst(found, (row, key, series), times);
    }
    text + &notes(found)
}

fn label(found: &LatencyReport<'_>, key: &Key) -> String {
    let of = found.names.of(key.of);
    // An interrupt says itself what kind it is.
    let mut parts = match key.what {
        What::Irq | What::Softirq if !of.is_empty() => vec![of],
        What::SoftirqRaise => vec![key.what.name().to_owned(), of.trim_start_matches("softirq ").to_owned()],
        _ => vec![key.what.name().to_owned(), of],
    };
    let named = |name: Name, number: i32| match name.is_empty() {
        true => number.to_string(),
        false => format!("{name}[{number}]"),
    };
    let process = |process| format!("process {}", named(found.latency.process_name(process), process));
    parts.extend(key.process.map(process));
    parts.extend(key.tid.map(|tid| format!("thread {}", named(found.latency.thread_name(tid), tid))));
    parts.extend(key.prio.map(crate::verbs::analyze::show::priority));
    parts.extend(key.cpu.map(|cpu| format!("cpu {cpu}")));
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

fn line(found: &LatencyReport<'_>, key: &Key, series: &Series) -> Vec<String> {
    let missing = found.missing();
    let quantiles = series.quantiles(missing);
    let quantile = |q: f64| match quantiles.iter().find(|quantile| quantile.q == q) {
        None => "-".to_owned(),
        Some(quantile) if missing == 0 => duration(quantile.high_ns),
        Some(quantile) => {
            let most = quantile.most_ns.map_or("?".to_owned(), duration);
            format!("{}..{most}", duration(quantile.least_ns))
        }
    };
    let one = |ns: u64| if series.count() == 0 { "-".to_owned() } else { duration(ns) };
    vec![
        label(found, key),
        series.count().to_string(),
        series.doubtful.to_string(),
        one(series.min_ns),
        one(series.mean_ns()),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        one(series.max_ns),
    ]
}

fn worst(found: &LatencyReport<'_>, (row, key, series): (usize, &Key, &Series), times: &Times) -> String {
    if series.worst.is_empty() {
        return String::new();
    }
    let mut text = format!("\nworst {}:\n", label(found, key));
    for (at, sample) in series.worst.iter().enumerate() {
        let cpu = sample.cpu.map_or(String::new(), |cpu| format!("  cpu {cpu}"));
        let marks = if sample.doubt.is_none() { String::new() } else { format!("  [{}]", sample.doubt) };
        let who = who(sample, found.latency, found.names.functions);
        let line = format!("  {:>8}  {}{cpu}  {who}{marks}", duration(sample.value_ns), times.text(sample.from));
        text += line.trim_end();
        text.push('\n');
        text += &found.causes.text(row, at).map_or_else(String::new, |causes| format!("            {causes}\n"));
    }
    text
}

/// A line for each power of two.
fn histogram(found: &LatencyReport<'_>, key: &Key, series: &Series) -> String {
    let mut octaves = [0u64; 65];
    for bucket in series.histogram.buckets() {
        octaves[64 - bucket.low.leading_zeros() as usize] += bucket.count;
    }
    let most = octaves.iter().copied().max().unwrap_or(0).max(1);
    let mut text = format!("\nhistogram {}:\n", label(found, key));
    for (bits, count) in octaves.iter().enumerate().filter(|(_, count)| **count > 0) {
        let below = 1u64.checked_shl(bits as u32).unwrap_or(u64::MAX);
        let bar = "#".repeat((u128::from(*count) * 50).div_ceil(most.into()) as usize);
        text += &format!("  < {:>8}  {count:>10}  {bar}\n", duration(below));
    }
    text
}

/// What qualifies the numbers.
fn notes(found: &LatencyReport<'_>) -> String {
    let mut lines = Vec::new();
    if !found.totals.lost.is_none() {
        lines.push(format!("{}: what they touch is marked lost", found.totals.lost.text()));
        lines.push(
            "quantiles are bounds: each lost record may have ended one more sample of a row, all of them shorter (left) \
             or longer (right; ?: not bounded)"
                .to_owned(),
        );
    }
    if found.clock_backs > 0 {
        lines.push(format!("time went back at {} records: what they touch is marked clock", found.clock_backs));
    }
    let idle: u64 = found.latency.series().iter().map(|(_, series)| series.idle).sum();
    if idle > 0 {
        lines.push(format!("{idle} stretches with interrupts or preemption off are left out: the CPU idled in them"));
    }
    for (of, count) in found.latency.left().unmatched {
        let what = match of {
            Unmatched::Interrupt => "ends of interrupts",
            Unmatched::Call => "returns of system calls",
            Unmatched::Off => "switchings on of interrupts or preemption",
        };
        lines.push(format!("{count} {what} without beginning (some were under way when the trace began)"));
    }
    lines.extend(found.spans.iter().filter_map(SpanCounts::odd));
    let left = found.latency.left();
    if left.dropped > 0 {
        lines.push(format!("{} requests or timers were too many at a time", left.dropped));
    }
    if found.causes.left_out > 0 {
        lines.push(format!("{} shorter ones of the worst are not explained", found.causes.left_out));
    }
    lines.extend(found.causes.missing_events.line());
    let marks: Vec<String> = marks(found).into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    if !marks.is_empty() {
        lines.push(format!("doubtful samples by mark: {}", marks.join(", ")));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

fn marks(found: &LatencyReport<'_>) -> Vec<(&'static str, u64)> {
    let sum = |index: usize| found.latency.series().iter().map(|(_, series)| series.by_doubt[index]).sum();
    let named = Doubt::ALL.iter().enumerate().map(|(index, (_, name))| (*name, sum(index)));
    named.filter(|(name, count)| *count > 0 && *name != "idle").collect()
}
