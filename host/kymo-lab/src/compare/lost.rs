// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples that were lost, where one group lost more of them than the other [spec/lab.md 5]: what is left cannot be
//! compared as if it were all. A lost sample may have had any value, so a number of a run is known within bounds only;
//! a difference counts if it is one wherever in them the numbers lie.

use super::metric::Metric;
use crate::stats::Distribution;
use crate::stats::permutation::{self, Choices, Hypothesis};

/// Shares of lost samples that differ by more standard deviations than this are different, if samples are lost one by
/// one.
const DEVIATIONS: f64 = 2.0;
/// They are lost in bursts, too, which a single run may have by chance: the runs must tell the groups apart, or this
/// share of all samples must be between them.
const LEVEL: f64 = 0.05;
const APART: f64 = 0.02;

/// Whether one of two groups lost more of its samples than the other. Runs of A come first.
pub(super) fn is_unequal(groups: &[Distribution; 2], runs: &[Distribution], choices: &Choices) -> bool {
    let share = |of: &Distribution| of.lost as f64 / of.count().max(1) as f64;
    let [a, b] = groups.each_ref().map(share);
    let count = groups.each_ref().map(|group| group.count().max(1) as f64);
    let all = (a * count[0] + b * count[1]) / (count[0] + count[1]);
    let deviation = (all * (1.0 / count[0] + 1.0 / count[1])).sqrt();
    if (a - b).abs() <= DEVIATIONS * deviation {
        return false;
    }
    let shares = Hypothesis::Values(runs.iter().map(share).collect());
    let family = permutation::test(choices, &[shares], LEVEL);
    (a - b).abs() > APART || family.answers.iter().any(|answer| answer.p <= LEVEL)
}

/// How much each group lost.
pub(super) fn shares(groups: &[Distribution; 2]) -> String {
    let [a, b] = groups.each_ref().map(|group| {
        let share = group.lost as f64 * 100.0 / group.count().max(1) as f64;
        format!("{} of {} samples ({share:.3} %)", group.lost, group.count())
    });
    format!("A lost {a}, B {b}")
}

/// A metric of each run, as far as lost samples leave it known; those of A first.
pub(super) struct Bounds {
    metric: Metric,
    /// At least; `None`: unknown.
    low: Vec<Option<f64>>,
    /// At most.
    high: Vec<Option<f64>>,
}

impl Bounds {
    pub(super) fn of(metric: Metric, runs: &[Distribution], deadline_ns: Option<u64>) -> Bounds {
        let (low, high) = runs.iter().map(|run| metric.bounds(run, deadline_ns)).unzip();
        Bounds { metric, low, high }
    }

    /// The probability of the difference if each run had the value that speaks most against it; `None`: then there is
    /// none, or nothing is known. `is_less`: B was found to be less than A.
    pub(super) fn probability(&self, is_less: bool, choices: &Choices, level: f64) -> Option<f64> {
        let (of_a, of_b) = if is_less { (&self.low, &self.high) } else { (&self.high, &self.low) };
        let values = of_a.iter().take(choices.a).chain(of_b.iter().skip(choices.a));
        let values: Option<Vec<f64>> = values.map(|value| value.map(|value| self.metric.to_scale(value))).collect();
        let family = permutation::test(choices, &[Hypothesis::Values(values?)], level);
        let answer = family.answers.first()?;
        (answer.p <= level && (answer.score < 0.0) == is_less).then_some(answer.p)
    }

    /// How far the bounds of a run are apart, at most; `None`: nobody knows.
    pub(super) fn width(&self) -> Option<f64> {
        let widths = self.low.iter().zip(&self.high).map(|(low, high)| Some((*high)? - (*low)?));
        widths.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }
}
