// SPDX-License-Identifier: MIT OR Apache-2.0
//! All samples of one run, or of several, in one: the histogram with what lies beyond it and what was lost; its moments
//! and its quantiles with intervals [spec/lab.md 5].

use serde::Serialize;

use super::special::binomial_cdf;
use crate::{Bucket, Histogram, Series};

/// Probability that an interval holds what it is for.
pub const LEVEL: f64 = 0.95;
/// Samples that must lie on either side of a quantile, as an expectation.
const SAMPLES_BESIDE: f64 = 5.0;

/// Samples of one or several series.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Those in buckets, nanoseconds.
    pub histogram: Histogram,
    /// Samples beyond a foreign histogram, all larger than what is in buckets of it.
    pub overflow: u64,
    /// The smallest of the values that `overflow` begins at, where there is any.
    pub beyond_ns: Option<u64>,
    /// Samples of which nothing is known.
    pub lost: u64,
    /// Smallest and largest, where they are known.
    pub min: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
    /// Mean and standard deviation, nanoseconds.
    pub moments: Option<Moments>,
    /// A value may be so much larger than its bucket says, on top of the bucket's own width.
    pub bucket_ns: u64,
}

/// Mean and spread of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moments {
    /// Samples that it is of.
    pub count: u64,
    /// Nanoseconds.
    pub mean: f64,
    /// Standard deviation, nanoseconds; of one sample 0.
    pub std: f64,
    /// From the samples themselves. Otherwise from buckets' middles, half a bucket off at most.
    pub exact: bool,
}

/// Skewness and what it comes with; dimensionless, from the histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Third standardised moment.
    pub skewness: f64,
    /// Fourth standardised moment, less the 3 of a normal distribution.
    pub excess_kurtosis: f64,
}

/// A quantile with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// Which, between 0 and 1.
    pub q: f64,
    /// Nanoseconds, the middle of its bucket.
    pub value: f64,
    /// At least, nanoseconds: the interval of order statistics and the width of buckets.
    pub low: u64,
    /// At most; `None` where the samples do not bound it.
    pub high: Option<u64>,
}

/// Why there is no quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum NoQuantile {
    /// Too few samples on one side of it.
    #[error("{have} samples a run; it takes {need}")]
    TooFew {
        /// Samples there are.
        have: u64,
        /// Samples it takes.
        need: u64,
    },
    /// It is among the samples that the tool's histogram has no bucket for.
    #[error("it lies beyond the tool's histogram, above {beyond_ns} ns; run it with a larger one")]
    Beyond {
        /// End of the histogram.
        beyond_ns: u64,
    },
    /// As many samples are lost as lie beyond it, so it can be anywhere.
    #[error("{lost} samples are lost, and no more than that lie beyond it")]
    Lost {
        /// Samples lost.
        lost: u64,
    },
}

impl Distribution {
    /// Everything in some series, of one run or several.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Series>) -> Distribution {
        let mut sum = Distribution::default();
        for series in all {
            sum.add(series);
        }
        sum
    }

    /// Adds all samples of another one.
    pub fn absorb(&mut self, other: &Distribution) {
        self.moments = match (self.moments, other.moments) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        };
        self.histogram.merge(&other.histogram);
        self.overflow = self.overflow.saturating_add(other.overflow);
        self.beyond_ns = [self.beyond_ns, other.beyond_ns].into_iter().flatten().min();
        self.lost = self.lost.saturating_add(other.lost);
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = [self.max, other.max].into_iter().flatten().max();
        self.bucket_ns = self.bucket_ns.max(other.bucket_ns);
    }

    fn add(&mut self, series: &Series) {
        let own = match (series.mean, series.std) {
            (Some(mean), Some(std)) => Some(Moments { count: known(series), mean, std, exact: true }),
            _ => moments_of(&series.histogram),
        };
        let (min, max) = ends(series);
        self.absorb(&Distribution {
            histogram: series.histogram.clone(),
            overflow: series.overflow.map_or(0, |overflow| overflow.count),
            beyond_ns: series.overflow.map(|overflow| overflow.beyond_ns),
            lost: series.lost,
            min,
            max,
            moments: own,
            bucket_ns: series.bucket_ns.unwrap_or(0),
        });
    }

    /// Samples that were taken.
    pub fn count(&self) -> u64 {
        self.histogram.count().saturating_add(self.overflow).saturating_add(self.lost)
    }

    /// Samples of which the value is known, exactly or to be beyond the histogram.
    fn known(&self) -> u64 {
        self.histogram.count().saturating_add(self.overflow)
    }

    /// Skewness and kurtosis; `None` for fewer than 4 samples, or equal ones.
    pub fn shape(&self) -> Option<Shape> {
        let moments = moments_of(&self.histogram).filter(|moments| moments.count >= 4 && moments.std > 0.0)?;
        let power = |exponent| {
            let terms = self
                .histogram
                .buckets()
                .map(|b| b.count as f64 * ((middle(b) - moments.mean) / moments.std).powi(exponent));
            terms.sum::<f64>() / moments.count as f64
        };
        Some(Shape { skewness: power(3), excess_kurtosis: power(4) - 3.0 })
    }

    /// The quantile `q`, between 0 and 1, with an interval that holds it in 95 of 100 cases if samples are independent.
    /// It is for comparisons: where lost samples may move it to anywhere, there is none.
    pub fn quantile(&self, q: f64) -> Result<Quantile, NoQuantile> {
        match self.quantile_of_known(q) {
            Err(NoQuantile::TooFew { have, need }) => Err(NoQuantile::TooFew { have, need }),
            // What is known of the lost ones is nothing: they may all lie below, or all above.
            _ if self.lost > 0 && ranks(self.count(), q).1 >= self.known() => Err(NoQuantile::Lost { lost: self.lost }),
            found => found,
        }
    }

    /// The same, to be shown: its value is that of the samples that are not lost. The interval is as wide as the lost
    /// ones may make it: all below it, or all above it, which nothing may bound.
    pub fn quantile_of_known(&self, q: f64) -> Result<Quantile, NoQuantile> {
        let n = self.count();
        let beside = n as f64 * q.min(1.0 - q);
        // The tolerance keeps 50 of 50 at q = 0.9, where 1 - q is not a tenth exactly.
        if beside < SAMPLES_BESIDE * (1.0 - 1e-9) {
            return Err(NoQuantile::TooFew {
                have: n,
                need: (SAMPLES_BESIDE / q.min(1.0 - q) * (1.0 - 1e-9)).ceil() as u64,
            });
        }
        let (below, above) = ranks(n, q);
        let known = self.known();
        if known == 0 {
            return Err(NoQuantile::Lost { lost: self.lost });
        }
        let rank = (known as f64 * q).ceil().max(1.0) as u64 - 1;
        let Some(bucket) = self.histogram.at_rank(rank) else {
            return Err(NoQuantile::Beyond { beyond_ns: self.beyond_ns.unwrap_or(u64::MAX) });
        };
        // With fewer samples below it than are lost, it may be one of those, of which nothing is known.
        let least = below.checked_sub(self.lost).map(|rank| self.histogram.at_rank(rank).unwrap_or(bucket));
        let high = match self.histogram.at_rank(above) {
            Some(bucket) => Some(bucket.high.saturating_add(self.bucket_ns)),
            None if self.lost > 0 && above >= known => None,
            None => self.max,
        };
        let within = |bound: Option<u64>, or: u64| bound.unwrap_or(or);
        Ok(Quantile {
            q,
            value: middle(bucket).min(within(self.max, u64::MAX) as f64).max(within(self.min, 0) as f64),
            low: least.map_or(0, |bucket| bucket.low.max(within(self.min, 0))),
            high: high.map(|high| high.min(within(self.max, u64::MAX))),
        })
    }

    /// Samples above `value` nanoseconds: at least, at most. They differ by the bucket that holds it, and by lost ones.
    pub fn above(&self, value: u64) -> (u64, u64) {
        let mut least = self.histogram.above(value);
        let reach = |bucket: &Bucket| bucket.high.saturating_add(self.bucket_ns) > value;
        let mut most: u64 = self.histogram.buckets().filter(reach).map(|bucket| bucket.count).sum();
        most = most.saturating_add(self.overflow).saturating_add(self.lost);
        match self.beyond_ns {
            Some(beyond) if beyond > value => least = least.saturating_add(self.overflow),
            _ => {}
        }
        if self.max.is_some_and(|max| max <= value) {
            return (0, self.lost);
        }
        (least.max(u64::from(self.max.is_some())), most)
    }
}

impl Moments {
    /// Of both together.
    fn with(self, other: Moments) -> Moments {
        let count = self.count.saturating_add(other.count);
        let (n, m, total) = (self.count as f64, other.count as f64, count as f64);
        let mean = self.mean + (other.mean - self.mean) * (m / total.max(1.0));
        let squares = |of: Moments| (of.count as f64 - 1.0).max(0.0) * of.std * of.std;
        let between = (other.mean - self.mean).powi(2) * n * m / total.max(1.0);
        let std = ((squares(self) + squares(other) + between) / (total - 1.0).max(1.0)).sqrt();
        Moments { count, mean, std, exact: self.exact && other.exact }
    }
}

/// Samples of which the value went into the exact mean.
fn known(series: &Series) -> u64 {
    series.count.saturating_sub(series.lost)
}

/// Smallest and largest of a series: exact, else by its buckets.
fn ends(series: &Series) -> (Option<u64>, Option<u64>) {
    let low = series.histogram.buckets().next().map(|bucket| bucket.low);
    let complete = series.overflow.is_none_or(|overflow| overflow.count == 0);
    let high = series.histogram.buckets().next_back().map(|bucket| bucket.high).filter(|_| complete);
    (series.min.or(low), series.max.or(high))
}

fn middle(bucket: Bucket) -> f64 {
    bucket.low as f64 + (bucket.high - bucket.low) as f64 / 2.0
}

fn moments_of(histogram: &Histogram) -> Option<Moments> {
    let count = histogram.count();
    if count == 0 {
        return None;
    }
    let n = count as f64;
    let mean = histogram.buckets().map(|bucket| bucket.count as f64 * middle(bucket)).sum::<f64>() / n;
    let squares: f64 = histogram.buckets().map(|bucket| bucket.count as f64 * (middle(bucket) - mean).powi(2)).sum();
    Some(Moments { count, mean, std: (squares / (n - 1.0).max(1.0)).sqrt(), exact: false })
}

/// Ranks from 0 of the order statistics that hold the quantile between them with probability [`LEVEL`].
fn ranks(n: u64, q: f64) -> (u64, u64) {
    let tail = (1.0 - LEVEL) / 2.0;
    // The first count of samples below the quantile whose cumulated probability reaches `wanted`.
    let first = |wanted: f64| {
        let (mut low, mut high) = (0, n);
        while low < high {
            let at = low + (high - low) / 2;
            if binomial_cdf(at, n, q) >= wanted { high = at } else { low = at + 1 }
        }
        low
    };
    let below = first(tail).saturating_sub(1);
    let above = first(1.0 - tail).min(n - 1);
    (below, above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overflow;
    use crate::stats::Random;

    fn series(values: impl IntoIterator<Item = u64>) -> Series {
        let mut series = Series::new("wakeup");
        values.into_iter().for_each(|value| series.histogram.record(value));
        series.count = series.histogram.count();
        series
    }

    #[test]
    fn ranks_are_those_of_the_tables() {
        // 95 % interval of the median: of 10 samples the 2nd and 9th, of 100 the 40th and 61st (here from 0).
        assert_eq!((ranks(10, 0.5), ranks(100, 0.5)), ((1, 8), (39, 60)));
    }

    #[test]
    fn the_interval_holds_the_quantile() {
        let mut random = Random::new(2);
        for q in [0.5, 0.9, 0.99] {
            let trials = 400;
            let held = (0..trials).filter(|_| {
                let run = series((0..2000).map(|_| (random.uniform() * 1e6) as u64));
                let found = Distribution::of([&run]).quantile(q).unwrap();
                (found.low as f64) <= q * 1e6 && q * 1e6 <= found.high.unwrap() as f64
            });
            let held = held.count();
            assert!(held >= trials * 93 / 100, "q {q}: {held} of {trials}");
        }
    }

    #[test]
    fn too_few_samples_are_refused() {
        let run = series(1..=499);
        let of = Distribution::of([&run]);
        assert_eq!(of.quantile(0.99), Err(NoQuantile::TooFew { have: 499, need: 500 }));
        assert!(Distribution::of([&series(1..=500)]).quantile(0.99).is_ok());
        assert_eq!(Distribution::default().quantile(0.5), Err(NoQuantile::TooFew { have: 0, need: 10 }));
    }

    #[test]
    fn what_is_beyond_the_histogram_or_lost_is_not_made_up() {
        let mut run = series((0..1000).map(|value| value % 100));
        run.overflow = Some(Overflow { count: 20, beyond_ns: 400, computed: true });
        run.count += 20;
        let of = Distribution::of([&run]);
        assert_eq!(of.quantile(0.99), Err(NoQuantile::Beyond { beyond_ns: 400 }));
        let near = of.quantile(0.97).unwrap();
        assert_eq!(near.high, None, "the largest is not known: {near:?}");
        assert_eq!((of.above(300), of.above(50).0), ((20, 20), 490 + 20));
        run.lost = 20;
        run.count += 20;
        let of = Distribution::of([&run]);
        assert_eq!(of.quantile(0.99), Err(NoQuantile::Lost { lost: 20 }));
        // Were the lost ones all below, the median would be 20 ranks lower: 2 values, beside the 3 of the interval.
        assert_eq!(of.quantile(0.5).unwrap().low, 46);
    }

    #[test]
    fn lost_samples_widen_the_bounds_of_what_is_shown() {
        let mut run = series(1..=1000);
        (run.min, run.max) = (Some(1), Some(1000));
        let bounds = |run: &Series, q| {
            let found = Distribution::of([run]).quantile_of_known(q).unwrap();
            (found.value.round() as u64, found.low, found.high)
        };
        let (value, low, high) = bounds(&run, 0.99);
        assert!((986..=994).contains(&value), "{value}");
        assert!(low > 970 && high.is_some_and(|high| high <= 1000), "{low}..{high:?}");
        // With five lost ones it may be one of these.
        (run.lost, run.count) = (5, 1005);
        let (with_lost, lower, higher) = bounds(&run, 0.99);
        assert_eq!((with_lost, higher), (value, None));
        assert!(lower <= low && lower > 960, "{lower} {low}");
        assert_eq!(Distribution::of([&run]).quantile(0.99), Err(NoQuantile::Lost { lost: 5 }));
        // The median is bounded on both sides.
        assert!(bounds(&run, 0.5).2.is_some());
        // More lost than taken: nothing bounds the median, and p99 is bounded from below at most.
        (run.lost, run.count) = (2000, 3000);
        assert_eq!((bounds(&run, 0.5).1, bounds(&run, 0.5).2, bounds(&run, 0.99).2), (0, None, None));
        let mut none = Series::new("wakeup");
        (none.lost, none.count) = (2000, 2000);
        assert_eq!(Distribution::of([&none]).quantile_of_known(0.99), Err(NoQuantile::Lost { lost: 2000 }));
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let values: Vec<u64> = (0..200).map(|value| value * value % 251).collect();
        let whole = moments_of(&series(values.iter().copied()).histogram).unwrap();
        let (one, other) = values.split_at(70);
        let parts = [series(one.iter().copied()), series(other.iter().copied())];
        let both = Distribution::of(&parts).moments.unwrap();
        assert!((both.mean - whole.mean).abs() < 1e-9 && (both.std - whole.std).abs() < 1e-9);
        assert!(!both.exact);
        let shape = Distribution::of([&series((0..1000).map(|value| value % 251))]).shape().unwrap();
        assert!((shape.excess_kurtosis + 1.2).abs() < 0.05, "as of a uniform distribution: {shape:?}");
    }
}
