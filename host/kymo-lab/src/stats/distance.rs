// SPDX-License-Identifier: MIT OR Apache-2.0
//! How different two distributions are, from counts in the same cells: Kolmogorov and Smirnov's D, Anderson and
//! Darling's
//! A², which weighs the tails.
//!
//! Only the distances: samples of a run are not independent, so what a distance means comes from a permutation of runs.

/// The largest difference of the two distribution functions, 0 to 1. Cells ascend. 0 where a side is empty.
pub fn kolmogorov_smirnov(a: &[u64], b: &[u64]) -> f64 {
    let (n, m) = (total(a), total(b));
    if n == 0.0 || m == 0.0 {
        return 0.0;
    }
    let (mut of_a, mut of_b) = (0.0, 0.0);
    let apart = a.iter().zip(b).map(|(a, b)| {
        of_a += *a as f64 / n;
        of_b += *b as f64 / m;
        f64::abs(of_a - of_b)
    });
    apart.fold(0.0, f64::max)
}

/// Scholz and Stephens' A² of two samples with equal values (their equation 7). Cells ascend. 0 where a side is empty.
pub fn anderson_darling(a: &[u64], b: &[u64]) -> f64 {
    let (n, m) = (total(a), total(b));
    if n == 0.0 || m == 0.0 {
        return 0.0;
    }
    let all = n + m;
    let (mut a_below, mut below, mut sum) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let here = (a + b) as f64;
        // Those in the cell count half.
        let (a_mid, mid) = (a_below + *a as f64 / 2.0, below + here / 2.0);
        let weight = mid * (all - mid) - all * here / 4.0;
        if here > 0.0 && weight > 0.0 {
            // The terms of the two samples differ by their sign and their size alone.
            sum += here * (all * a_mid - n * mid).powi(2) / weight * (1.0 / n + 1.0 / m);
        }
        a_below += *a as f64;
        below += here;
    }
    (all - 1.0) / (all * all) * sum
}

fn total(counts: &[u64]) -> f64 {
    counts.iter().map(|count| *count as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    #[test]
    fn by_hand() {
        assert_eq!(kolmogorov_smirnov(&[2, 0, 2], &[0, 4, 0]), 0.5);
        assert_eq!(kolmogorov_smirnov(&[0, 0], &[0, 4]), 0.0);
        assert_eq!(anderson_darling(&[3, 1], &[6, 2]), 0.0);
        assert!(anderson_darling(&[10, 0], &[0, 10]) > 10.0);
    }

    #[test]
    fn the_mean_of_a_darling_is_one_without_a_difference() {
        // Of k samples, A² has the mean k - 1.
        let mut random = Random::new(6);
        let mut cells = || {
            let mut cells = [0; 1000];
            (0..200).for_each(|_| cells[random.below(1000)] += 1);
            cells
        };
        let mean = (0..300).map(|_| anderson_darling(&cells(), &cells())).sum::<f64>() / 300.0;
        assert!((mean - 1.0).abs() < 0.2, "{mean}");
    }
}
