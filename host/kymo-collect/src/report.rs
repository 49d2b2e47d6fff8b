//! From what the two threads found to the summary [spec/trace.md 7].

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::{Calibration, Estimate};
use crate::control::Found;
use crate::drain::{Report, Totals};
use crate::kernel::Recorded;
use crate::session::Config;
use crate::summary::{Blocking, Cause, ClockSummary, EventSeen, Lost, Outcome, Summary};

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
            clock: calibration.source().0.name(),
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
            lost: Lost::default(),
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
            damage: Vec::new(),
            write_error: None,
            caveats: self.caveats.clone(),
        }
    }

    /// The summary of a session that has ended.
    pub(crate) fn summary(&self, found: Found, report: Report, kernel: Option<Recorded>) -> Summary {
        let mut summary = self.initial(&found.estimate);
        let seconds = |cycles: u64| cycles.wrapping_sub(self.cycles) as i64 as f64 / found.estimate.frequency_hz as f64;
        summary.complete = true;
        summary.end = found.end.max(report.end);
        summary.duration_s = seconds(summary.end);
        summary.processes = found.processes;
        summary.process_count = found.process_count;
        for (process, totals) in &report.processes {
            summary.records += totals.records;
            summary.lost.add(&totals.lost);
            if let Some(entry) = summary.processes.get_mut(*process) {
                entry.records = entry.records.map(|records| records + totals.records);
                entry.bytes = entry.bytes.map(|bytes| bytes + totals.bytes);
                entry.lost.add(&totals.lost);
                entry.may_wait |= totals.may_wait;
                entry.waits = entry.waits.saturating_add(totals.waits);
                entry.first = [entry.first, totals.first].into_iter().flatten().min();
                entry.last = entry.last.max(totals.last);
            }
        }
        summary.blocking = self.block.map(|limit| blocking(limit, &report.processes));
        summary.marks = report.marks;
        summary.records += report.marks;
        if report.unseen > 0 {
            summary.caveats.push(format!(
                "triggers did not see {} records: they were overwritten before; a larger --ring-size or a shorter --poll-us helps",
                report.unseen
            ));
        }
        summary.caveats.extend(report.unfit.iter().map(|error| format!("a trigger never fitted any event:\n{error}")));
        summary.recorded_count = found.recorded_count;
        summary.losses = report.losses;
        for loss in &mut summary.losses {
            (loss.from_s, loss.to_s) = (seconds(loss.from), seconds(loss.to));
        }
        summary.losses.sort_by_key(|loss| (loss.from, loss.process, loss.lane));
        summary.damage = report.damage;
        summary.bytes = report.streams.bytes;
        summary.packets = report.streams.packets;
        summary.streams = report.streams.files;
        summary.rings_bytes_max = found.rings_bytes_max;
        summary.events = found.seen.into_iter().map(|(name, wanted)| EventSeen { name, wanted }).collect();
        (summary.unfiltered, summary.unfiltered_count) = (found.unfiltered, found.unfiltered_count);
        summary.caveats.extend(found.caveats);
        let mut stopped = report.streams.first_stop();
        if let Some(kernel) = kernel {
            let Recorded { report, state, summary: mut of_kernel } = kernel;
            for loss in &mut of_kernel.losses {
                (loss.from_s, loss.to_s) = (seconds(loss.from), seconds(loss.to));
            }
            summary.end = summary.end.max(report.end);
            summary.duration_s = seconds(summary.end);
            summary.records += of_kernel.records;
            for streams in [Some(report.streams), state.map(|state| state.streams)].into_iter().flatten() {
                summary.bytes += streams.bytes;
                summary.packets += streams.packets;
                summary.streams += streams.files;
                stopped = stopped.or(streams.first_stop());
            }
            summary.kernel = Some(of_kernel);
        }
        if let Some((error, at)) = stopped {
            summary.write_error = Some(format!("{error}, {:.3} s after the start", seconds(at)));
        }
        if report.losses_left_out > 0 {
            summary.caveats.push(format!(
                "{} lost records are in the totals but not in the list of losses",
                report.losses_left_out
            ));
        }
        if summary.process_count > summary.processes.len() as u64 {
            let left_out = summary.process_count - summary.processes.len() as u64;
            summary.caveats.push(format!("{left_out} more programs were seen than are listed"));
        }
        let refused = summary.processes.iter().filter(|process| matches!(process.outcome, Outcome::Refused(_))).count();
        if refused > 0 {
            summary.caveats.push(format!("{refused} programs were refused: see their entries"));
        }
        if *summary.lost.of(Cause::Damaged) > 0 || !summary.damage.is_empty() {
            summary
                .caveats
                .push("a program wrote into its rings against the rules: its own records are damaged".to_owned());
        }
        summary
    }
}

/// A program that was given other rings while it ran is one.
fn blocking(limit: Duration, processes: &[(usize, Totals)]) -> Blocking {
    let waiting = || processes.iter().filter(|(_, totals)| totals.may_wait);
    let programs: HashSet<usize> = waiting().map(|(process, _)| *process).collect();
    let waits = waiting().fold(0u64, |sum, (_, totals)| sum.saturating_add(totals.waits));
    Blocking { limit_s: limit.as_secs_f64(), programs: programs.len() as u64, waits }
}
