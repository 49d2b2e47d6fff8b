//! What people read of a recording: the progress line and the summary, on standard error.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use kymo_collect::{Acted, Blocking, Cause, Loss, Outcome, Progress, Summary};
use serde_json::Value;

/// Losses that are named one by one.
const LOSSES_SHOWN: usize = 8;

/// One line that is written over, on a terminal only.
pub(crate) struct ProgressLine {
    show: bool,
    last: (u64, Duration),
}

impl ProgressLine {
    pub(crate) fn new(show: bool) -> ProgressLine {
        ProgressLine { show, last: (0, Duration::ZERO) }
    }

    /// Shows the counts at `at`, time since the start.
    pub(crate) fn show(&mut self, now: &Progress, at: Duration) {
        let passed = at.saturating_sub(self.last.1);
        if !self.show || passed < Duration::from_millis(100) {
            return;
        }
        let rate = (now.records - self.last.0) as f64 / passed.as_secs_f64();
        self.last = (now.records, at);
        eprint!(
            "\r\x1b[Kkymo: {:.0} s, {} records ({}/s), {}, {} lost, {}",
            at.as_secs_f64(),
            count(now.records),
            short(rate),
            bytes(now.bytes),
            count(now.lost),
            plural(now.programs, "program")
        );
        let _ = std::io::stderr().flush();
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.show {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

/// `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.2 M`: three digits or so.
pub(crate) fn short(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.2} G", value / 1e9),
        _ if value >= 1e6 => format!("{:.2} M", value / 1e6),
        _ if value >= 1e4 => format!("{:.1} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// `4 MiB`, `1.5 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| value < 1 << (10 * (unit + 1))).unwrap_or(UNITS.len() - 1);
    let scaled = value as f64 / (1u64 << (10 * unit)) as f64;
    let digits = if scaled.fract() == 0.0 || scaled >= 100.0 { 0 } else { 1 };
    format!("{scaled:.digits$} {}", UNITS[unit])
}

/// `4M`, `64K`: as options take it.
pub(crate) fn size(value: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")].into_iter().find(|(shift, _)| value > 0 && value % (1 << shift) == 0);
    unit.map_or_else(|| value.to_string(), |(shift, letter)| format!("{}{letter}", value >> shift))
}

/// `1 program`, `2 programs`, `2 processes`.
pub(crate) fn plural(value: u64, noun: &str) -> String {
    let ending = if noun.ends_with('s') { "es" } else { "s" };
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { ending })
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+=:@,".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
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
    if let Some(error) = &summary.write_error {
        lines.push(format!("writing ended: {error}; the trace is whole up to there"));
    }
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
    lines.extend(summary.kernel.iter().flat_map(super::kernel::summary));
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

/// A process id, and the one by which the process knows itself where that differs: 0 is one that is not seen from here.
pub(crate) fn ids(pid: u64, vpid: u64) -> String {
    match pid {
        0 => format!("{vpid} inside"),
        _ if pid == vpid => pid.to_string(),
        _ => format!("{pid}, {vpid} inside"),
    }
}

fn process(summary: &Summary, index: usize, vpid: u32) -> String {
    let comm = summary.processes.get(index).map_or("?", |process| process.comm.as_str());
    format!("{comm}[{vpid}]")
}

fn losses(summary: &Summary, lines: &mut Vec<String>) {
    let mut lost = summary.lost;
    let total = lost.total();
    if total == 0 {
        let is_all = summary.kernel.as_ref().is_none_or(|kernel| kernel.lost.total() == 0);
        lines.push(format!("nothing was lost{}", if is_all { "" } else { " of the programs' records" }));
        return;
    }
    let causes: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (*lost.of(cause), cause.text()))
        .filter(|(records, _)| *records > 0)
        .map(|(records, text)| format!("{text}: {}", count(records)))
        .collect();
    let share = 100.0 * total as f64 / (total.saturating_add(summary.records)) as f64;
    lines.push(format!("LOST {} ({share:.2} % of all): {}", plural(total, "record"), causes.join(", ")));
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
    if lost.full > 0 {
        lines.push(
            "  a full ring is helped by a larger --ring-size, a shorter --poll-us, or fewer events (-x)".to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(["0", "4095", "4K", "64M", "1G"], [0, 4095, 4096, 64 << 20, 1 << 30].map(size)[..]);
        assert_eq!(bytes(4 << 20), "4 MiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
        assert_eq!(plural(2, "process"), "2 processes");
        assert_eq!(quoted(Path::new("a b")), "'a b'");
    }
}
