// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far two groups of values are apart: the Hodges-Lehmann shift with its interval, and Cliff's delta.

use serde::Serialize;

use super::distribution::LEVEL;
use super::special::normal_quantile;

/// Above so many pairs the interval's rank comes from the normal distribution: the exact one takes n² m² steps.
const EXACT_PAIRS: usize = 2500;

/// How much larger the values of one group are, in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shift {
    /// The median of all differences between a value of B and one of A.
    pub value: f64,
    /// Ends of the interval, by the distribution of the rank sum. `None` where the groups are too small for one.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Share of differences above zero, less that of those below: Cliff's delta, -1 to 1.
    pub delta: f64,
}

/// The shift from `a` to `b`, neither of them empty, with no value that is not a number; `None` otherwise.
pub fn shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    let mut apart: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    if apart.is_empty() || apart.iter().any(|difference| difference.is_nan()) {
        return None;
    }
    apart.sort_by(f64::total_cmp);
    let pairs = apart.len();
    let value = (apart[(pairs - 1) / 2] + apart[pairs / 2]) / 2.0;
    let above = apart.iter().filter(|difference| **difference > 0.0).count() as f64;
    let below = apart.iter().filter(|difference| **difference < 0.0).count() as f64;
    let cut = interval_rank(a.len(), b.len());
    let (low, high) = cut.map_or((None, None), |cut| (Some(apart[cut]), Some(apart[pairs - 1 - cut])));
    Some(Shift { value, low, high, delta: (above - below) / pairs as f64 })
}

/// Rank, from 0, of the difference at which the interval begins: the largest U of which no more than a tail's share of
/// allocations has fewer.
fn interval_rank(n: usize, m: usize) -> Option<usize> {
    let tail = (1.0 - LEVEL) / 2.0;
    let pairs = n * m;
    if pairs > EXACT_PAIRS {
        let spread = (pairs as f64 * (n + m + 1) as f64 / 12.0).sqrt();
        let rank = (pairs as f64 / 2.0 + normal_quantile(tail) * spread).floor();
        return Some(rank.max(0.0) as usize);
    }
    let counts = rank_sum_counts(n, m);
    let total: f64 = counts.iter().sum();
    let mut below = 0.0;
    let first = counts.iter().position(|count| {
        below += count;
        below / total > tail
    });
    // U below `first` is rare enough; the interval begins behind the differences that such a U leaves out.
    first.filter(|first| *first > 0).map(|first| first - 1)
}

/// Allocations by their value of Mann-Whitney's U, from 0 to n m.
fn rank_sum_counts(n: usize, m: usize) -> Vec<f64> {
    // Coefficients of the Gaussian binomial: multiply by 1 - x^(m+i), divide by 1 - x^i.
    let mut counts = vec![0.0; n * m + 1];
    counts[0] = 1.0;
    for i in 1..=n {
        for at in (m + i..counts.len()).rev() {
            counts[at] -= counts[at - m - i];
        }
        for at in i..counts.len() {
            counts[at] += counts[at - i];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    #[test]
    fn tables_of_the_rank_sum() {
        // 252 allocations of 5 and 5; of U 0..=4 there are 1 1 2 3 5.
        let counts = rank_sum_counts(5, 5);
        assert_eq!((&counts[..5], counts.iter().sum::<f64>()), (&[1.0, 1.0, 2.0, 3.0, 5.0][..], 252.0));
        // Critical values of the two-sided test at 5 %: U <= 2 for 5 and 5, 13 for 8 and 8, none for 3 and 3.
        assert_eq!((interval_rank(5, 5), interval_rank(8, 8), interval_rank(3, 3)), (Some(2), Some(13), None));
    }

    #[test]
    fn a_shift_with_its_interval() {
        let found = shift(&[1.0, 2.0, 3.0, 4.0, 5.0], &[11.0, 12.0, 13.0, 14.0, 15.0]).unwrap();
        assert_eq!((found.value, found.low, found.high, found.delta), (10.0, Some(7.0), Some(13.0), 1.0));
        assert_eq!(shift(&[1.0], &[3.0]).unwrap().low, None);
        assert_eq!(shift(&[], &[3.0]), None);
    }

    #[test]
    fn the_interval_holds_the_shift() {
        let mut random = Random::new(3);
        for n in [5, 8, 60] {
            let held = (0..400).filter(|_| {
                let a: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                let b: Vec<f64> = (0..n).map(|_| 2.0 + random.normal()).collect();
                let found = shift(&a, &b).unwrap();
                found.low.unwrap() <= 2.0 && 2.0 <= found.high.unwrap()
            });
            let held = held.count();
            assert!(held >= 368, "{n} a side: {held} of 400");
        }
    }
}
