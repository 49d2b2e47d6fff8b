// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may still come: estimates of values beyond those that were measured [spec/lab.md 5], by peaks over a threshold
//! and by maxima of blocks.
//!
//! An estimate is refused where its conditions do not hold, with the reason. One that is given holds for the load that
//! was run.

mod estimate;
mod law;
mod records;
#[cfg(test)]
mod tests;

pub use estimate::{BEYOND_MAX, Estimate, Level, Peak, REPLICATES, Refusal, VALUES_MIN, declustered, maxima, peaks};
pub use records::{Beyond, beyond};
