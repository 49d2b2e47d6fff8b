// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of `rtla timerlat hist` and `rtla osnoise hist`: a column for each CPU and kind of latency.

use crate::{Record, Severity};

use super::build::{Draft, caveat, check_series, finish, interrupted};
use super::format::Fault;
use super::text::{Lines, after, first, numbers};

pub(super) fn is_timerlat(line: &str) -> bool {
    line.starts_with("# RTLA timerlat histogram")
}

pub(super) fn is_osnoise(line: &str) -> bool {
    line.starts_with("# RTLA osnoise histogram")
}

pub(super) fn timerlat(bytes: &[u8]) -> Result<Record, Fault> {
    let mut record = Record::new("rtla", "timerlat");
    record.method = "a timer of the kernel tells how late its interrupt came (irq), and how late a thread that it woke ran (thread), with everything \
        that came between; rtla hist" .to_owned();
    read(bytes, record)
}

pub(super) fn osnoise(bytes: &[u8]) -> Result<Record, Fault> {
    let mut record = Record::new("rtla", "osnoise");
    record.method = "a thread of the kernel reads the clock without end; a sample is one interference, without those nested in it; rtla hist".to_owned();
    read(bytes, record)
}

struct RtlaTable {
    unit_ns: u64,
    columns: Vec<Draft>,
    /// Greatest common divisor of the rows' values: the width of a bucket.
    width: u64,
    rows: u64,
    last: u64,
    has_end: bool,
}

fn read(bytes: &[u8], mut record: Record) -> Result<Record, Fault> {
    let mut found = RtlaTable { unit_ns: 1_000, columns: Vec::new(), width: 0, rows: 0, last: 0, has_end: false };
    let mut lines = 0;
    for (number, line) in Lines::new(bytes) {
        lines = number;
        if line.starts_with("ALL:") {
            break;
        }
        found.line(&mut record, number, &line)?;
    }
    if !found.has_end && !found.columns.is_empty() {
        interrupted(&mut record, lines, "the line \"max:\"");
    }
    finish(record, found.drafts(), lines)
}

impl RtlaTable {
    fn line(&mut self, record: &mut Record, number: usize, line: &str) -> Result<(), Fault> {
        if let Some(unit) = line.strip_prefix("# Time unit is ") {
            self.unit_ns = if unit.starts_with("nanoseconds") { 1 } else { 1_000 };
        } else if let Some(duration) = line.strip_prefix("# Duration:") {
            record.duration_s = seconds(duration);
        } else if line.contains("missed") {
            caveat(
                record,
                "lost-samples",
                Severity::Medium,
                line.trim(),
                "run rtla on fewer CPUs, or with a longer period",
            );
        } else if line.starts_with('#') || line.trim().is_empty() {
        } else if self.columns.is_empty() {
            self.header(number, line)?;
        } else {
            self.row(number, line)?;
        }
        Ok(())
    }

    /// `Index   IRQ-000   Thr-000   Usr-000`
    fn header(&mut self, number: usize, line: &str) -> Result<(), Fault> {
        let Some(columns) = line.strip_prefix("Index") else {
            return Err(Fault::new(
                number,
                "the line of the columns does not begin with \"Index\"; run rtla without --no-index",
            ));
        };
        for word in columns.split_whitespace() {
            check_series(self.columns.len() + 1, number)?;
            let (kind, cpu) =
                word.split_once('-').ok_or_else(|| Fault::new(number, format!("{word:?} is no column")))?;
            let name = match kind {
                "IRQ" => "irq",
                "Thr" => "thread",
                "Usr" => "user",
                _ => "noise",
            };
            let mut draft = Draft::new(name, self.unit_ns);
            draft.series.cpu = Some(cpu.parse().map_err(|_| Fault::new(number, format!("{word:?} names no CPU")))?);
            self.columns.push(draft);
        }
        Ok(())
    }

    fn row(&mut self, number: usize, line: &str) -> Result<(), Fault> {
        let (label, cells) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        // `count:` is as wide as its column, so that a long number may follow at once.
        let (label, cells) = line.split_once(':').unwrap_or((label, cells));
        let cells = numbers(cells).ok_or_else(|| Fault::new(number, format!("{cells:?} has more than numbers")))?;
        if cells.len() != self.columns.len() {
            return Err(Fault::new(number, format!("{} cells for {} columns", cells.len(), self.columns.len())));
        }
        let unit_ns = self.unit_ns;
        let ns = |cell: Option<u64>| cell.map(|value| value.saturating_mul(unit_ns));
        if let Some(value) = first::<u64>(label) {
            self.note_row(value);
        }
        self.has_end |= label == "max";
        for (draft, cell) in self.columns.iter_mut().zip(cells) {
            match label {
                "over" => draft.overflow = Some(cell.unwrap_or(0)),
                "count" => draft.taken = cell,
                "min" => draft.series.min = ns(cell),
                "avg" => draft.series.mean = ns(cell).map(|mean| mean as f64),
                "max" => draft.series.max = ns(cell),
                _ => {
                    let value: u64 =
                        first(label).ok_or_else(|| Fault::new(number, format!("{label:?} is no row of rtla")))?;
                    draft.bucket(value.saturating_mul(unit_ns), cell.unwrap_or(0));
                }
            }
        }
        Ok(())
    }

    fn note_row(&mut self, value: u64) {
        let (mut a, mut b) = (self.width, value);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (self.width, self.last, self.rows) = (a, self.last.max(value), self.rows + 1);
    }

    /// Two rows tell no width: one unit is what rtla takes unasked.
    fn drafts(mut self) -> Vec<Draft> {
        let width = if self.rows > 2 { self.width.max(1) } else { 1 };
        for draft in &mut self.columns {
            draft.series.bucket_ns = Some(width.saturating_mul(self.unit_ns)).filter(|width| *width > 1);
            draft.beyond_ns = self.last.saturating_add(width).saturating_mul(self.unit_ns);
        }
        self.columns
    }
}

/// `   0 00:10:00`: days, hours, minutes, seconds.
fn seconds(text: &str) -> Option<f64> {
    let days: f64 = first(text)?;
    let clock = after(text.trim_start(), " ")?;
    let parts: Option<Vec<f64>> = clock.trim().split(':').map(|part| part.parse().ok()).collect();
    let [hours, minutes, seconds] = parts?[..] else { return None };
    Some(days * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}
