// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes of a run's worst samples, as its record keeps them [spec/lab.md 7]: a budget of each, what they have in
//! common, and whether watching changed the test.
//!
//! Budgets are made from records of the kernel, elsewhere; nothing here reads a trace.

mod cluster;
mod explained;
mod watching;

pub use cluster::{Spike, clusters};
pub use explained::{Budget, BudgetPart, Causes, Cluster, Level, MissingKind, Period, Watching};
pub use watching::watching;
