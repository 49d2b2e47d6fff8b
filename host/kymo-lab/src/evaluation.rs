// SPDX-License-Identifier: MIT OR Apache-2.0
//! An evaluation [spec/lab.md 12]: tests without a load and under each load, in rounds of random order, and what came
//! of them. Who runs the tests is for others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::stats::Random;
use crate::{Caveat, CompareOptions, Comparison, Ended, Finding, Record, Severity, compare};

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
    /// Runs that were planned.
    pub planned: usize,
    /// Samples above this are too long, nanoseconds.
    pub limit_ns: Option<u64>,
    /// As it was before the first run.
    pub environment: BTreeMap<String, Value>,
    /// What `kymo doctor` had to say against this machine.
    pub problems: Vec<Finding>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// Of each test under each load, where it was run without one, too.
    pub comparisons: Vec<UnderLoad>,
    /// What makes the numbers doubtful: of all runs, each once, the gravest first.
    pub caveats: Vec<Caveat>,
}

impl Evaluation {
    /// Compares what was measured, and gathers what is to be said of it.
    pub fn conclude(&mut self) {
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
