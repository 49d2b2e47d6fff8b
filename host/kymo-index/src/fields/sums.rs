// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of the values of a numeric field over a stretch of time [spec/index.md 4.1]. Questions add up records with
//! them, too: so both have the same rules.

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// An integer of at most 64 bits, of either sign.
    Integer(i128),
    /// A floating-point number; it may be none (NaN).
    Float(f64),
}

impl FieldValue {
    /// The nearest number.
    #[inline]
    pub fn number(self) -> f64 {
        match self {
            FieldValue::Integer(value) => i64::try_from(value).map_or(value as f64, |value| value as f64),
            FieldValue::Float(value) => value,
        }
    }
}

/// Values in the order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueSums {
    /// Values that are numbers.
    pub count: u64,
    /// Values that are none (NaN); nothing else is known of them.
    pub not_numbers: u64,
    /// Smallest; of two zeros the negative one.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// The first one.
    pub first: f64,
    /// The last one.
    pub last: f64,
    /// Sum of those that are integers, modulo 2^128.
    pub integers: i128,
    /// Sum of the others, in the order in which they were added.
    pub floats: f64,
}

/// By the order of all floating-point numbers: of equal ones it is known which is taken.
#[inline]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b || a == b && a.is_sign_negative() { a } else { b }
}

impl ValueSums {
    /// Of one value.
    fn of(value: f64) -> ValueSums {
        ValueSums { count: 1, min: value, max: value, first: value, last: value, ..ValueSums::default() }
    }

    /// Adds a value behind all others.
    #[inline]
    pub fn add(&mut self, value: FieldValue) {
        let number = value.number();
        if number.is_nan() {
            self.not_numbers += 1;
            return;
        }
        if self.count == 0 {
            *self = ValueSums { not_numbers: self.not_numbers, ..ValueSums::of(number) };
        } else {
            self.count += 1;
            (self.min, self.max) = (lesser(number, self.min), -lesser(-number, -self.max));
            self.last = number;
        }
        match value {
            FieldValue::Integer(value) => self.integers = self.integers.wrapping_add(value),
            FieldValue::Float(value) => self.floats += value,
        }
    }

    /// Adds values behind all others.
    pub fn append(&mut self, later: &ValueSums) {
        let not_numbers = self.not_numbers.saturating_add(later.not_numbers);
        if self.count == 0 || later.count == 0 {
            *self = ValueSums { not_numbers, ..if self.count == 0 { *later } else { *self } };
            return;
        }
        *self = ValueSums {
            count: self.count.saturating_add(later.count),
            not_numbers,
            min: lesser(later.min, self.min),
            max: -lesser(-later.max, -self.max),
            first: self.first,
            last: later.last,
            integers: self.integers.wrapping_add(later.integers),
            floats: self.floats + later.floats,
        };
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        (self.integers as f64 + self.floats) / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(values: &[FieldValue]) -> ValueSums {
        let mut sums = ValueSums::default();
        values.iter().for_each(|value| sums.add(*value));
        sums
    }

    #[test]
    fn parts_are_what_all_are() {
        use FieldValue::{Float, Integer};
        let values = [
            Float(f64::NAN),
            Integer(3),
            Float(-0.0),
            Float(0.0),
            Integer(i128::from(u64::MAX)),
            Float(f64::NAN),
            Integer(-7),
            Float(2.5),
            Float(f64::INFINITY),
        ];
        let all = sums(&values);
        assert_eq!((all.count, all.not_numbers), (7, 2));
        assert_eq!((all.min, all.max, all.first, all.last), (-7.0, f64::INFINITY, 3.0, f64::INFINITY));
        assert_eq!(all.integers, i128::from(u64::MAX) - 4);
        for at in 0..=values.len() {
            let mut parts = sums(&values[..at]);
            parts.append(&sums(&values[at..]));
            assert_eq!(parts, all, "at {at}");
        }
        assert!((sums(&[Integer(1), Integer(2), Float(0.75)]).mean() - 1.25).abs() < 1e-15);
    }

    #[test]
    fn zeros_have_an_order() {
        for zeros in [[-0.0, 0.0], [0.0, -0.0]] {
            let all = sums(&zeros.map(FieldValue::Float));
            assert!(all.min.is_sign_negative() && all.max.is_sign_positive());
            let mut parts = sums(&[FieldValue::Float(zeros[0])]);
            parts.append(&sums(&[FieldValue::Float(zeros[1])]));
            assert!(parts.min.is_sign_negative() && parts.max.is_sign_positive());
        }
    }
}
