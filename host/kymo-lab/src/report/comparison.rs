// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as text, for a terminal.

use super::units::{count, counted, plain, time};
use crate::compare::{Compared, Comparison, Merged, Metric, MetricCompared, Outcome, Side};
use crate::stats::extreme::Beyond;

/// Differences of the environment that are shown.
const DIFFERENCES_SHOWN: usize = 30;

/// The lines of a comparison.
pub fn comparison(of: &Comparison) -> Vec<String> {
    let [a, b] = of.runs;
    let runs = format!("A: {}, B: {}", counted(a as u64, "run"), counted(b as u64, "run"));
    let mut lines = vec![format!("{}. {runs}", sentence(of.outcome))];
    for series in &of.series {
        lines.push(String::new());
        lines.extend(table(series, of.deadline_ns));
    }
    for one in &of.unmatched {
        let cpu = one.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
        let [a, b] = one.runs;
        let name = plain(&format!("{} {}{cpu}", one.test, one.name));
        lines.push(format!("{name}: not compared: {a} of the runs of A and {b} of B have it, and all must"));
    }
    if let Some(choices) = of.series.iter().find_map(|series| series.choices) {
        lines.push(String::new());
        let how = match choices.seed {
            None => format!("all {} choices of runs", count(choices.count)),
            Some(seed) => format!("{} random choices of runs (seed {seed:#x})", count(choices.count)),
        };
        lines.push(format!(
            "p: probability of such a difference in any metric without one, over {how}; a difference is told at {}",
            of.level
        ));
    }
    if !of.environment.is_empty() {
        lines.push(String::new());
        lines.push("Environment, A against B:".to_owned());
        for different in of.environment.iter().take(DIFFERENCES_SHOWN) {
            let [a, b] = [&different.a, &different.b].map(|values| plain(&crate::compare::shown(values)));
            lines.push(format!("  {}: {a} | {b}", plain(&different.key)));
        }
        if of.environment.len() > DIFFERENCES_SHOWN {
            lines.push(format!("  and {} more (--json has all)", of.environment.len() - DIFFERENCES_SHOWN));
        }
    }
    lines.extend(of.caveats.iter().map(|merged| caveat(merged, of.runs)));
    lines
}

/// The outcome as a sentence without its end.
pub fn sentence(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "B is better than A",
        Outcome::Worse => "B is worse than A",
        Outcome::Mixed => "B is better than A in one thing and worse in another",
        Outcome::NoDifference => "No difference",
        Outcome::NotEnoughData => "Not enough data",
    }
}

/// The outcome of a metric.
pub fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Mixed => "mixed",
        Outcome::NoDifference => "no difference",
        Outcome::NotEnoughData => "not enough data",
    }
}

fn caveat(merged: &Merged, runs: [usize; 2]) -> String {
    let severity = format!("{:?}", merged.caveat.severity).to_lowercase();
    let all = [merged.a, merged.b] == runs;
    let which = if all { String::new() } else { format!(" (runs: {} of A, {} of B)", merged.a, merged.b) };
    let (text, next) = (plain(&merged.caveat.text), plain(&merged.caveat.next));
    format!("{severity}: {text} [{}]{which}: {next}", plain(&merged.caveat.id))
}

/// Of the table of metrics.
const COLUMNS: usize = 6;

/// What a series is, in words.
pub fn title(of: &Compared) -> String {
    let place = of.cpu.map_or("all CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
    plain(&format!("{}, {}, {place}", of.test, of.name))
}

fn table(of: &Compared, deadline_ns: Option<u64>) -> Vec<String> {
    let [a, b] = of.samples.map(count);
    let mut lines = vec![format!("{}: {a} samples in A, {b} in B", title(of))];
    if of.unseen != [0, 0] {
        let [a, b] = of.unseen.map(count);
        lines.push(format!("  lost or beyond the tool's histogram: {a} in A, {b} in B"));
    }
    if let Some(deadline) = deadline_ns {
        lines.push(format!("  misses: samples above {}, of a million", time(deadline as f64)));
    }
    let head = ["", "A: median of runs (range)", "B", "B less A (95 %)", "outcome", "p"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once((head, String::new())).chain(of.metrics.iter().map(row)).collect();
    let widths: [usize; COLUMNS] =
        std::array::from_fn(|at| rows.iter().map(|(cells, _)| cells[at].chars().count()).max().unwrap_or(0));
    for (cells, behind) in &rows {
        let line: String = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:<width$}")).collect();
        lines.push(format!("{line}  {behind}").trim_end().to_owned());
    }
    for (side, beyond) in ["A", "B"].into_iter().zip(of.beyond.iter().flatten()) {
        lines.extend(extremes(beyond).into_iter().map(|line| format!("  {side}: {line}")));
    }
    lines
}

/// What may still come, or why that is not said.
pub fn extremes(of: &Beyond) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, found) in [("peaks over a threshold", &of.peaks), ("maxima of runs", &of.maxima)] {
        let estimate = match found {
            Ok(estimate) => estimate,
            Err(why) => {
                lines.push(format!("no estimate by {name}: {why}"));
                continue;
            }
        };
        for level in &estimate.levels {
            let times = level.samples / of.samples.max(1) as f64;
            let high = level.high_ns.map_or_else(|| "no bound".to_owned(), time);
            let day = if of.samples_per_day == Some(level.samples) { ", a day" } else { "" };
            lines.push(format!(
                "{} ({}..{high}, 95 %) is exceeded once in {} samples ({times:.1} times those measured{day}), for the load that was run; by {name}: \
                 {} values, shape {:.2}",
                time(level.value_ns),
                time(level.low_ns),
                count(level.samples as u64),
                estimate.values,
                estimate.shape
            ));
        }
    }
    lines
}

/// The cells of a line of the table, and what stands behind them.
fn row(of: &MetricCompared) -> ([String; COLUMNS], String) {
    let unit = |value: f64| in_unit(of.metric, value);
    let side = |side: Option<Side>| {
        side.map_or_else(
            || "-".to_owned(),
            |side| format!("{} ({}..{})", unit(side.median), unit(side.low), unit(side.high)),
        )
    };
    let p = of.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.4}"));
    let cells = [of.metric.name().to_owned(), side(of.a), side(of.b), change(of), word(of.outcome).to_owned(), p];
    let behind = match (&of.why, of.outcome, of.would_have_seen) {
        (Some(why), _, _) => why.clone(),
        (None, Outcome::NoDifference, Some(size)) => format!("{} would have been seen", unit(size)),
        (None, Outcome::NoDifference, None) if of.metric != Metric::Tail => "no size could have been seen".to_owned(),
        _ => String::new(),
    };
    (cells, behind)
}

/// How far apart, with its interval and as a share.
pub fn change(of: &MetricCompared) -> String {
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", in_unit(of.metric, value))
    };
    if let Some(distance) = of.distance {
        return format!("distance {distance:.4} (KS)");
    }
    let Some(shift) = of.shift else { return "-".to_owned() };
    let share = of.relative.map_or(String::new(), |share| format!(" {:+.1} %", share * 100.0));
    let interval = shift.low.zip(shift.high);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" ({}..{})", signed(low), signed(high)));
    format!("{}{share}{interval}", signed(shift.value))
}

/// A value of a metric: a time, or misses of a million.
pub fn in_unit(metric: Metric, value: f64) -> String {
    if metric == Metric::Misses { format!("{value:.1}") } else { time(value) }
}
