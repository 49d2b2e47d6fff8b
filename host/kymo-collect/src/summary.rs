// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session says at its end: `.kymo.json`, `--json`, and the text that people read [spec/trace.md 7].

use std::path::PathBuf;

use serde::Serialize;

use crate::unknown::Unknown;

/// Name of the summary in a trace's directory.
pub const SUMMARY_FILE: &str = ".kymo.json";

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why records are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The ring was full.
    Full,
    /// The record was too long.
    Size,
    /// The restartable sequence could not be completed, and the spill lane was busy.
    Restart,
    /// No lane was free for the thread.
    Lane,
    /// The records came with time stamps that run backwards.
    Damaged,
    /// The trace could no longer be written.
    NotWritten,
}

impl Cause {
    /// All, in the order of reports.
    pub const ALL: [Cause; 6] =
        [Cause::Full, Cause::Size, Cause::Restart, Cause::Lane, Cause::Damaged, Cause::NotWritten];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Cause::Full => "ring full",
            Cause::Size => "record too long",
            Cause::Restart => "sequence restarted too often",
            Cause::Lane => "no free lane",
            Cause::Damaged => "damaged",
            Cause::NotWritten => "not written",
        }
    }
}

/// Records lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are the causes")]
pub struct Lost {
    pub full: u64,
    pub size: u64,
    pub restart: u64,
    pub lane: u64,
    pub damaged: u64,
    pub not_written: u64,
}

impl Lost {
    /// The count of one cause.
    pub fn of(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Full => &mut self.full,
            Cause::Size => &mut self.size,
            Cause::Restart => &mut self.restart,
            Cause::Lane => &mut self.lane,
            Cause::Damaged => &mut self.damaged,
            Cause::NotWritten => &mut self.not_written,
        }
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        let mut copy = *self;
        Cause::ALL.into_iter().map(|cause| *copy.of(cause)).fold(0, u64::saturating_add)
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Lost) {
        let mut other = *other;
        for cause in Cause::ALL {
            let count = self.of(cause);
            *count = count.saturating_add(*other.of(cause));
        }
    }
}

/// Records lost on one lane for one cause within an interval of the trace clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Index into [`Summary::processes`].
    pub process: usize,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// Lane of the process's ring memory.
    pub lane: u32,
    /// CPU of the lane, where it has one.
    pub cpu: Option<u32>,
    /// Why.
    pub cause: Cause,
    /// How many.
    pub records: u64,
    /// Clock value before the first of them.
    pub from: u64,
    /// Clock value after the last of them.
    pub to: u64,
    /// `from`, in seconds since the start of the session.
    pub from_s: f64,
    /// `to`, in seconds since the start of the session.
    pub to_s: f64,
}

/// Something that a program wrote into its rings against the rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Damage {
    /// Index into [`Summary::processes`].
    pub process: usize,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// Lane of the process's ring memory.
    pub lane: u32,
    /// Clock value when it was found.
    pub at: u64,
    /// What was wrong, with the numbers.
    pub what: String,
    /// Whether the lane was given up.
    pub lane_closed: bool,
}

/// What became of a program that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It said who it is, and nothing more yet.
    Greeted,
    /// None of its events is wanted.
    NothingWanted,
    /// It has ring memory.
    Attached,
    /// This is no program, but rings that several of one user share [spec/session.md 13].
    SharedRings,
    /// It is outside of the session's scope.
    OutOfScope,
    /// It was found twice; the other entry is the one.
    Duplicate,
    /// The session does not work with it; the text says why.
    Refused(String),
}

/// One program of a session. A process that executes another program counts again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessSummary {
    /// Process id; 0 where it belongs to a pid namespace that the collector does not see.
    pub pid: u32,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// Its name.
    pub comm: String,
    /// Its executable.
    pub exe: String,
    /// `rseq` or `portable`.
    pub ring: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Lanes of its memory.
    pub lanes: u32,
    /// Bytes of each ring.
    pub ring_bytes: u32,
    /// Records in the trace; `None` of a program that shares rings: they are counted there.
    pub records: Option<u64>,
    /// Bytes of records in the trace; the same holds.
    pub bytes: Option<u64>,
    /// Records that are not; `None` where not all of them could be counted [`Summary::unknown`].
    pub lost: Option<Lost>,
    /// Those of them that were counted.
    pub lost_counted: Lost,
    /// The entry of the rings that it shares: an index into the list of processes.
    pub shares: Option<usize>,
    /// Whether its writers wait for room [`Blocking`].
    pub may_wait: bool,
    /// Records that had to.
    pub waits: u64,
    /// Clock value of its first record.
    pub first: Option<u64>,
    /// Clock value that is not before its last record.
    pub last: Option<u64>,
}

/// An event that a program in scope has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventSeen {
    /// `provider:name`.
    pub name: String,
    /// Whether the patterns want it.
    pub wanted: bool,
}

/// The trace clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockSummary {
    /// `tsc` or `monotonic`.
    pub name: String,
    /// Cycles per second.
    pub frequency_hz: u64,
    /// Bound of the frequency's relative error against CLOCK_MONOTONIC_RAW, parts per million.
    pub frequency_error_ppm: f64,
    /// Time between the readings that the frequency comes from.
    pub baseline_ns: u64,
    /// Uncertainty of the offset to CLOCK_REALTIME, cycles.
    pub precision_cycles: u64,
    /// Seconds from 1970 to cycle `-offset_cycles`.
    pub offset_s: i64,
    /// See `offset_s`.
    pub offset_cycles: u64,
}

/// An event that a program records without its filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfiltered {
    /// Index into [`Summary::processes`].
    pub process: usize,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// `provider:name`.
    pub event: String,
    /// Why, for people.
    pub why: String,
}

/// What waiting for room came to. Programs count for themselves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocking {
    /// How long a record waits at most.
    pub limit_s: f64,
    /// Programs that have agreed.
    pub programs: u64,
    /// Records that had to wait.
    pub waits: u64,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// `kymo`.
    pub tool: String,
    /// Version of the tool.
    pub version: String,
    /// False while the session runs: then the counts are those of its start.
    pub complete: bool,
    /// Name of the session.
    pub session: String,
    /// The command, if one was run.
    pub command: Vec<String>,
    /// Where the trace is.
    pub trace: PathBuf,
    /// `ctf-1.8` or `ctf-2`.
    pub format: String,
    /// Clock value of the start.
    pub start: u64,
    /// Clock value of the end.
    pub end: u64,
    /// Wall time of the start, nanoseconds since 1970.
    pub start_realtime_ns: u64,
    /// Length of the session.
    pub duration_s: f64,
    /// The clock.
    pub clock: ClockSummary,
    /// Records in the trace: of programs and of the kernel, without the state dump.
    pub records: u64,
    /// Marks among them.
    pub marks: u64,
    /// Bytes of the stream files.
    pub bytes: u64,
    /// Packets in the stream files.
    pub packets: u64,
    /// Stream files.
    pub streams: u64,
    /// Largest amount of ring memory at one time.
    pub rings_bytes_max: u64,
    /// Records that are not in the trace, by cause; `None` where not all of them could be counted, see `unknown`.
    pub lost: Option<Lost>,
    /// Those of them that were counted.
    pub lost_counted: Lost,
    /// The same, by process, lane and interval; at most a few thousand, the rest is merged.
    pub losses: Vec<Loss>,
    /// Waiting for room, where that is allowed.
    pub blocking: Option<Blocking>,
    /// Triggers of a flight recorder.
    pub flight: Option<crate::trigger::Acted>,
    /// The kernel, if it was recorded.
    pub kernel: Option<crate::kernel::KernelSummary>,
    /// The directories of a trace that was cut [spec/session.md 14]; the last one ended with the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<crate::chunks::Chunk>,
    /// Chunks that came before those.
    #[serde(skip_serializing_if = "is_zero")]
    pub chunks_left_out: u64,
    /// Programs seen, those that were not recorded too; at most 10,000.
    pub processes: Vec<ProcessSummary>,
    /// Programs seen.
    pub process_count: u64,
    /// Programs that had ring memory.
    pub recorded_count: u64,
    /// Events of all programs in scope.
    pub events: Vec<EventSeen>,
    /// Events that programs recorded without their filter, because they refused it; at most 100.
    pub unfiltered: Vec<Unfiltered>,
    /// How many they were.
    pub unfiltered_count: u64,
    /// Programs and records that could not be counted [spec/session.md 15]; at most 100.
    pub unknown: Vec<Unknown>,
    /// How many they were.
    pub unknown_count: u64,
    /// What programs did against the rules; at most 100.
    pub damage: Vec<Damage>,
    /// Why and when records could not be written for the first time, if so; those are in `lost`.
    pub write_error: Option<String>,
    /// Whether writing went on later, and until the end.
    pub write_resumed: bool,
    /// Why the trace is not where it should be, or could not be completed, if so.
    pub trace_error: Option<String>,
    /// Programs whose rings could not be files in --ring-dir: they belong to other users than the session.
    pub rings_not_kept: u64,
    /// What else a reader of the trace should know.
    pub caveats: Vec<String>,
}

impl Summary {
    /// Whether every record of every program that matched is in the trace or counted as lost.
    pub fn is_accounted_for(&self) -> bool {
        self.unknown_count == 0
    }

    /// The trace is not where it was: nothing is known to be in it.
    pub(crate) fn admit_loss_of_trace(&mut self, reason: &str, next: &str) {
        self.trace_error = Some(reason.to_owned());
        self.unknown_count += 1;
        self.unknown.insert(0, Unknown::new(crate::unknown::Missing::Part, reason, next));
        self.lost = None;
    }

    /// Takes what could not be counted: where there is anything, no number stands for all losses any more.
    pub(crate) fn admit(&mut self, unknown: crate::unknown::Unknowns) {
        (self.unknown, self.unknown_count) = unknown.into_parts();
        for entry in &mut self.unknown {
            let Some(process) = entry.process.and_then(|at| self.processes.get_mut(at)) else { continue };
            process.lost = None;
            if entry.comm.is_empty() {
                (entry.pid, entry.vpid, entry.comm) = (process.pid, process.vpid, process.comm.clone());
            }
        }
        self.lost = (self.unknown_count == 0).then_some(self.lost_counted);
    }
}
