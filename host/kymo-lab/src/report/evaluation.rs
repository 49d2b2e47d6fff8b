// SPDX-License-Identifier: MIT OR Apache-2.0
//! An evaluation as text and as one HTML file: what the doctor has against the machine first, then each test under each
//! load.

use super::chart::Curve;
use super::comparison::{change, sentence, word};
use super::units::{count, counted, plain, quantile, time};
use crate::stats::Distribution;
use crate::{Comparison, Ended, Evaluation, IDLE, Metric, Record, Series};

/// Quantiles of the tables.
pub(super) const QUANTILES: [(&str, f64); 3] = [("median", 0.5), ("p99", 0.99), ("p99.99", 0.9999)];

/// The lines of an evaluation.
pub fn evaluation(of: &Evaluation) -> Vec<String> {
    let mut lines = vec![headline(of)];
    lines.extend(problems(of));
    for test in tests(of) {
        lines.push(String::new());
        lines.extend(table(of, &test));
    }
    lines.push(String::new());
    lines.extend(differences(of));
    lines.extend(troubles(of));
    lines.extend(of.caveats.iter().map(|caveat| {
        let severity = format!("{:?}", caveat.severity).to_lowercase();
        plain(&format!("{severity}: {} [{}]: {}", caveat.text, caveat.id, caveat.next))
    }));
    lines
}

/// How much was run, and whether it was all.
pub(super) fn headline(of: &Evaluation) -> String {
    let runs = of.runs.len();
    let whole = match of.ended {
        Ended::Signal => format!(", INTERRUPTED after {runs} of {}", counted(of.planned as u64, "run")),
        _ => format!(", {}", counted(runs as u64, "run")),
    };
    let limit = match (of.limit_ns, of.above_limit()) {
        (None, _) => String::new(),
        (Some(limit), None) => format!("; nothing above {}", time(limit as f64)),
        (Some(limit), Some((test, load, max))) => {
            format!("; ABOVE {}: {} in {test} under {load}", time(limit as f64), time(max as f64))
        }
    };
    plain(&format!("Evaluation of {:.0} s{whole}{limit}", of.duration_s))
}

/// What the doctor has against the machine, in a line each.
pub fn problems(of: &Evaluation) -> Vec<String> {
    let grave: Vec<_> = of.grave_problems().collect();
    let others = of.problems.len() - grave.len();
    let mut lines = Vec::new();
    if grave.is_empty() {
        lines.push(format!("kymo doctor: nothing above medium; {}", counted(others as u64, "lesser problem")));
    } else {
        lines.push(format!(
            "kymo doctor: this machine is not fit for real time: {}, {} (kymo doctor has what to do)",
            counted(grave.len() as u64, "grave problem"),
            counted(others as u64, "lesser one")
        ));
    }
    lines.extend(
        grave
            .into_iter()
            .map(|one| plain(&format!("  {}: {}: {}; wanted: {}", one.id, one.title, one.current, one.wanted))),
    );
    lines
}

/// Tests that have a record.
pub(super) fn tests(of: &Evaluation) -> Vec<String> {
    let mut tests: Vec<String> = of.cells().into_iter().map(|(test, _)| test).collect();
    tests.dedup();
    tests
}

/// Names of the series of a test.
pub(super) fn series_of(of: &Evaluation, test: &str) -> Vec<String> {
    let runs = of.runs.iter().filter(|run| run.planned.test == test);
    let mut names: Vec<String> = Vec::new();
    for series in runs.filter_map(|run| run.record.as_ref()).flat_map(|record| &record.series) {
        if !names.contains(&series.name) {
            names.push(series.name.clone());
        }
    }
    names
}

/// All samples of a series in all runs of a test under a load.
fn pooled(of: &Evaluation, test: &str, load: &str, name: &str) -> Distribution {
    let has = |series: &&Series| series.name == name;
    Distribution::of(of.records(test, load).flat_map(|record: &Record| &record.series).filter(has))
}

/// A curve of each load.
pub(super) fn curves(of: &Evaluation, test: &str, name: &str) -> Vec<Curve> {
    let loads = of.cells().into_iter().filter(|(one, _)| one == test).map(|(_, load)| load);
    let curve = |(colour, load): (usize, String)| {
        let samples = pooled(of, test, &load, name);
        Curve { label: if load == IDLE { "no load".to_owned() } else { load }, colour, samples, worst: Vec::new() }
    };
    loads.enumerate().map(curve).collect()
}

/// Cells of the table of a test: series, load, runs, samples, lost, quantiles, largest.
pub(super) fn rows(of: &Evaluation, test: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for name in series_of(of, test) {
        for (_, load) in of.cells().into_iter().filter(|(one, _)| one == test) {
            let samples = pooled(of, test, &load, &name);
            let runs = of.records(test, &load).count();
            let mut row = vec![name.clone(), load, runs.to_string(), count(samples.count()), count(samples.lost)];
            row.extend(QUANTILES.map(|(_, q)| quantile(&samples, q)));
            row.push(samples.max.map_or_else(|| "-".to_owned(), |max| time(max as f64)));
            rows.push(row);
        }
    }
    rows
}

fn table(of: &Evaluation, test: &str) -> Vec<String> {
    let line = |cells: &[String]| {
        let numbers: String = cells[2..].iter().map(|cell| format!(" {cell:>12}")).collect();
        format!("  {:<10} {:<22}{numbers}", plain(&cells[0]), plain(&cells[1]))
    };
    let head: Vec<String> =
        HEAD.into_iter().chain(QUANTILES.map(|(name, _)| name)).chain(["max"]).map(str::to_owned).collect();
    let mut lines = vec![plain(test), line(&head)];
    lines.extend(rows(of, test).iter().map(|row| line(row)));
    lines
}

/// Heads of the first columns of [`rows`].
pub(super) const HEAD: [&str; 5] = ["", "load", "runs", "samples", "lost"];

/// A line for each comparison: what it came to, and the metrics that differ.
pub(super) fn differences(of: &Evaluation) -> Vec<String> {
    let one = |under: &crate::UnderLoad| {
        plain(&format!("{} under {}, against no load: {}", under.test, under.load, outcome(&under.comparison)))
    };
    of.comparisons.iter().map(one).collect()
}

/// A comparison in a line: B is the run under load.
fn outcome(of: &Comparison) -> String {
    let text = sentence(of.outcome).replace("B is", "it is").replace(" than A", " than idle");
    let metrics = of.series.iter().flat_map(|series| &series.metrics);
    let moved: Vec<String> = metrics
        .filter(|metric| matches!(metric.outcome, crate::Outcome::Better | crate::Outcome::Worse))
        .filter(|metric| metric.metric != Metric::Tail)
        .map(|metric| format!("{} {} {}", metric.metric.name(), word(metric.outcome), change(metric)))
        .collect();
    let [a, b] = of.runs;
    match moved.is_empty() {
        true => format!("{text} ({a} and {b} runs)"),
        false => format!("{text} ({a} and {b} runs): {}", moved.join("; ")),
    }
}

/// Runs without a record, and loads that ended early.
pub(super) fn troubles(of: &Evaluation) -> Vec<String> {
    let one = |run: &crate::Run| {
        let why = run.trouble.as_ref()?;
        let planned = &run.planned;
        Some(plain(&format!("round {}, {} under {}: {why}", planned.round, planned.test, planned.load)))
    };
    of.runs.iter().filter_map(one).collect()
}
