// SPDX-License-Identifier: MIT OR Apache-2.0
//! How findings are shown: durations with three digits, times of day as `kymo read` shows them, names of what latencies
//! are of.

use kymo_command::terminal::{Style, paint};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kymo_analyze::{Context, Latency, Sample, Waker};
use kymo_ctf::read::Trace;

pub use kymo_analyze::{duration, priority, signed_duration};
pub use kymo_command::caveats::missing;
pub use kymo_query::{FunctionNames, NameTable};

/// Times as text.
pub struct Times {
    /// `None`: the clock does not tell the time of day.
    zone: Option<TimeZone>,
}

impl Times {
    /// Of these traces.
    pub fn new(traces: &[Trace], utc: bool) -> Times {
        let is_absolute = traces.iter().all(|trace| trace.metadata.clocks.iter().all(|clock| clock.absolute));
        let zone = if utc { TimeZone::UTC } else { TimeZone::system() };
        Times { zone: is_absolute.then_some(zone) }
    }

    /// A time of day, or seconds of the trace's clock.
    pub fn text(&self, ns: i64) -> String {
        let of_day = self.zone.as_ref().zip(Timestamp::from_nanosecond(ns.into()).ok());
        match of_day {
            Some((zone, time)) => time.to_zoned(zone.clone()).strftime("%H:%M:%S.%9f").to_string(),
            None => format!("{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)),
        }
    }
}

/// Thread, priority and who woke it, as far as known.
pub fn who(sample: &Sample, latency: &Latency, functions: &dyn FunctionNames) -> String {
    let mut parts = Vec::new();
    match sample.tid {
        Some(0) | None => {}
        Some(tid) if sample.name.is_empty() => parts.push(format!("thread {tid}")),
        Some(tid) => parts.push(format!("{}[{tid}]", sample.name)),
    }
    parts.extend(sample.prio.map(priority));
    parts.extend(sample.waker.map(|by| format!("woken by {}", waker(&by, latency, functions))));
    parts.extend(sample.owner.map(|owner| format!("released by {}[{owner}]", latency.name_of(owner))));
    parts.join(", ")
}

/// Who wakes.
pub fn waker(waker: &Waker, latency: &Latency, functions: &dyn FunctionNames) -> String {
    let what = match waker.context {
        Context::Unknown => "somebody".to_owned(),
        Context::Idle => "the idle CPU".to_owned(),
        Context::Thread(tid) => format!("{}[{tid}]", latency.name_of(tid)),
        Context::Interrupt(interrupt) => functions.interrupt(interrupt),
    };
    if waker.cpu == u32::MAX { what } else { format!("{what} on cpu {}", waker.cpu) }
}

/// `512`, `1.50K`, `20.0M`: bytes with three digits.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let places = match value {
        _ if unit == 0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}{}", UNITS[unit])
}

/// Lines of cells, of which the first is the head: the first column to the left, the others to the right; two blanks
/// between.
pub fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| match column {
            0 => format!("{cell:<0$}", widths[0]),
            _ => format!("{cell:>0$}", widths[column]),
        };
        let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
        let cells = cells.join("  ");
        text += &if at == 0 { paint(Style::Heading, cells.trim_end()) } else { cells.trim_end().to_owned() };
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let lines = [["what", "n"], ["a", "100"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(table(&lines), "what    n\na     100\n");
    }
}
