// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and times of a part of a trace by who wrote and who ran [spec/index.md 5.6]. Parts that follow each other
//! are one longer part.

use std::collections::BTreeMap;

use kymo_analyze::hash::Map;
use kymo_analyze::usage::PartUsage;

/// Writers of a part at most.
pub(crate) const WRITERS_MAX: usize = 1 << 16;

/// Records of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRecords {
    /// How many: one at least.
    pub records: u64,
    /// Time of the first, ns.
    pub first: i64,
    /// Time of the last, ns.
    pub last: i64,
}

impl CountedRecords {
    /// Of one record.
    pub fn of(time: i64) -> CountedRecords {
        CountedRecords { records: 1, first: time, last: time }
    }

    /// With others, if there are some.
    pub(crate) fn with(mut self, other: Option<CountedRecords>) -> CountedRecords {
        other.iter().for_each(|other| self.plus(other));
        self
    }

    /// Adds others.
    #[inline]
    pub fn plus(&mut self, other: &CountedRecords) {
        self.records = self.records.saturating_add(other.records);
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
    }
}

/// The same rows in the same order.
impl PartialEq for WriterRows {
    fn eq(&self, other: &WriterRows) -> bool {
        self.in_order() == other.in_order()
    }
}

/// Records by writer. Of two rows that have the last records at one time, it is known which record came later.
#[derive(Clone, Debug, Default)]
pub struct WriterRows {
    /// Number of the writer, its records, and the place of the last one among all.
    rows: Vec<(u32, CountedRecords, u64)>,
    places: Map<u32, usize>,
    next: u64,
}

impl WriterRows {
    /// Adds records of a writer, behind all that were added.
    pub fn add(&mut self, writer: u32, records: &CountedRecords) -> usize {
        self.add_at(writer, records, self.next)
    }

    /// The same of records whose last one has a place among all.
    pub(crate) fn add_at(&mut self, writer: u32, records: &CountedRecords, order: u64) -> usize {
        let place = *self.places.entry(writer).or_insert(self.rows.len());
        match self.rows.get_mut(place) {
            Some(row) => {
                row.1.plus(records);
                row.2 = row.2.max(order);
            }
            None => self.rows.push((writer, *records, order)),
        }
        self.next = self.next.max(order + 1);
        place
    }

    /// Rows in the order of their last records.
    pub fn in_order(&self) -> Vec<(u32, CountedRecords)> {
        let mut all: Vec<_> = self.rows.iter().collect();
        all.sort_by_key(|(_, records, order)| (records.last, *order));
        all.into_iter().map(|(writer, records, _)| (*writer, *records)).collect()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// A part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatisticsPart {
    /// By number of the writer.
    pub writers: WriterRows,
    /// By CPU; `None`: it is not known.
    pub cpus: BTreeMap<Option<u32>, CountedRecords>,
    /// Who used the CPUs.
    pub usage: PartUsage,
}

impl StatisticsPart {
    /// Adds the part that follows.
    pub(crate) fn append(&mut self, later: &StatisticsPart) {
        for (writer, records) in later.writers.in_order() {
            self.writers.add(writer, &records);
        }
        for (cpu, records) in &later.cpus {
            self.cpus.entry(*cpu).and_modify(|sum| sum.plus(records)).or_insert(*records);
        }
        self.usage.append(&later.usage);
    }

    /// It is of no use.
    pub(crate) fn is_over(&self) -> bool {
        self.usage.is_odd || self.writers.len() > WRITERS_MAX
    }
}
