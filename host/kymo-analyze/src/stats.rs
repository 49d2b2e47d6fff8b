// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of records and their fields, by any sequence of event, process, thread and CPU [spec/analyze.md 8].

use std::collections::BTreeMap;

use crate::distribution::{Distribution, Number};
use crate::hash::Map;
use crate::name::Name;
use crate::record::{Class, Record, ValueKind};

/// Rows that are kept apart at most.
const ROWS_MAX: usize = 1 << 18;
/// Fields of rows that are followed at most.
const FIELDS_MAX: usize = 1 << 14;
/// Levels at most.
pub const LEVELS_MAX: usize = 4;

/// What rows are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The event.
    Event,
    /// The process.
    Process,
    /// The thread.
    Thread,
    /// The CPU.
    Cpu,
    /// What the caller found, such as a field: [`Writer::others`] at the same level.
    Other,
}

/// One level of a row: a position among the classes, a process, a thread, a CPU. `None`: not known.
pub type BudgetPart = Option<i64>;

/// Who wrote a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// The process.
    pub process: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The name of either; may be empty.
    pub name: Name,
    /// The CPU.
    pub cpu: Option<u32>,
    /// By level, where that is [`Level::Other`].
    pub others: [BudgetPart; LEVELS_MAX],
}

/// The records of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsRow {
    /// As many as there are levels.
    pub key: Vec<BudgetPart>,
    /// Newest name of process or thread, where that is a level.
    pub name: Name,
    /// Records.
    pub count: u64,
    /// Bits of all of them.
    pub bits: u64,
    /// Bits of the shortest and of the longest.
    pub bits_range: (u64, u64),
    /// Time of the first, ns.
    pub first: i64,
    /// Time of the last, ns.
    pub last: i64,
    /// Sum of the field that is asked for; integers exactly. `None`: no record has had it.
    pub sum: Option<Number>,
}

/// Counts records and follows their fields.
#[derive(Clone, Debug)]
pub struct Stats {
    levels: Vec<Level>,
    with_fields: bool,
    /// By class: position among the records' fields, and kind.
    numbers: Vec<Vec<(usize, usize, ValueKind)>>,
    /// By class: position and kind of the field whose values are added up.
    sums: Vec<Option<(usize, ValueKind)>>,
    index: Map<[BudgetPart; LEVELS_MAX], usize>,
    rows: Vec<StatsRow>,
    /// By row, class, and place of the field in the class.
    fields: BTreeMap<(usize, usize, usize), Distribution>,
    rows_left_out: u64,
    fields_left_out: u64,
}

impl Stats {
    /// For these classes. Levels beyond the fourth are not looked at.
    pub fn new(levels: &[Level], with_fields: bool, classes: &[Class]) -> Stats {
        let numbers = |class: &Class| {
            let fields = class.fields.iter().enumerate();
            let is_number = |kind| matches!(kind, ValueKind::Integer | ValueKind::Float);
            fields
                .filter(|(_, field)| is_number(field.kind))
                .map(|(at, field)| (at, field.position, field.kind))
                .collect()
        };
        Stats {
            levels: levels.iter().copied().take(LEVELS_MAX).collect(),
            with_fields,
            numbers: classes.iter().map(numbers).collect(),
            sums: Vec::new(),
            index: Map::default(),
            rows: Vec::new(),
            fields: BTreeMap::new(),
            rows_left_out: 0,
            fields_left_out: 0,
        }
    }

    /// Also adds up the values of a field by row. `None` where no class has a field of that name that is a number.
    pub fn with_sum(mut self, field: &str, classes: &[Class]) -> Option<Stats> {
        let of_class = |class: &Class| {
            let field = class.field(&[field])?;
            matches!(field.kind, ValueKind::Integer | ValueKind::Float).then_some((field.position, field.kind))
        };
        self.sums = classes.iter().map(of_class).collect();
        self.sums.iter().any(Option::is_some).then_some(self)
    }

    /// Takes a record of the class at position `class`: when it was written, and how many bits it has.
    pub fn add<R: Record>(&mut self, class: usize, (time, bits): (i64, u64), writer: &Writer, record: &R) {
        let Some(index) = self.row(class, time, writer) else { return };
        let row = &mut self.rows[index];
        row.count = row.count.saturating_add(1);
        row.bits = row.bits.saturating_add(bits);
        row.bits_range = (row.bits_range.0.min(bits), row.bits_range.1.max(bits));
        (row.first, row.last) = (row.first.min(time), row.last.max(time));
        if !writer.name.is_empty() {
            row.name = writer.name;
        }
        if let Some(Some((position, kind))) = self.sums.get(class) {
            row.sum = value_of(record, *position, *kind).map_or(row.sum, |value| Some(Number::plus(row.sum, value)));
        }
        if self.with_fields {
            self.add_fields(index, class, record);
        }
    }

    /// Takes so many records of a class at once, whose writers do not matter. `span`: times of the first and the last.
    pub fn add_counted(&mut self, class: usize, records: u64, span: (i64, i64)) {
        let Some(index) = self.row(class, span.0, &Writer::default()) else { return };
        let row = &mut self.rows[index];
        row.count = row.count.saturating_add(records);
        (row.first, row.last) = (row.first.min(span.0), row.last.max(span.1));
    }

    /// Takes so many records of a writer at once, whose classes do not matter. Those with newer records come later.
    pub fn add_written(&mut self, writer: &Writer, records: u64, span: (i64, i64)) {
        let Some(index) = self.row(0, span.0, writer) else { return };
        let row = &mut self.rows[index];
        row.count = row.count.saturating_add(records);
        (row.first, row.last) = (row.first.min(span.0), row.last.max(span.1));
        if !writer.name.is_empty() {
            row.name = writer.name;
        }
    }

    /// Rows, sorted by key.
    pub fn rows(&self) -> Vec<(usize, &StatsRow)> {
        let mut rows: Vec<_> = self.rows.iter().enumerate().collect();
        rows.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        rows
    }

    /// The fields of a row: position of the class, place of the field in it, values.
    pub fn fields(&self, row: usize) -> impl Iterator<Item = (usize, usize, &Distribution)> {
        let of_row = self.fields.range((row, 0, 0)..(row + 1, 0, 0));
        of_row.map(|((_, class, field), values)| (*class, *field, values))
    }

    /// Records whose rows were too many.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out
    }

    /// Values whose fields were too many.
    pub fn fields_left_out(&self) -> u64 {
        self.fields_left_out
    }

    #[inline]
    fn row(&mut self, class: usize, time: i64, writer: &Writer) -> Option<usize> {
        let mut key = [None; LEVELS_MAX];
        for ((part, level), other) in key.iter_mut().zip(&self.levels).zip(writer.others) {
            *part = match level {
                Level::Event => Some(class as i64),
                Level::Process => writer.process.map(i64::from),
                Level::Thread => writer.tid.map(i64::from),
                Level::Cpu => writer.cpu.map(i64::from),
                Level::Other => other,
            };
        }
        if let Some(&index) = self.index.get(&key) {
            return Some(index);
        }
        if self.rows.len() >= ROWS_MAX {
            self.rows_left_out += 1;
            return None;
        }
        let index = self.rows.len();
        self.index.insert(key, index);
        let key = key[..self.levels.len()].to_vec();
        self.rows.push(StatsRow {
            key,
            name: Name::default(),
            count: 0,
            bits: 0,
            bits_range: (u64::MAX, 0),
            first: time,
            last: time,
            sum: None,
        });
        Some(index)
    }

    fn add_fields<R: Record>(&mut self, row: usize, class: usize, record: &R) {
        let Some(numbers) = self.numbers.get(class) else { return };
        for &(field, position, kind) in numbers {
            let Some(value) = value_of(record, position, kind) else { continue };
            let key = (row, class, field);
            if self.fields.len() >= FIELDS_MAX && !self.fields.contains_key(&key) {
                self.fields_left_out += 1;
                continue;
            }
            self.fields.entry(key).or_default().add(value);
        }
    }
}

fn value_of<R: Record>(record: &R, position: usize, kind: ValueKind) -> Option<Number> {
    match kind {
        ValueKind::Float => record.float(position).map(Number::Float),
        _ => record.integer(position).map(Number::Integer),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::record::Field;

    struct One(Number);

    impl Record for One {
        fn integer(&self, _: usize) -> Option<i128> {
            if let Number::Integer(value) = self.0 { Some(value) } else { None }
        }

        fn float(&self, _: usize) -> Option<f64> {
            if let Number::Float(value) = self.0 { Some(value) } else { None }
        }

        fn text(&self, _: usize) -> Option<Cow<'_, str>> {
            None
        }
    }

    #[test]
    fn sums_of_a_field_by_row() {
        let class = |name: &str, field: &str, kind| Class {
            name: name.into(),
            fields: vec![Field { name: field.into(), kind, position: 0 }],
        };
        let classes = [
            class("a", "size", ValueKind::Integer),
            class("b", "other", ValueKind::Integer),
            class("c", "size", ValueKind::Float),
            class("d", "size", ValueKind::Text),
        ];
        assert!(Stats::new(&[Level::Event], false, &classes).with_sum("none", &classes).is_none());
        assert!(Stats::new(&[Level::Event], false, &classes[3..]).with_sum("size", &classes[3..]).is_none());
        let mut stats = Stats::new(&[Level::Event], false, &classes).with_sum("size", &classes).unwrap();
        for (class, value) in [
            (0, Number::Integer(u64::MAX.into())),
            (0, Number::Integer(-1)),
            (1, Number::Integer(7)),
            (2, Number::Float(0.5)),
            (2, Number::Float(f64::NAN)),
        ] {
            stats.add(class, (0, 8), &Writer::default(), &One(value));
        }
        let sums: Vec<_> = stats.rows().into_iter().map(|(_, row)| row.sum).collect();
        let expect = [Some(Number::Integer(i128::from(u64::MAX) - 1)), None, Some(Number::Float(0.5))];
        assert_eq!(sums, expect);
    }
}
