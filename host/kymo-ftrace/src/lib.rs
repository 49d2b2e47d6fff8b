// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel events as the kernel writes them [spec/kernel.md 4], and the way from there to CTF records.
//!
//! [`format`] reads format texts, [`page`] walks a sub-buffer, [`Decoder`] turns its records into those of a trace,
//! under
//! the names of [`Naming`]. [`report`] reads the reports of the latency tracers. Nothing here opens a file or reads a
//! clock. Little endian only.

mod compare;
mod decode;
pub mod format;
mod names;
pub mod page;
mod plan;
pub mod report;

pub use compare::comparison;
pub use decode::{Batch, Decoder, Outcome, Pending, Progress};
pub use names::{Convert, Naming};
pub use plan::class_of;
