// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios: small sessions in which one thing happens that the random ones meet seldom, or whose answer is exact.
//! Each trace is compared with what was written, as those of the random sessions.

mod hostile;
mod leaving;
mod losses;
mod memory;
mod programs;
mod snapshots;
