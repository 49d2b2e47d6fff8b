// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latency laboratory [spec/lab.md]: what a latency test measured, as a complete record, and what can be said of
//! it.
//!
//! Who measures, and where results are, is for others. [`examine`] and [`environment`] read the machine; only
//! [`Shield`] and [`Undo`] change it, and they take it back.

pub mod causes;
mod cgroup;
mod compare;
mod cpus;
mod doctor;
mod environment;
mod evaluation;
mod gaps;
mod import;
mod join;
mod kernel_config;
mod machine;
mod meanwhile;
mod preemption;
mod probe;
mod refusal;
pub mod report;
mod result;
mod shield;
pub mod stats;
mod threads;
mod throttling;
mod undo;

pub use compare::{
    COMPARE_SCHEMA, CompareOptions, Compared, Comparison, Difference, FALSE_LEVEL, Merged, Metric, MetricCompared,
    NoValue, Outcome, RUNS_MIN, Side, Unmatched, compare,
};
pub use cpus::Cpus;
pub use doctor::{Finding, State, Target, examine, is_fit};
pub use environment::{environment, is_guest};
pub use evaluation::{CpuResult, EVAL_SCHEMA, Evaluation, IDLE, LongSample, Planned, Run, UnderLoad, plan};
pub use gaps::{KernelGap, kernel_gaps, smi_counts};
pub use import::{FORMATS, ImportError, SERIES_MAX, import};
pub use join::join;
pub use kernel_config::is_realtime;
pub use kymo_histogram::{Bucket, Histogram};
pub use machine::{Machine, Unread};
pub use meanwhile::Meanwhile;
pub use probe::{Reading, Said, caveat};
pub use refusal::{Refusal, refusal};
pub use result::{
    Caveat, Ended, Floor, Overflow, Record, ResultSource, SCHEMA, Series, Severity, Thread, WORST_MAX, Worst,
};
pub use shield::{Group, GroupVersion, Shield, ShieldError, check};
pub use throttling::busy_loop;
pub use undo::{Restored, Undo, UndoStep, restore_left};
