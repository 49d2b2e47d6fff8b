// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who used what in a stretch of time [spec/analyze.md 14]: CPU time by thread, process and CPU; interrupts by number;
//! I/O by thread, device and file.
//!
//! A [`Usage`] is a sink that adds up what a state hands on; it guesses nothing. What it needs beside events (paths of
//! opened files, descriptors and CPUs of the state dump) it gets by [`Told`], which looks at all records.

mod actor;
mod amounts;
mod cpu;
mod disk;
mod files;
mod opening;
mod part;
mod roles;
mod sums;
mod told;

pub use actor::{Actor, Choice, UsageScope};
pub use amounts::{CpuTime, Durations, Transfers};
pub use cpu::CpuUse;
pub use disk::DeviceUse;
pub use files::{FileName, FileUse};
pub use part::{ACTORS_MAX, LanePart, LaneStep, PartRun, PartUsage, STEPS_MAX};
pub use sums::{ROWS_MAX, ThreadUse, Usage};
pub use told::{Told, tells_of_cpus};
