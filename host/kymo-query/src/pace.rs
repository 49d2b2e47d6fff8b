// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many records a trace has over time, about, by the finest summary of its index [spec/index.md 4].

use kymo_ctf::read::Clock;
use kymo_feed::clamp;
use kymo_index::Buckets;

use crate::opened::Opened;

/// Records up to each column.
pub(crate) struct Pace<'o> {
    columns: Buckets,
    clock: &'o Clock,
    /// Records in front of each column, and of all.
    before: Vec<u64>,
}

impl<'o> Pace<'o> {
    /// Of one trace with one clock and an index.
    pub(crate) fn of(of: &'o Opened) -> Option<Pace<'o>> {
        let (index, trace) = match (&of.indexes.whole()?[..], &of.traces[..]) {
            ([index], [trace]) => (*index, trace),
            _ => return None,
        };
        let [clock] = &trace.metadata.clocks[..] else { return None };
        let (events, streams) = (trace.metadata.events.len(), trace.streams().count());
        let (columns, rows) = match index.fine() {
            Some(fine) => (fine, 0..1),
            None => (index.level(usize::MAX)?, events..events + streams),
        };
        let mut before = vec![0u64];
        for column in 0..columns.columns() {
            let count = |row: usize| columns.row(row).get(column).copied().unwrap_or(0);
            let records = rows.clone().map(count).fold(0, u64::saturating_add);
            before.push(before[column].saturating_add(records));
        }
        Some(Pace { columns, clock, before })
    }

    /// The first time of a column, ns.
    fn begin(&self, column: usize) -> i64 {
        clamp(self.clock.nanoseconds(self.columns.times(column).0))
    }

    /// The column of a time, or as many as there are.
    fn column(&self, at: i64) -> usize {
        let (mut low, mut high) = (0, self.columns.columns());
        while low < high {
            let middle = low.midpoint(high);
            if self.begin(middle + 1) <= at { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// A time before `at` from which on there are about so many records until then, and not fewer.
    pub(crate) fn before(&self, at: i64, records: u64) -> i64 {
        let until = self.before[self.column(at)];
        let Some(left) = until.checked_sub(records) else { return i64::MIN };
        let column = self.before.partition_point(|before| *before <= left).saturating_sub(1);
        self.begin(column)
    }

    /// A time behind `at` up to which there are about so many records from then on, and not fewer.
    pub(crate) fn behind(&self, at: i64, records: u64) -> i64 {
        let column = self.column(at).saturating_add(1).min(self.columns.columns());
        let wanted = self.before[column].saturating_add(records);
        let end = self.before.partition_point(|before| *before < wanted);
        if end > self.columns.columns() { i64::MAX } else { self.begin(end) }
    }
}
