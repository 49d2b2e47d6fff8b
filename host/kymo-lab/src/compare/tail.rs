// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tail of two groups: samples above the quantile p99 of all runs together, in cells that all runs share.

use crate::Histogram;
use crate::stats::permutation::Choices;
use crate::stats::{Distribution, distance};

/// Where the tail begins.
const FROM: f64 = 0.99;
/// Cells above it.
const CELLS: u64 = 40;
/// Samples that it must have.
const SAMPLES: u64 = 100;

/// Each run's samples by cells: those below the tail in the first, those beyond a foreign histogram in the last.
pub(super) struct Tail {
    runs: Vec<Vec<u64>>,
}

impl Tail {
    /// Of runs of both groups. `None` where there are too few samples for one.
    pub fn new(runs: &[Distribution]) -> Option<Tail> {
        let mut all = Histogram::new();
        runs.iter().for_each(|run| all.merge(&run.histogram));
        let overflow: u64 = runs.iter().map(|run| run.overflow).sum();
        let samples = all.count() + overflow;
        let from = all.at_rank((samples as f64 * FROM) as u64)?.high;
        let tail = all.above(from) + overflow;
        if tail < SAMPLES {
            return None;
        }
        let ends = ends(&all, from, tail.div_ceil(CELLS));
        let cells = |run: &Distribution| {
            let mut cells = vec![0; ends.len() + 1];
            for bucket in run.histogram.buckets() {
                cells[ends.partition_point(|end| *end < bucket.high)] += bucket.count;
            }
            cells[ends.len()] += run.overflow;
            cells
        };
        Some(Tail { runs: runs.iter().map(cells).collect() })
    }

    /// Anderson and Darling's distance for each choice, in their order.
    pub fn distances(&self, choices: &Choices) -> Vec<f64> {
        let all = self.sum(0..self.runs.len());
        let mut distances = Vec::with_capacity(choices.count as usize);
        choices.each(|chosen| {
            let (a, b) = self.sides(chosen.iter().copied(), &all);
            distances.push(distance::anderson_darling(&a, &b));
        });
        distances
    }

    /// Of the groups as they are, the first `a` runs on one side: Kolmogorov and Smirnov's distance, and how much more
    /// of B is above than of A, on an average over the tail's samples.
    pub fn observed(&self, a: usize) -> (f64, f64) {
        let all = self.sum(0..self.runs.len());
        let (a, b) = self.sides(0..a, &all);
        let (n, m) = (a.iter().sum::<u64>().max(1) as f64, b.iter().sum::<u64>().max(1) as f64);
        let (mut of_a, mut of_b, mut above) = (0.0, 0.0, 0.0);
        for at in 0..all.len() {
            of_a += a[at] as f64 / n;
            of_b += b[at] as f64 / m;
            above += (of_a - of_b) * if at == 0 { 1.0 } else { all[at] as f64 };
        }
        (distance::kolmogorov_smirnov(&a, &b), above)
    }

    fn sides(&self, a: impl Iterator<Item = usize>, all: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let a = self.sum(a);
        let b = all.iter().zip(&a).map(|(all, a)| all - a).collect();
        (a, b)
    }

    fn sum(&self, runs: impl Iterator<Item = usize>) -> Vec<u64> {
        let mut sum = vec![0; self.runs[0].len()];
        runs.for_each(|run| sum.iter_mut().zip(&self.runs[run]).for_each(|(sum, count)| *sum += count));
        sum
    }
}

/// Largest values of the cells, the last of which is open: the first ends with the body, the others have about as many
/// each.
fn ends(all: &Histogram, from: u64, each: u64) -> Vec<u64> {
    let mut ends = vec![from];
    let mut count = 0;
    for bucket in all.buckets().filter(|bucket| bucket.low > from) {
        count += bucket.count;
        if count >= each {
            ends.push(bucket.high);
            count = 0;
        }
    }
    ends
}
