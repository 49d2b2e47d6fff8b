// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the middle of a window, which the index has but for some stretches [spec/index.md 5.6]. They are added up
//! when all are known, in the order of their last records: the newest name of a row is its name.

use std::collections::BTreeMap;

use kymo_analyze::hash::Map;
use kymo_analyze::{Level, Stats, Writer};
use kymo_index::{CountedRecords, Pyramid, StatisticsPart, WriterName, WriterNames, WriterRows};

/// Rows with last records at one time that are looked through; of more of them, all records are read.
const TIED_MAX: usize = 256;

/// Records of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct MiddleRow {
    pub writer: Writer,
    pub counted: CountedRecords,
    /// Streams whose records were merged are one source, all others have their own.
    pub source: usize,
}

/// Rows of records that were read.
#[derive(Default)]
pub(super) struct ReadRows {
    writers: Vec<Writer>,
    numbers: Map<(WriterName, Option<u32>), u32>,
    rows: WriterRows,
}

impl ReadRows {
    /// Takes a record behind all that were taken.
    pub fn record(&mut self, writer: &Writer, time: i64) {
        let name = WriterName { process: writer.process, tid: writer.tid, name: writer.name };
        let next = self.writers.len() as u32;
        let number = *self.numbers.entry((name, writer.cpu)).or_insert(next);
        if number == next {
            self.writers.push(*writer);
        }
        self.rows.add(number, &CountedRecords::of(time));
    }

    /// What was taken.
    pub fn rows(&self, source: usize) -> impl Iterator<Item = MiddleRow> {
        let row = move |(number, counted): (u32, CountedRecords)| {
            let writer = self.writers.get(number as usize).copied().unwrap_or_default();
            MiddleRow { writer, counted, source }
        };
        self.rows.in_order().into_iter().map(row)
    }
}

/// What the index has of a window.
pub(super) struct Middle<'o> {
    pub pyramid: &'o Pyramid,
    pub names: WriterNames,
    level: Level,
    /// Streams whose records are among the rows already, by name.
    counted: Vec<&'o str>,
    /// Of streams that are not merged.
    rows: Vec<MiddleRow>,
    /// Of all others, from parts.
    parts: WriterRows,
    cpus: BTreeMap<Option<u32>, CountedRecords>,
    read: ReadRows,
    /// What is read now is of the middle.
    pub is_within: bool,
    /// The rows do not say all.
    pub is_unfit: bool,
}

impl<'o> Middle<'o> {
    /// Nothing but the rows of streams that are not merged, whose names are in `counted`.
    pub fn new(
        (pyramid, names): (&'o Pyramid, WriterNames),
        level: Level,
        counted: Vec<&'o str>,
        rows: Vec<MiddleRow>,
    ) -> Middle<'o> {
        let (parts, cpus, read) = (WriterRows::default(), BTreeMap::new(), ReadRows::default());
        Middle { pyramid, names, level, counted, rows, parts, cpus, read, is_within: false, is_unfit: false }
    }

    /// Whether a record of a stream that comes now is in the rows.
    pub fn has(&self, stream: &str) -> bool {
        self.is_within && self.counted.contains(&stream)
    }

    /// A record of the middle that is in no part.
    pub fn read(&mut self, writer: &Writer, time: i64) {
        self.read.record(writer, time);
    }

    /// Takes a part.
    pub fn take(&mut self, part: &StatisticsPart) {
        if self.level == Level::Cpu {
            for (cpu, counted) in &part.cpus {
                self.cpus.entry(*cpu).and_modify(|sum| sum.plus(counted)).or_insert(*counted);
            }
            return;
        }
        for (number, counted) in part.writers.in_order() {
            self.parts.add(number, &counted);
        }
    }

    /// Moves what parts have to the rows.
    fn gather(&mut self) {
        let of_cpu = |(cpu, counted)| MiddleRow { writer: Writer { cpu, ..Writer::default() }, counted, source: 0 };
        self.rows.extend(std::mem::take(&mut self.cpus).into_iter().map(of_cpu));
        for (number, counted) in std::mem::take(&mut self.parts).in_order() {
            match self.names.at(number) {
                Some(name) => self.rows.push(MiddleRow { writer: name.writer(), counted, source: 0 }),
                None => self.is_unfit = true,
            }
        }
    }

    /// Adds all rows. How many records are in none that was read, and the times of the first and the last.
    pub fn add_to(&mut self, stats: &mut Stats) -> Option<(u64, (i64, i64))> {
        self.gather();
        let rows = self.rows.iter();
        let known = rows.fold(None, |sum: Option<CountedRecords>, row| {
            let mut all = sum.unwrap_or(CountedRecords { records: 0, ..row.counted });
            all.plus(&row.counted);
            Some(all)
        });
        let mut all = std::mem::take(&mut self.rows);
        all.extend(self.read.rows(0));
        // Of one source the order stays.
        all.sort_by_key(|row| row.counted.last);
        for of_time in all.chunk_by(|a, b| a.counted.last == b.counted.last) {
            self.is_unfit |= self.level != Level::Cpu && is_ambiguous(of_time);
        }
        all.iter().for_each(|row| {
            stats.add_written(&row.writer, row.counted.records, (row.counted.first, row.counted.last));
        });
        known.map(|all| (all.records, (all.first, all.last)))
    }
}

/// Whether it is not known which record was the last one of a row, of rows with last records at one time.
fn is_ambiguous(rows: &[MiddleRow]) -> bool {
    let is_of_one = rows.iter().all(|row| row.source == rows[0].source);
    if is_of_one || rows.len() > TIED_MAX {
        return !is_of_one;
    }
    let is_same = |a: &Writer, b: &Writer| a.tid == b.tid || a.process == b.process;
    let differs = |a: &MiddleRow, b: &MiddleRow| {
        let has_names = !a.writer.name.is_empty() && !b.writer.name.is_empty();
        has_names && a.source != b.source && is_same(&a.writer, &b.writer) && a.writer.name != b.writer.name
    };
    rows.iter().any(|a| rows.iter().any(|b| differs(a, b)))
}
