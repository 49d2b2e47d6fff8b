// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of the fields of events over time, in columns of 2^shift ns, as an index is built [spec/index.md 4.1]. Where
//! there are too many columns they become twice as long. Only columns with a record are there.

use crate::fields::sums::{FieldValue, ValueSums};
use crate::pictures::part::SHIFT_MAX;

/// Columns of a field at most.
pub(crate) const FIELD_COLUMNS_MAX: usize = 1 << 16;

/// Where a record stands among others: its time in cycles, and its stream.
type Place = (u64, u32);

/// Values of one field in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimedSums {
    pub sums: ValueSums,
    /// Of the first and of the last value that is a number.
    first_at: Place,
    last_at: Place,
}

impl TimedSums {
    /// Adds a value that stands behind all others.
    #[inline]
    pub fn add(&mut self, value: FieldValue, at: Place) {
        let before = self.sums.count;
        self.sums.add(value);
        if self.sums.count > before {
            self.last_at = at;
            if before == 0 {
                self.first_at = at;
            }
        }
    }

    /// Adds values that stand anywhere: of records of one stream at one time those of `other` are later.
    fn merge(&mut self, other: &TimedSums) {
        if self.sums.count == 0 || other.sums.count == 0 {
            let (mut sums, times) = (self.sums, if self.sums.count == 0 { *other } else { *self });
            sums.append(&other.sums);
            *self = TimedSums { sums, ..times };
            return;
        }
        let (mut first, mut last) = ((self.first_at, self.sums.first), (self.last_at, self.sums.last));
        if other.first_at < first.0 {
            first = (other.first_at, other.sums.first);
        }
        if other.last_at >= last.0 {
            last = (other.last_at, other.sums.last);
        }
        self.sums.append(&other.sums);
        (self.first_at, self.sums.first) = first;
        (self.last_at, self.sums.last) = last;
    }
}

/// Columns of all numeric fields of one event.
#[derive(Clone, Debug)]
pub(crate) struct EventColumns {
    pub shift: u32,
    pub fields: usize,
    /// The numbers of the columns, ascending: one has the times from its number times 2^shift ns on.
    pub numbers: Vec<i64>,
    /// Of each column, of each field.
    sums: Vec<TimedSums>,
}

impl EventColumns {
    fn new(fields: usize) -> EventColumns {
        EventColumns { shift: 0, fields, numbers: Vec::new(), sums: Vec::new() }
    }

    /// Sums of a field, with the number of their column, where it has values.
    pub fn of_field(&self, field: usize) -> impl Iterator<Item = (i64, &ValueSums)> {
        let sums = self.sums.iter().skip(field).step_by(self.fields.max(1)).map(|timed| &timed.sums);
        self.numbers.iter().copied().zip(sums).filter(|(_, sums)| sums.count > 0 || sums.not_numbers > 0)
    }

    fn cells(&self) -> usize {
        self.sums.len()
    }

    /// How many columns there are of 2^shift ns.
    fn count_of(&self, shift: u32) -> usize {
        let by = shift - self.shift;
        let changes = self.numbers.windows(2).filter(|two| two[0] >> by != two[1] >> by).count();
        changes + usize::from(!self.numbers.is_empty())
    }

    /// Makes columns longer: as many as there may be, or fewer.
    pub fn fold_below(&mut self, most: usize) {
        let is_enough = |shift: &u32| self.count_of(*shift) <= most;
        let shift = (self.shift..SHIFT_MAX).find(is_enough).unwrap_or(SHIFT_MAX);
        self.fold_to(shift);
    }

    fn fold_to(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        if by == 0 {
            return;
        }
        self.shift = shift;
        let mut kept = 0;
        for at in 0..self.numbers.len() {
            let number = self.numbers[at] >> by;
            if kept > 0 && self.numbers[kept - 1] == number {
                for field in 0..self.fields {
                    let later = self.sums[at * self.fields + field];
                    self.sums[(kept - 1) * self.fields + field].merge(&later);
                }
                continue;
            }
            self.numbers[kept] = number;
            self.sums.copy_within(at * self.fields..(at + 1) * self.fields, kept * self.fields);
            kept += 1;
        }
        self.numbers.truncate(kept);
        self.sums.truncate(kept * self.fields);
    }

    /// Those of another stream, or of several.
    fn merge(&mut self, mut other: EventColumns) {
        let shift = self.shift.max(other.shift);
        self.fold_to(shift);
        other.fold_to(shift);
        let mut all = EventColumns { shift, ..EventColumns::new(self.fields) };
        let (mut own, mut others) = (0, 0);
        loop {
            let ends = (self.numbers.get(own), other.numbers.get(others));
            let (takes_own, takes_other) = match ends {
                (Some(a), Some(b)) => (a <= b, b <= a),
                (a, b) => (a.is_some(), b.is_some()),
            };
            let next = if takes_own { ends.0 } else { ends.1 };
            let Some(number) = next else { break };
            all.numbers.push(*number);
            let from = all.sums.len();
            if takes_own {
                all.sums.extend_from_slice(&self.sums[own * self.fields..(own + 1) * self.fields]);
                own += 1;
            }
            if takes_other {
                let taken = &other.sums[others * self.fields..(others + 1) * self.fields];
                match takes_own {
                    true => all.sums[from..].iter_mut().zip(taken).for_each(|(sums, later)| sums.merge(later)),
                    false => all.sums.extend_from_slice(taken),
                }
                others += 1;
            }
        }
        *self = all;
    }
}

/// Columns of all events of a stream, or of all of them.
#[derive(Debug)]
pub(crate) struct ColumnTable {
    /// By event name's number; `None` before there is a record.
    pub events: Vec<Option<EventColumns>>,
    /// Sums of one field in one column, of all events together: how many there are, and may be.
    cells: usize,
    cells_max: usize,
}

impl ColumnTable {
    pub fn new(events: usize, cells_max: usize) -> ColumnTable {
        ColumnTable { events: vec![None; events], cells: 0, cells_max }
    }

    /// The sums of the fields of an event at a time, ns, which is not before any other of this event.
    #[inline]
    pub fn at(&mut self, event: usize, fields: usize, ns: i64) -> &mut [TimedSums] {
        let columns = self.events[event].get_or_insert_with(|| EventColumns::new(fields));
        if columns.numbers.last() != Some(&(ns >> columns.shift)) {
            self.push(event, ns);
        }
        let columns = self.events[event].get_or_insert_with(|| EventColumns::new(fields));
        let from = columns.sums.len().saturating_sub(columns.fields);
        &mut columns.sums[from..]
    }

    /// Makes a column for a time, and room for it.
    #[cold]
    fn push(&mut self, event: usize, ns: i64) {
        let Some(columns) = &mut self.events[event] else { return };
        columns.numbers.push(ns >> columns.shift);
        columns.sums.resize(columns.numbers.len() * columns.fields, TimedSums::default());
        self.cells += columns.fields;
        if columns.numbers.len() > FIELD_COLUMNS_MAX || self.cells > self.cells_max {
            self.shrink();
        }
    }

    /// Makes columns longer where there are too many, and some room, so that this is not soon again.
    fn shrink(&mut self) {
        for columns in self.events.iter_mut().flatten() {
            if columns.numbers.len() > FIELD_COLUMNS_MAX {
                columns.fold_below(FIELD_COLUMNS_MAX / 4 * 3);
            }
        }
        let cells = |events: &[Option<EventColumns>]| events.iter().flatten().map(EventColumns::cells).sum();
        self.cells = cells(&self.events);
        if self.cells <= self.cells_max {
            return;
        }
        while self.cells > self.cells_max / 4 * 3 {
            let long = self.events.iter_mut().flatten().filter(|of| of.numbers.len() > 1 && of.shift < SHIFT_MAX);
            let Some(longest) = long.max_by_key(|columns| columns.cells()) else { return };
            longest.fold_below(longest.numbers.len() / 2);
            self.cells = cells(&self.events);
        }
    }

    /// Adds those of another stream.
    pub fn merge(&mut self, other: ColumnTable) {
        for (own, other) in self.events.iter_mut().zip(other.events) {
            match (own, other) {
                (Some(own), Some(other)) => own.merge(other),
                (own @ None, other) => *own = other,
                (Some(_), None) => {}
            }
        }
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;

    use super::*;

    /// A value: its event, field, time, stream, and how many came before it.
    type Given = (usize, usize, i64, u32, u64);

    fn table(random: &mut Random, stream: u32, given: &mut Vec<Given>, cells_max: usize) -> ColumnTable {
        let mut table = ColumnTable::new(3, cells_max);
        let mut ns = random.below(100i64) - 50;
        for _ in 0..random.below(300u64) {
            ns += random.below(4i64).pow(random.below(5));
            let event = random.below(3) as usize;
            let sums = table.at(event, event + 1, ns);
            for (field, sums) in sums.iter_mut().enumerate().filter(|_| random.below(5) > 0) {
                let number = given.len() as u64;
                sums.add(FieldValue::Integer(number.into()), ((ns + 50) as u64, stream));
                given.push((event, field, ns, stream, number));
            }
        }
        table
    }

    /// Whatever is folded and merged, each column has the sums of the values in it.
    #[test]
    fn columns_have_what_is_in_them() {
        let mut random = Random::new("field_columns", 2);
        for round in 0..60u64 {
            let (mut given, cells_max) = (Vec::new(), if round % 2 == 0 { 60 } else { 10_000 });
            let mut all = ColumnTable::new(3, cells_max);
            for stream in [3, 0, 2, 1] {
                let one = table(&mut random, stream, &mut given, cells_max);
                all.merge(one);
                assert!(all.cells <= cells_max);
            }
            given.sort_by_key(|(_, _, ns, stream, number)| (*ns, *stream, *number));
            let mut seen = 0;
            for (event, columns) in all.events.iter().enumerate().flat_map(|(at, of)| of.iter().map(move |of| (at, of)))
            {
                for field in 0..columns.fields {
                    for (number, sums) in columns.of_field(field) {
                        let mut expect = ValueSums::default();
                        let is_in =
                            |(of, at, ns, ..): &&Given| (*of, *at, *ns >> columns.shift) == (event, field, number);
                        let values = given.iter().filter(is_in).map(|(.., value)| FieldValue::Integer((*value).into()));
                        values.for_each(|value| expect.add(value));
                        assert_eq!(*sums, expect, "round {round}");
                        seen += sums.count;
                    }
                }
            }
            assert_eq!(seen, given.len() as u64);
        }
    }
}
