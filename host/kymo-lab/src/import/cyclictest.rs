// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of cyclictest: histogram of -h and -H (2.4 with all rows and `# Total`, 2.7 and later without), samples of -v,
//! and live `T:` lines where nothing better is there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Record, Severity};

use super::build::{Draft, caveat, check_series, finish, interrupted};
use super::format::Fault;
use super::text::{Lines, after, first, numbers};

const US: u64 = 1_000;

pub(super) fn is_mark(line: &str) -> bool {
    live_line(line).is_some()
        || line.starts_with("# /dev/cpu_dma_latency set to")
        || line.trim_end() == "# Histogram"
        || line.starts_with("# Min Latencies:")
}

/// What the lines said so far.
#[derive(Default)]
struct CyclictestText {
    columns: Vec<Draft>,
    live: BTreeMap<u64, Live>,
    samples: BTreeMap<u64, Draft>,
    lists: BTreeMap<&'static str, Vec<u64>>,
    at_cycle: BTreeMap<String, Value>,
    is_broken_off: bool,
    lines: usize,
}

/// The latest live line of a thread.
struct Live {
    priority: i64,
    interval_us: u64,
    cycles: u64,
    unit_ns: u64,
    min: u64,
    mean: u64,
    max: u64,
}

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let mut found = CyclictestText::default();
    for (number, line) in Lines::new(bytes) {
        found.lines = number;
        found.line(number, &line)?;
    }
    found.record(Lines::are_cut(bytes))
}

/// `# Min Latencies: 00004 00006`: lists with one number for each thread.
const LISTS: [&str; 7] = [
    "# Min Latencies:",
    "# Avg Latencies:",
    "# Max Latencies:",
    "# Histogram Overflows:",
    "# SMIs:",
    "# Thread Ids:",
    "# Break value:",
];

impl CyclictestText {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Fault> {
        if let Some((thread, live)) = live_line(line) {
            self.live.insert(thread, live);
            return check_series(self.live.len(), number);
        }
        if let Some((thread, cycle, value)) = sample_line(line) {
            let draft = self.samples.entry(thread).or_insert_with(|| Draft::new("wakeup", US));
            draft.sample(value.saturating_mul(US), cycle);
            return check_series(self.samples.len(), number);
        }
        if let Some(mark) = LISTS.iter().find(|mark| line.starts_with(**mark)) {
            let values =
                numbers(&line[mark.len()..]).ok_or_else(|| Fault::new(number, format!("no numbers after {mark:?}")))?;
            self.lists.insert(mark, values.into_iter().flatten().collect());
            self.is_broken_off |= *mark == "# Break value:";
        } else if let Some((thread, cycles)) = line.strip_prefix("# Thread ").and_then(|rest| rest.split_once(':')) {
            self.at_cycle.insert(thread.to_owned(), json!(cycles.trim()));
        } else if line.starts_with(|letter: char| letter.is_ascii_digit()) {
            self.row(number, line)?;
        }
        Ok(())
    }

    /// `000004 000001 000000`: microseconds, and the samples of each thread.
    fn row(&mut self, number: usize, line: &str) -> Result<(), Fault> {
        let row: Option<Vec<u64>> = numbers(line).and_then(|row| row.into_iter().collect());
        let Some([value, counts @ ..]) = row.as_deref() else {
            return Err(Fault::new(number, "a row of the histogram has only numbers"));
        };
        if self.columns.is_empty() {
            check_series(counts.len(), number)?;
            self.columns.extend(counts.iter().map(|_| Draft::new("wakeup", US)));
        }
        if counts.len() != self.columns.len() {
            let what = format!("{} columns; the rows above have {}", counts.len(), self.columns.len());
            return Err(Fault::new(number, what));
        }
        for (column, count) in self.columns.iter_mut().zip(counts) {
            column.bucket(value.saturating_mul(US), *count);
        }
        Ok(())
    }

    fn list(&self, mark: &str) -> &[u64] {
        self.lists.get(mark).map_or(&[], Vec::as_slice)
    }

    /// `-H` appends the sum of all threads to each row, but not to the list of the smallest.
    fn drop_sum(&mut self) {
        let threads = self.list("# Min Latencies:").len();
        let is_sum = |columns: &[Draft]| {
            let counts = columns.iter().map(|column| column.series.histogram.count());
            let (sum, others) = (columns[columns.len() - 1].series.histogram.count(), counts);
            sum > 0 && others.fold(0u64, u64::saturating_add) == sum.saturating_mul(2)
        };
        let has_sum = if threads > 0 {
            self.columns.len() == threads + 1
        } else {
            self.columns.len() > 1 && is_sum(&self.columns)
        };
        if has_sum {
            self.columns.pop();
        }
    }

    fn record(self, is_cut: bool) -> Result<Record, Fault> {
        let mut record = Record::new("cyclictest", "wakeup");
        record.method =
            "a thread sleeps until a time of the clock, and compares it with the time when it runs; whole microseconds"
                .to_owned();
        self.options(&mut record);
        let ends_early = !self.columns.is_empty() && !self.lists.contains_key("# Histogram Overflows:");
        if self.is_broken_off {
            record.ended = crate::Ended::Signal;
            caveat(
                &mut record,
                "stopped-at-threshold",
                Severity::Info,
                "cyclictest ended at the first latency above its threshold (-b)",
                "for the worst case run without -b",
            );
        }
        if ends_early {
            interrupted(&mut record, self.lines, "the lines that follow a histogram");
        } else if is_cut && self.columns.is_empty() {
            interrupted(&mut record, self.lines, "the end of its last line, which was left out");
        }
        let lines = self.lines;
        let drafts = self.drafts();
        finish(record, drafts, lines)
    }

    /// The histogram, else the samples, else what the live lines said last.
    fn drafts(mut self) -> Vec<Draft> {
        self.drop_sum();
        if self.columns.is_empty() {
            let samples: Vec<Draft> = self.samples.into_values().collect();
            return if samples.is_empty() { self.live.values().map(Live::draft).collect() } else { samples };
        }
        let mut columns = std::mem::take(&mut self.columns);
        for (thread, draft) in columns.iter_mut().enumerate() {
            let of = |mark| self.list(mark).get(thread).copied();
            let ns = |mark| of(mark).map(|us| us.saturating_mul(US));
            draft.overflow = of("# Histogram Overflows:");
            draft.series.min = ns("# Min Latencies:");
            draft.series.max = ns("# Max Latencies:");
            draft.series.mean = ns("# Avg Latencies:").map(|mean| mean as f64);
        }
        columns
    }

    fn options(&self, record: &mut Record) {
        let mut option = |name: &str, value: Value| record.options.insert(name.to_owned(), value);
        for (name, mark) in [("smis", "# SMIs:"), ("threads", "# Thread Ids:"), ("break_value_us", "# Break value:")] {
            if !self.list(mark).is_empty() {
                option(name, json!(self.list(mark)));
            }
        }
        if !self.at_cycle.is_empty() {
            option("overflow_at_cycle", json!(self.at_cycle));
        }
        if let Some(live) = self.live.values().next() {
            option("priority", json!(live.priority));
            option("interval_us", json!(live.interval_us));
        }
        if self.live.values().any(|live| live.priority == 0) {
            caveat(
                record,
                "not-fifo",
                Severity::High,
                "threads ran without real-time priority (P: 0)",
                "run cyclictest with -p 90, or kymo wakeup",
            );
        }
        if self.live.is_empty() {
            caveat(
                record,
                "unit-assumed",
                Severity::Info,
                "cyclictest's histogram does not name its unit; microseconds are assumed",
                "where it was run with -N the unit was nanoseconds: use its JSON (--json)",
            );
        }
    }
}

impl Live {
    fn draft(&self) -> Draft {
        let mut draft = Draft::new("wakeup", self.unit_ns);
        draft.taken = Some(self.cycles);
        draft.series.min = Some(self.min.saturating_mul(self.unit_ns));
        draft.series.max = Some(self.max.saturating_mul(self.unit_ns));
        draft.series.mean = Some(self.mean as f64 * self.unit_ns as f64);
        draft
    }
}

/// `T: 0 ( 9363) P:80 I:1000 C:   1000 Min:      5 Act:    7 Avg:    9 Max:    1257`: number of the thread, and the
/// rest.
fn live_line(line: &str) -> Option<(u64, Live)> {
    let rest = line.trim_start().strip_prefix("T:")?;
    let act = &rest[rest.find("Act:")? + 4..];
    // With -N (nanoseconds) the field is padded to eight places, else to five.
    let width = act.find(" Avg:")?;
    let live = Live {
        priority: first(after(rest, "P:")?)?,
        interval_us: first(after(rest, "I:")?)?,
        cycles: first(after(rest, "C:")?)?,
        unit_ns: if width >= 8 { 1 } else { US },
        min: first(after(rest, "Min:")?)?,
        mean: first(after(rest, "Avg:")?)?,
        max: first(after(rest, "Max:")?)?,
    };
    Some((first(rest)?, live))
}

/// `       0:       3:      59`: thread, cycle, microseconds.
fn sample_line(line: &str) -> Option<(u64, u64, u64)> {
    let mut parts = line.split(':').map(|part| part.trim().parse::<u64>().ok());
    let sample = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(sample)
}
