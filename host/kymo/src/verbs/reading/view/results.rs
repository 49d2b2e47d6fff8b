// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result records of the laboratory for `kymo view` [spec/view.md 4.17]: files to columns. Records of evaluations are
//! found beside them; a worst sample is given its place in the trace, where that is shown and has it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kymo_ctf::read::Trace;
use kymo_lab::report::time;
use kymo_lab::stats::Distribution;
use kymo_lab::{COMPARE_SCHEMA, EVAL_SCHEMA, Record, Series, Severity, Worst};
use kymo_query::{Answer, Opened, Table};
use serde_json::{Value, json};

use crate::verbs::import;
use crate::verbs::lab::results;

/// Quantiles of a series.
const QUANTILES: [(&str, f64); 6] = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.9),
    ("p99_ns", 0.99),
    ("p999_ns", 0.999),
    ("p9999_ns", 0.9999),
    ("p99999_ns", 0.99999),
];

/// A clock of the trace may be so far off the one by which a run was begun, ns.
const SLACK_NS: i128 = 1_000_000_000;

/// What result files have.
#[derive(Default)]
pub struct Results {
    /// Records, each with its name.
    runs: Vec<(String, Record)>,
    /// Comparisons, each with its name, as documents.
    comparisons: Vec<(String, Value)>,
}

impl Results {
    /// Of these files: records, of whichever tool; evaluations; comparisons.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Results> {
        let mut all = Results::default();
        let short: HashSet<_> = paths.iter().map(|path| path.file_name()).collect();
        let is_short = short.len() == paths.len();
        let name_of = |path: &Path| if is_short { name_of(path) } else { path.display().to_string() };
        for path in paths {
            let bytes = import::content(path)?;
            let document = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
            match document["schema"].as_str() {
                Some(EVAL_SCHEMA) => all.evaluation(path, &name_of(path), &document)?,
                Some(COMPARE_SCHEMA) => all.comparisons.push((name_of(path), document)),
                _ => {
                    let records = results::read(std::slice::from_ref(path))?;
                    all.runs.extend(records.into_iter().map(|record| (name_of(path), record)));
                }
            }
        }
        Ok(all)
    }

    /// The records of an evaluation, which lie beside it, and its comparisons.
    fn evaluation(&mut self, path: &Path, own: &str, document: &Value) -> anyhow::Result<()> {
        let beside = path.parent().unwrap_or(Path::new(""));
        for run in document["runs"].as_array().into_iter().flatten() {
            let Some(file) = run["file"].as_str() else { continue };
            // A name, and no way out of the directory.
            let name = Path::new(file).file_name().with_context(|| format!("{}: {file:?}", path.display()))?;
            let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
            let (test, load, round) = (text("test"), text("load"), run["round"].as_u64().unwrap_or(0));
            for record in results::read(&[beside.join(name)])? {
                self.runs.push((format!("{own}: {test}, load {load}, round {round}"), record));
            }
        }
        for one in document["comparisons"].as_array().into_iter().flatten() {
            let text = |key: &str| one[key].as_str().unwrap_or_default();
            let name = format!("{own}: {}, load {} against none", text("test"), text("load"));
            self.comparisons.push((name, one["comparison"].clone()));
        }
        Ok(())
    }

    /// The answer to `results`.
    pub fn answer(&self, of: &Opened) -> Answer {
        let mut answer = Answer::new("results", of.base(), of.whole());
        let comparison = |(name, document): &(String, Value)| json!({ "name": name, "lines": lines(document) });
        answer.set("comparisons", self.comparisons.iter().map(comparison).collect::<Vec<_>>());
        answer.set("doubts", Vec::<String>::new());
        let table = self.run_table(&mut answer);
        answer.push(table);
        let all: Vec<(u32, &Record, &Series)> = self.series().collect();
        let table = series_table(&mut answer, &all);
        answer.push(table);
        answer.push(bucket_table(&all));
        let table = worst_table(&mut answer, of, &all);
        answer.push(table);
        let table = self.caveat_table(&mut answer);
        answer.push(table);
        answer
    }

    fn series(&self) -> impl Iterator<Item = (u32, &Record, &Series)> {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(run, (_, record))| record.series.iter().map(move |series| (run as u32, record, series)))
    }

    fn run_table(&self, answer: &mut Answer) -> Table {
        let (mut names, mut tools, mut tests, mut methods, mut ends) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, record) in &self.runs {
            names.push(answer.texts.text(name));
            tools.push(answer.texts.text(&record.tool));
            tests.push(answer.texts.text(&record.test));
            methods.push(answer.texts.text(&record.method));
            ends.push(answer.texts.text(&format!("{:?}", record.ended).to_lowercase()));
        }
        let records = || self.runs.iter().map(|(_, record)| record);
        Table::new("runs")
            .column("name", names)
            .column("tool", tools)
            .column("test", tests)
            .column("method", methods)
            .column("ended", ends)
            .column("started_ns", records().map(|record| record.started_ns.and_then(|ns| i64::try_from(ns).ok())))
            .column("duration_s", records().map(|record| record.duration_s))
            .column("clock_read_ns", records().map(|record| record.floor.map(|floor| floor.clock_read_ns)))
    }

    fn caveat_table(&self, answer: &mut Answer) -> Table {
        let (mut runs, mut severities, mut ids, mut texts, mut next) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (run, (_, record)) in self.runs.iter().enumerate() {
            for caveat in &record.caveats {
                let severity = match caveat.severity {
                    Severity::Info => "info",
                    Severity::Medium => "medium",
                    Severity::High => "high",
                    Severity::Fatal => "fatal",
                };
                runs.push(run as u32);
                severities.push(answer.texts.text(severity));
                ids.push(answer.texts.text(&caveat.id));
                texts.push(answer.texts.text(&caveat.text));
                next.push(answer.texts.text(&caveat.next));
            }
        }
        Table::new("caveats")
            .column("run", runs)
            .column("severity", severities)
            .column("id", ids)
            .column("text", texts)
            .column("next", next)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn series_table(answer: &mut Answer, all: &[(u32, &Record, &Series)]) -> Table {
    let (mut names, mut policies) = (Vec::new(), Vec::new());
    for (_, _, series) in all {
        names.push(answer.texts.text(&series.name));
        policies.push(series.thread.as_ref().map(|thread| answer.texts.text(&thread.policy)));
    }
    let each = || all.iter().map(|(_, _, series)| *series);
    let mut table = Table::new("series")
        .column("run", all.iter().map(|(run, ..)| *run))
        .column("name", names)
        .column("cpu", each().map(|series| series.cpu))
        .column("tid", each().map(|series| series.thread.as_ref().map(|thread| thread.tid)))
        .column("policy", policies)
        .column("priority", each().map(|series| series.thread.as_ref().map(|thread| thread.priority)))
        .column("count", each().map(|series| series.count))
        .column("lost", each().map(|series| series.lost))
        .column("beyond", each().map(|series| series.overflow.map(|overflow| overflow.count)))
        .column("beyond_ns", each().map(|series| series.overflow.map(|overflow| overflow.beyond_ns)))
        .column("bucket_ns", each().map(|series| series.bucket_ns))
        .column("min_ns", each().map(|series| series.min))
        .column("max_ns", each().map(|series| series.max))
        .column("mean_ns", each().map(|series| series.mean));
    let distributions: Vec<Distribution> = each().map(|series| Distribution::of([series])).collect();
    for (name, q) in QUANTILES {
        let quantiles = distributions.iter().map(|of| of.quantile(q).ok().map(|found| found.value.round() as u64));
        table = table.column(name, quantiles);
    }
    table
}

fn bucket_table(all: &[(u32, &Record, &Series)]) -> Table {
    let buckets = || {
        let rows = all.iter().enumerate();
        rows.flat_map(|(row, (_, _, series))| series.histogram.buckets().map(move |bucket| (row as u32, bucket)))
    };
    Table::new("buckets")
        .column("series", buckets().map(|(row, _)| row))
        .column("low_ns", buckets().map(|(_, bucket)| bucket.low))
        .column("high_ns", buckets().map(|(_, bucket)| bucket.high))
        .column("count", buckets().map(|(_, bucket)| bucket.count))
}

fn worst_table(answer: &mut Answer, of: &Opened, all: &[(u32, &Record, &Series)]) -> Table {
    let mut list: Vec<(u32, &Record, &Series, &Worst)> = Vec::new();
    for (row, (_, record, series)) in all.iter().enumerate() {
        list.extend(series.worst.iter().map(|worst| (row as u32, *record, *series, worst)));
    }
    let causes: Vec<_> = list
        .iter()
        .map(|(.., worst)| worst.budget.as_ref().and_then(|budget| answer.texts.name(&budget.signature)))
        .collect();
    let ends: Vec<Option<i64>> = list.iter().map(|(_, record, _, worst)| end_of(record, worst, &of.traces)).collect();
    let is_shown = |from: i64, to: i64| of.bounds.is_some_and(|(first, last)| from >= first && to <= last);
    let place = |((.., worst), end): (&(u32, &Record, &Series, &Worst), &Option<i64>)| {
        let to = (*end)?;
        let from = to.saturating_sub_unsigned(worst.value_ns);
        is_shown(from, to).then(|| (answer.time(from), answer.time(to)))
    };
    let places: Vec<Option<(i64, i64)>> = list.iter().zip(&ends).map(place).collect();
    let tid = |(_, _, series, worst): &(u32, &Record, &Series, &Worst)| {
        let of_series = series.thread.as_ref().map(|thread| thread.tid);
        worst.tid.or(of_series).and_then(|tid| i32::try_from(tid).ok())
    };
    Table::new("worst")
        .column("series", list.iter().map(|(row, ..)| *row))
        .column("value_ns", list.iter().map(|(.., worst)| worst.value_ns))
        .column("sample", list.iter().map(|(.., worst)| worst.sample))
        .column("at_ns", ends)
        .column("tid", list.iter().map(tid))
        .column("cause", causes)
        .column("from", places.iter().map(|place| place.map(|(from, _)| from)))
        .column("to", places.iter().map(|place| place.map(|(_, to)| to)))
}

/// When a sample ended, ns since 1970: as its budget says, else by the clock of a trace, if that lies within its run.
fn end_of(record: &Record, worst: &Worst, traces: &[Trace]) -> Option<i64> {
    if let Some(at) = worst.budget.as_ref().and_then(|budget| budget.at_ns) {
        return Some(at);
    }
    let (cycles, started, duration) = (worst.cycles?, record.started_ns?, record.duration_s?);
    let run = (i128::from(started) - SLACK_NS)..=(i128::from(started) + (duration * 1e9) as i128 + SLACK_NS);
    let clocks = traces.iter().filter_map(|trace| match &trace.metadata.clocks[..] {
        [clock] => Some(clock),
        _ => None,
    });
    let mut times = clocks.map(|clock| clock.nanoseconds(cycles)).filter(|ns| run.contains(ns));
    times.next().and_then(|ns| i64::try_from(ns).ok())
}

/// What a comparison says, in lines.
fn lines(of: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or("not known").replace('_', " ");
    let pair = |value: &Value| [0, 1].map(|at| value[at].as_u64().unwrap_or(0));
    let [a, b] = pair(&of["runs"]);
    let mut lines = vec![format!("B against A: {}. Runs: {a} of A, {b} of B", word(&of["outcome"]))];
    for series in of["series"].as_array().into_iter().flatten() {
        let cpu = series["cpu"].as_u64().map_or("all CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
        let [a, b] = pair(&series["samples"]);
        lines.push(format!("{}, {}, {cpu}: {a} samples in A, {b} in B", word(&series["test"]), word(&series["name"])));
        for metric in series["metrics"].as_array().into_iter().flatten() {
            let name = word(&metric["metric"]);
            let side = |side: &str| match metric[side]["median"].as_f64() {
                None => "none".to_owned(),
                Some(median) if name == "misses" => format!("{median}"),
                Some(median) => time(median),
            };
            let relative = metric["relative"].as_f64().map_or(String::new(), |by| format!(" ({:+.1} %)", 100.0 * by));
            let why = metric["why"].as_str().map_or(String::new(), |why| format!(": {why}"));
            lines.push(format!(
                "  {name}: A {}, B {}{relative}: {}{why}",
                side("a"),
                side("b"),
                word(&metric["outcome"])
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_index::Indexes;

    fn opened() -> Opened {
        Opened::new(Vec::new(), Indexes::default(), "none".to_owned(), Vec::new())
    }

    fn record() -> Record {
        let mut series = Series::new("wakeup");
        (1..=1000).for_each(|value| series.histogram.add(value * 100, 1));
        (series.count, series.lost, series.cpu, series.max) = (1001, 1, Some(2), Some(100_000));
        series.worst.push(Worst { value_ns: 100_000, cycles: Some(5), sample: Some(7), tid: Some(9), budget: None });
        let mut record = Record::new("kymo", "wakeup");
        record.series.push(series);
        record
    }

    #[test]
    fn records_become_columns() {
        let results = Results { runs: vec![("a.json".to_owned(), record())], comparisons: Vec::new() };
        let found = results.answer(&opened()).json();
        let tables = &found["tables"];
        assert_eq!(tables["runs"]["name"], json!(["a.json"]));
        assert_eq!((&tables["series"]["count"], &tables["series"]["lost"]), (&json!([1001]), &json!([1])));
        let counts = tables["buckets"]["count"].as_array().unwrap();
        assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 1000);
        let p50 = tables["series"]["p50_ns"][0].as_u64().unwrap();
        assert!((48_000..=52_000).contains(&p50), "{p50}");
        assert_eq!(tables["series"]["p99999_ns"], json!([null]), "too few samples");
        assert_eq!(tables["worst"]["sample"], json!([7]));
        assert_eq!((&tables["worst"]["from"], &tables["worst"]["at_ns"]), (&json!([null]), &json!([null])));
    }

    #[test]
    fn files_are_told_apart_by_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, document: &Value| {
            let path = dir.path().join(name);
            std::fs::write(&path, document.to_string()).unwrap();
            path
        };
        let one = write("one.json", &serde_json::to_value(record()).unwrap());
        let metric =
            json!({ "metric": "max", "outcome": "worse", "a": { "median": 1000.0 }, "b": null, "relative": 0.5 });
        let series = json!({ "test": "wakeup", "name": "wakeup", "cpu": 1, "samples": [3, 4], "metrics": [metric] });
        let comparison =
            json!({ "schema": COMPARE_SCHEMA, "outcome": "no_difference", "runs": [1, 2], "series": [series] });
        let run = json!({ "file": "../one.json", "test": "wakeup", "load": "cpu", "round": 3 });
        let eval = json!({ "schema": EVAL_SCHEMA, "runs": [run, { "file": null }],
            "comparisons": [{ "test": "wakeup", "load": "cpu", "comparison": comparison.clone() }] });
        let paths = [write("c.json", &comparison), write("eval.json", &eval), one];
        let found = Results::read(&paths).unwrap();
        let names: Vec<&str> = found.runs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["eval.json: wakeup, load cpu, round 3", "one.json"]);
        assert_eq!(found.comparisons[1].0, "eval.json: wakeup, load cpu against none");
        let said = lines(&found.comparisons[0].1);
        assert_eq!(said[0], "B against A: no difference. Runs: 1 of A, 2 of B");
        assert_eq!(said[1], "wakeup, wakeup, CPU 1: 3 samples in A, 4 in B");
        assert!(said[2].starts_with("  max: A ") && said[2].ends_with("B none (+50.0 %): worse"), "{}", said[2]);
        assert!(Results::read(&[dir.path().join("none.json")]).is_err());
        assert!(Results::read(&[write("other.json", &json!({ "schema": "x" }))]).is_err());
    }
}
