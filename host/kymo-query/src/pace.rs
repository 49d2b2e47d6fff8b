// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many records a trace has over time, about, by the finest summary of its index [spec/index.md 4].

use crate::opened::Opened;
use crate::record_columns::RecordColumns;

/// Records up to each column.
pub(crate) struct Pace<'o> {
    columns: RecordColumns<'o>,
    /// Records in front of each column, and of all.
    before: Vec<u64>,
}

impl<'o> Pace<'o> {
    /// Of one trace with one clock and an index.
    pub(crate) fn of(of: &'o Opened) -> Option<Pace<'o>> {
        let columns = RecordColumns::at_least(of, usize::MAX)?;
        let mut before = vec![0u64];
        for column in 0..columns.count() {
            before.push(before[column].saturating_add(columns.records(column)));
        }
        Some(Pace { columns, before })
    }

    /// A time before `at` from which on there are about so many records until then, and not fewer.
    pub(crate) fn before(&self, at: i64, records: u64) -> i64 {
        let until = self.before[self.columns.first_behind(at)];
        let Some(left) = until.checked_sub(records) else { return i64::MIN };
        let column = self.before.partition_point(|before| *before <= left).saturating_sub(1);
        self.columns.begin(column)
    }

    /// A time behind `at` up to which there are about so many records from then on, and not fewer.
    pub(crate) fn behind(&self, at: i64, records: u64) -> i64 {
        let column = self.columns.first_behind(at).saturating_add(1).min(self.columns.count());
        let wanted = self.before[column].saturating_add(records);
        let end = self.before.partition_point(|before| *before < wanted);
        if end > self.columns.count() { i64::MAX } else { self.columns.begin(end) }
    }
}
