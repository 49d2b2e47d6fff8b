// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and lost records of all streams over time, by a summary of the index [spec/index.md 4]: of one trace with
//! one clock.

use std::ops::Range;

use kymo_ctf::read::Clock;
use kymo_feed::clamp;
use kymo_index::{Buckets, TraceIndex};

use crate::opened::Opened;

/// Columns of a summary; each begins where the one before ends.
pub(crate) struct RecordColumns<'o> {
    columns: Buckets,
    clock: &'o Clock,
    /// Rows of the summary.
    records: Range<usize>,
    lost: Range<usize>,
}

impl<'o> RecordColumns<'o> {
    /// The longest columns of which there are so many in the whole trace, or the shortest that there are.
    pub(crate) fn at_least(of: &'o Opened, wanted: usize) -> Option<RecordColumns<'o>> {
        let (index, trace) = match (&of.indexes.whole()?[..], &of.traces[..]) {
            ([index], [trace]) => (*index, trace),
            _ => return None,
        };
        let index: &TraceIndex = index;
        let [clock] = &trace.metadata.clocks[..] else { return None };
        let level = index.level(wanted)?;
        if let Some(columns) = index.fine().filter(|_| level.columns() < wanted) {
            return Some(RecordColumns { columns, clock, records: 0..1, lost: 1..2 });
        }
        let (events, streams) = (trace.metadata.events.len(), trace.streams().count());
        let (records, lost) = (events..events + streams, events + streams..events + 2 * streams);
        Some(RecordColumns { columns: level, clock, records, lost })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.columns.columns()
    }

    /// The first time of a column, ns.
    pub(crate) fn begin(&self, column: usize) -> i64 {
        clamp(self.clock.nanoseconds(self.columns.times(column).0))
    }

    /// The first time behind a column, ns.
    pub(crate) fn end(&self, column: usize) -> i64 {
        clamp(self.clock.nanoseconds(self.columns.times(column).1))
    }

    /// Records of a column.
    pub(crate) fn records(&self, column: usize) -> u64 {
        self.sum(&self.records, column)
    }

    /// Records that were lost, at the end of each loss.
    pub(crate) fn lost(&self, column: usize) -> u64 {
        self.sum(&self.lost, column)
    }

    /// The first column that ends behind a time, or as many as there are.
    pub(crate) fn first_behind(&self, at: i64) -> usize {
        self.first(|column| self.end(column) > at)
    }

    /// The columns that touch [from, to).
    pub(crate) fn within(&self, from: i64, to: i64) -> Range<usize> {
        self.first_behind(from)..self.first(|column| self.begin(column) >= to)
    }

    fn sum(&self, rows: &Range<usize>, column: usize) -> u64 {
        let count = |row: usize| self.columns.row(row).get(column).copied().unwrap_or(0);
        rows.clone().map(count).fold(0, u64::saturating_add)
    }

    /// The first column for which something is true that is true of all behind it, too.
    fn first(&self, is_true: impl Fn(usize) -> bool) -> usize {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = from.midpoint(to);
            if is_true(middle) { to = middle } else { from = middle + 1 }
        }
        from
    }
}
