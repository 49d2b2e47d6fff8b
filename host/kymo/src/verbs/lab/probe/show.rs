// SPDX-License-Identifier: MIT OR Apache-2.0
//! A result as people read it.

use kymo_lab::report::{self, count, plain};
use kymo_lab::stats::Distribution;
use kymo_lab::{Ended, Record, Series};

/// Quantiles that are shown.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Width of the picture where the terminal's is not known.
const WIDTH: usize = 100;
/// Worst samples of each series that are shown.
const WORST_SHOWN: usize = 3;

/// The lines of a result. Its texts may be other people's: they are shown without control characters.
pub fn text(record: &Record) -> Vec<String> {
    let mut lines = vec![head(record)];
    lines.push(format!(
        "{:14} {:>4} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}",
        "", "cpu", "samples", "min", "mean", "p50", "p99", "p99.9", "max", "lost"
    ));
    lines.extend(record.series.iter().map(row));
    lines.extend(record.series.iter().filter_map(with_lost));
    lines.extend(pictures(record));
    for series in &record.series {
        lines.extend(worst(series));
    }
    lines.extend(record.causes.iter().flat_map(|causes| report::causes(record, causes)));
    for (name, count) in &record.counts {
        lines.push(plain(&format!("{}: {count}", name.replace('_', " "))));
    }
    if let Some(floor) = &record.floor {
        lines.push(format!(
            "the tool itself: {:.1} ns to read the clock, {:.1} ns for an empty measurement",
            floor.clock_read_ns, floor.loop_ns
        ));
    }
    for caveat in &record.caveats {
        let severity = format!("{:?}", caveat.severity).to_lowercase();
        lines.push(plain(&format!("{severity}: {} ({}): {}", caveat.text, caveat.id, caveat.next)));
    }
    lines
}

fn head(record: &Record) -> String {
    let seconds = record.duration_s.map_or(String::new(), |seconds| format!(" in {}", report::time(seconds * 1e9)));
    let ended = if record.ended == Ended::Signal { ", interrupted" } else { "" };
    plain(&format!("{}{seconds}{ended}: {}", record.test, record.method))
}

fn row(series: &Series) -> String {
    let cpu = series.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), time);
    let of = Distribution::of([series]);
    let shown_quantile = |q| of.quantile_of_known(q).map_or_else(|_| "-".to_owned(), |found| report::time(found.value));
    let quantiles = QUANTILES.map(|(_, q)| shown_quantile(q));
    let [p50, p99, p999] = quantiles;
    format!(
        "{:14} {cpu:>4} {:>11} {:>9} {:>9} {p50:>9} {p99:>9} {p999:>9} {:>10} {:>8}",
        plain(&series.name),
        series.count.saturating_sub(series.lost),
        shown(series.min),
        shown(series.mean.map(|mean| mean as u64)),
        shown(series.max),
        series.lost
    )
}

/// The bounds of quantiles where samples are lost, which may be of any length.
fn with_lost(series: &Series) -> Option<String> {
    let of = Distribution::of([series]);
    let bounds = |(name, q): (&str, f64)| {
        let found = of.quantile_of_known(q).ok()?;
        Some(format!("{name} {}", report::bounds(&found)))
    };
    let bounds: Vec<String> = QUANTILES.into_iter().filter(|_| of.lost > 0).filter_map(bounds).collect();
    let cpu = series.cpu.map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
    let name = plain(&series.name);
    let lost = report::counted(of.lost, "lost sample");
    (!bounds.is_empty())
        .then(|| format!("{name}{cpu}: with {lost} of unknown length (?: not bounded): {}", bounds.join(", ")))
}

/// A histogram of each name, of all its CPUs together.
fn pictures(record: &Record) -> Vec<String> {
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDTH, |(width, _)| usize::from(width.0));
    let mut names: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for series in &record.series {
        if names.contains(&series.name.as_str()) {
            continue;
        }
        names.push(&series.name);
        let of = Distribution::of(record.series.iter().filter(|one| one.name == series.name));
        lines.push(format!("{}: {} samples", plain(&series.name), count(of.count())));
        lines.extend(report::histogram(&of, width));
    }
    lines
}

fn worst(series: &Series) -> Option<String> {
    let list: Vec<String> = series
        .worst
        .iter()
        .take(WORST_SHOWN)
        .map(|worst| {
            let number = worst.sample.map_or(String::new(), |sample| format!(" (sample {sample})"));
            format!("{}{number}", time(worst.value_ns))
        })
        .collect();
    let cpu = series.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    (!list.is_empty()).then(|| format!("worst of {}{cpu}: {}", series.name, list.join(", ")))
}

fn time(ns: u64) -> String {
    report::time(ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_samples_leave_quantiles_with_wider_bounds() {
        let mut record = Record::new("kymo", "wakeup");
        let mut series = Series::new("a");
        (0..1000u64).for_each(|value| series.histogram.record(value));
        (series.count, series.lost, series.min, series.max) = (1020, 20, Some(0), Some(999));
        record.series.push(series);
        let lines = text(&record);
        assert!(lines[2].contains("990 ns") && !lines[2].contains('?'), "{lines:#?}");
        let bounds = lines.iter().find(|line| line.contains("20 lost samples")).expect("a line with bounds");
        assert!(bounds.contains("p50 ") && bounds.contains("..?") && bounds.contains("p99 "), "{bounds}");
    }

    #[test]
    fn quantiles_need_samples_beyond_them() {
        let mut record = Record::new("kymo", "wakeup");
        let mut series = Series::new("a");
        (0..1000u64).for_each(|value| series.histogram.record(value));
        (series.count, series.min, series.max) = (1000, Some(0), Some(999));
        record.series.push(series);
        let lines = text(&record);
        let cells: Vec<&str> = lines[2].split_ascii_whitespace().collect();
        // a any 1000 | min | mean, not in the record | p50 | p99 | p99.9 | max
        assert_eq!(cells[3..], ["0", "ns", "-", "498", "ns", "990", "ns", "-", "999", "ns", "0"], "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains('\u{2588}')), "a picture: {lines:#?}");
    }
}
