// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether values rise or fall over the runs: Mann and Kendall's test, over one group of runs or several at once.

use serde::Serialize;

use super::special::normal_cdf;

/// Pairs of runs up to which the distribution is counted out, where no values are equal.
const EXACT_PAIRS: usize = 400;

/// A trend over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// Kendall's tau: share of pairs that rise, less that of those that fall.
    pub tau: f64,
    /// Two-sided probability of such a trend or a stronger one, if there is none.
    pub p: f64,
}

/// The trend within each of `groups`, taken together; each in the order of time. A difference between groups is none.
pub fn trend(groups: &[&[f64]]) -> Trend {
    let pairs: usize = groups.iter().map(|values| values.len() * values.len().saturating_sub(1) / 2).sum();
    if pairs == 0 {
        return Trend { tau: 0.0, p: 1.0 };
    }
    let s: i64 = groups.iter().map(|values| rises(values)).sum();
    let tau = s as f64 / pairs as f64;
    let distinct = groups.iter().all(|values| ties(values).iter().all(|count| *count == 1));
    let p = if distinct && pairs <= EXACT_PAIRS { exact(groups, s) } else { normal(groups, s) };
    Trend { tau, p: p.min(1.0) }
}

/// Pairs that rise, less those that fall.
fn rises(values: &[f64]) -> i64 {
    let later = |at: usize| values[at + 1..].iter().map(move |later| sign(later - values[at]));
    (0..values.len()).flat_map(later).sum()
}

fn sign(difference: f64) -> i64 {
    i64::from(difference > 0.0) - i64::from(difference < 0.0)
}

/// How often each value is there.
fn ties(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|one, other| one == other).map(<[f64]>::len).collect()
}

/// By the number of orders with so many falling pairs.
fn exact(groups: &[&[f64]], s: i64) -> f64 {
    let mut orders = vec![1.0];
    for values in groups {
        // An n-th value falls below 0 to n - 1 of the earlier ones, each as likely.
        for n in 2..=values.len() {
            let mut next = vec![0.0; orders.len() + n - 1];
            for (falls, count) in orders.iter().enumerate() {
                (0..n).for_each(|more| next[falls + more] += count / n as f64);
            }
            orders = next;
        }
    }
    let pairs = orders.len() as i64 - 1;
    // S of an order with so many falling pairs.
    let s_of = |falls: usize| pairs - 2 * falls as i64;
    orders.iter().enumerate().filter(|(falls, _)| s_of(*falls).abs() >= s.abs()).map(|(_, share)| share).sum()
}

/// By the normal distribution, with the variance that equal values leave.
fn normal(groups: &[&[f64]], s: i64) -> f64 {
    let term = |n: usize| (n * n.saturating_sub(1) * (2 * n + 5)) as f64;
    let variance = |values: &&[f64]| (term(values.len()) - ties(values).into_iter().map(term).sum::<f64>()) / 18.0;
    let variance: f64 = groups.iter().map(variance).sum();
    if variance <= 0.0 {
        return 1.0;
    }
    2.0 * normal_cdf(-((s.abs() as f64 - 1.0).max(0.0) / variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_kendall() {
        // 4 rising values: 2 of 24 orders are as strong; 5 values with S = 8: 10 of 120.
        assert!((trend(&[&[1.0, 2.0, 3.0, 4.0]]).p - 2.0 / 24.0).abs() < 1e-12);
        assert!((trend(&[&[1.0, 2.0, 3.0, 5.0, 4.0]]).p - 10.0 / 120.0).abs() < 1e-12);
        // Kendall's S = 25 of 10 values: 2 * 0.014.
        let ten = [1.0, 2.0, 4.0, 3.0, 6.0, 5.0, 9.0, 10.0, 7.0, 8.0];
        let found = trend(&[&ten]);
        assert!((found.tau - 33.0 / 45.0).abs() < 1e-12 && found.p < 0.01, "{found:?}");
    }

    #[test]
    fn a_step_between_groups_is_no_trend() {
        let found = trend(&[&[1.0, 3.0, 2.0, 2.5, 1.5], &[11.0, 13.0, 12.0, 12.5, 11.5]]);
        assert!(found.p > 0.5, "{found:?}");
        assert!(trend(&[&[1.0, 2.0, 3.0, 4.0, 5.0], &[11.0, 12.0, 13.0, 14.0, 15.0]]).p < 0.001);
    }

    #[test]
    fn equal_values_and_none() {
        assert_eq!(trend(&[&[2.0; 8]]), Trend { tau: 0.0, p: 1.0 });
        assert_eq!(trend(&[]).p, 1.0);
        assert!(trend(&[&[1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]]).p < 0.01);
    }
}
