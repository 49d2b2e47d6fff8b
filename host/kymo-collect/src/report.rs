// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the two threads found to the summary [spec/trace.md 7].

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::{Calibration, Estimate};
use crate::control::ControlEnd;
use crate::drain::{Report, Totals};
use crate::kernel::Recorded;
use crate::session::Config;
use crate::stream::Streams;
use crate::summary::{Blocking, Cause, ClockSummary, EventSeen, Lost, Outcome, Summary};
use crate::unknown::{Missing, Unknown, Unknowns};

/// What the summary says of the start of a session.
#[derive(Debug)]
pub(crate) struct Start {
    session: String,
    command: Vec<String>,
    trace: PathBuf,
    format: &'static str,
    clock: &'static str,
    cycles: u64,
    realtime_ns: u64,
    block: Option<Duration>,
    /// What was wrong before anything was recorded.
    pub caveats: Vec<String>,
}

impl Start {
    pub(crate) fn new(config: &Config, trace: PathBuf, calibration: &Calibration) -> Start {
        Start {
            session: config.name.clone(),
            command: config.command.clone(),
            trace,
            format: config.format.name(),
            clock: calibration.source().clock().name(),
            cycles: calibration.start_cycles(),
            realtime_ns: calibration.start_realtime_ns(),
            block: config.block,
            caveats: Vec::new(),
        }
    }

    /// The summary of a session that has just begun: it marks the directory as a trace of kymo.
    pub(crate) fn initial(&self, estimate: &Estimate) -> Summary {
        Summary {
            tool: "kymo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            complete: false,
            session: self.session.clone(),
            command: self.command.clone(),
            trace: self.trace.clone(),
            format: self.format.to_owned(),
            start: self.cycles,
            end: self.cycles,
            start_realtime_ns: self.realtime_ns,
            duration_s: 0.0,
            clock: ClockSummary {
                name: self.clock.to_owned(),
                frequency_hz: estimate.frequency_hz,
                frequency_error_ppm: estimate.error_ppm,
                baseline_ns: estimate.baseline_ns,
                precision_cycles: estimate.precision_cycles,
                offset_s: estimate.offset_s,
                offset_cycles: estimate.offset_cycles,
            },
            records: 0,
            marks: 0,
            bytes: 0,
            packets: 0,
            streams: 0,
            rings_bytes_max: 0,
            lost: None,
            lost_counted: Lost::default(),
            losses: Vec::new(),
            blocking: None,
            flight: None,
            kernel: None,
            chunks: Vec::new(),
            chunks_left_out: 0,
            processes: Vec::new(),
            process_count: 0,
            recorded_count: 0,
            events: Vec::new(),
            unfiltered: Vec::new(),
            unfiltered_count: 0,
            unknown: Vec::new(),
            unknown_count: 0,
            damage: Vec::new(),
            write_error: None,
            write_resumed: false,
            trace_error: None,
            rings_not_kept: 0,
            caveats: self.caveats.clone(),
        }
    }

    /// The summary of a session that has ended.
    pub(crate) fn summary(&self, found: ControlEnd, report: Report, kernel: Option<Recorded>) -> Summary {
        let ControlEnd { estimate, end, mut unknown, processes, .. } = found;
        unknown.extend(report.unknown);
        let mut summary = self.initial(&estimate);
        let seconds = |cycles: u64| cycles.wrapping_sub(self.cycles) as i64 as f64 / estimate.frequency_hz as f64;
        summary.complete = true;
        summary.end = end.max(report.end);
        summary.processes = processes;
        (summary.process_count, summary.recorded_count) = (found.process_count, found.recorded_count);
        summary.rings_not_kept = found.rings_not_kept;
        summary.rings_bytes_max = found.rings_bytes_max;
        add_programs(&mut summary, &report.processes);
        summary.blocking = self.block.map(|limit| blocking(limit, &report.processes));
        summary.marks = report.marks;
        summary.records += report.marks;
        let unwritten_marks = summary.lost_counted.of(Cause::NotWritten);
        *unwritten_marks = unwritten_marks.saturating_add(report.marks_lost);
        (summary.losses, summary.damage) = (report.losses, report.damage);
        for loss in &mut summary.losses {
            (loss.from_s, loss.to_s) = (seconds(loss.from), seconds(loss.to));
        }
        summary.losses.sort_by_key(|loss| (loss.from, loss.process, loss.lane));
        summary.events = found.seen.into_iter().map(|(name, wanted)| EventSeen { name, wanted }).collect();
        (summary.unfiltered, summary.unfiltered_count) = (found.unfiltered, found.unfiltered_count);
        summary.caveats.extend(of_triggers(report.unseen, &report.unfit));
        summary.caveats.extend(found.caveats);
        let mut all_streams = vec![report.streams];
        if let Some(Recorded { report, state, summary: mut of_kernel, .. }) = kernel {
            for loss in &mut of_kernel.losses {
                (loss.from_s, loss.to_s) = (seconds(loss.from), seconds(loss.to));
            }
            summary.end = summary.end.max(report.end);
            summary.records += of_kernel.records;
            all_streams.push(report.streams);
            all_streams.extend(state.map(|state| state.streams));
            summary.kernel = Some(of_kernel);
        }
        summary.duration_s = seconds(summary.end);
        if let Some((error, at)) = add_streams(&mut summary, &all_streams, &mut unknown) {
            summary.write_error = Some(format!("{error}, {:.3} s after the start", seconds(at)));
            summary.write_resumed = all_streams.iter().all(Streams::is_writing);
        }
        let notes = notes(&summary, report.losses_left_out);
        summary.caveats.extend(notes);
        for process in &mut summary.processes {
            process.lost = Some(process.lost_counted);
        }
        summary.admit(unknown);
        summary
    }
}

/// What the drain thread found of each program.
fn add_programs(summary: &mut Summary, processes: &[(usize, Totals)]) {
    for (process, totals) in processes {
        summary.records += totals.records;
        summary.lost_counted.add(&totals.lost);
        if let Some(entry) = summary.processes.get_mut(*process) {
            entry.records = entry.records.map(|records| records + totals.records);
            entry.bytes = entry.bytes.map(|bytes| bytes + totals.bytes);
            entry.lost_counted.add(&totals.lost);
            entry.may_wait |= totals.may_wait;
            entry.waits = entry.waits.saturating_add(totals.waits);
            entry.first = [entry.first, totals.first].into_iter().flatten().min();
            entry.last = entry.last.max(totals.last);
        }
    }
}

/// What was written, by all threads. Returns why and when something could not be written for the first time.
fn add_streams(summary: &mut Summary, all: &[Streams], unknown: &mut Unknowns) -> Option<(String, u64)> {
    for streams in all {
        summary.bytes += streams.bytes;
        summary.packets += streams.packets;
        summary.streams += streams.files;
        unknown.extend(gone(streams));
    }
    all.iter().find_map(Streams::first_stop)
}

/// What triggers did not see, and those that fitted no event.
fn of_triggers(unseen: u64, unfit: &[String]) -> Vec<String> {
    let overwritten = (unseen > 0).then(|| {
        format!(
            "triggers did not see {unseen} records: they were overwritten before; a larger --ring-size or a shorter --poll-us helps"
        )
    });
    let unfit = unfit.iter().map(|error| format!("a trigger never fitted any event:\n{error}"));
    overwritten.into_iter().chain(unfit).collect()
}

/// What the lists of the summary do not have, and what in them is easily overlooked.
fn notes(summary: &Summary, losses_left_out: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if losses_left_out > 0 {
        notes.push(format!("{losses_left_out} lost records are in the totals but not in the list of losses"));
    }
    let left_out = summary.process_count.saturating_sub(summary.processes.len() as u64);
    if left_out > 0 {
        notes.push(format!("{left_out} more programs were seen than are listed"));
    }
    let refused = summary.processes.iter().filter(|process| matches!(process.outcome, Outcome::Refused(_))).count();
    if refused > 0 {
        notes.push(format!("{refused} programs were refused: see their entries"));
    }
    if summary.lost_counted.damaged > 0 || !summary.damage.is_empty() {
        notes.push("a program wrote into its rings against the rules: its own records are damaged".to_owned());
    }
    notes
}

/// Files of the trace that somebody removed or cut short while they were written to.
fn gone(streams: &Streams) -> Unknowns {
    let mut unknown = Unknowns::default();
    for what in streams.gone() {
        let next = "keep the files of a trace as they are until its session has ended";
        unknown.add(Unknown::new(Missing::Part, format!("the trace's file {what}"), next));
    }
    unknown
}

/// A program that was given other rings while it ran is one.
fn blocking(limit: Duration, processes: &[(usize, Totals)]) -> Blocking {
    let waiting = || processes.iter().filter(|(_, totals)| totals.may_wait);
    let programs: HashSet<usize> = waiting().map(|(process, _)| *process).collect();
    let waits = waiting().fold(0u64, |sum, (_, totals)| sum.saturating_add(totals.waits));
    Blocking { limit_s: limit.as_secs_f64(), programs: programs.len() as u64, waits }
}
