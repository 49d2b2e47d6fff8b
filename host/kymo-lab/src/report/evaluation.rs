// SPDX-License-Identifier: MIT OR Apache-2.0
//! An evaluation as text and as one HTML file: what the doctor has against the machine first, then each test under each
//! load.

use super::causes::parts;
use super::chart::{Curve, Spike};
use super::comparison::{change, sentence, word};
use super::units::{count, counted, date, plain, time};
use crate::{Comparison, Ended, Evaluation, IDLE, LongSample, Metric};

/// Heads of the columns of quantiles, which [`rows`] has.
pub(super) const QUANTILES: [&str; 3] = ["median", "p99", "p99.99"];

/// The lines of an evaluation.
pub fn evaluation(of: &Evaluation) -> Vec<String> {
    let mut lines = vec![headline(of)];
    lines.extend(about(of));
    lines.extend(problems(of));
    for test in tests(of) {
        lines.push(String::new());
        lines.extend(table(of, &test));
        lines.extend(worst_lines(of, &test));
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

/// When and where it was, and how it can be repeated.
pub(super) fn about(of: &Evaluation) -> Vec<String> {
    let when = of.started_ns.map_or_else(|| "at an unknown time".to_owned(), date);
    let explained = match of.explain {
        0 => "no sample was explained (--explain 0)".to_owned(),
        count => format!(
            "of each run the {} of each CPU were explained, by the kernel's events beside it (--explain 0 measures without)",
            counted(count.into(), "worst sample")
        ),
    };
    vec![
        plain(&format!("Begun {when}, order of runs from seed {} (--seed)", of.seed)),
        plain(&format!("Machine: {}", machine(of))),
        explained,
    ]
}

/// What measured, in a line.
fn machine(of: &Evaluation) -> String {
    let text = |key: &str| of.environment.get(key).and_then(serde_json::Value::as_str);
    let mut parts: Vec<String> = Vec::new();
    parts.extend(text("host").map(str::to_owned));
    parts.extend(text("cpu.model").map(str::to_owned));
    parts.extend(text("cpu.online").map(|cpus| format!("CPUs {cpus}")));
    parts.extend(text("kernel.release").map(|release| {
        let model = text("kernel.preemption").map_or(String::new(), |model| format!(" (preemption: {model})"));
        format!("Linux {release}{model}")
    }));
    parts.extend(text("clock.source").map(|clock| format!("clock {clock}")));
    parts.extend(text("hypervisor").filter(|name| *name != "none").map(|name| format!("a guest (hypervisor: {name})")));
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

/// What the doctor has against the machine, in a line each.
pub fn problems(of: &Evaluation) -> Vec<String> {
    let grave: Vec<_> = of.grave_problems().collect();
    let others = of.problems.len() - grave.len();
    let mut lines = Vec::new();
    if grave.is_empty() {
        lines
            .push(format!("kymo doctor: nothing above medium was found; {}", counted(others as u64, "lesser problem")));
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
    let not_looked = of.not_looked.iter();
    lines.extend(not_looked.map(|one| plain(&format!("  not looked: {}: {}: {}", one.id, one.title, one.current))));
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

/// A curve of each load.
pub(super) fn curves(of: &Evaluation, test: &str, name: &str) -> Vec<Curve> {
    let loads = of.cells().into_iter().filter(|(one, _)| one == test).map(|(_, load)| load);
    let curve = |(colour, load): (usize, String)| {
        let samples = of.pooled(test, &load, name, None);
        Curve { label: label(&load), colour, samples, worst: Vec::new() }
    };
    loads.enumerate().map(curve).collect()
}

fn label(load: &str) -> String {
    if load == IDLE { "no load".to_owned() } else { load.to_owned() }
}

/// The time of [`over_time`].
pub(super) const TIME: &str = "time in the evaluation";

/// The worst samples of a test, over the time of the evaluation: a curve of each load.
pub(super) fn over_time(of: &Evaluation, test: &str) -> Vec<Curve> {
    let mut curves = curves(of, test, "");
    for (curve, (_, load)) in curves.iter_mut().zip(of.cells().into_iter().filter(|(one, _)| one == test)) {
        let own = of.worst.iter().filter(|one| one.test == test && one.load == load);
        curve.worst = own.filter_map(|one| Some(Spike { value_ns: one.value_ns, at_s: one.into_s? })).collect();
    }
    curves
}

/// Heads of [`worst`].
pub(super) const WORST_HEAD: [&str; 6] = ["at", "sample", "load", "round", "CPU", "cause"];

/// The worst samples of a test in the order of time: when, how long, where, why.
pub(super) fn worst(of: &Evaluation, test: &str) -> Vec<[String; 6]> {
    let mut all: Vec<&LongSample> = of.worst.iter().filter(|one| one.test == test).collect();
    all.sort_by(|a, b| a.into_s.unwrap_or(f64::MAX).total_cmp(&b.into_s.unwrap_or(f64::MAX)));
    let row = |one: &LongSample| {
        let cause = match (&one.budget, &one.why) {
            (Some(budget), _) => parts(one.value_ns, budget),
            (None, Some(why)) => format!("not known: {why}"),
            (None, None) => "not known".to_owned(),
        };
        [
            one.into_s.map_or_else(|| "?".to_owned(), |seconds| format!("+{seconds:.3} s")),
            time(one.value_ns as f64),
            label(&one.load),
            one.round.to_string(),
            one.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            cause,
        ]
    };
    all.into_iter().map(row).collect()
}

fn worst_lines(of: &Evaluation, test: &str) -> Vec<String> {
    let rows = worst(of, test);
    let line = |[at, value, load, round, cpu, cause]: &[String; 6]| {
        plain(&format!("    {at:>12} {value:>9}  {load}, round {round}, CPU {cpu}: {cause}"))
    };
    let head = (!rows.is_empty()).then(|| format!("  worst samples of {}, in the order of time:", plain(test)));
    head.into_iter().chain(rows.iter().map(line)).collect()
}

/// Cells of the table of a test: series, load, CPU, runs, samples, lost, quantiles, largest. Where there are several
/// CPUs, all of them together come first.
pub(super) fn rows(of: &Evaluation, test: &str) -> Vec<Vec<String>> {
    let own = of.cpus.iter().filter(|one| one.test == test);
    let row = |one: &crate::CpuResult| {
        let ns = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), time);
        let cpu = one.cpu.map_or_else(|| "all".to_owned(), |cpu| cpu.to_string());
        let mut row = vec![one.series.clone(), one.load.clone(), cpu, one.runs.to_string()];
        row.extend([count(one.samples), count(one.lost), ns(one.median_ns), ns(one.p99_ns), ns(one.p9999_ns)]);
        row.push(ns(one.max_ns.map(|max| max as f64)));
        row
    };
    own.map(row).collect()
}

fn table(of: &Evaluation, test: &str) -> Vec<String> {
    let line = |cells: &[String]| {
        let numbers: String = cells[2..].iter().map(|cell| format!(" {cell:>12}")).collect();
        format!("  {:<10} {:<22}{numbers}", plain(&cells[0]), plain(&cells[1]))
    };
    let head: Vec<String> = HEAD.into_iter().chain(QUANTILES).chain(["max"]).map(str::to_owned).collect();
    let mut lines = vec![plain(test), line(&head)];
    lines.extend(rows(of, test).iter().map(|row| line(row)));
    lines
}

/// Heads of the first columns of [`rows`].
pub(super) const HEAD: [&str; 6] = ["", "load", "cpu", "runs", "samples", "lost"];

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
