// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every latency test is told: CPUs, class, priority, for how long, and under what conditions; and a test as it is
//! run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kymo_analyze::cause::Asked;
use serde_json::Value;

use crate::verbs::args::{CpuArgs, JsonArgs};
use crate::verbs::units;

/// Length of a test where nothing is said.
pub(super) const USUAL: Duration = Duration::from_secs(10);

/// Priority of what measures, where none is said.
pub(in crate::verbs::lab) const PRIO_USUAL: i32 = 80;

/// What is true while threads measure.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::verbs::lab) struct Conditions {
    /// Discard the first N samples of each thread (of maxrate: records)
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(in crate::verbs::lab) warmup: u64,
    /// Do not lock memory
    #[arg(long)]
    pub(in crate::verbs::lab) no_lock: bool,
    /// Hold /dev/cpu_dma_latency at this many microseconds, which disables deeper idle states
    #[arg(long, value_name = "US")]
    pub(in crate::verbs::lab) dma_latency: Option<u32>,
    /// Continue if priority, CPU or memory locking is not available; the result is marked
    #[arg(long)]
    pub(in crate::verbs::lab) best_effort: bool,
}

impl Conditions {
    /// As words of the probe.
    pub(in crate::verbs::lab) fn words(self) -> impl Iterator<Item = (&'static str, Value)> {
        let latency = self.dma_latency.map(|us| ("dma_latency_us", us.into()));
        [("warmup", self.warmup.into()), ("lock", u32::from(!self.no_lock).into())].into_iter().chain(latency)
    }
}

/// What every test has.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("cpu", |arg| arg.help("CPUs to measure on, one thread each, as 0-3,6 [default: all that this process may use]")))]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) cpus: CpuArgs,
    /// Real-time priority of the measuring threads, 1 to 99
    #[arg(short, long, value_name = "N", default_value_t = PRIO_USUAL, value_parser = clap::value_parser!(i32).range(1..=99))]
    pub(super) prio: i32,
    /// Class of the measuring threads
    #[arg(long, value_enum, default_value = "fifo")]
    pub(super) policy: Policy,
    /// Measure for this long: 10s, 500ms, 1h
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    pub(super) duration: Option<Duration>,
    #[command(flatten)]
    pub(super) conditions: Conditions,
    /// Write the result record (JSON, kymo-lab(7)) to this file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}

/// Of the tests whose worst samples can be explained.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Explaining {
    /// Explain the N worst samples of each thread by the kernel's events: a flight recorder runs beside the test
    ///
    /// Slots with the recorder alternate with slots of the same length without it, to show whether recording changes
    /// the result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(super) explain: Option<u32>,
    /// With --explain: run no slots without the recorder
    #[arg(long, requires = "explain")]
    pub(super) no_check: bool,
    /// With --explain: record where interrupts and preemption are disabled, if the kernel has these events; this is
    /// expensive
    #[arg(long, requires = "explain")]
    pub(super) irqs_off: bool,
    /// With --explain: keep the kernel's records around the worst samples in this directory, as traces
    #[arg(long, requires = "explain", value_name = "DIR")]
    pub(super) keep_traces: Option<PathBuf>,
    #[arg(long, hide = true, default_value_t = 0)]
    pub(super) inject_fault_every: u64,
    #[arg(long, hide = true, default_value_t = 1 << 20)]
    pub(super) inject_fault_bytes: u64,
}

/// Class of the measuring threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::verbs::lab) enum Policy {
    /// SCHED_FIFO
    Fifo,
    /// SCHED_RR
    Rr,
    /// No real-time class
    Other,
    /// SCHED_DEADLINE, for wakeup: a quarter of the interval as runtime
    Deadline,
}

impl Policy {
    /// As the probe has it.
    pub(in crate::verbs::lab) fn word(self) -> &'static str {
        match self {
            Policy::Fifo => "fifo",
            Policy::Rr => "rr",
            Policy::Other => "other",
            Policy::Deadline => "deadline",
        }
    }

    /// Has priorities.
    pub(in crate::verbs::lab) fn is_real_time(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }
}

/// A call of the probe.
pub(super) struct Test<'a> {
    pub(super) name: &'static str,
    /// How a sample comes about.
    pub(super) method: String,
    pub(super) common: &'a Common,
    /// Beside those of `common`: for the record and for the probe.
    pub(super) options: BTreeMap<&'static str, Value>,
    /// It keeps its CPU busy all the time.
    pub(super) is_busy: bool,
    /// One CPU at a time.
    pub(super) is_single: bool,
    /// Counts that should be 0: exit status 1 where one is not.
    pub(super) faults: &'static [&'static str],
    /// How a sample comes about, for its explanation.
    pub(super) asked: Asked,
    pub(super) explaining: &'a Explaining,
}
