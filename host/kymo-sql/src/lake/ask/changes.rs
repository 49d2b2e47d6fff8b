// SPDX-License-Identifier: MIT OR Apache-2.0
//! Change points in a series of days [spec/view.md 11.4]: rank sums, a permutation test, binary segmentation. Pure.

use std::ops::Range;

/// Days of a series that is tested, at least.
pub const DAYS_MIN: usize = 8;
/// Days on each side of a change, at least.
const SIDE_MIN: usize = 3;
/// Random orders of the days.
const ORDERS: u32 = 1999;
/// The same orders for the same days.
const SEED: u64 = 0x6b79_6d6f;

/// The value of a day, and its bounds where records were lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DailyValue {
    /// As it is known.
    pub value: f64,
    /// The same as `value` where nothing was lost.
    pub least: f64,
    /// Infinite where nothing bounds it.
    pub most: f64,
}

/// A change of the level.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The first value of the new level.
    pub at: usize,
    /// Median of the values up to the change before.
    pub before: f64,
    /// Median of the values up to the next one.
    pub after: f64,
    /// Values before.
    pub count_before: usize,
    /// Values of the new level.
    pub count_after: usize,
    /// Probability of as large a difference without a change.
    pub p: f64,
    /// It does not remain if the lossy days were what speaks most against it.
    pub is_doubtful: bool,
}

/// A split of some values.
#[derive(Clone, Copy, Debug)]
struct Split {
    at: usize,
    p: f64,
}

/// Finds changes, each with a probability of error of `alpha` at most.
pub fn changes(values: &[DailyValue], alpha: f64) -> Vec<Change> {
    let plain: Vec<f64> = values.iter().map(|day| day.value).collect();
    let mut splits = Vec::new();
    segment(&plain, 0..values.len(), alpha, &mut splits);
    splits.sort_by_key(|split: &Split| split.at);
    let ends: Vec<usize> = splits.iter().map(|split| split.at).chain([values.len()]).collect();
    let mut begin = 0;
    let change = |(place, split): (usize, &Split)| {
        let (before, after) = (begin..split.at, split.at..ends[place + 1]);
        begin = split.at;
        let (low, high) = (median(&plain[before.clone()]), median(&plain[after.clone()]));
        Change {
            at: split.at,
            before: low,
            after: high,
            count_before: before.len(),
            count_after: after.len(),
            p: split.p,
            is_doubtful: !remains(values, before, after, low < high, alpha),
        }
    };
    splits.iter().enumerate().map(change).collect()
}

fn segment(values: &[f64], range: Range<usize>, alpha: f64, splits: &mut Vec<Split>) {
    if range.len() < DAYS_MIN {
        return;
    }
    let ranks = ranks(&values[range.clone()]);
    let Some(best) = largest(&ranks) else { return };
    let p = probability(&ranks, best.size, alpha);
    if p > alpha {
        return;
    }
    let at = range.start + best.at;
    splits.push(Split { at, p });
    segment(values, range.start..at, alpha, splits);
    segment(values, at..range.end, alpha, splits);
}

/// Whether a change is found as well if lossy days had the value that speaks most against it.
fn remains(values: &[DailyValue], before: Range<usize>, after: Range<usize>, rises: bool, alpha: f64) -> bool {
    let all = before.start..after.end;
    if values[all.clone()].iter().all(|day| day.least == day.value && day.most == day.value) {
        return true;
    }
    let against = |place: usize| {
        let day = &values[place];
        if before.contains(&place) == rises { day.most } else { day.least }
    };
    let worst: Vec<f64> = all.map(against).collect();
    let ranks = ranks(&worst);
    let Some(best) = largest(&ranks) else { return false };
    let count = before.len();
    let mean = |ranks: &[f64]| ranks.iter().sum::<f64>() / ranks.len() as f64;
    let still_rises = mean(&ranks[..count]) < mean(&ranks[count..]);
    still_rises == rises && probability(&ranks, best.size, alpha) <= alpha
}

/// Ranks from 1; equal values have the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut begin = 0;
    while begin < order.len() {
        let equal = order[begin..].iter().take_while(|place| values[**place] == values[order[begin]]).count();
        let rank = (2 * begin + equal + 1) as f64 / 2.0;
        order[begin..begin + equal].iter().for_each(|place| ranks[*place] = rank);
        begin += equal;
    }
    ranks
}

/// The largest standardised rank sum, and where.
#[derive(Clone, Copy, Debug)]
struct Largest {
    at: usize,
    size: f64,
}

/// None if all values are equal.
fn largest(ranks: &[f64]) -> Option<Largest> {
    let count = ranks.len() as f64;
    let mean = ranks.iter().sum::<f64>() / count;
    let variance = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>() / (count - 1.0);
    if variance <= 0.0 {
        return None;
    }
    let (mut sum, mut best) = (0.0, None::<Largest>);
    for (place, rank) in ranks.iter().enumerate().take(ranks.len() - SIDE_MIN) {
        sum += rank - mean;
        let first = place + 1;
        let deviation = (first as f64 * (count - first as f64) / count * variance).sqrt();
        let size = (sum / deviation).abs();
        if first >= SIDE_MIN && best.is_none_or(|best| size > best.size) {
            best = Some(Largest { at: first, size });
        }
    }
    best
}

/// The share of random orders with a sum as large; begun anew for each series. It ends as soon as it is above `alpha`.
fn probability(ranks: &[f64], size: f64, alpha: f64) -> f64 {
    let mut random = Random(SEED);
    let mut order = ranks.to_vec();
    let mut as_large = 1;
    for done in 1..=ORDERS {
        random.shuffle(&mut order);
        // Sums of the same ranks in another order differ by what was rounded.
        as_large += u32::from(largest(&order).is_some_and(|other| other.size >= size - 1e-9));
        if f64::from(as_large) > alpha * f64::from(ORDERS + 1) {
            return f64::from(as_large) / f64::from(done + 1);
        }
    }
    f64::from(as_large) / f64::from(ORDERS + 1)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    fn shuffle(&mut self, values: &mut [f64]) {
        for place in (1..values.len()).rev() {
            values.swap(place, self.below(place + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHA: f64 = 0.05;

    fn certain(values: impl IntoIterator<Item = f64>) -> Vec<DailyValue> {
        values.into_iter().map(|value| DailyValue { value, least: value, most: value }).collect()
    }

    /// Values around 1 that scatter by a tenth.
    fn noise(random: &mut Random, count: usize) -> Vec<f64> {
        let mut uniform = || ((random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (0..count).map(|_| (0.1 * normal()).exp()).collect()
    }

    #[test]
    fn without_a_change_few_series_have_one() {
        let mut random = Random(7);
        let found = (0..400).filter(|_| !changes(&certain(noise(&mut random, 60)), ALPHA).is_empty()).count();
        // 20 are expected, give or take 4.4: three times that.
        assert!((7..=33).contains(&found), "{found} of 400");
    }

    #[test]
    fn a_step_is_found_within_a_day() {
        let mut random = Random(8);
        let (mut found, mut near) = (0, 0);
        for _ in 0..200 {
            let mut values = noise(&mut random, 20);
            values[10..].iter_mut().for_each(|value| *value *= 1.3);
            let all = changes(&certain(values), ALPHA);
            found += usize::from(!all.is_empty());
            near += usize::from(all.iter().any(|change| (9..=11).contains(&change.at)));
        }
        assert!(found >= 190 && near >= 180, "{found} found, {near} within a day, of 200");
    }

    #[test]
    fn changes_have_their_levels_and_single_bad_days_are_none() {
        let mut values = vec![10.0, 11.0, 10.5, 10.2, 10.8, 10.1, 10.9, 10.4, 10.6, 10.3];
        values.extend(values.clone().iter().map(|value| value * 2.0));
        values.extend(values.clone()[..10].iter().map(|value| value * 0.5));
        let found = changes(&certain(values), ALPHA);
        let places: Vec<_> = found.iter().map(|change| (change.at, change.count_before, change.count_after)).collect();
        assert_eq!(places, [(10, 10, 10), (20, 10, 10)]);
        assert_eq!((found[0].before, found[0].after, found[1].after), (10.45, 20.9, 5.225));
        assert!(found.iter().all(|change| change.p <= ALPHA && !change.is_doubtful));
        let mut one = noise(&mut Random(9), 30);
        one[12] *= 50.0;
        assert_eq!(changes(&certain(one), ALPHA), []);
    }

    #[test]
    fn too_few_and_equal_days_have_no_change() {
        for values in [vec![], vec![1.0; 40], vec![1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]] {
            assert_eq!(changes(&certain(values.clone()), ALPHA), [], "{values:?}");
        }
        assert_eq!(changes(&certain([1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2, 9.3]), ALPHA).len(), 1);
    }

    #[test]
    fn a_change_that_lossy_days_may_explain_is_doubtful() {
        let days = |most: f64, least: f64| {
            let before = (0..10).map(|day| 1.0 + 0.01 * f64::from(7 * day % 10));
            let before = before.map(move |value| DailyValue { value, least: value, most: most.max(value) });
            let after = (0..10).map(|day| 2.0 + 0.01 * f64::from(7 * day % 10));
            let after = after.map(move |value| DailyValue { value, least: least.min(value), most: value });
            changes(&before.chain(after).collect::<Vec<_>>(), ALPHA)
        };
        for (most, least, is_doubtful) in
            [(0.0, 9.0, false), (1.5, 9.0, false), (f64::INFINITY, 9.0, true), (0.0, 0.0, true)]
        {
            let found = days(most, least);
            assert_eq!((found.len(), found[0].is_doubtful), (1, is_doubtful), "{most} {least}");
        }
    }
}
