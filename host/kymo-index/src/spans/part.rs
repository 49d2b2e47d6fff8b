// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans that end in a part of a trace [spec/index.md 5.5]: cells of short ones, and the others one by one. They
//! add up to those of a longer part.

use std::collections::BTreeMap;

use kymo_analyze::{Doubt, Name, Sample};

use crate::pictures::part::SHIFT_MAX;
use crate::spans::nesting::NestedSpan;

/// Columns of a part at least, where it is as long: at most twice as many, and one more.
const COLUMNS_MIN: u64 = 64;

/// A span that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanEnd {
    /// Number of its pair of events.
    pub span: u16,
    /// The thread that ended it.
    pub tid: Option<i32>,
    /// Its process.
    pub process: Option<i32>,
    /// What the record calls it; may be empty.
    pub name: Name,
    /// The CPU that wrote its end.
    pub cpu: Option<u32>,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// What its records alone tell.
    pub doubt: Doubt,
}

impl SpanEnd {
    /// As a latency; the priority of the thread is not known here.
    pub fn sample(&self) -> Sample {
        let SpanEnd { tid, process, name, cpu, from, to, doubt, .. } = *self;
        let value_ns = to.saturating_sub(from).max(0) as u64;
        let (prio, waker, owner) = (None, None, None);
        Sample { late_ns: 0, value_ns, from, to, tid, process, name, prio, cpu, waker, owner, doubt }
    }
}

impl NestedSpan for SpanEnd {
    fn span(&self) -> u16 {
        self.span
    }

    fn stretch(&self) -> (i64, i64) {
        (self.from, self.to)
    }
}

/// Short spans that lie in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanCell {
    /// Which column: its begin, ns, without the lowest bits of a time.
    pub column: i64,
    /// How many.
    pub count: u64,
    /// Length of the longest, ns.
    pub longest_ns: u64,
    /// Begin of the first of these, ns.
    pub longest_at: i64,
}

/// What follows next in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanItem {
    /// Those that lie in one column.
    Cell(SpanCell),
    /// One that does not.
    Whole(SpanEnd),
}

impl SpanItem {
    /// The same in columns of 2 to the power of `shift` ns. `own`: the length of those that it has now.
    fn in_columns(self, own: u32, shift: u32) -> SpanItem {
        match self {
            SpanItem::Cell(cell) => SpanItem::Cell(SpanCell { column: cell.column >> (shift - own), ..cell }),
            SpanItem::Whole(span) if span.from >> shift == span.to >> shift => {
                let (column, longest_ns) = (span.from >> shift, span.to.abs_diff(span.from));
                SpanItem::Cell(SpanCell { column, count: 1, longest_ns, longest_at: span.from })
            }
            whole @ SpanItem::Whole(_) => whole,
        }
    }
}

/// What follows each other on a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanItems(pub Vec<SpanItem>);

impl SpanItems {
    /// Adds the next one. Cells of one column are one.
    fn add(&mut self, next: SpanItem) {
        if let (SpanItem::Cell(next), Some(SpanItem::Cell(last))) = (next, self.0.last_mut()) {
            if last.column == next.column {
                last.count = last.count.saturating_add(next.count);
                if next.longest_ns > last.longest_ns {
                    (last.longest_ns, last.longest_at) = (next.longest_ns, next.longest_at);
                }
                return;
            }
        }
        self.0.push(next);
    }
}

/// The row that a span is drawn in: that of a thread. Of spans that somebody chose it may be a number of a row.
pub type SpanRow = Option<i32>;

/// Where spans are drawn: the row, and how many others they lie in.
pub type SpanPlace = (SpanRow, u16);

/// The spans that end in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanPart {
    /// Before all records of the part, and behind all that come earlier, ns.
    pub from: i64,
    /// Newest time of its records, ns.
    pub to: i64,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
    /// In the order of their begins.
    pub rows: BTreeMap<SpanPlace, SpanItems>,
}

/// The length of columns of a part.
fn shift_of(from: i64, to: i64) -> u32 {
    (to.abs_diff(from) / COLUMNS_MIN).max(1).ilog2().min(SHIFT_MAX)
}

impl SpanPart {
    /// Without a span.
    pub(crate) fn new(from: i64, to: i64) -> SpanPart {
        SpanPart { from, to, shift: shift_of(from, to), rows: BTreeMap::new() }
    }

    /// Adds a span; of each place in the order of their begins.
    pub(crate) fn add(&mut self, row: SpanRow, level: u16, span: SpanEnd) {
        let item = SpanItem::Whole(span).in_columns(0, self.shift);
        self.rows.entry((row, level)).or_default().add(item);
    }

    /// Spans one by one, however short; of each row in the order of their begins. They have no levels.
    pub(crate) fn whole(all: impl Iterator<Item = (SpanRow, SpanEnd)> + Clone) -> SpanPart {
        let (from, to) = (all.clone().map(|of| of.1.from).min(), all.clone().map(|of| of.1.to).max());
        let mut part = SpanPart { from: from.unwrap_or(0), to: to.unwrap_or(0), shift: 0, rows: BTreeMap::new() };
        for (row, span) in all {
            part.rows.entry((row, 0)).or_default().0.push(SpanItem::Whole(span));
        }
        part
    }

    /// Of parts that follow each other.
    pub(crate) fn of(parts: &[SpanPart]) -> Option<SpanPart> {
        let (from, to) = (parts.first()?.from, parts.iter().map(|part| part.to).max()?);
        let shift = parts.iter().map(|part| part.shift).fold(shift_of(from, to), u32::max);
        let mut all = SpanPart { from, to, shift, rows: BTreeMap::new() };
        for part in parts {
            for (place, items) in &part.rows {
                let row = all.rows.entry(*place).or_default();
                items.0.iter().for_each(|item| row.add(item.in_columns(part.shift, shift)));
            }
        }
        Some(all)
    }
}
