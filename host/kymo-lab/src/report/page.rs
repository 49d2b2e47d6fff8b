// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages: all charts of some records, as one SVG or one HTML file that needs nothing else.

use std::fmt::Write as _;

use serde_json::Value;

use super::chart::{self, Curve, SIZE, Spike};
use super::comparison::{change, extremes, in_unit, sentence, title, word};
use super::evaluation;
use super::svg::{Drawing, escape, style};
use super::units::{bounds, count, counted, time};
use crate::stats::Distribution;
use crate::{Caveat, Comparison, Evaluation, Record, Series, Side};

/// Runs that are drawn each for itself; more are drawn as one.
const RUNS_DRAWN: usize = 48;
/// Quantiles of the tables.
const QUANTILES: [(&str, f64); 5] =
    [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p99.999", 0.99999)];
/// Space between two charts of an SVG.
const BETWEEN: f64 = 24.0;

/// Records with the name of each: a file's, or a number.
pub type Named<'a> = (String, &'a Record);

/// All charts of records below each other, as an SVG file.
pub fn svg(records: &[Named<'_>]) -> String {
    let charts: Vec<Drawing> = groups(records).iter().flat_map(|group| group.charts()).collect();
    let mut all = Drawing::default();
    for (at, chart) in charts.iter().enumerate() {
        all.below(chart, at as f64 * (SIZE.1 + BETWEEN));
    }
    all.file((SIZE.0, charts.len() as f64 * (SIZE.1 + BETWEEN)), "kymo: latency")
}

/// Charts, tables, caveats and environment of records, as an HTML file.
pub fn html(records: &[Named<'_>]) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(&headline(records)));
    for (test, name) in keys(records) {
        body += &group(test, name, records).section();
        body += &may_come(test, name, records);
    }
    body += "<h2>Runs</h2>\n";
    for (name, record) in records {
        body += &about(name, record);
    }
    page("kymo: latency", &body)
}

/// Two groups and what is to be said of them, as an HTML file: before and after in one picture.
pub fn comparison_html(of: &Comparison, a: &[Record], b: &[Record]) -> String {
    let runs = format!("A: {}, B: {}", counted(of.runs[0] as u64, "run"), counted(of.runs[1] as u64, "run"));
    let mut body = format!("<h1>{}</h1>\n<p>{runs}</p>\n", escape(sentence(of.outcome)));
    for series in &of.series {
        let curves = [("A", 0, a), ("B", 1, b)].into_iter().flat_map(|(label, colour, side)| {
            let runs = side.iter().filter(|run| run.test == series.test);
            let curve = move |run| curve_of(label.to_owned(), colour, run, |one| series.has(one));
            runs.map(curve).collect::<Vec<_>>()
        });
        let title = title(series);
        let group =
            Group { title: title.clone(), curves: fewer(curves.collect()), by_cpu: Vec::new(), rows: Vec::new() };
        let _ = writeln!(body, "<h2>{}</h2>", escape(&title));
        body += &group.drawn();
        body += &metrics(series, of.deadline_ns);
        for (side, beyond) in ["A", "B"].into_iter().zip(series.beyond.iter().flatten()) {
            for line in extremes(beyond) {
                let _ = writeln!(body, "<p>{side}: {}</p>", escape(&line));
            }
        }
    }
    for one in &of.unmatched {
        let text = format!(
            "{} {}: in {} of the runs of A and {} of B: not compared",
            one.test, one.name, one.runs[0], one.runs[1]
        );
        let _ = writeln!(body, "<p class=\"caveat\">{}</p>", escape(&text));
    }
    for merged in &of.caveats {
        body += &caveat(&merged.caveat);
    }
    if !of.environment.is_empty() {
        body += "<h2>Environment</h2>\n<table><tr><th></th><th>A</th><th>B</th></tr>\n";
        for different in &of.environment {
            let [a, b] = [&different.a, &different.b].map(|values| escape(&crate::compare::shown(values)));
            let _ = writeln!(body, "<tr><td>{}</td><td>{a}</td><td>{b}</td></tr>", escape(&different.key));
        }
        body += "</table>\n";
    }
    page("kymo: comparison", &body)
}

/// An evaluation as an HTML file: what the doctor has against the machine, then each test under its loads.
pub fn evaluation_html(of: &Evaluation) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(&evaluation::headline(of)));
    let paragraph = |line: &String, class: &str| format!("<p class=\"{class}\">{}</p>\n", escape(line));
    let class = if of.grave_problems().next().is_some() { "caveat" } else { "" };
    evaluation::problems(of).iter().for_each(|line| body += &paragraph(line, class));
    for test in evaluation::tests(of) {
        let _ = writeln!(body, "<h2>{}</h2>", escape(&test));
        for name in evaluation::series_of(of, &test) {
            let (title, curves) = (format!("{test}: {name}"), evaluation::curves(of, &test, &name));
            body += &Group { title, curves, by_cpu: Vec::new(), rows: Vec::new() }.drawn();
        }
        body += &loads_table(of, &test);
    }
    for under in &of.comparisons {
        let _ = writeln!(body, "<h2>{} under {}, against no load</h2>", escape(&under.test), escape(&under.load));
        let _ =
            writeln!(body, "<p>A: no load. B: {}. {}.</p>", escape(&under.load), sentence(under.comparison.outcome));
        for series in &under.comparison.series {
            body += &metrics(series, of.limit_ns);
        }
    }
    evaluation::troubles(of).iter().for_each(|line| body += &paragraph(line, "caveat"));
    of.caveats.iter().for_each(|one| body += &caveat(one));
    body += "<h2>Runs</h2>\n";
    for run in &of.runs {
        if let (Some(file), Some(record)) = (&run.file, &run.record) {
            body += &about(file, record);
        }
    }
    page("kymo: evaluation", &body)
}

fn loads_table(of: &Evaluation, test: &str) -> String {
    let cells = |cells: &mut dyn Iterator<Item = &str>, tag: &str| -> String {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let names = evaluation::QUANTILES.map(|(name, _)| name);
    let head = cells(&mut evaluation::HEAD.into_iter().chain(names).chain(["max"]), "th");
    let mut text = format!("<table class=\"numbers\"><tr>{head}</tr>\n");
    for row in evaluation::rows(of, test) {
        text += &format!("<tr>{}</tr>\n", cells(&mut row.iter().map(String::as_str), "td"));
    }
    text + "</table>\n"
}

/// Series of one name of one test, in all runs.
struct Group {
    title: String,
    /// A curve of each run.
    curves: Vec<Curve>,
    /// A curve of each CPU, where there are several.
    by_cpu: Vec<Curve>,
    /// A row for each series: name of the run, and the series.
    rows: Vec<(String, Series)>,
}

fn groups(records: &[Named<'_>]) -> Vec<Group> {
    keys(records).into_iter().map(|(test, name)| group(test, name, records)).collect()
}

/// What may still come of a series, of all its runs together, or why that cannot be said.
fn may_come(test: &str, name: &str, records: &[Named<'_>]) -> String {
    let runs: Vec<&Record> = records.iter().map(|(_, run)| *run).filter(|run| run.test == test).collect();
    let beyond = crate::stats::extreme::beyond(&runs, |series| series.name == name);
    let lines: String = extremes(&beyond).iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<h3>Extreme values, of {}</h3>\n<ul>\n{lines}</ul>\n", counted(runs.len() as u64, "run"))
}

/// Test and name of each series that is somewhere, in the order of their first.
fn keys<'a>(records: &[Named<'a>]) -> Vec<(&'a str, &'a str)> {
    let mut keys: Vec<(&'a str, &'a str)> = Vec::new();
    for &(_, record) in records {
        for series in &record.series {
            if !keys.contains(&(&record.test, &series.name)) {
                keys.push((&record.test, &series.name));
            }
        }
    }
    keys
}

fn group(test: &str, name: &str, records: &[Named<'_>]) -> Group {
    let of_test: Vec<&Named> =
        records.iter().filter(|(_, run)| run.test == test && run.series.iter().any(|one| one.name == name)).collect();
    let curve = |(at, (label, run)): (usize, &&Named)| curve_of(label.clone(), at, run, |one| one.name == name);
    let curves = of_test.iter().enumerate().map(curve).collect();
    let mut cpus: Vec<u32> = Vec::new();
    let mut rows = Vec::new();
    for (label, run) in of_test.iter().map(|named| (&named.0, named.1)) {
        for series in run.series.iter().filter(|one| one.name == name) {
            cpus.extend(series.cpu);
            rows.push((label.clone(), series.clone()));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    let of_cpu = |(at, cpu): (usize, &u32)| {
        let series = rows.iter().map(|(_, series)| series).filter(|series| series.cpu == Some(*cpu));
        Curve { label: format!("CPU {cpu}"), colour: at, samples: Distribution::of(series), worst: Vec::new() }
    };
    let by_cpu = if cpus.len() > 1 { cpus.iter().enumerate().map(of_cpu).collect() } else { Vec::new() };
    Group { title: format!("{test}: {name}"), curves: fewer(curves), by_cpu: fewer(by_cpu), rows }
}

fn curve_of(label: String, colour: usize, run: &Record, has: impl Fn(&Series) -> bool) -> Curve {
    let series = || run.series.iter().filter(|one| has(one));
    let spikes = |one: &Series| {
        let of = |worst| Spike::new(worst, one.count, run.duration_s);
        one.worst.iter().filter_map(of).collect::<Vec<_>>()
    };
    Curve { label, colour, samples: Distribution::of(series()), worst: series().flat_map(spikes).collect() }
}

/// Too many curves are no picture. Then those of one name are one, and what is still too many is one of its own.
fn fewer(curves: Vec<Curve>) -> Vec<Curve> {
    if curves.len() <= RUNS_DRAWN {
        return curves;
    }
    let mut merged: Vec<Curve> = Vec::new();
    for curve in curves {
        let known = merged.iter().position(|one| one.label == curve.label);
        let Some(at) = known.or((merged.len() == RUNS_DRAWN).then_some(RUNS_DRAWN - 1)) else {
            merged.push(curve);
            continue;
        };
        if known.is_none() {
            merged[at].label = "all others".to_owned();
        }
        merged[at].samples.absorb(&curve.samples);
        merged[at].worst.extend(curve.worst);
    }
    merged
}

impl Group {
    fn charts(&self) -> Vec<Drawing> {
        let mut charts = vec![chart::histogram(&self.title, &self.curves)];
        if !self.by_cpu.is_empty() {
            charts.push(chart::histogram(&format!("{}, by CPU", self.title), &self.by_cpu));
        }
        charts.push(chart::tail(&format!("{}, tail", self.title), &self.curves));
        charts.extend(chart::spikes(&format!("{}, over time", self.title), &self.curves));
        charts
    }

    fn drawn(&self) -> String {
        self.charts().iter().map(|chart| format!("<figure>{}</figure>\n", chart.inline(SIZE, &self.title))).collect()
    }

    fn section(&self) -> String {
        let mut text = format!("<h2>{}</h2>\n{}", escape(&self.title), self.drawn());
        text += "<table class=\"numbers\"><tr><th>run</th><th>CPU</th><th>samples</th><th>lost</th><th>beyond</th><th>min</th><th>mean</th>";
        QUANTILES.iter().for_each(|(name, _)| text += &format!("<th>{name}</th>"));
        text += "<th>max</th></tr>\n";
        self.rows.iter().for_each(|(run, series)| text += &row(run, series));
        text + "</table>\n<p class=\"faint\">Quantiles: value (95 % interval, if samples are independent). Lost samples are \
                not in the value, and may all lie below or above it: the interval says so, with ? where nothing bounds \
                it. A dash: too few samples, or it cannot be known; point at it for the reason.</p>\n"
    }
}

fn row(run: &str, series: &Series) -> String {
    let of = Distribution::of([series]);
    let ns = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| time(value as f64));
    let cpu = series.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let mut text = format!("<tr><td>{}</td><td>{cpu}</td><td>{}</td>", escape(run), count(series.count));
    let beyond = series.overflow.map_or(0, |overflow| overflow.count);
    for number in [series.lost, beyond] {
        let class = if number > 0 { " class=\"caveat\"" } else { "" };
        text += &format!("<td{class}>{}</td>", count(number));
    }
    let mean = of.moments.map_or_else(|| "-".to_owned(), |moments| time(moments.mean));
    text += &format!("<td>{}</td><td>{mean}</td>", ns(of.min));
    for (_, q) in QUANTILES {
        text += &match of.quantile_of_known(q) {
            Ok(found) => format!("<td>{} <small>({})</small></td>", time(found.value), bounds(&found)),
            Err(why) => format!("<td title=\"{}\">-</td>", escape(&why.to_string())),
        };
    }
    text + &format!("<td>{}</td></tr>\n", ns(of.max))
}

fn metrics(of: &crate::Compared, deadline_ns: Option<u64>) -> String {
    let mut text = String::new();
    if let Some(deadline) = deadline_ns {
        text += &format!("<p>misses: samples above {}, of a million</p>\n", time(deadline as f64));
    }
    text += "<table><tr><th></th><th>A: median of runs (range)</th><th>B</th><th>B less A (95 %)</th><th>outcome</th>\
             <th>p</th>\
             <th>would have been seen</th><th></th></tr>\n";
    for metric in &of.metrics {
        let unit = |value| in_unit(metric.metric, value);
        let side = |side: Option<Side>| {
            side.map_or_else(
                || "-".to_owned(),
                |side| format!("{} ({}..{})", unit(side.median), unit(side.low), unit(side.high)),
            )
        };
        let p = metric.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.4}"));
        let seen = metric.would_have_seen.map_or_else(|| "-".to_owned(), unit);
        let why = escape(metric.why.as_deref().unwrap_or(""));
        let cells = [
            metric.metric.name(),
            side(metric.a),
            side(metric.b),
            change(metric),
            word(metric.outcome).to_owned(),
            p,
            seen,
            why,
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let class = word(metric.outcome).replace(' ', "-");
        text += &format!("<tr class=\"{class}\">{cells}</tr>\n");
    }
    text + "</table>\n"
}

/// Everything else that a record says.
fn about(name: &str, record: &Record) -> String {
    let mut text = format!(
        "<details><summary>{}: {} by {} {}</summary>\n",
        escape(name),
        escape(&record.test),
        escape(&record.tool),
        escape(&record.version)
    );
    text += &format!("<p>{}</p>\n", escape(&record.method));
    record.caveats.iter().for_each(|one| text += &caveat(one));
    record.causes.iter().for_each(|causes| text += &super::causes::section(record, causes));
    let mut rows: Vec<(String, String)> = Vec::new();
    rows.push(("ended".to_owned(), format!("{:?}", record.ended).to_lowercase()));
    if let Some(floor) = record.floor {
        let floor = format!(
            "{:.1} ns to read the clock, {:.1} ns for an empty measurement",
            floor.clock_read_ns, floor.loop_ns
        );
        rows.push(("the tool itself".to_owned(), floor));
    }
    let shown = |(key, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.clone(), value)
    };
    rows.extend(record.counts.iter().map(|(key, number)| (key.clone(), count(*number))));
    rows.extend(record.options.iter().map(shown));
    rows.extend(record.environment.iter().map(shown));
    text += "<table>\n";
    for (key, value) in rows {
        let _ = writeln!(text, "<tr><td>{}</td><td>{}</td></tr>", escape(&key), escape(&value));
    }
    text + "</table></details>\n"
}

fn caveat(of: &Caveat) -> String {
    let severity = format!("{:?}", of.severity).to_lowercase();
    let text = format!("{severity}: {} [{}]: {}", of.text, of.id, of.next);
    format!("<p class=\"caveat\">{}</p>\n", escape(&text))
}

fn headline(records: &[Named<'_>]) -> String {
    let mut tests: Vec<&str> = records.iter().map(|(_, run)| run.test.as_str()).collect();
    tests.sort_unstable();
    tests.dedup();
    format!("{}: {}", tests.join(", "), counted(records.len() as u64, "run"))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n\
         <style>{}{}</style></head>\n\
         <body>\n{body}</body></html>\n",
        escape(title),
        style(),
        include_str!("page.css")
    )
}
