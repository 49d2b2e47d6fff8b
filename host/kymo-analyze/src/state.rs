// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a machine as its records tell it [spec/analyze.md 3].
//!
//! [`State::apply`] takes any event at any time, in any order. A clone of a state is a checkpoint: with the records
//! behind it, it hands on the same spans as a state that saw all records.

mod apply;
mod cpu;
mod encode;
mod fault;
mod interrupt;
mod machine;
mod sched;
mod step;
mod thread;
mod timers;

pub use cpu::{Cpu, Frame, Since};
pub use encode::VERSION as STATE_VERSION;
pub(crate) use machine::CPUS_MAX;
pub use machine::State;
pub(crate) use sched::futex_waits;
pub use thread::{Call, Identity, Thread, Threads};
