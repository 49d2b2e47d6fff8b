// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people read of a recording: the progress line and the summary, on standard error.

use std::path::Path;
use std::time::Duration;

use kymo_collect::{Acted, Blocking, Cause, Loss, Outcome, Progress, Summary};
use kymo_command::figures::{bytes, count, plural, quoted, short};
use kymo_command::unknown;

use serde_json::Value;

use super::kernel;
use kymo_command::terminal::Progress as Line;

/// Losses that are named one by one.
const LOSSES_SHOWN: usize = 8;

/// The progress line of a recording, with the share of its time where that is limited.
pub(crate) struct ProgressLine {
    line: Line,
    duration: Option<Duration>,
    last: (u64, Duration),
}

impl ProgressLine {
    pub(crate) fn new(is_wanted: bool, duration: Option<Duration>) -> ProgressLine {
        ProgressLine { line: Line::wanted(is_wanted), duration, last: (0, Duration::ZERO) }
    }

    /// Whether there is anybody to show it to.
    pub(crate) fn is_shown(&self) -> bool {
        self.line.is_shown()
    }

    /// Shows the counts at `at`, time since the start.
    pub(crate) fn show(&mut self, now: &Progress, at: Duration) {
        let last = &mut self.last;
        let text = || {
            let rate = (now.records - last.0) as f64 / at.saturating_sub(last.1).as_secs_f64().max(1e-3);
            *last = (now.records, at);
            format!(
                "{:.0} s, {} records ({}/s), {}, {} lost, {}",
                at.as_secs_f64(),
                count(now.records),
                short(rate),
                bytes(now.bytes),
                count(now.lost),
                plural(now.programs, "program")
            )
        };
        match self.duration {
            Some(duration) => self.line.show_share(at.as_secs_f64() / duration.as_secs_f64(), text),
            None => self.line.show(text),
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        self.line.end();
    }
}

/// The lines of a summary, all but the reasons why nothing was recorded.
pub(crate) fn summary(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let rate = summary.records as f64 / summary.duration_s.max(1e-9);
    lines.push(format!(
        "{} in {:.3} s ({}/s), {} in {}",
        plural(summary.records, "record"),
        summary.duration_s,
        short(rate),
        bytes(summary.bytes),
        plural(summary.streams, "stream")
    ));
    lines.extend(chunks(summary));
    losses(summary, &mut lines);
    lines.extend(summary.blocking.as_ref().map(|blocking| waiting(blocking, summary.recorded_count)));
    processes(summary, &mut lines);
    lines.extend(writing(summary));
    for damage in summary.damage.iter().take(LOSSES_SHOWN) {
        let closed = if damage.lane_closed { "; the lane was given up" } else { "" };
        lines.push(format!(
            "damage: {}, lane {}: {}{closed}",
            process(summary, damage.process, damage.vpid),
            damage.lane,
            damage.what
        ));
    }
    unfiltered(summary, &mut lines);
    for caveat in &summary.caveats {
        lines.push(format!("note: {caveat}"));
    }
    lines.extend(summary.kernel.iter().flat_map(kernel::summary));
    lines
}

/// What became of the trace's files, where that is worth a word.
fn writing(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    match &summary.write_error {
        Some(error) if summary.write_resumed => lines.push(format!(
            "writing was interrupted: {error}; it went on later, and the trace tells where records are missing"
        )),
        Some(error) => lines.push(format!("writing ended: {error}; the trace is whole up to there")),
        None => {}
    }
    lines.extend(summary.trace_error.as_deref().map(unknown::trace_is_gone));
    lines
}

/// What to do next.
pub(crate) fn next(trace: &Path) -> String {
    format!("trace in {}; next: kymo read {}", trace.display(), quoted(trace))
}

/// When a trace is cut, as a session says it: `at 1 GiB, after 60 s, keeping 5`.
pub(crate) fn rotation(rotation: &Value) -> String {
    let number = |key: &str| rotation[key].as_u64();
    let parts = [
        number("bytes").map(|size| format!("at {}", bytes(size))),
        number("time_ms").map(|ms| format!("after {} s", ms as f64 / 1e3)),
        number("keep").map(|keep| format!("keeping {} closed", plural(keep, "chunk"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

/// A trace that was cut.
fn chunks(summary: &Summary) -> Option<String> {
    let there = summary.chunks.iter().filter(|chunk| !chunk.removed).count() as u64;
    let all = summary.chunks.len() as u64 + summary.chunks_left_out;
    let gone = if all > there { format!(", {} were removed (--keep)", count(all - there)) } else { String::new() };
    (all > 0).then(|| format!("{} in {}{gone}", plural(there, "chunk"), summary.trace.display()))
}

/// The snapshots of a flight recorder.
pub fn snapshots(flight: &Acted) -> Vec<String> {
    let mut lines: Vec<String> = flight
        .snapshots
        .iter()
        .map(|snapshot| {
            format!(
                "snapshot {}: {}, {} ({} overwritten before), in {:.1} ms",
                snapshot.dir.display(),
                snapshot.reason,
                plural(snapshot.records, "record"),
                count(snapshot.overwritten),
                snapshot.took.as_secs_f64() * 1e3
            )
        })
        .collect();
    if flight.held_back > 0 {
        lines.push(format!(
            "triggers fired {} more times, beyond --trigger-limit or --trigger-pause",
            count(flight.held_back)
        ));
    }
    lines
}

/// Events that were recorded without their filter.
fn unfiltered(summary: &Summary, lines: &mut Vec<String>) {
    for entry in summary.unfiltered.iter().take(LOSSES_SHOWN) {
        let who = process(summary, entry.process, entry.vpid);
        lines.push(format!("{who} recorded {} WITHOUT its filter: {}", entry.event, entry.why));
    }
    if summary.unfiltered_count > LOSSES_SHOWN as u64 {
        let more = summary.unfiltered_count - LOSSES_SHOWN as u64;
        lines.push(format!("and {more} more events without their filter: see the summary's unfiltered"));
    }
}

/// Who waited for room.
fn waiting(blocking: &Blocking, recorded: u64) -> String {
    let hint = match blocking.programs {
        0 if recorded > 0 => " (a program agrees by KYMO_ALLOW_BLOCKING=1 in its environment)",
        _ => "",
    };
    format!(
        "{} of {} waited for room in full rings, {} did, each up to {} s{hint}",
        count(blocking.programs),
        plural(recorded, "program"),
        plural(blocking.waits, "record"),
        blocking.limit_s
    )
}

fn processes(summary: &Summary, lines: &mut Vec<String>) {
    let mut names: Vec<&str> = summary
        .processes
        .iter()
        .filter(|process| process.outcome == Outcome::Attached)
        .map(|process| process.comm.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(5);
    let mut list = names[..names.len() - more].join(", ");
    if more > 0 {
        list += &format!(" and {more} more");
    }
    let list = if list.is_empty() { list } else { format!(" ({list})") };
    let clock = &summary.clock;
    let mut programs = String::new();
    if summary.process_count > 0 || summary.kernel.is_none() {
        programs = format!(
            "{} recorded{list}, {} seen; rings: up to {}; ",
            plural(summary.recorded_count, "program"),
            count(summary.process_count),
            bytes(summary.rings_bytes_max)
        );
    }
    lines.push(format!(
        "{programs}clock: {} at {:.6} MHz, within {:.2} ppm",
        clock.name,
        clock.frequency_hz as f64 / 1e6,
        clock.frequency_error_ppm
    ));
}

fn process(summary: &Summary, index: usize, vpid: u32) -> String {
    let comm = summary.processes.get(index).map_or("?", |process| process.comm.as_str());
    format!("{comm}[{vpid}]")
}

fn losses(summary: &Summary, lines: &mut Vec<String>) {
    let mut lost = summary.lost_counted;
    let total = lost.total();
    let is_known = summary.is_accounted_for();
    if total == 0 && is_known {
        let is_all = summary.kernel.as_ref().is_none_or(|kernel| kernel.lost.total() == 0);
        lines.push(format!("nothing was lost{}", if is_all { "" } else { " of the programs' records" }));
        return;
    }
    if !is_known {
        lines.extend(unknown::lines(summary));
    }
    if total == 0 {
        return;
    }
    let causes: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (*lost.of(cause), cause.text()))
        .filter(|(records, _)| *records > 0)
        .map(|(records, text)| format!("{text}: {}", count(records)))
        .collect();
    let share = 100.0 * total as f64 / (total.saturating_add(summary.records)) as f64;
    let share = if is_known { format!("{share:.2} % of all") } else { "and what is unknown".to_owned() };
    lines.push(format!("LOST {} ({share}): {}", plural(total, "record"), causes.join(", ")));
    let mut largest: Vec<&Loss> = summary.losses.iter().collect();
    largest.sort_by_key(|loss| std::cmp::Reverse(loss.records));
    let more = largest.len().saturating_sub(LOSSES_SHOWN);
    largest.truncate(LOSSES_SHOWN);
    largest.sort_by_key(|loss| loss.from);
    for loss in largest {
        let place = loss.cpu.map_or_else(|| format!("lane {}", loss.lane), |cpu| format!("CPU {cpu}"));
        lines.push(format!(
            "  {:.6} s to {:.6} s: {} of {} on {place}, {}",
            loss.from_s,
            loss.to_s,
            plural(loss.records, "record"),
            process(summary, loss.process, loss.vpid),
            loss.cause.text()
        ));
    }
    if more > 0 {
        lines.push(format!(
            "  and {more} more intervals: see {}",
            summary.trace.join(kymo_collect::SUMMARY_FILE).display()
        ));
    }
    if lost.lane > 0 {
        lines.push(
            "  threads without a lane are helped by more memory (--memory) or smaller rings (--ring-size); children of \
             _Fork or clone have none"
                .to_owned(),
        );
    }
    if lost.full > 0 {
        lines.push(
            "  a full ring is helped by a larger --ring-size, a shorter --poll-us, or fewer events (-x)".to_owned(),
        );
    }
}
