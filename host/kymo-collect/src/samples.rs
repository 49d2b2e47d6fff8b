// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of what CPUs run [spec/kernel.md 9]: the kernel's perf events on each CPU, read by a thread, and written as
//! events `perf:cpu-clock` of the kernel's stream class, with the maps of the processes that appear meanwhile.
//!
//! `open` makes an event and its ring, `parse` reads the ring's bytes, `times` brings their time to the session's
//! clock, `class` describes the events, `thread` connects these.

mod class;
mod open;
mod parse;
mod summary;
mod thread;
mod times;

pub(crate) use class::classes;
pub use summary::SampleSummary;
pub(crate) use thread::Sampling;
