// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is compared of a run: numbers that each run has one of, and how they are put on a scale for the test.

use serde::{Serialize, Serializer};

use crate::stats::{Distribution, NoQuantile};

/// A number of a run, nanoseconds but for `Misses`. Larger is worse in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Samples above the deadline, of a million.
    Misses,
    /// The largest sample.
    Max,
    /// The quantile with so many of a million below it.
    Quantile(u32),
    /// The mean.
    Mean,
    /// The smallest sample.
    Min,
    /// How the samples above the common p99 are spread: a distance of the groups, not a number of a run.
    Tail,
}

/// Why a run has no such number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoValue {
    /// The samples do not give it.
    #[error(transparent)]
    Quantile(#[from] NoQuantile),
    /// The source does not say.
    #[error("the record does not have it")]
    Unknown,
    /// There is no sample.
    #[error("there is no sample")]
    Empty,
}

impl Metric {
    /// All in the order of their weight; misses only where there is a deadline.
    pub const ALL: [Metric; 12] = [
        Metric::Misses,
        Metric::Max,
        Metric::Quantile(999_990),
        Metric::Quantile(999_900),
        Metric::Quantile(999_000),
        Metric::Quantile(990_000),
        Metric::Quantile(950_000),
        Metric::Quantile(900_000),
        Metric::Quantile(500_000),
        Metric::Mean,
        Metric::Min,
        Metric::Tail,
    ];

    /// As it is shown: `max`, `p99.9`, ...
    pub fn name(self) -> String {
        match self {
            Metric::Misses => "misses".to_owned(),
            Metric::Max => "max".to_owned(),
            Metric::Quantile(500_000) => "median".to_owned(),
            Metric::Quantile(millionths) => format!("p{}", f64::from(millionths) / 1e4),
            Metric::Mean => "mean".to_owned(),
            Metric::Min => "min".to_owned(),
            Metric::Tail => "tail".to_owned(),
        }
    }

    /// Of a run. `Tail` has none.
    pub(super) fn of(self, run: &Distribution, deadline_ns: Option<u64>) -> Result<f64, NoValue> {
        if run.count() == 0 {
            return Err(NoValue::Empty);
        }
        match self {
            Metric::Misses => {
                let deadline = deadline_ns.ok_or(NoValue::Unknown)?;
                Ok(run.above(deadline).0 as f64 * 1e6 / run.count() as f64)
            }
            Metric::Max => run.max.map(|max| max as f64).ok_or(NoValue::Unknown),
            Metric::Min => run.min.map(|min| min as f64).ok_or(NoValue::Unknown),
            Metric::Mean => run.moments.map(|moments| moments.mean).ok_or(NoValue::Unknown),
            Metric::Quantile(millionths) => Ok(run.quantile(f64::from(millionths) / 1e6)?.value),
            Metric::Tail => Err(NoValue::Unknown),
        }
    }

    /// On the scale of the test, where spread does not grow with the value: roots of rates, logarithms of times.
    pub(super) fn to_scale(self, value: f64) -> f64 {
        match self {
            Metric::Misses => value.sqrt(),
            _ => value.max(1.0).ln(),
        }
    }

    /// Back from that scale.
    pub(super) fn off_scale(self, value: f64) -> f64 {
        match self {
            Metric::Misses => value.max(0.0).powi(2),
            _ => value.exp(),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.name())
    }
}
