// SPDX-License-Identifier: MIT OR Apache-2.0
//! An evaluation [spec/lab.md 12]: tests without a load and under each load, in rounds of random order, and what came
//! of them. Who runs the tests is for others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::causes::{Budget, Level};
use crate::stats::{Distribution, Random};
use crate::{Caveat, CompareOptions, Comparison, Ended, Finding, Record, Series, Severity, Worst, compare};

/// Version of the form.
pub const EVAL_SCHEMA: &str = "kymo-eval-1";
/// The load that is none.
pub const IDLE: &str = "none";

/// One run of one test under one load, as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// From 1.
    pub round: usize,
    /// A verb of kymo: `wakeup`, `npt`, ...
    pub test: String,
    /// As `kymo load` has it; [`IDLE`] for none.
    pub load: String,
}

/// Each test under each load once a round, each round in an order of its own. One seed gives one plan.
pub fn plan(tests: &[String], loads: &[String], rounds: usize, seed: u64) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    for round in 1..=rounds {
        let of = |test: &String| {
            let one = |load: &String| Planned { round, test: test.clone(), load: load.clone() };
            loads.iter().map(one).collect::<Vec<_>>()
        };
        let mut one: Vec<Planned> = tests.iter().flat_map(of).collect();
        for end in (2..=one.len()).rev() {
            one.swap(end - 1, random.below(end));
        }
        all.extend(one);
    }
    all
}

/// A run that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What it was to be.
    #[serde(flatten)]
    pub planned: Planned,
    /// Its record, by name in the directory of results; `None` where it failed.
    pub file: Option<String>,
    /// What the load did meanwhile, as `kymo load --json` says it.
    pub did: Value,
    /// Why there is no record, or the load ended early.
    pub trouble: Option<String>,
    /// What was measured.
    #[serde(skip)]
    pub record: Option<Record>,
}

/// A test under a load against the same test without one.
#[derive(Clone, Debug, Serialize)]
pub struct UnderLoad {
    /// Which test.
    pub test: String,
    /// Which load.
    pub load: String,
    /// Group A is without a load.
    pub comparison: Comparison,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// [`EVAL_SCHEMA`].
    pub schema: &'static str,
    /// Nanoseconds since 1970.
    pub started_ns: Option<u64>,
    /// Seconds.
    pub duration_s: f64,
    /// [`Ended::Signal`] where it was interrupted: what there was until then.
    pub ended: Ended,
    /// Of the plan's order.
    pub seed: u64,
    /// Worst samples of each series of a run that were to be explained; 0: none.
    pub explain: u32,
    /// Runs that were planned.
    pub planned: usize,
    /// Samples above this are too long, nanoseconds.
    pub limit_ns: Option<u64>,
    /// As it was before the first run.
    pub environment: BTreeMap<String, Value>,
    /// What `kymo doctor` had to say against this machine.
    pub problems: Vec<Finding>,
    /// Its checks above medium that could not look, and why.
    pub not_looked: Vec<Finding>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// Of each series of each test under each load: all CPUs together, where there are several, then each of them.
    pub cpus: Vec<CpuResult>,
    /// The longest samples of each test, with their causes, the longest first.
    pub worst: Vec<LongSample>,
    /// Of each test under each load, where it was run without one, too.
    pub comparisons: Vec<UnderLoad>,
    /// What makes the numbers doubtful: of all runs, each once, the gravest first.
    pub caveats: Vec<Caveat>,
}

/// Samples of a series on one CPU, of all runs of a test under a load together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuResult {
    /// Which test.
    pub test: String,
    /// Which load.
    pub load: String,
    /// Name of the series.
    pub series: String,
    /// Where; `None`: all CPUs together.
    pub cpu: Option<u32>,
    /// Runs that have it.
    pub runs: usize,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples of them that have no value.
    pub lost: u64,
    /// Quantiles; `None` where there are too few samples.
    pub median_ns: Option<f64>,
    /// See `median_ns`.
    pub p99_ns: Option<f64>,
    /// See `median_ns`.
    pub p9999_ns: Option<f64>,
    /// The largest.
    pub max_ns: Option<u64>,
}

/// One of the longest samples of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LongSample {
    /// Which test.
    pub test: String,
    /// Under which load.
    pub load: String,
    /// In which round.
    pub round: usize,
    /// Name of the series.
    pub series: String,
    /// Where.
    pub cpu: Option<u32>,
    /// How long.
    pub value_ns: u64,
    /// When it ended, seconds since the evaluation began: from its record, else by its number in its run.
    pub into_s: Option<f64>,
    /// What it was made of.
    pub budget: Option<Budget>,
    /// Why that is not known.
    pub why: Option<String>,
}

/// Longest samples of a test that an evaluation names.
const LONGEST: usize = 20;

impl Evaluation {
    /// Compares what was measured, and gathers what is to be said of it.
    pub fn conclude(&mut self) {
        self.cpus = self.cells().iter().flat_map(|(test, load)| self.by_cpu(test, load)).collect();
        self.worst = self.longest();
        let options = CompareOptions { deadline_ns: self.limit_ns, ..CompareOptions::default() };
        let of = |(test, load): (String, String)| {
            let [a, b] = [IDLE, &load].map(|load| self.records(&test, load).cloned().collect::<Vec<_>>());
            let comparison = (!a.is_empty() && load != IDLE).then(|| compare(&a, &b, options))?;
            Some(UnderLoad { test, load, comparison })
        };
        self.comparisons = self.cells().into_iter().filter_map(of).collect();
        let mut seen = BTreeSet::new();
        let all = self.runs.iter().filter_map(|run| run.record.as_ref()).flat_map(|record| &record.caveats);
        self.caveats = all.filter(|caveat| seen.insert(caveat.id.clone())).cloned().collect();
        self.caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    }

    /// All samples of a series in all runs of a test under a load; of one CPU, or of all.
    pub fn pooled(&self, test: &str, load: &str, name: &str, cpu: Option<u32>) -> Distribution {
        let has = |series: &&Series| series.name == name && (cpu.is_none() || series.cpu == cpu);
        Distribution::of(self.records(test, load).flat_map(|record| &record.series).filter(has))
    }

    fn by_cpu(&self, test: &str, load: &str) -> Vec<CpuResult> {
        let mut keys: BTreeMap<&str, BTreeSet<Option<u32>>> = BTreeMap::new();
        for series in self.records(test, load).flat_map(|record| &record.series) {
            keys.entry(&series.name).or_default().insert(series.cpu);
        }
        let mut results = Vec::new();
        for (name, cpus) in keys {
            // `None` sorts first: all together, where that is not one CPU alone.
            let all = (cpus.len() > 1).then_some(None).filter(|all| !cpus.contains(all));
            for cpu in all.into_iter().chain(cpus.iter().copied()) {
                results.push(self.result((test, load), name, cpu));
            }
        }
        results
    }

    fn result(&self, (test, load): (&str, &str), name: &str, cpu: Option<u32>) -> CpuResult {
        let samples = self.pooled(test, load, name, cpu);
        let has =
            |record: &&Record| record.series.iter().any(|one| one.name == name && (cpu.is_none() || one.cpu == cpu));
        let quantile = |q| samples.quantile(q).ok().map(|found| found.value);
        CpuResult {
            test: test.to_owned(),
            load: load.to_owned(),
            series: name.to_owned(),
            cpu,
            runs: self.records(test, load).filter(has).count(),
            samples: samples.count(),
            lost: samples.lost,
            median_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p9999_ns: quantile(0.9999),
            max_ns: samples.max,
        }
    }

    /// The longest samples of each test.
    fn longest(&self) -> Vec<LongSample> {
        let mut by_test: BTreeMap<&str, Vec<LongSample>> = BTreeMap::new();
        for run in &self.runs {
            let Some(record) = &run.record else { continue };
            for series in &record.series {
                let of = |worst: &Worst| self.long_sample(run, record, series, worst);
                by_test.entry(&run.planned.test).or_default().extend(series.worst.iter().map(of));
            }
        }
        let longest = |mut all: Vec<LongSample>| {
            all.sort_by_key(|one| std::cmp::Reverse(one.value_ns));
            all.truncate(LONGEST);
            all
        };
        by_test.into_values().flat_map(longest).collect()
    }

    fn long_sample(&self, run: &Run, record: &Record, series: &Series, worst: &Worst) -> LongSample {
        let at_ns = worst.budget.as_ref().and_then(|budget| budget.at_ns).and_then(|ns| u64::try_from(ns).ok());
        let by_number = || {
            let share = worst.sample? as f64 / series.count.max(1) as f64;
            Some(record.started_ns? + (share.min(1.0) * record.duration_s? * 1e9) as u64)
        };
        let since = |ns: u64| Some(ns.saturating_sub(self.started_ns?) as f64 / 1e9);
        let why = match &record.causes {
            _ if worst.budget.is_some() => None,
            None => Some("it was not asked for".to_owned()),
            Some(causes) => Some(match (causes.level, causes.unexplained.first()) {
                (Level::UserSpace, _) => "the kernel's events cannot be had".to_owned(),
                (_, Some(reason)) => reason.clone(),
                (_, None) => format!("only the {} longest of each run and CPU are explained", causes.asked),
            }),
        };
        LongSample {
            test: run.planned.test.clone(),
            load: run.planned.load.clone(),
            round: run.planned.round,
            series: series.name.clone(),
            cpu: series.cpu,
            value_ns: worst.value_ns,
            into_s: at_ns.or_else(by_number).and_then(since),
            budget: worst.budget.clone(),
            why,
        }
    }

    /// Tests and loads that have a record, in the order in which they came first, [`IDLE`] before others.
    pub fn cells(&self) -> Vec<(String, String)> {
        let mut cells: Vec<(String, String)> = Vec::new();
        for run in self.runs.iter().filter(|run| run.record.is_some()) {
            let cell = (run.planned.test.clone(), run.planned.load.clone());
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells.sort_by_key(|(test, load)| (test.clone(), load != IDLE, load.clone()));
        cells
    }

    /// Records of a test under a load.
    pub fn records<'a>(&'a self, test: &'a str, load: &'a str) -> impl Iterator<Item = &'a Record> {
        let is_one = move |run: &&Run| run.planned.test == test && run.planned.load == load;
        self.runs.iter().filter(is_one).filter_map(|run| run.record.as_ref())
    }

    /// The largest sample of all, where it is above the limit: its test, its load and the value in nanoseconds.
    pub fn above_limit(&self) -> Option<(&str, &str, u64)> {
        let max = |run: &Run| run.record.as_ref()?.series.iter().filter_map(|series| series.max).max();
        let largest = self.runs.iter().filter_map(|run| Some((run, max(run)?))).max_by_key(|(_, max)| *max)?;
        let (run, max) = largest;
        (max > self.limit_ns?).then_some((&run.planned.test, &run.planned.load, max))
    }

    /// Problems of the doctor above medium.
    pub fn grave_problems(&self) -> impl Iterator<Item = &Finding> {
        self.problems.iter().filter(|finding| finding.severity > Severity::Medium)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_round_has_each_once_and_a_seed_gives_one_plan() {
        let (tests, loads) = (words(&["wakeup", "npt"]), words(&["none", "io", "net"]));
        let planned = plan(&tests, &loads, 4, 7);
        assert_eq!(planned, plan(&tests, &loads, 4, 7));
        assert_ne!(planned, plan(&tests, &loads, 4, 8));
        for (at, round) in planned.chunks(6).enumerate() {
            assert!(round.iter().all(|one| one.round == at + 1));
            let cells: BTreeSet<_> = round.iter().map(|one| (&one.test, &one.load)).collect();
            assert_eq!(cells.len(), 6);
        }
    }
}
