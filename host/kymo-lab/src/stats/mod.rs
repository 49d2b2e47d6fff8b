// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said of samples and of runs, with how sure one can be of it [spec/lab.md 5].
//!
//! Quantiles and moments are of samples ([`Distribution`]); comparisons are of runs ([`permutation`], [`shift`],
//! [`trend`]).
//! Pure functions; random numbers come from stated seeds.

pub mod distance;
mod distribution;
pub mod extreme;
pub mod period;
pub mod permutation;
mod random;
mod shift;
pub mod special;
mod trend;

pub use distribution::{Distribution, LEVEL, Moments, NoQuantile, Quantile, Shape};
pub use random::Random;
pub use shift::{Shift, shift};
pub use trend::{Trend, trend};
