// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log-linear histogram [spec/lab.md 4]: buckets no wider than a 128th of their value, over the whole of u64.
//!
//! Counts only. What can be said of a distribution, and how surely, is for others.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values below this have a bucket each.
const LINEAR: u64 = 256;
/// Buckets of each power of two above.
const PER_OCTAVE: u64 = 128;
/// Bits that a bucket's number has within its power of two.
const BITS: u32 = 7;
/// Buckets in all.
const BUCKETS: usize = (LINEAR + (64 - 8) * PER_OCTAVE) as usize;

/// A bucket that is not empty: values from `low` to `high`, both in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
    /// Samples.
    pub count: u64,
}

impl Bucket {
    /// The bucket of a value, with this one sample.
    pub fn of(value: u64) -> Bucket {
        let index = index_of(value);
        Bucket { low: low(index), high: high_of(index), count: 1 }
    }
}

/// Counts of values, nanoseconds as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By index, up to the largest that is not empty.
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.add(value, 1);
    }

    /// Counts a value several times.
    pub fn add(&mut self, value: u64, times: u64) {
        let index = index_of(value);
        if times == 0 {
            return;
        }
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add(times);
        self.total = self.total.saturating_add(times);
    }

    /// Adds all samples of another one.
    pub fn merge(&mut self, other: &Histogram) {
        for bucket in other.buckets() {
            self.add(bucket.low, bucket.count);
        }
    }

    /// Samples.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Buckets that are not empty, ascending.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| Bucket { low: low(index), high: high_of(index), count: *count })
    }

    /// The bucket of the sample with this rank among the ascending ones, from 0. `None` where there are not so many.
    pub fn at_rank(&self, rank: u64) -> Option<Bucket> {
        let mut below = 0u64;
        self.buckets().find(|bucket| {
            below = below.saturating_add(bucket.count);
            below > rank
        })
    }

    /// Samples that are certainly above `value`: those of whole buckets above its own.
    pub fn above(&self, value: u64) -> u64 {
        self.buckets().filter(|bucket| bucket.low > value).map(|bucket| bucket.count).sum()
    }
}

/// Numbers of buckets are below this.
pub const NUMBERS: u16 = BUCKETS as u16;

/// Number of a value's bucket.
pub fn bucket_of(value: u64) -> u16 {
    index_of(value) as u16
}

/// Smallest value of the bucket of a number; of numbers that no bucket has the largest of all.
pub fn low_of(bucket: u16) -> u64 {
    if usize::from(bucket) < BUCKETS { low(bucket.into()) } else { u64::MAX }
}

/// Index of a value's bucket.
fn index_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let within = (value >> (exponent - BITS)) - PER_OCTAVE;
    (LINEAR + u64::from(exponent - 8) * PER_OCTAVE + within) as usize
}

/// Smallest value of a bucket.
fn low(index: usize) -> u64 {
    let index = index as u64;
    if index < LINEAR {
        return index;
    }
    let (octave, within) = ((index - LINEAR) / PER_OCTAVE, (index - LINEAR) % PER_OCTAVE);
    (PER_OCTAVE + within) << (octave + 1)
}

/// Largest value of a bucket.
fn high_of(index: usize) -> u64 {
    if index + 1 >= BUCKETS { u64::MAX } else { low(index + 1) - 1 }
}

/// As a list of `[index, count]`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.counts.iter().enumerate().filter(|(_, count)| **count > 0))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
        let mut histogram = Histogram::new();
        for (index, count) in Vec::<(usize, u64)>::deserialize(from)? {
            if index >= BUCKETS {
                return Err(D::Error::custom(format!("a histogram has {BUCKETS} buckets; there is no bucket {index}")));
            }
            histogram.add(low(index), count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!((low(0), index_of(0)), (0, 0));
        for index in 1..BUCKETS {
            assert_eq!(low(index), high_of(index - 1) + 1, "bucket {index}");
            assert_eq!((index_of(low(index)), index_of(high_of(index))), (index, index));
        }
        assert_eq!(index_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn ranks_and_what_lies_above() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|value| histogram.record(value));
        histogram.add(1_000_000, 2);
        let low = |rank| histogram.at_rank(rank).map(|bucket| bucket.low);
        assert_eq!((low(0), low(99), low(102)), (Some(1), Some(100), None));
        assert!(low(100).is_some_and(|low| low <= 1_000_000));
        assert_eq!((histogram.above(50), histogram.above(u64::MAX), histogram.count()), (52, 0, 102));
    }

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_value(value: u64) {
            let index = index_of(value);
            prop_assert!(low(index) <= value && value <= high_of(index));
            prop_assert!(high_of(index) - low(index) <= value / 128);
            prop_assert_eq!(Bucket::of(value), Bucket { low: low(index), high: high_of(index), count: 1 });
        }

        #[test]
        fn json_gives_it_back(values: Vec<(u64, u16)>) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|(value, times)| histogram.add(*value, (*times).into()));
            let text = serde_json::to_string(&histogram).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert!(back.buckets().eq(histogram.buckets()));
            prop_assert_eq!(back.count(), histogram.count());
        }
    }

    #[test]
    fn a_bucket_that_cannot_be_is_refused() {
        let error = serde_json::from_str::<Histogram>("[[99999, 1]]").unwrap_err();
        assert!(error.to_string().contains("no bucket 99999"), "{error}");
    }
}
