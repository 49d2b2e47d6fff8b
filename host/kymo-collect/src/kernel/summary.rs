// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session says of the kernel at its end.

use serde::Serialize;

use crate::samples::SampleSummary;

/// Why records of the kernel are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelCause {
    /// Newer records overwrote them in a full ring.
    Overwritten,
    /// The ring was full and keeps what it has.
    Dropped,
    /// An interrupt filled the ring while a record was being written.
    Interrupted,
    /// They could not be decoded.
    Damaged,
    /// The trace could no longer be written.
    NotWritten,
}

impl KernelCause {
    /// All, in the order of reports.
    pub const ALL: [KernelCause; 5] = [
        KernelCause::Overwritten,
        KernelCause::Dropped,
        KernelCause::Interrupted,
        KernelCause::Damaged,
        KernelCause::NotWritten,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            KernelCause::Overwritten => "ring full, overwritten",
            KernelCause::Dropped => "ring full, dropped",
            KernelCause::Interrupted => "ring full within one record",
            KernelCause::Damaged => "damaged",
            KernelCause::NotWritten => "not written",
        }
    }
}

/// Records lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are the causes")]
pub struct KernelLost {
    pub overwritten: u64,
    pub dropped: u64,
    pub interrupted: u64,
    pub damaged: u64,
    pub not_written: u64,
}

impl KernelLost {
    /// The count of one cause.
    pub fn of(&mut self, cause: KernelCause) -> &mut u64 {
        match cause {
            KernelCause::Overwritten => &mut self.overwritten,
            KernelCause::Dropped => &mut self.dropped,
            KernelCause::Interrupted => &mut self.interrupted,
            KernelCause::Damaged => &mut self.damaged,
            KernelCause::NotWritten => &mut self.not_written,
        }
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        let mut copy = *self;
        KernelCause::ALL.into_iter().map(|cause| *copy.of(cause)).fold(0, u64::saturating_add)
    }
}

/// Records lost on one CPU for one cause within an interval of the trace clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelLoss {
    /// CPU.
    pub cpu: u32,
    /// Why.
    pub cause: KernelCause,
    /// How many.
    pub records: u64,
    /// Clock value of the last record in front.
    pub from: u64,
    /// Clock value of the first record behind, or of when the loss was seen.
    pub to: u64,
    /// `from`, in seconds since the start of the session.
    pub from_s: f64,
    /// `to`, in seconds since the start of the session.
    pub to_s: f64,
}

/// What the state dumps came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StateSummary {
    /// Dumps: at the start and at the end.
    pub dumps: u64,
    /// Records of all dumps.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Processes in the last dump.
    pub processes: u64,
    /// Threads in the last dump.
    pub threads: u64,
    /// Open files in the last dump.
    pub files: u64,
    /// Memory maps in the last dump.
    pub maps: u64,
    /// Records of what changed the names of threads since the first dump.
    pub changes: u64,
    /// What could not be seen.
    pub caveats: Vec<String>,
}

/// The kernel part of a session's summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelSummary {
    /// Name of the tracefs instance.
    pub instance: String,
    /// `trace_clock` of the instance.
    pub clock: String,
    /// Events that were switched on, as `system:event`.
    pub events: Vec<String>,
    /// Bytes of each CPU's ring.
    pub ring_bytes: u64,
    /// Whether a full ring overwrote its oldest records.
    pub overwrite: bool,
    /// Whether only chosen processes were recorded.
    pub only: bool,
    /// Records in the trace.
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Sub-buffers that were read.
    pub pages: u64,
    /// CPU seconds of the thread that read them.
    pub cpu_s: f64,
    /// Rings that were read where they are mapped; the others were copied.
    pub mapped_rings: u64,
    /// Records that are not in the trace, by cause.
    pub lost: KernelLost,
    /// The same, by CPU and interval; at most about a thousand a CPU.
    pub losses: Vec<KernelLoss>,
    /// Samples, if there were any; their records and losses are part of those above.
    pub samples: Option<SampleSummary>,
    /// State dumps, if there were any.
    pub state: Option<StateSummary>,
    /// What was wrong with pages of the rings.
    pub damage: Vec<String>,
    /// What else a reader of the trace should know.
    pub caveats: Vec<String>,
}

impl KernelSummary {
    pub(crate) fn new(
        instance: String,
        clock: String,
        events: Vec<String>,
        ring_bytes: u64,
        overwrite: bool,
    ) -> KernelSummary {
        KernelSummary {
            instance,
            clock,
            events,
            ring_bytes,
            overwrite,
            only: false,
            records: 0,
            bytes: 0,
            pages: 0,
            cpu_s: 0.0,
            mapped_rings: 0,
            lost: KernelLost::default(),
            losses: Vec::new(),
            samples: None,
            state: None,
            damage: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Adds what came of samples. What did not fit into their rings was dropped.
    pub(crate) fn add_samples(&mut self, samples: Option<SampleSummary>) {
        if let Some(samples) = &samples {
            self.records += samples.records;
            self.bytes += samples.bytes;
            *self.lost.of(KernelCause::Dropped) += samples.lost;
            self.caveats.extend(samples.caveats.iter().cloned());
        }
        self.samples = samples;
    }
}
