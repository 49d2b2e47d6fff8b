// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and lost records of a stream, over time, in columns of 2^shift cycles that are much shorter than those of
//! the summaries [spec/index.md 4]. Only columns with something in them are there.

use crate::counts::buckets::Buckets;

/// Records of a column, about: so many are read for each column of a picture where columns are too long.
const RECORDS_OF_COLUMN: u64 = 512;
/// Columns of a trace at most.
pub(crate) const FINE_COLUMNS_MAX: usize = 1 << 18;
/// Columns of a stream: of so many bytes one, and no fewer than these.
const BYTES_OF_COLUMN: u64 = 4096;
const COLUMNS_MIN: usize = 1024;

/// Rows of what [`FineCounts::all`] makes.
pub(crate) const RECORDS: usize = 0;
pub(crate) const LOST: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FineColumn {
    number: u64,
    records: u64,
    lost: u64,
}

/// Counts of one stream.
#[derive(Clone, Debug)]
pub(crate) struct FineCounts {
    shift: u32,
    columns_max: usize,
    /// Mostly in the order of time.
    list: Vec<FineColumn>,
}

impl FineCounts {
    /// Of a stream of so many bytes.
    pub fn new(bytes: u64) -> FineCounts {
        let most = usize::try_from(bytes / BYTES_OF_COLUMN).unwrap_or(usize::MAX);
        // A shift of 1, as that of buckets.
        FineCounts { shift: 1, columns_max: most.clamp(COLUMNS_MIN, FINE_COLUMNS_MAX), list: Vec::new() }
    }

    /// The column of a time: its first time, and the first one behind it.
    pub fn column_of(&self, time: u64) -> (u64, u64) {
        let from = time >> self.shift << self.shift;
        (from, from.saturating_add(1 << self.shift))
    }

    /// Adds at a time.
    pub fn add(&mut self, time: u64, records: u64, lost: u64) {
        if records == 0 && lost == 0 {
            return;
        }
        let number = time >> self.shift;
        match self.list.last_mut().filter(|last| last.number == number) {
            Some(last) => {
                last.records = last.records.saturating_add(records);
                last.lost = last.lost.saturating_add(lost);
            }
            None => self.list.push(FineColumn { number, records, lost }),
        }
        if self.list.len() > self.columns_max {
            // Times that go back may have columns twice. Some room is made, so that this is not soon again.
            self.unite();
            while self.list.len() > self.columns_max - self.columns_max / 4 {
                self.fold_to(self.shift + 1);
            }
        }
    }

    /// Makes columns longer: 2^shift cycles.
    fn fold_to(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        self.shift = self.shift.max(shift);
        self.list.iter_mut().for_each(|column| column.number = column.number.checked_shr(by).unwrap_or(0));
        self.unite();
    }

    /// One column of each number, in their order.
    fn unite(&mut self) {
        if !self.list.is_sorted_by_key(|column| column.number) {
            self.list.sort_by_key(|column| column.number);
        }
        self.list.dedup_by(|later, kept| {
            let is_same = later.number == kept.number;
            if is_same {
                kept.records = kept.records.saturating_add(later.records);
                kept.lost = kept.lost.saturating_add(later.lost);
            }
            is_same
        });
    }

    /// Those of all streams, in columns of about [`RECORDS_OF_COLUMN`] records. `None` where there is nothing.
    pub fn all(streams: impl Iterator<Item = FineCounts>) -> Option<Buckets> {
        let streams: Vec<FineCounts> = streams.filter(|of| !of.list.is_empty()).collect();
        let shift = streams.iter().map(|of| of.shift).max()?;
        let mut all = FineCounts { shift, columns_max: 0, list: Vec::new() };
        for mut of in streams {
            of.fold_to(shift);
            all.list.append(&mut of.list);
            all.unite();
        }
        let records = all.list.iter().map(|column| column.records).fold(0, u64::saturating_add);
        let wanted = usize::try_from(records / RECORDS_OF_COLUMN).unwrap_or(usize::MAX);
        let most = wanted.clamp(COLUMNS_MIN, FINE_COLUMNS_MAX);
        let (mut first, mut columns) = all.stretch()?;
        while columns > most as u64 {
            all.fold_to(all.shift + 1);
            (first, columns) = all.stretch()?;
        }
        let mut made = Buckets::of_length(all.shift, first, columns as usize, LOST + 1);
        for column in &all.list {
            made.set(RECORDS, (column.number - first) as usize, column.records);
            made.set(LOST, (column.number - first) as usize, column.lost);
        }
        Some(made)
    }

    /// The first column's number, and how many there are from there to the last.
    fn stretch(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.list.first()?.number, self.list.last()?.number);
        Some((first, (last - first).saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_is_in_the_column_of_its_time(
            streams in prop::collection::vec(
                (
                    2..6usize,
                    prop::collection::vec(prop_oneof![any::<u64>(), 0..5000u64, (1 << 40)..(1u64 << 40) + 9000], 0..60),
                ),
                0..4,
            ),
        ) {
            let mut made = Vec::new();
            for (most, times) in &streams {
                let mut of = FineCounts { shift: 1, columns_max: *most, list: Vec::new() };
                for (at, time) in times.iter().enumerate() {
                    let (from, to) = of.column_of(*time);
                    prop_assert!(from <= *time && (*time < to || to == u64::MAX));
                    of.add(*time, 2, (at % 2) as u64);
                    prop_assert!(of.list.len() <= *most);
                }
                made.push(of);
            }
            let times: Vec<(u64, u64)> = streams
                .iter()
                .flat_map(|(_, times)| times.iter().enumerate().map(|(at, time)| (*time, (at % 2) as u64)))
                .collect();
            let all = FineCounts::all(made.into_iter());
            prop_assert_eq!(all.is_none(), times.is_empty());
            let Some(all) = all else { return Ok(()) };
            prop_assert!(all.columns() <= FINE_COLUMNS_MAX);
            let mut seen = 0;
            for column in 0..all.columns() {
                let (from, to) = all.times(column);
                let inside = times.iter().filter(|(time, _)| *time >= from && (*time < to || to == u64::MAX));
                let (records, lost) = inside.fold((0, 0), |(records, lost), of| (records + 2, lost + of.1));
                prop_assert_eq!(all.row(RECORDS).get(column).copied().unwrap_or(0), records);
                prop_assert_eq!(all.row(LOST).get(column).copied().unwrap_or(0), lost);
                seen += records;
            }
            prop_assert_eq!(seen, 2 * times.len() as u64);
        }
    }

    #[test]
    fn columns_are_as_short_as_there_is_room_for() {
        let mut of = FineCounts::new(8 << 20);
        (0..1 << 20).for_each(|time| of.add(time, 1, 0));
        let all = FineCounts::all([of].into_iter()).unwrap();
        assert_eq!((all.columns(), all.times(1)), (2048, (512, 1024)));
    }
}
