// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts over time: one row for each of several things, one column for each stretch of 2^shift units. Where the
//! columns become too many, the stretches become twice as long.

use kymo_analyze::compact::{Put, Take};

/// Columns that there are at most.
pub const COLUMNS_MAX: usize = 4096;

/// Counts that are taken at most: 128 MiB. A few bytes can promise thousands of columns.
const CELLS_MAX: usize = 1 << 24;

/// Rows of counts over the same stretches of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// A column is 2^shift units.
    pub shift: u32,
    /// Number of the first column: its time is `first << shift`.
    pub first: u64,
    columns: usize,
    /// By row; empty where nothing was added.
    rows: Vec<Vec<u64>>,
}

impl Buckets {
    /// Nothing at any time.
    pub fn new(rows: usize) -> Buckets {
        // From 1 on, so that there is a number behind that of the last time.
        Buckets { shift: 1, first: 0, columns: 0, rows: vec![Vec::new(); rows] }
    }

    /// Nothing yet in so many columns of 2^shift units, which are not folded; there may be more than [`COLUMNS_MAX`].
    pub(crate) fn of_length(shift: u32, first: u64, columns: usize, rows: usize) -> Buckets {
        Buckets { shift, first, columns, rows: vec![Vec::new(); rows] }
    }

    /// Puts a count into a column that is there.
    pub(crate) fn set(&mut self, row: usize, column: usize, count: u64) {
        let Some(row) = self.rows.get_mut(row).filter(|_| count > 0 && column < self.columns) else { return };
        if row.len() <= column {
            row.resize(column + 1, 0);
        }
        row[column] = count;
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Counts of a row, of as many columns as it has; those behind are 0.
    pub fn row(&self, row: usize) -> &[u64] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }

    /// Makes more rows.
    pub fn make_rows(&mut self, rows: usize) {
        if self.rows.len() < rows {
            self.rows.resize(rows, Vec::new());
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The first time of a column, and the first one behind it.
    pub fn times(&self, column: usize) -> (u64, u64) {
        let begin = |number: u64| number.checked_shl(self.shift).filter(|time| time >> self.shift == number);
        let number = self.first + column as u64;
        (begin(number).unwrap_or(u64::MAX), begin(number + 1).unwrap_or(u64::MAX))
    }

    /// Adds at a time.
    #[inline]
    pub fn add(&mut self, row: usize, time: u64, count: u64) {
        let number = time >> self.shift;
        let column = number.wrapping_sub(self.first);
        let column = if column < self.columns as u64 { column as usize } else { self.make_column(time) };
        let Some(row) = self.rows.get_mut(row) else { return };
        if row.len() <= column {
            row.resize(column + 1, 0);
        }
        row[column] = row[column].saturating_add(count);
    }

    /// The column of a time, which is there from then on: its first time, and the first one behind it.
    pub fn column_of(&mut self, time: u64) -> (u64, u64) {
        let column = (time >> self.shift).wrapping_sub(self.first);
        let column = if column < self.columns as u64 { column as usize } else { self.make_column(time) };
        self.times(column)
    }

    /// Adds units of time from one time to another, to each column what falls into it.
    pub fn add_span(&mut self, row: usize, from: u64, to: u64) {
        if from >= to {
            return;
        }
        // Mostly all of it falls into a column that is there.
        let (first, last) = (from >> self.shift, (to - 1) >> self.shift);
        let column = first.wrapping_sub(self.first) as usize;
        let there = self.rows.get_mut(row).filter(|_| first == last).and_then(|row| row.get_mut(column));
        if let Some(count) = there {
            *count = count.saturating_add(to - from);
            return;
        }
        self.make_column(to - 1);
        self.make_column(from);
        let mut at = from;
        while at < to {
            let end =
                ((at >> self.shift) + 1).checked_shl(self.shift).filter(|&end| end > at).unwrap_or(u64::MAX).min(to);
            self.add(row, at, end - at);
            at = end;
        }
    }

    /// A column for a time.
    #[cold]
    fn make_column(&mut self, time: u64) -> usize {
        if self.columns == 0 {
            (self.first, self.columns) = (time >> self.shift, 1);
        }
        loop {
            let number = time >> self.shift;
            let (first, end) = (self.first.min(number), (self.first + self.columns as u64).max(number + 1));
            if end - first <= COLUMNS_MAX as u64 {
                let before = (self.first - first) as usize;
                if before > 0 {
                    let filled = self.rows.iter_mut().filter(|row| !row.is_empty());
                    filled.for_each(|row| drop(row.splice(0..0, std::iter::repeat_n(0, before))));
                }
                (self.first, self.columns) = (first, (end - first) as usize);
                return (number - first) as usize;
            }
            self.fold();
        }
    }

    /// Makes columns twice as long.
    pub fn fold(&mut self) {
        let odd = (self.first & 1) as usize;
        for row in &mut self.rows {
            let columns = if row.is_empty() { 0 } else { (row.len() + odd).div_ceil(2) };
            let mut folded = vec![0u64; columns];
            for (column, count) in row.iter().enumerate() {
                let to = &mut folded[(column + odd) / 2];
                *to = to.saturating_add(*count);
            }
            *row = folded;
        }
        self.columns = (self.columns + odd).div_ceil(2);
        (self.first, self.shift) = (self.first >> 1, self.shift + 1);
    }

    /// Adds all of `other`, each of its rows to the rows that `to` tells.
    pub fn merge(&mut self, mut other: Buckets, to: impl Fn(usize) -> [Option<usize>; 2]) {
        if other.columns == 0 {
            return;
        }
        if self.columns == 0 {
            (self.shift, self.first) = (other.shift, other.first);
        }
        while self.shift < other.shift {
            self.fold();
        }
        while other.shift < self.shift {
            other.fold();
        }
        // Columns for both ends first: that may fold.
        self.make_column(other.times(0).0);
        self.make_column(other.times(other.columns - 1).0);
        while other.shift < self.shift {
            other.fold();
        }
        for (index, row) in other.rows.iter().enumerate() {
            for (column, &count) in row.iter().enumerate().filter(|(_, count)| **count > 0) {
                for to in to(index).into_iter().flatten() {
                    self.add(to, other.times(column).0, count);
                }
            }
        }
    }

    /// As bytes: of each row the columns that are not 0.
    pub fn put(&self, put: &mut Put) {
        put.number(self.shift.into());
        put.number(self.first);
        put.number(self.columns as u64);
        put.number(self.rows.len() as u64);
        for row in &self.rows {
            put.number(row.iter().filter(|count| **count > 0).count() as u64);
            let mut before = 0;
            for (column, &count) in row.iter().enumerate().filter(|(_, count)| **count > 0) {
                put.number((column - before) as u64);
                put.number(count);
                before = column;
            }
        }
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<Buckets> {
        Buckets::take_up_to(COLUMNS_MAX, take)
    }

    /// The same again, of so many columns at most.
    pub(crate) fn take_up_to(most: usize, take: &mut Take<'_>) -> Option<Buckets> {
        let shift = take.small().filter(|shift: &u32| *shift < 64)?;
        let (first, columns) = (take.number()?, take.small().filter(|columns: &usize| *columns <= most)?);
        first.checked_add(columns as u64 + 1)?;
        let mut buckets = Buckets { shift, first, columns, rows: Vec::new() };
        let mut cells = 0;
        for _ in 0..take.count()? {
            let mut row = Vec::new();
            let mut column = 0usize;
            for _ in 0..take.count()? {
                column = column.checked_add(take.small()?).filter(|column| *column < columns)?;
                row.resize(column + 1, 0);
                row[column] = take.number()?;
            }
            cells += row.len();
            if cells > CELLS_MAX {
                return None;
            }
            buckets.rows.push(row);
        }
        Some(buckets)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(buckets: &Buckets, row: usize) -> u64 {
        buckets.row(row).iter().sum()
    }

    fn same(buckets: &Buckets) -> Option<Buckets> {
        let mut put = Put::default();
        buckets.put(&mut put);
        Buckets::take(&mut Take(&put.0))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_and_all_is_where_it_was(
            times in prop::collection::vec(
                prop_oneof![any::<u64>(), Just(u64::MAX), 0..10_000u64, 1 << 40..(1 << 40) + 100_000u64],
                1..60,
            ),
            others in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let mut buckets = Buckets::new(3);
            times.iter().for_each(|&time| buckets.add(1, time, 2));
            let mut other = Buckets::new(1);
            others.iter().for_each(|&time| other.add(0, time, 1));
            buckets.merge(other, |row| [Some(row + 2), None]);
            prop_assert_eq!(sum(&buckets, 1), 2 * times.len() as u64);
            prop_assert_eq!(sum(&buckets, 2), others.len() as u64);
            prop_assert!(buckets.columns() <= COLUMNS_MAX);
            for column in 0..buckets.columns() {
                let (from, to) = buckets.times(column);
                let is_inside = |&&t: &&u64| t >= from && (t < to || to == u64::MAX);
                let inside = |times: &[u64]| times.iter().filter(is_inside).count() as u64;
                prop_assert_eq!(buckets.row(1).get(column).copied().unwrap_or(0), 2 * inside(&times));
                prop_assert_eq!(buckets.row(2).get(column).copied().unwrap_or(0), inside(&others));
            }
            let again = same(&buckets).unwrap();
            let axis = |buckets: &Buckets| (buckets.shift, buckets.first, buckets.columns());
            prop_assert_eq!(axis(&again), axis(&buckets));
            prop_assert_eq!(sum(&again, 1), sum(&buckets, 1));
        }

        #[test]
        fn spans_fall_into_their_columns(spans in prop::collection::vec((any::<u32>(), any::<u32>()), 1..20)) {
            let mut buckets = Buckets::new(1);
            spans.iter().for_each(|&(a, b)| buckets.add_span(0, a.min(b).into(), a.max(b).into()));
            let all: u64 = spans.iter().map(|&(a, b)| u64::from(a.abs_diff(b))).sum();
            prop_assert_eq!(sum(&buckets, 0), all);
            for column in 0..buckets.columns() {
                let (from, to) = buckets.times(column);
                let ends = |&(a, b): &(u32, u32)| (u64::from(a.min(b)).max(from), u64::from(a.max(b)).min(to));
                let expect: u64 = spans.iter().map(ends).map(|(begin, end)| end.saturating_sub(begin)).sum();
                prop_assert_eq!(buckets.row(0).get(column).copied().unwrap_or(0), expect);
            }
        }

        #[test]
        fn a_time_is_in_its_column(times in prop::collection::vec(any::<u64>(), 1..40)) {
            let mut buckets = Buckets::new(1);
            for time in times {
                let (from, to) = buckets.column_of(time);
                prop_assert!(from <= time && (time < to || to == u64::MAX), "{from} {time} {to}");
                buckets.add(0, time, 1);
                prop_assert_eq!(buckets.column_of(time), (from, to));
            }
        }

        #[test]
        fn bytes_of_anyone_as_buckets_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Buckets::take(&mut Take(&bytes));
        }
    }
}
