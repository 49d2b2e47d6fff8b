// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of one kind: their histogram, and the worst of them with all that is known of each.

use std::cmp::Reverse;

use kymo_histogram::{Histogram, bucket_of, low_of};
use serde::Serialize;

use crate::doubt::Doubt;
use crate::name::Name;
use crate::span::Waker;
use crate::units::REAL_TIME;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How long, ns.
    pub value_ns: u64,
    /// When it began, ns of the trace's clock.
    pub from: i64,
    /// When it ended.
    pub to: i64,
    /// The thread that it is of, or that was current.
    pub tid: Option<i32>,
    /// Its process.
    pub process: Option<i32>,
    /// Its name; may be empty.
    pub name: Name,
    /// Its priority, the kernel's.
    pub prio: Option<i16>,
    /// The CPU where it ended.
    pub cpu: Option<u32>,
    /// Who woke the thread.
    pub waker: Option<Waker>,
    /// Of a futex: who held it, as far as it can be known.
    pub owner: Option<i32>,
    /// What is doubtful about it.
    pub doubt: Doubt,
    /// Of a wake-up: how late the timer was that woke the thread, ns; `from` is when it was due.
    pub late_ns: u64,
}

impl Sample {
    /// Whether it is of a real-time thread.
    pub fn is_real_time(&self) -> bool {
        self.prio.is_some_and(|prio| prio < REAL_TIME)
    }

    /// By what the longest come first: of equal ones the earliest, then by thread and CPU.
    pub fn rank(&self) -> (Reverse<u64>, i64, Option<i32>, Option<u32>) {
        (Reverse(self.value_ns), self.from, self.tid, self.cpu)
    }
}

/// Sums of samples that are not kept themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSums {
    /// Of all samples but those set aside: number of the bucket [`kymo_histogram::bucket_of`], and how many; ascending.
    pub buckets: Vec<(u16, u64)>,
    /// As [`Series`] has it.
    pub sum_ns: u128,
    /// As [`Series`] has it.
    pub min_ns: u64,
    /// As [`Series`] has it.
    pub max_ns: u64,
    /// As [`Series`] has it.
    pub doubtful: u64,
    /// As [`Series`] has it.
    pub idle: u64,
}

impl Default for SampleSums {
    fn default() -> SampleSums {
        SampleSums { buckets: Vec::new(), sum_ns: 0, min_ns: u64::MAX, max_ns: 0, doubtful: 0, idle: 0 }
    }
}

impl SampleSums {
    /// Samples in buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &SampleSums) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.doubtful = self.doubtful.saturating_add(other.doubtful);
        self.idle = self.idle.saturating_add(other.idle);
        self.buckets.extend(&other.buckets);
        self.buckets.sort_unstable_by_key(|(bucket, _)| *bucket);
        self.buckets.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 = if is_same { kept.1.saturating_add(later.1) } else { kept.1 };
            is_same
        });
    }

    /// Those of one sample.
    pub fn of(sample: &Sample) -> SampleSums {
        let value = sample.value_ns;
        if sample.doubt.has(Doubt::IDLE) {
            return SampleSums { idle: 1, ..SampleSums::default() };
        }
        SampleSums {
            buckets: vec![(bucket_of(value), 1)],
            sum_ns: value.into(),
            min_ns: value,
            max_ns: value,
            doubtful: u64::from(!sample.doubt.is_none()),
            idle: 0,
        }
    }
}

/// A quantile, as bounds of the bucket that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// 0 to 1.
    pub q: f64,
    /// ns, at least.
    pub low_ns: u64,
    /// ns, at most.
    pub high_ns: u64,
    /// ns, at least, if samples are missing that were all shorter.
    pub least_ns: u64,
    /// ns, at most, if they were all longer; `None`: so many are missing that nothing bounds it.
    pub most_ns: Option<u64>,
}

/// The quantiles that are shown.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Samples of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Of all samples but those set aside.
    pub histogram: Histogram,
    /// Sum, ns.
    pub sum_ns: u128,
    /// Smallest, ns; `u64::MAX` where there is none.
    pub min_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
    /// Samples with any mark.
    pub doubtful: u64,
    /// Samples by mark, in the order of [`Doubt::ALL`].
    pub by_doubt: [u64; Doubt::ALL.len()],
    /// Samples that are no latency, because the CPU idled: counted only.
    pub idle: u64,
    /// The largest, the largest first; of equal ones the earliest.
    pub worst: Vec<Sample>,
}

impl Series {
    /// An empty one.
    pub fn new() -> Series {
        Series { min_ns: u64::MAX, ..Series::default() }
    }

    /// Samples in the histogram.
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// ns; 0 where there is no sample.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count().into()).unwrap_or(0) as u64
    }

    /// Takes a sample; keeps the `worst_max` worst. Whether it is among those.
    pub fn add(&mut self, sample: &Sample, worst_max: usize) -> bool {
        for ((mark, _), count) in Doubt::ALL.iter().zip(&mut self.by_doubt) {
            *count += u64::from(sample.doubt.has(*mark));
        }
        if sample.doubt.has(Doubt::IDLE) {
            self.idle = self.idle.saturating_add(1);
            return false;
        }
        self.histogram.record(sample.value_ns);
        self.sum_ns = self.sum_ns.saturating_add(sample.value_ns.into());
        self.min_ns = self.min_ns.min(sample.value_ns);
        self.max_ns = self.max_ns.max(sample.value_ns);
        self.doubtful = self.doubtful.saturating_add(u64::from(!sample.doubt.is_none()));
        self.keep(sample, worst_max)
    }

    /// Takes sums of samples in place of these. They do not say how many have which mark, and which were the worst.
    pub fn add_sums(&mut self, sums: &SampleSums) {
        for (bucket, count) in &sums.buckets {
            self.histogram.add(low_of(*bucket), *count);
        }
        self.sum_ns = self.sum_ns.saturating_add(sums.sum_ns);
        self.min_ns = self.min_ns.min(sums.min_ns);
        self.max_ns = self.max_ns.max(sums.max_ns);
        self.doubtful = self.doubtful.saturating_add(sums.doubtful);
        self.idle = self.idle.saturating_add(sums.idle);
    }

    fn keep(&mut self, sample: &Sample, worst_max: usize) -> bool {
        let is_full = self.worst.len() >= worst_max;
        if worst_max == 0 || (is_full && self.worst.last().is_some_and(|last| last.value_ns >= sample.value_ns)) {
            return false;
        }
        let at = self.worst.partition_point(|other| other.value_ns >= sample.value_ns);
        self.worst.insert(at, *sample);
        self.worst.truncate(worst_max);
        true
    }

    /// Those of [`QUANTILES`] that the number of samples carries: beyond each there are five at least. `missing`:
    /// samples that may be missing, because the records that ended them were lost.
    pub fn quantiles(&self, missing: u64) -> Vec<Quantile> {
        let count = self.count();
        let enough = |q: &f64| *q <= 0.5 || count as f64 * (1.0 - q) >= 5.0 - 1e-9;
        let rank_of = |count: u64, q: f64| ((count as f64 * q).ceil() as u64).clamp(1, count) - 1;
        let at = |q: f64| {
            let bucket = self.histogram.at_rank(rank_of(count, q))?;
            // The rank among all: with the missing ones below all others, or above them.
            let rank = rank_of(count.saturating_add(missing), q);
            let least = rank.checked_sub(missing).and_then(|rank| self.histogram.at_rank(rank));
            let most = self.histogram.at_rank(rank).map(|bucket| bucket.high.min(self.max_ns));
            let least_ns = least.map_or(0, |bucket| bucket.low.max(self.min_ns));
            let (low_ns, high_ns) = (bucket.low.max(self.min_ns), bucket.high.min(self.max_ns));
            Some(Quantile { q, low_ns, high_ns, least_ns, most_ns: most })
        };
        if count == 0 { Vec::new() } else { QUANTILES.into_iter().filter(enough).filter_map(at).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value_ns: u64, from: i64, doubt: Doubt) -> Sample {
        Sample {
            value_ns,
            from,
            to: from,
            tid: None,
            process: None,
            name: Name::default(),
            prio: None,
            cpu: None,
            waker: None,
            owner: None,
            doubt,
            late_ns: 0,
        }
    }

    #[test]
    fn the_worst_are_kept_in_order_and_idle_is_set_aside() {
        let mut series = Series::new();
        for (from, value) in [3, 9, 1, 9, 7].into_iter().enumerate() {
            series.add(&sample(value, from as i64, Doubt::LOST.when(value == 7)), 3);
        }
        series.add(&sample(1_000_000, 9, Doubt::IDLE), 3);
        let worst: Vec<_> = series.worst.iter().map(|sample| (sample.value_ns, sample.from)).collect();
        assert_eq!(worst, [(9, 1), (9, 3), (7, 4)]);
        assert_eq!((series.count(), series.min_ns, series.max_ns, series.mean_ns()), (5, 1, 9, 5));
        assert_eq!((series.doubtful, series.by_doubt[0], series.idle), (1, 1, 1));
    }

    #[test]
    fn quantiles_need_samples_beyond_them() {
        let mut series = Series::new();
        (1..=100).for_each(|value| {
            series.add(&sample(value, 0, Doubt::NONE), 0);
        });
        let quantiles: Vec<_> = series.quantiles(0).iter().map(|quantile| (quantile.q, quantile.low_ns)).collect();
        assert_eq!(quantiles, [(0.5, 50), (0.9, 90)]);
        assert_eq!(Series::new().quantiles(0), []);
    }

    #[test]
    fn what_is_missing_widens_the_bounds_of_quantiles() {
        let mut series = Series::new();
        (1..=100).for_each(|value| {
            series.add(&sample(value, 0, Doubt::NONE), 0);
        });
        let bounds = |missing| {
            let quantiles = series.quantiles(missing);
            quantiles.iter().map(|quantile| (quantile.low_ns, quantile.least_ns, quantile.most_ns)).collect::<Vec<_>>()
        };
        assert_eq!(bounds(0), [(50, 50, Some(50)), (90, 90, Some(90))]);
        // Of 110 the 55th and the 99th; the ten that are missing may be the shortest or the longest.
        assert_eq!(bounds(10), [(50, 45, Some(55)), (90, 89, Some(99))]);
        assert_eq!(bounds(12), [(50, 44, Some(56)), (90, 89, None)]);
        assert_eq!(bounds(200)[0], (50, 0, None));
        assert_eq!(bounds(u64::MAX)[0], (50, 0, None));
    }
}
