// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two groups of runs [spec/lab.md 5]: did something change, and how small a change would have been seen.
//!
//! The run is the unit. All metrics of all series of a test are one family of hypotheses, tested on the same choices of
//! runs; with several tests, each has its share of the probability of a false difference.

mod context;
mod lost;
mod metric;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use context::shown;
pub use context::{Difference, Merged};
pub use metric::{Metric, NoValue};

use crate::stats::extreme::{Beyond, beyond};
use crate::stats::permutation::{self, Answer, Choices, Family, Hypothesis};
use crate::stats::{Distribution, Quantile, Shift, Trend, shift, trend};
use crate::{Record, Severity};
use context::{caveat, median};
use tail::Tail;

/// Version of the form.
pub const COMPARE_SCHEMA: &str = "kymo-compare-1";
/// Runs that each group must have.
pub const RUNS_MIN: usize = 5;
/// Probability of one false difference or more, among everything that is compared.
pub const FALSE_LEVEL: f64 = 0.05;
/// A change of the smallest shift that is stated would be seen with this probability: 0.84 is the normal quantile of
/// 0.8.
const POWER_Z: f64 = 0.84;
/// A bucket of our histogram is no wider than this share of its value.
const BUCKET: f64 = 1.0 / 128.0;

/// What is compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompareOptions {
    /// Samples above it are misses.
    pub deadline_ns: Option<u64>,
    /// Series of different CPUs each for themselves. Otherwise those of one name are pooled.
    pub per_cpu: bool,
    /// Estimate what may still come, of each group.
    pub extreme: bool,
}

/// The answer to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is better in one metric and worse in another.
    Mixed,
    /// Nothing that these runs can show.
    NoDifference,
    /// These runs cannot show anything.
    NotEnoughData,
}

/// Two groups, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`COMPARE_SCHEMA`].
    pub schema: &'static str,
    /// Of everything.
    pub outcome: Outcome,
    /// Runs of A and of B.
    pub runs: [usize; 2],
    /// As it was given.
    pub deadline_ns: Option<u64>,
    /// [`FALSE_LEVEL`].
    pub level: f64,
    /// By test, name and CPU.
    pub series: Vec<Compared>,
    /// What is not in all runs, and so was not compared.
    pub unmatched: Vec<Unmatched>,
    /// What is another in B than in A.
    pub environment: Vec<Difference>,
    /// Of the runs and of the comparison, the gravest first.
    pub caveats: Vec<Merged>,
}

/// A series of A and of B.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What was run.
    pub test: String,
    /// Name of the series.
    pub name: String,
    /// `None`: all of them together.
    pub cpu: Option<u32>,
    /// Samples of A and of B.
    pub samples: [u64; 2],
    /// Samples lost or beyond the tool's histogram, of A and of B.
    pub unseen: [u64; 2],
    /// One group lost more of its samples than the other: only differences that do not depend on these are stated.
    pub lost_unequal: bool,
    /// Choices of runs that the test looked at; `None` where it was not made.
    pub choices: Option<Choices>,
    /// In the order of their weight.
    pub metrics: Vec<MetricCompared>,
    /// What may still come in A and in B, where that was asked for.
    pub beyond: Option<[Beyond; 2]>,
}

impl Compared {
    /// A series of a run that this is of.
    pub fn has(&self, series: &crate::Series) -> bool {
        is_of(series, &self.name, self.cpu)
    }
}

/// A metric of A and of B. Nanoseconds; misses as samples of a million; of the tail, shares.
#[derive(Clone, Debug, Serialize)]
pub struct MetricCompared {
    /// Which.
    pub metric: Metric,
    /// Of this metric; never `Mixed`.
    pub outcome: Outcome,
    /// Runs of A.
    pub a: Option<Side>,
    /// Runs of B.
    pub b: Option<Side>,
    /// B less A. Its interval is for this metric alone.
    pub shift: Option<Shift>,
    /// Share of A's median that the shift is.
    pub relative: Option<f64>,
    /// Probability of such a difference of any metric, if there is none.
    pub p: Option<f64>,
    /// Probability of such a difference of this metric, if there is none.
    pub p_alone: Option<f64>,
    /// A difference of this size would have been found in 4 of 5 such experiments.
    pub would_have_seen: Option<f64>,
    /// Kolmogorov and Smirnov's distance; of the tail only.
    pub distance: Option<f64>,
    /// Why there is no answer.
    pub why: Option<String>,
}

/// A metric in the runs of one group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Of the runs.
    pub median: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
    /// Of all samples of the group, with an interval that holds if they are independent; quantiles only.
    pub pooled: Option<Quantile>,
}

/// A series that was not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// What was run.
    pub test: String,
    /// Name of the series.
    pub name: String,
    /// Where.
    pub cpu: Option<u32>,
    /// Runs of A and of B that have it.
    pub runs: [usize; 2],
}

/// Compares the runs of `b` with those of `a`.
pub fn compare(a: &[Record], b: &[Record], options: CompareOptions) -> Comparison {
    let (once_a, once_b) = (without_twins(a), without_twins(b));
    let mut comparison = Comparison {
        schema: COMPARE_SCHEMA,
        outcome: Outcome::NotEnoughData,
        runs: [once_a.len(), once_b.len()],
        deadline_ns: options.deadline_ns,
        level: FALSE_LEVEL,
        series: Vec::new(),
        unmatched: Vec::new(),
        environment: context::environment(a, b),
        caveats: context::caveats(a, b),
    };
    let twins = a.len() + b.len() - once_a.len() - once_b.len();
    if twins > 0 {
        let text = format!("{twins} of the files have the same run as another of their group; it counts once");
        let caveat = caveat("same-run", Severity::Medium, text, "give each run once");
        comparison.caveats.insert(0, Merged { caveat, a: a.len() - once_a.len(), b: b.len() - once_b.len() });
    }
    let tests = by_test(&once_a, &once_b);
    let level = FALSE_LEVEL / tests.len().max(1) as f64;
    for (test, [a, b]) in &tests {
        compare_test(test, a, b, level, options, &mut comparison);
    }
    let outcomes = comparison.series.iter().flat_map(|series| &series.metrics).map(|metric| metric.outcome);
    comparison.outcome = match together(outcomes.collect()) {
        // Whether there is none depends on what was lost.
        Outcome::NoDifference if comparison.series.iter().any(|series| series.lost_unequal) => Outcome::NotEnoughData,
        outcome => outcome,
    };
    comparison.caveats.sort_by_key(|merged| std::cmp::Reverse(merged.caveat.severity));
    comparison
}

/// A run that is there twice is not two runs.
fn without_twins(runs: &[Record]) -> Vec<&Record> {
    let mut once: Vec<&Record> = Vec::new();
    for run in runs {
        if !once.contains(&run) {
            once.push(run);
        }
    }
    once
}

fn together(outcomes: Vec<Outcome>) -> Outcome {
    let any = |outcome| outcomes.contains(&outcome);
    match (any(Outcome::Better), any(Outcome::Worse)) {
        (true, true) => Outcome::Mixed,
        (true, false) => Outcome::Better,
        (false, true) => Outcome::Worse,
        _ if any(Outcome::NoDifference) => Outcome::NoDifference,
        _ => Outcome::NotEnoughData,
    }
}

type Sides<'a> = [Vec<&'a Record>; 2];

fn by_test<'a>(a: &[&'a Record], b: &[&'a Record]) -> BTreeMap<&'a str, Sides<'a>> {
    let mut tests: BTreeMap<&str, Sides> = BTreeMap::new();
    for (side, runs) in [a, b].into_iter().enumerate() {
        for run in runs {
            tests.entry(&run.test).or_default()[side].push(run);
        }
    }
    tests
}

/// One test: all its series and metrics, a family.
fn compare_test(test: &str, a: &[&Record], b: &[&Record], level: f64, options: CompareOptions, to: &mut Comparison) {
    let mut series = Vec::new();
    for (name, cpu) in keys(a, b, options.per_cpu) {
        let has = |run: &&&Record| run.series.iter().any(|one| is_of(one, &name, cpu));
        let runs = [a, b].map(|side| side.iter().filter(has).count());
        if runs != [a.len(), b.len()] || runs.contains(&0) {
            to.unmatched.push(Unmatched { test: test.to_owned(), name, cpu, runs });
            continue;
        }
        series.push(Runs::new(name, cpu, a, b));
    }
    let enough = a.len() >= RUNS_MIN && b.len() >= RUNS_MIN;
    let choices = enough.then(|| Choices::new(a.len(), b.len()));
    let blocked = context::is_blocked(a, b);
    if enough && blocked == Some(true) {
        let text = format!("{test}: all runs of one group were made before those of the other");
        let next = "a drift of the machine looks like a difference: run them alternately, A B B A";
        let caveat = caveat("not-interleaved", Severity::High, text, next);
        to.caveats.push(Merged { caveat, a: a.len(), b: b.len() });
    }
    let mut metrics = Vec::new();
    for runs in &series {
        metrics.extend(runs.questions(choices.as_ref(), options.deadline_ns));
        if runs.is_unequal(choices.as_ref()) {
            let text = format!(
                "{test} {}: {}: what was lost may have been the longest",
                runs.name,
                lost::shares(&runs.groups)
            );
            let next =
                "find out why samples are lost (a longer --interval, a machine that is less busy), and measure again";
            let caveat = caveat("lost-unequal", Severity::High, text, next);
            to.caveats.push(Merged { caveat, a: a.len(), b: b.len() });
        }
    }
    if let Some(choices) = &choices {
        decide(&mut metrics, choices, level);
        hold_against_losses(&mut metrics, choices, level);
        let trends = drifts(&mut metrics, a, b, blocked == Some(true));
        to.caveats.extend(trends.into_iter().map(|caveat| Merged { caveat, a: a.len(), b: b.len() }));
    }
    let mut metrics = metrics.into_iter();
    for runs in series {
        let own = metrics.by_ref().take(runs.metrics(options.deadline_ns).count());
        let metrics = own.map(Question::into_answer).collect();
        let mut compared = runs.into_compared(test, choices, metrics);
        compared.beyond = options.extreme.then(|| [a, b].map(|side| beyond(side, |one| compared.has(one))));
        to.series.push(compared);
    }
}

/// Names of series, and CPUs where they are not pooled.
fn keys(a: &[&Record], b: &[&Record], per_cpu: bool) -> Vec<(String, Option<u32>)> {
    let mut keys = Vec::new();
    for series in a.iter().chain(b).flat_map(|run| &run.series) {
        let key = (series.name.clone(), series.cpu.filter(|_| per_cpu));
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn is_of(series: &crate::Series, name: &str, cpu: Option<u32>) -> bool {
    series.name == name && (cpu.is_none() || series.cpu == cpu)
}

/// A series in all runs, those of A first.
struct Runs {
    name: String,
    cpu: Option<u32>,
    a: usize,
    runs: Vec<Distribution>,
    groups: [Distribution; 2],
}

impl Runs {
    fn new(name: String, cpu: Option<u32>, a: &[&Record], b: &[&Record]) -> Runs {
        let of = |run: &&Record| Distribution::of(run.series.iter().filter(|one| is_of(one, &name, cpu)));
        let runs = a.iter().chain(b).map(of).collect();
        let group = |side: &[&Record]| {
            Distribution::of(side.iter().flat_map(|run| run.series.iter().filter(|one| is_of(one, &name, cpu))))
        };
        let groups = [group(a), group(b)];
        Runs { a: a.len(), runs, groups, name, cpu }
    }

    fn metrics(&self, deadline_ns: Option<u64>) -> impl Iterator<Item = Metric> + use<> {
        Metric::ALL.into_iter().filter(move |metric| *metric != Metric::Misses || deadline_ns.is_some())
    }

    /// One group lost more samples than the other.
    fn is_unequal(&self, choices: Option<&Choices>) -> bool {
        choices.is_some_and(|choices| lost::is_unequal(&self.groups, &self.runs, choices))
    }

    /// A question for each metric. Without `choices` there are too few runs for an answer.
    fn questions(&self, choices: Option<&Choices>, deadline_ns: Option<u64>) -> Vec<Question> {
        let ask = |metric| match metric {
            Metric::Tail => self.tail(choices),
            _ => self.number(metric, choices.is_some(), deadline_ns),
        };
        let mut questions: Vec<Question> = self.metrics(deadline_ns).map(ask).collect();
        if self.is_unequal(choices) {
            for question in &mut questions {
                question.open = Some(lost::Bounds::of(question.answer.metric, &self.runs, deadline_ns));
                question.lost = lost::shares(&self.groups);
            }
        }
        questions
    }

    fn number(&self, metric: Metric, enough: bool, deadline_ns: Option<u64>) -> Question {
        let values: Result<Vec<f64>, NoValue> = self.runs.iter().map(|run| metric.of(run, deadline_ns)).collect();
        let mut question = Question::new(metric, self.resolution());
        match values {
            Err(why) => question.answer.why = Some(why.to_string()),
            Ok(values) => {
                let (a, b) = values.split_at(self.a);
                question.answer.a = side(a, metric, &self.groups[0]);
                question.answer.b = side(b, metric, &self.groups[1]);
                question.answer.shift = shift(a, b);
                let base = question.answer.a.map(|side| side.median).filter(|median| *median > 0.0);
                question.answer.relative = question.answer.shift.zip(base).map(|(shift, base)| shift.value / base);
                match enough {
                    true => {
                        question.asked = Some(Hypothesis::Values(values.iter().map(|v| metric.to_scale(*v)).collect()))
                    }
                    false => question.answer.why = Some(self.too_few()),
                }
            }
        }
        question.samples = self.groups[0].count() / self.a.max(1) as u64;
        question
    }

    fn tail(&self, choices: Option<&Choices>) -> Question {
        let mut question = Question::new(Metric::Tail, 0.0);
        match (choices, Tail::new(&self.runs)) {
            (None, _) => question.answer.why = Some(self.too_few()),
            (_, None) => question.answer.why = Some("too few samples above the common p99".to_owned()),
            (Some(choices), Some(tail)) => {
                let (distance, above) = tail.observed(self.a);
                question.answer.distance = Some(distance);
                question.b_is_less = above < 0.0;
                question.asked = Some(Hypothesis::Distances(tail.distances(choices)));
            }
        }
        question
    }

    fn too_few(&self) -> String {
        format!("runs: {} of A, {} of B; it takes {RUNS_MIN} of each", self.a, self.runs.len() - self.a)
    }

    /// Width of a foreign histogram's buckets, nanoseconds.
    fn resolution(&self) -> f64 {
        self.runs.iter().map(|run| run.bucket_ns as f64).fold(0.0, f64::max)
    }

    fn into_compared(self, test: &str, choices: Option<Choices>, metrics: Vec<MetricCompared>) -> Compared {
        let lost_unequal = self.is_unequal(choices.as_ref());
        let samples = [0, 1].map(|side| self.groups[side].count());
        let unseen = [0, 1].map(|side| self.groups[side].lost + self.groups[side].overflow);
        Compared {
            test: test.to_owned(),
            name: self.name,
            cpu: self.cpu,
            samples,
            unseen,
            lost_unequal,
            choices,
            metrics,
            beyond: None,
        }
    }
}

fn side(values: &[f64], metric: Metric, group: &Distribution) -> Option<Side> {
    let pooled = match metric {
        Metric::Quantile(millionths) => group.quantile(f64::from(millionths) / 1e6).ok(),
        _ => None,
    };
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some(Side { median: median(values.to_vec())?, low, high, pooled })
}

/// A metric on its way to an answer.
struct Question {
    answer: MetricCompared,
    asked: Option<Hypothesis>,
    /// Nanoseconds that the source cannot tell apart.
    resolution: f64,
    /// Of the tail, which has no sign.
    b_is_less: bool,
    /// Of a run of A, on an average.
    samples: u64,
    /// One group lost more samples than the other: what that leaves open, and how much it is.
    open: Option<lost::Bounds>,
    lost: String,
}

impl Question {
    fn new(metric: Metric, resolution: f64) -> Question {
        let answer = MetricCompared {
            metric,
            outcome: Outcome::NotEnoughData,
            a: None,
            b: None,
            shift: None,
            relative: None,
            p: None,
            p_alone: None,
            would_have_seen: None,
            distance: None,
            why: None,
        };
        Question { answer, asked: None, resolution, b_is_less: false, samples: 0, open: None, lost: String::new() }
    }

    fn into_answer(self) -> MetricCompared {
        self.answer
    }

    fn is_less(&self, answer: &Answer) -> bool {
        if self.answer.metric == Metric::Tail { self.b_is_less } else { answer.score < 0.0 }
    }

    /// The difference that these runs would have shown in 4 of 5 cases.
    fn would_have_seen(&self, a: usize, critical: f64) -> Option<f64> {
        let Some(Hypothesis::Values(values)) = &self.asked else { return None };
        let metric = self.answer.metric;
        let base = self.answer.a?.median;
        let size = size_seen(values, a, critical)?;
        let seen = metric.off_scale(metric.to_scale(base) + size) - base;
        Some(match metric {
            // Fewer than one in a run cannot be seen at all.
            Metric::Misses => seen.max(1e6 / self.samples.max(1) as f64),
            Metric::Max | Metric::Mean | Metric::Min => seen.max(self.resolution).max(1.0),
            _ => seen.max(self.resolution).max(base * BUCKET).max(1.0),
        })
    }
}

/// The difference of means, on the scale of the test, that reaches the critical score with the stated probability.
/// `None`
/// where no difference is large enough: the groups are too small.
fn size_seen(values: &[f64], a: usize, critical: f64) -> Option<f64> {
    let n = values.len() as f64;
    let squares = |side: &[f64]| {
        let mean = side.iter().sum::<f64>() / side.len() as f64;
        side.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let (of_a, of_b) = values.split_at(a);
    let within = ((squares(of_a) + squares(of_b)) / (n - 2.0)).sqrt();
    let error = within * (1.0 / of_a.len() as f64 + 1.0 / of_b.len() as f64).sqrt();
    // The score divides by the spread of all values, Student's t by that within the groups.
    let left = n - 1.0 - critical * critical;
    (left > 1e-6).then(|| (critical * ((n - 2.0) / left).sqrt() + POWER_Z) * error)
}

/// Answers all questions as one family.
fn decide(questions: &mut [Question], choices: &Choices, level: f64) {
    let (asked, hypotheses): (Vec<usize>, Vec<Hypothesis>) =
        questions.iter().enumerate().filter_map(|(at, question)| Some((at, question.asked.clone()?))).unzip();
    let Family { answers, critical } = permutation::test(choices, &hypotheses, level);
    for (at, answer) in asked.into_iter().zip(answers) {
        let question = &mut questions[at];
        (question.answer.p, question.answer.p_alone) = (Some(answer.p), Some(answer.p_alone));
        question.answer.would_have_seen = question.would_have_seen(choices.a, critical);
        question.answer.outcome = match (answer.p <= level, question.is_less(&answer)) {
            (false, _) => Outcome::NoDifference,
            (true, true) => Outcome::Better,
            (true, false) => Outcome::Worse,
        };
    }
}

/// Where one group lost more samples than the other, only what holds whatever they were is an answer.
fn hold_against_losses(questions: &mut [Question], choices: &Choices, level: f64) {
    for question in questions {
        let Some(open) = &question.open else { continue };
        let holds = match question.answer.outcome {
            Outcome::Better => open.probability(true, choices, level),
            Outcome::Worse => open.probability(false, choices, level),
            // None would have been seen that is smaller than what is open.
            Outcome::NoDifference => {
                let seen = question.answer.would_have_seen.zip(open.width());
                question.answer.p.filter(|_| seen.is_some_and(|(seen, width)| width <= seen))
            }
            Outcome::Mixed | Outcome::NotEnoughData => continue,
        };
        match holds {
            Some(p) => question.answer.p = question.answer.p.map(|known| known.max(p)),
            None => {
                question.answer.outcome = Outcome::NotEnoughData;
                (question.answer.p, question.answer.p_alone, question.answer.would_have_seen) = (None, None, None);
                question.answer.why = Some(format!("{}: what was lost may change the answer", question.lost));
            }
        }
    }
}

/// Trends within the groups. Where the groups were run one after the other, a difference in their direction is taken
/// back:
/// it cannot be told from them.
fn drifts(questions: &mut [Question], a: &[&Record], b: &[&Record], blocked: bool) -> Vec<crate::Caveat> {
    let (Some(of_a), Some(of_b)) = (order(a, 0), order(b, a.len())) else { return Vec::new() };
    let order = [of_a, of_b];
    let forward = a.iter().map(|run| run.started_ns).max() < b.iter().map(|run| run.started_ns).min();
    let trends: Vec<Option<Trend>> = questions.iter().map(|question| trend_of(question, &order)).collect();
    let adjusted = permutation::holm(&trends.iter().flatten().map(|found| found.p).collect::<Vec<_>>());
    let mut adjusted = adjusted.into_iter();
    let mut caveats = Vec::new();
    for (question, found) in questions.iter_mut().zip(trends) {
        let Some(found) = found else { continue };
        let name = question.answer.metric.name();
        if adjusted.next().is_some_and(|p| p <= FALSE_LEVEL) {
            let way = if found.tau > 0.0 { "rises" } else { "falls" };
            let text = format!("{name} {way} over the runs (Kendall's tau {:.2})", found.tau);
            caveats.push(caveat("drift", Severity::High, text, "let the machine settle, and run A and B alternately"));
        }
        let changed = matches!(question.answer.outcome, Outcome::Better | Outcome::Worse);
        let later_is_more = (question.answer.outcome == Outcome::Worse) == forward;
        if blocked && changed && found.p <= FALSE_LEVEL && later_is_more == (found.tau > 0.0) {
            question.answer.outcome = Outcome::NotEnoughData;
            question.answer.why =
                Some("it drifts the same way within the groups, which were run one after the other".to_owned());
        }
    }
    caveats
}

/// Runs of a group, counted from `first`, in the order of their time; `None` where it is not known.
fn order(runs: &[&Record], first: usize) -> Option<Vec<usize>> {
    let mut times: Vec<(u64, usize)> =
        runs.iter().enumerate().map(|(at, run)| Some((run.started_ns?, first + at))).collect::<Option<_>>()?;
    times.sort_unstable();
    Some(times.into_iter().map(|(_, run)| run).collect())
}

/// Of a metric that has a value in each run.
fn trend_of(question: &Question, order: &[Vec<usize>; 2]) -> Option<Trend> {
    let Some(Hypothesis::Values(values)) = &question.asked else { return None };
    let [a, b] = order.each_ref().map(|order| order.iter().map(|run| values[*run]).collect::<Vec<f64>>());
    Some(trend(&[&a, &b]))
}
