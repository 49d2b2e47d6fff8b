// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the values of a field are like: exact in number, least, greatest and sum; quantiles of buckets no wider than
//! a 128th of the value.

use std::collections::BTreeMap;

use kymo_histogram::Histogram;

/// A number as the field has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
}

impl Number {
    /// As a floating-point number; large integers are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// A sum with one value more; integers exactly, values that are no numbers (NaN) not at all.
    pub fn plus(sum: Option<Number>, value: Number) -> Number {
        match (sum, value) {
            (None, Number::Float(value)) if value.is_nan() => Number::Float(0.0),
            (None, value) => value,
            (Some(Number::Integer(a)), Number::Integer(b)) => Number::Integer(a.saturating_add(b)),
            (Some(sum), Number::Float(value)) if value.is_nan() => sum,
            (Some(sum), value) => Number::Float(sum.as_f64() + value.as_f64()),
        }
    }

    /// Which of two numbers is greater; integers exactly.
    pub fn order(self, other: Number) -> std::cmp::Ordering {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        }
    }
}

/// Bits of a float's order that its bucket does not have: of the mantissa all but seven.
const FLOAT_BITS: u32 = 52 - 7;

/// The values of one field. Values that are no numbers (NaN) are counted apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    count: u64,
    not_numbers: u64,
    min: Option<Number>,
    max: Option<Number>,
    sum: i128,
    mean: f64,
    /// Sum of the squares of the distances from the mean.
    squares: f64,
    /// Integers from 0 on.
    above: Histogram,
    /// Negative integers, by their size.
    below: Histogram,
    /// Floats by their order.
    floats: BTreeMap<u64, u64>,
}

impl Distribution {
    /// Takes a value.
    pub fn add(&mut self, value: Number) {
        let size = value.as_f64();
        if size.is_nan() {
            self.not_numbers += 1;
            return;
        }
        match value {
            Number::Integer(value) => {
                self.sum = self.sum.saturating_add(value);
                let bucket = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
                if value < 0 { self.below.record(bucket) } else { self.above.record(bucket) }
            }
            Number::Float(value) => *self.floats.entry(order(value) >> FLOAT_BITS).or_default() += 1,
        }
        self.min = Some(self.min.filter(|min| min.as_f64() <= size).unwrap_or(value));
        self.max = Some(self.max.filter(|max| max.as_f64() >= size).unwrap_or(value));
        self.count += 1;
        let distance = size - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (size - self.mean);
    }

    /// Values that are numbers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Values that are none.
    pub fn not_numbers(&self) -> u64 {
        self.not_numbers
    }

    /// The least.
    pub fn min(&self) -> Option<Number> {
        self.min
    }

    /// The greatest.
    pub fn max(&self) -> Option<Number> {
        self.max
    }

    /// Sum of the integers.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Arithmetic mean; none where there is no value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Standard deviation of these values (not of a population that they are a sample of).
    pub fn deviation(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).max(0.0).sqrt())
    }

    /// A quantile, 0 to 1, to a 128th of itself: a value that so many are not above.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count) - 1;
        let value = if self.floats.is_empty() { self.integer_at(rank) } else { self.float_at(rank) };
        let bounds = (self.min?.as_f64(), self.max?.as_f64());
        value.map(|value| value.clamp(bounds.0, bounds.1))
    }

    fn integer_at(&self, rank: u64) -> Option<f64> {
        let negative = self.below.count();
        match rank.checked_sub(negative) {
            Some(rank) => self.above.at_rank(rank).map(|bucket| bucket.high as f64),
            None => self.below.at_rank(negative - 1 - rank).map(|bucket| -(bucket.low as f64)),
        }
    }

    /// Where a field is an integer in some records and a float in others, of the floats.
    fn float_at(&self, rank: u64) -> Option<f64> {
        let mut below = 0;
        let bucket = self.floats.iter().find(|(_, count)| {
            below += **count;
            below > rank
        });
        let bucket = bucket.or(self.floats.last_key_value())?.0;
        Some(from_order((bucket << FLOAT_BITS) | ((1 << FLOAT_BITS) - 1)))
    }
}

/// Bits that are ordered as the floats are.
fn order(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn from_order(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = Number>) -> Distribution {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.add(value));
        distribution
    }

    #[test]
    fn integers_of_both_signs() {
        let values = of((-50..=50).map(Number::Integer));
        assert_eq!((values.min(), values.max()), (Some(Number::Integer(-50)), Some(Number::Integer(50))));
        assert_eq!((values.sum(), values.quantile(0.5), values.quantile(0.0)), (0, Some(0.0), Some(-50.0)));
        assert!((values.deviation().unwrap() - 850f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn nan_is_counted_apart() {
        let values = of([f64::NAN, 1.0, f64::INFINITY].map(Number::Float));
        assert_eq!((values.count(), values.not_numbers()), (2, 1));
        assert!(values.quantile(0.5).is_some_and(|median| (1.0..1.0 + 1.0 / 128.0).contains(&median)));
        assert_eq!(of([]).quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_near_the_value_of_its_rank(mut values: Vec<i32>, q in 0.0..=1.0f64) {
            prop_assume!(!values.is_empty());
            values.sort_unstable();
            let rank = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1;
            let expect = f64::from(values[rank]);
            let integers = of(values.iter().map(|&value| Number::Integer(value.into()))).quantile(q).unwrap();
            let floats = of(values.iter().map(|&value| Number::Float(value.into()))).quantile(q).unwrap();
            prop_assert!((integers - expect).abs() <= expect.abs() / 100.0, "{integers} {expect}");
            prop_assert!((floats - expect).abs() <= expect.abs() / 60.0, "{floats} {expect}");
        }
    }
}
