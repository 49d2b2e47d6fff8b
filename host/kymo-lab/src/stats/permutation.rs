// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permutation tests over runs: the run is the unit, since samples of one run are not independent [spec/lab.md 5].
//!
//! If both groups measured the same, each choice of runs as "A" was as likely as the one that was made. Every such
//! choice
//! is gone through where there are few; otherwise a fixed number of random ones is, from a stated seed. A family of
//! hypotheses (metrics, series) is tested together on the same choices (Westfall and Young's step-down maxT): the
//! probability of even one false difference among all of them is bounded, and metrics that go together cost nothing.

use serde::Serialize;

use super::random::Random;

/// Choices that are gone through completely.
pub const EXACT_MAX: u64 = 20_000;
/// Random choices, the observed one with them.
pub const SAMPLED: u64 = 20_000;
/// Seed of the random choices.
pub const SEED: u64 = 0x6b79_6d6f;
/// Scores closer than this are the same: sums are rounded in the order of their terms.
const SAME: f64 = 1e-9;

/// Which choices of runs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// Runs of A.
    pub a: usize,
    /// Runs of B.
    pub b: usize,
    /// How many, the observed one with them.
    pub count: u64,
    /// All there are.
    pub exact: bool,
    /// Seed of random ones.
    pub seed: Option<u64>,
}

impl Choices {
    /// For so many runs a side.
    pub fn new(a: usize, b: usize) -> Choices {
        match binomial(a + b, a).filter(|count| *count <= EXACT_MAX && a + b < 64) {
            Some(count) => Choices { a, b, count, exact: true, seed: None },
            None => Choices { a, b, count: SAMPLED, exact: false, seed: Some(SEED) },
        }
    }

    /// Calls `look` with the runs that are "A" in each choice, ascending by nothing in particular; the observed one
    /// first.
    pub fn each(&self, mut look: impl FnMut(&[usize])) {
        let mut runs: Vec<usize> = (0..self.a + self.b).collect();
        look(&runs[..self.a]);
        if !self.exact {
            let mut random = Random::new(SEED);
            for _ in 1..self.count {
                random.choose(&mut runs, self.a);
                look(&runs[..self.a]);
            }
            return;
        }
        let mut chosen: Vec<usize> = (0..self.a).collect();
        while next_combination(&mut chosen, self.a + self.b) {
            look(&chosen);
        }
    }
}

/// The next choice in the order of dictionaries; false behind the last.
fn next_combination(chosen: &mut [usize], of: usize) -> bool {
    let size = chosen.len();
    let Some(at) = (0..size).rev().find(|at| chosen[*at] < of - size + at) else { return false };
    chosen[at] += 1;
    for next in at + 1..size {
        chosen[next] = chosen[next - 1] + 1;
    }
    true
}

/// n over k; `None` where it does not fit.
fn binomial(n: usize, k: usize) -> Option<u64> {
    (0..k.min(n - k) as u64).try_fold(1u64, |product, i| Some(product.checked_mul(n as u64 - i)? / (i + 1)))
}

/// What is asked of the runs.
#[derive(Clone, Debug)]
pub enum Hypothesis {
    /// A number of each run, those of A first: is its mean the same?
    Values(Vec<f64>),
    /// A squared distance of the groups, for each of the choices in their order.
    Distances(Vec<f64>),
}

/// The answer to one hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Standardised difference, B less A; of a distance without a sign.
    pub score: f64,
    /// Probability of such a score or a larger one without a difference, for this hypothesis alone.
    pub p_alone: f64,
    /// The same, for any hypothesis of the family.
    pub p: f64,
}

/// Answers to a family of hypotheses.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// In the order of the hypotheses.
    pub answers: Vec<Answer>,
    /// The absolute score that the largest of the family exceeds with probability 5 % or less, without a difference.
    pub critical: f64,
}

/// A hypothesis as weights: the score of a choice is the sum of those of its A, or stands in a list.
enum Score {
    Sum(Vec<f64>),
    Listed(Vec<f64>),
}

/// Tests all hypotheses on the same choices, two-sided. `level`: the probability of one false difference among all.
pub fn test(choices: &Choices, hypotheses: &[Hypothesis], level: f64) -> Family {
    let scores: Vec<Score> = hypotheses.iter().map(|hypothesis| score_of(choices, hypothesis)).collect();
    let mut observed = Vec::new();
    // For each hypothesis: choices that score as high alone, and with the ones that scored less together.
    let mut alone = vec![0u64; scores.len()];
    let mut together = vec![0u64; scores.len()];
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let mut largest = Vec::with_capacity(choices.count as usize);
    let mut number = 0;
    choices.each(|chosen| {
        let now: Vec<f64> = scores.iter().map(|score| score.at(chosen, number)).collect();
        if number == 0 {
            order.sort_by(|one, other| now[*one].abs().total_cmp(&now[*other].abs()));
            observed.clone_from(&now);
        }
        let mut top = 0.0f64;
        for &at in &order {
            top = top.max(now[at].abs());
            let reach = observed[at].abs() - SAME;
            alone[at] += u64::from(now[at].abs() >= reach);
            together[at] += u64::from(top >= reach);
        }
        largest.push(top);
        number += 1;
    });
    let share = |count: u64| count as f64 / choices.count as f64;
    let mut p = vec![1.0; scores.len()];
    // Step down: nobody's probability is below that of one who scored more.
    let mut floor = 0.0f64;
    for &at in order.iter().rev() {
        floor = floor.max(share(together[at]));
        p[at] = floor;
    }
    let answers = (0..scores.len()).map(|at| Answer { score: -observed[at], p_alone: share(alone[at]), p: p[at] });
    Family { answers: answers.collect(), critical: critical(largest, level) }
}

/// The smallest score that no more than `level` of all choices reach; infinite where even the largest is too common.
fn critical(mut largest: Vec<f64>, level: f64) -> f64 {
    largest.sort_by(f64::total_cmp);
    let allowed = (largest.len() as f64 * level).floor() as usize;
    // With one more allowed than there are ties at the top, the next lower score would be reached too often.
    let barred = largest.get(largest.len().wrapping_sub(allowed + 1)).copied().unwrap_or(0.0);
    match largest.iter().find(|score| **score > barred + SAME) {
        Some(score) if allowed > 0 => *score,
        _ => f64::INFINITY,
    }
}

fn score_of(choices: &Choices, hypothesis: &Hypothesis) -> Score {
    match hypothesis {
        Hypothesis::Values(values) => Score::Sum(weights(values, choices.a)),
        Hypothesis::Distances(distances) => Score::Listed(roots(distances)),
    }
}

/// Weights whose sum over a choice's A is the difference of means, A less B, in its standard deviations over all
/// choices.
fn weights(values: &[f64], a: usize) -> Vec<f64> {
    let (n, a) = (values.len() as f64, a as f64);
    let mean = values.iter().sum::<f64>() / n;
    let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let scale = (1.0 / a + 1.0 / (n - a)).sqrt() / spread;
    // Values that differ by rounding alone are equal.
    let equal = spread <= mean.abs() * 1e-12;
    values.iter().map(|value| if equal { 0.0 } else { (value - mean) * scale }).collect()
}

/// Distances as scores of the scale of the others, whose squares are 1 on an average over all choices: a squared
/// distance
/// such as A² grows with the square of a difference.
fn roots(distances: &[f64]) -> Vec<f64> {
    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    distances.iter().map(|distance| if mean > 0.0 { (distance / mean).sqrt() } else { 0.0 }).collect()
}

impl Score {
    fn at(&self, chosen: &[usize], number: usize) -> f64 {
        match self {
            Score::Sum(weights) => chosen.iter().map(|run| weights[*run]).sum(),
            // A distance has no sign; the observed one is reported as a positive difference.
            Score::Listed(scores) => -scores[number],
        }
    }
}

/// Holm's step-down correction: probabilities in their order, each times the number of those not smaller.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    let mut adjusted = vec![1.0; p.len()];
    let mut floor = 0.0f64;
    for (rank, &at) in order.iter().enumerate() {
        floor = floor.max((p[at] * (p.len() - rank) as f64).min(1.0));
        adjusted[at] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_choices_where_they_are_few() {
        let choices = Choices::new(5, 5);
        assert_eq!((choices.count, choices.exact, Choices::new(8, 8).count), (252, true, 12_870));
        let mut seen = std::collections::HashSet::new();
        choices.each(|chosen| assert!(seen.insert(chosen.to_vec())));
        assert_eq!(seen.len(), 252);
        let many = Choices::new(20, 20);
        assert_eq!((many.exact, many.seed), (false, Some(SEED)));
        let mut count = 0;
        many.each(|chosen| count += u64::from(chosen.len() == 20));
        assert_eq!(count, SAMPLED);
    }

    #[test]
    fn groups_that_do_not_overlap_have_the_smallest_probability() {
        let values = Hypothesis::Values(vec![1.0, 2.0, 3.0, 4.0, 5.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
        let answer = test(&Choices::new(5, 5), &[values], 0.05).answers[0];
        assert_eq!((answer.p, answer.p_alone), (2.0 / 252.0, 2.0 / 252.0));
        assert!(answer.score > 2.5, "B is larger: {answer:?}");
    }

    #[test]
    fn a_large_difference_is_found_among_many_metrics_with_five_runs_a_side() {
        let mut random = Random::new(4);
        let mut family: Vec<_> =
            (0..10).map(|_| Hypothesis::Values((0..10).map(|_| random.normal()).collect())).collect();
        family[3] = Hypothesis::Values((0..10).map(|run| random.normal() + if run < 5 { 0.0 } else { 30.0 }).collect());
        let found = test(&Choices::new(5, 5), &family, 0.05);
        assert_eq!(found.answers[3].p, 2.0 / 252.0);
        assert!(found.answers.iter().filter(|answer| answer.p < 0.05).count() == 1);
        // What Holm's correction makes of the same smallest probability.
        assert!(holm(&found.answers.iter().map(|answer| answer.p_alone).collect::<Vec<_>>())[3] > 0.05);
    }

    #[test]
    fn one_false_difference_in_twenty_families_at_most() {
        let mut random = Random::new(5);
        let trials = 600;
        let mut wrong = 0;
        for _ in 0..trials {
            let level: Vec<f64> = (0..12).map(|_| random.normal()).collect();
            let mut metric = |own: f64| {
                Hypothesis::Values(level.iter().map(|level| (level + own * random.normal()).exp()).collect())
            };
            let family = [metric(0.1), metric(0.5), metric(2.0), metric(1.0), metric(1.0)];
            let found = test(&Choices::new(6, 6), &family, 0.05);
            let one = found.answers.iter().any(|answer| answer.p <= 0.05);
            assert_eq!(one, found.answers.iter().any(|answer| answer.score.abs() >= found.critical - SAME));
            wrong += usize::from(one);
        }
        assert!(wrong <= trials * 7 / 100, "{wrong} of {trials}");
    }

    #[test]
    fn equal_values_are_no_difference() {
        let same = Hypothesis::Values(vec![0.1 + 0.2; 10]);
        let found = test(&Choices::new(5, 5), &[same, Hypothesis::Distances(vec![0.0; 252])], 0.05);
        assert!(found.answers.iter().all(|answer| answer.p == 1.0), "{found:?}");
    }

    #[test]
    fn holm_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), vec![0.03, 0.06, 0.06]);
        assert!(holm(&[]).is_empty());
    }
}
