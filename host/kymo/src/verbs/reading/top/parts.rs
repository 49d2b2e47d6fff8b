// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of the report of `kymo top`, and which of them a trace can have.

use anyhow::bail;
use kymo_analyze::Facts;

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// CPUs
    #[value(aliases = ["$cpu", "$cpu_id"])]
    Cpu,
    /// Processes
    #[value(aliases = ["$pid", "$vpid", "$process"])]
    Process,
    /// Threads
    #[value(aliases = ["$tid", "$vtid", "$thread"])]
    Thread,
    /// Interrupts of devices, and of the processor's own
    Irq,
    /// Softirqs
    Softirq,
    /// Block devices
    Device,
    /// Files
    File,
    /// Functions, by samples
    Function,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sort {
    /// CPU time
    Cpu,
    /// Bytes
    Io,
}

impl Part {
    pub(super) const ALL: [Part; 8] =
        [Part::Cpu, Part::Process, Part::Thread, Part::Function, Part::Irq, Part::Softirq, Part::Device, Part::File];

    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Cpu => "cpu",
            Part::Process => "process",
            Part::Thread => "thread",
            Part::Irq => "irq",
            Part::Softirq => "softirq",
            Part::Device => "device",
            Part::File => "file",
            Part::Function => "function",
        }
    }

    /// Why the trace says nothing of it, if so.
    pub(super) fn missing(self, recorded: &RecordedEvents) -> Option<&'static str> {
        let has_io = recorded.has_transfers || recorded.facts.requests;
        let (is_there, why) = match self {
            Part::Cpu => (recorded.facts.switches, NO_SWITCHES),
            Part::Process | Part::Thread => (recorded.facts.switches || has_io, NO_SWITCHES),
            Part::Irq => (recorded.facts.hard_interrupts, "no interrupt events: record with -k irq"),
            Part::Softirq => (recorded.facts.softirqs, "no softirq events: record with -k irq"),
            Part::Device => (recorded.facts.requests, "no block events: record with -k block"),
            Part::Function => (recorded.has_samples, "no samples: record with -k perf:cpu-clock"),
            Part::File => (recorded.has_transfers, "no system calls that read or write: record with -k syscalls"),
        };
        (!is_there).then_some(why)
    }
}

pub(super) const NO_SWITCHES: &str = "no sched events: record with -k sched";

/// Which events the trace has.
pub(super) struct RecordedEvents {
    pub(super) facts: Facts,
    pub(super) has_transfers: bool,
    pub(super) has_samples: bool,
    /// Of chosen processes only.
    pub(super) is_restricted: bool,
}

/// A part that cannot be shown, and why.
pub(super) type MissingPart = (Part, &'static str);

/// Parts that are shown, and those that the trace says nothing of.
///
/// # Errors
/// It says nothing of any that is asked for.
pub(super) fn parts(by: &[Part], recorded: &RecordedEvents) -> anyhow::Result<(Vec<Part>, Vec<MissingPart>)> {
    let is_asked = |part: &Part| by.is_empty() || by.contains(part);
    let asked = || Part::ALL.into_iter().filter(is_asked);
    let missing: Vec<_> = asked().filter_map(|part| Some((part, part.missing(recorded)?))).collect();
    let parts: Vec<Part> = asked().filter(|part| part.missing(recorded).is_none()).collect();
    if parts.is_empty() {
        let mut whys: Vec<&str> = missing.iter().map(|(_, why)| *why).collect();
        whys.dedup();
        bail!("the trace has {}", whys.join("; "));
    }
    Ok((parts, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_not_recorded_are_named() {
        let recorded = |facts: Facts, has_transfers| RecordedEvents {
            facts,
            has_transfers,
            has_samples: false,
            is_restricted: false,
        };
        let nothing = recorded(Facts::default(), false);
        let error = parts(&[Part::Thread, Part::Process, Part::Irq], &nothing).unwrap_err().to_string();
        assert_eq!(
            error,
            "the trace has no sched events: record with -k sched; no interrupt events: record with -k irq"
        );
        let calls = recorded(Facts::default(), true);
        let (there, missing) = parts(&[], &calls).unwrap();
        assert_eq!(there, [Part::Process, Part::Thread, Part::File]);
        let missing: Vec<&str> = missing.iter().map(|(part, _)| part.name()).collect();
        assert_eq!(missing, ["cpu", "function", "irq", "softirq", "device"]);
        let switches = recorded(Facts { switches: true, ..Facts::default() }, false);
        assert_eq!(parts(&[Part::Cpu], &switches).unwrap().0, [Part::Cpu]);
    }
}
