// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a trace's tables as rows of a lake: which columns a file has, and to which host and day a row belongs
//! [spec/lake.md 2, 4].

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use anyhow::Context as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::compute::{max, min, take_record_batch};
use kymo_tables::TableInfo;

use super::names::LABEL;
use crate::day::DAY_NS;

/// Which directory a row is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// None: it is not known.
    pub host: Option<String>,
    /// Days since 1970; none: it is not known.
    pub day: Option<i64>,
}

/// What all rows of an addition have.
#[derive(Clone, Debug)]
pub struct Common {
    /// The trace as it was opened.
    pub opened: String,
    /// Where it is, for readers of the lake.
    pub pointer: String,
    /// By key.
    pub labels: BTreeMap<String, String>,
    /// Times count from 1970.
    pub has_wall_clock: bool,
    /// Day of rows without a time.
    pub first_day: Option<i64>,
}

/// Where a column comes from.
enum Origin {
    /// The table's.
    Table(usize),
    /// The trace; the table's column of it, if it has one.
    Pointer(Option<usize>),
    /// A label's value.
    Label(String),
}

/// A table's columns in the lake.
pub struct RowLayout {
    schema: SchemaRef,
    origins: Vec<Origin>,
    host: Option<usize>,
    time: Option<usize>,
}

/// The type of texts of which there are few.
pub fn words() -> DataType {
    DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())
}

/// The type of times.
pub fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

impl RowLayout {
    /// Of a table.
    pub fn of(table: &TableInfo, common: &Common) -> RowLayout {
        let is_time = |field: &Field| matches!(field.data_type(), DataType::Timestamp(..));
        let find = |name: &str| table.schema.fields().iter().position(|field| field.name() == name);
        let labels = common.labels.keys().map(|key| format!("{LABEL}{key}"));
        let mut taken: HashSet<String> = labels.chain(["host", "day", "trace"].map(str::to_owned)).collect();
        taken.extend(table.schema.fields().iter().map(|field| field.name().clone()));
        let (mut fields, mut origins, mut pointer) = (Vec::new(), Vec::new(), None);
        for (position, field) in table.schema.fields().iter().enumerate() {
            let name = field.name();
            match name.as_str() {
                "host" => continue,
                // Of an event it is a field.
                "trace" if !table.is_event => {
                    pointer = Some(position);
                    continue;
                }
                _ => {}
            }
            let is_reserved = matches!(name.as_str(), "day" | "trace")
                || name.strip_prefix(LABEL).is_some_and(|key| common.labels.contains_key(key));
            let name = if is_reserved { unused(name, &mut taken) } else { name.clone() };
            let data_type = if is_time(field) { time() } else { field.data_type().clone() };
            fields.push(Field::new(name, data_type, true).with_metadata(field.metadata().clone()));
            origins.push(Origin::Table(position));
        }
        fields.push(Field::new("trace", words(), true));
        origins.push(Origin::Pointer(pointer));
        for (key, value) in &common.labels {
            fields.push(Field::new(format!("{LABEL}{key}"), words(), true));
            origins.push(Origin::Label(value.clone()));
        }
        let time = find("time").filter(|time| is_time(table.schema.field(*time)));
        RowLayout { schema: Arc::new(Schema::new(fields)), origins, host: find("host"), time }
    }

    /// The columns of a file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of the table as rows of files, by where they belong.
    ///
    /// # Errors
    /// Arrow's own.
    pub fn divide(&self, batch: &RecordBatch, common: &Common) -> anyhow::Result<Vec<(Partition, RecordBatch)>> {
        let rows = self.rows(batch, common)?;
        let mut parts: BTreeMap<Partition, Vec<Range<u32>>> = BTreeMap::new();
        for (partition, run) in self.runs(batch, common)? {
            parts.entry(partition).or_default().push(run);
        }
        let only = parts.len() == 1;
        let part = |(partition, runs): (Partition, Vec<Range<u32>>)| {
            let numbers = || UInt32Array::from_iter_values(runs.iter().cloned().flatten());
            let own = if only { rows.clone() } else { take_record_batch(&rows, &numbers())? };
            anyhow::Ok((partition, own))
        };
        parts.into_iter().map(part).collect()
    }

    /// Rows behind each other that belong to one directory.
    fn runs(&self, batch: &RecordBatch, common: &Common) -> anyhow::Result<Vec<(Partition, Range<u32>)>> {
        let hosts = self.host.map(|host| words_of(batch.column(host))).transpose()?;
        let times = self.time.map(|time| batch.column(time).as_primitive::<TimestampNanosecondType>());
        let times = times.filter(|_| common.has_wall_clock);
        let host_of = |row| hosts.as_ref().and_then(|hosts| hosts.get(row)).filter(|host| !host.is_empty());
        let time_of = |row| times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
        let mut runs: Vec<(Partition, Range<u32>)> = Vec::new();
        // Of the run so far: the host's key, and the times of its day.
        let (mut last_key, mut last_day) = (None, None::<Range<i64>>);
        for row in 0..batch.num_rows() {
            let (key, time) = (hosts.as_ref().and_then(|hosts| hosts.key(row)), time_of(row));
            let is_of_day = match (time, &last_day) {
                (Some(time), Some(day)) => day.contains(&time),
                (None, None) => true,
                _ => false,
            };
            match runs.last_mut() {
                Some((_, run)) if is_of_day && key == last_key => run.end += 1,
                _ => {
                    let day = time.map(|time| time.div_euclid(DAY_NS));
                    last_key = key;
                    last_day = day.map(|day| day.saturating_mul(DAY_NS)..(day + 1).saturating_mul(DAY_NS));
                    let partition = Partition { host: host_of(row).map(str::to_owned), day: day.or(common.first_day) };
                    runs.push((partition, row as u32..row as u32 + 1));
                }
            }
        }
        Ok(runs)
    }

    /// The rows with the columns of a file.
    fn rows(&self, batch: &RecordBatch, common: &Common) -> anyhow::Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |(origin, field): (&Origin, &Arc<Field>)| -> anyhow::Result<ArrayRef> {
            Ok(match origin {
                Origin::Table(position) => {
                    let column = batch.column(*position);
                    match column.data_type() == field.data_type() {
                        true => Arc::clone(column),
                        false => arrow_cast::cast(column, field.data_type())?,
                    }
                }
                Origin::Pointer(None) => constant(&common.pointer, rows),
                Origin::Pointer(Some(position)) => pointers(batch.column(*position), common)?,
                Origin::Label(value) => constant(value, rows),
            })
        };
        let columns = self.origins.iter().zip(self.schema.fields()).map(column).collect::<anyhow::Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Least and greatest time of rows of a file.
    pub fn times(rows: &RecordBatch) -> Option<(i64, i64)> {
        let times = rows.column_by_name("time")?.as_primitive_opt::<TimestampNanosecondType>()?;
        min(times).zip(max(times))
    }
}

/// `NAME.2`, or what follows it.
fn unused(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 2;
    loop {
        let text = format!("{name}.{number}");
        if taken.insert(text.clone()) {
            return text;
        }
        number += 1;
    }
}

/// A text for so many rows.
pub fn constant(text: &str, rows: usize) -> ArrayRef {
    let values: ArrayRef = Arc::new(StringArray::from(vec![text]));
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; rows]), values))
}

/// A column of texts, row by row.
struct WordsOf<'a> {
    keys: &'a Int32Array,
    values: &'a StringArray,
}

impl<'a> WordsOf<'a> {
    fn key(&self, row: usize) -> Option<i32> {
        self.keys.is_valid(row).then(|| self.keys.value(row))
    }

    fn get(&self, row: usize) -> Option<&'a str> {
        let key = self.key(row)? as usize;
        self.values.is_valid(key).then(|| self.values.value(key))
    }
}

fn words_of(column: &ArrayRef) -> anyhow::Result<WordsOf<'_>> {
    let words = column.as_dictionary_opt::<Int32Type>().context("a column of names is no dictionary")?;
    let values = words.values().as_string_opt::<i32>().context("names are no texts")?;
    Ok(WordsOf { keys: words.keys(), values })
}

/// The trace of each row as readers of the lake find it: with the part of a trace in chunks.
fn pointers(column: &ArrayRef, common: &Common) -> anyhow::Result<ArrayRef> {
    let words = words_of(column)?;
    let of = |text: Option<&str>| {
        let part = text.and_then(|text| text.strip_prefix(common.opened.as_str())).filter(|rest| rest.starts_with('/'));
        format!("{}{}", common.pointer, part.unwrap_or_default())
    };
    let values = words.values.iter().map(of).chain([common.pointer.clone()]);
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    // A row that names none is of this one.
    let none = (values.len() - 1) as i32;
    let keys: Int32Array = match words.keys.null_count() {
        0 => words.keys.clone(),
        _ => words.keys.iter().map(|key| Some(key.unwrap_or(none))).collect(),
    };
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, TimestampNanosecondArray};

    use super::*;

    /// A table with these rows, and their numbers.
    fn table(rows: &[(Option<i64>, Option<&str>)]) -> (TableInfo, RecordBatch) {
        let times = TimestampNanosecondArray::from_iter(rows.iter().map(|(time, _)| *time)).with_timezone("UTC");
        let hosts: DictionaryArray<Int32Type> = rows.iter().map(|(_, host)| *host).collect();
        let numbers = Int64Array::from_iter_values(0..rows.len() as i64);
        let columns: [(&str, ArrayRef); 3] =
            [("time", Arc::new(times)), ("host", Arc::new(hosts)), ("n", Arc::new(numbers))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let info = TableInfo { name: "t".to_owned(), about: String::new(), schema: batch.schema(), is_event: false };
        (info, batch)
    }

    #[test]
    fn rows_are_where_they_belong_in_their_order() {
        let day = |day: i64, ns: i64| Some(day * DAY_NS + ns);
        let rows = [
            (day(2, 0), Some("a")),
            (day(1, DAY_NS - 1), Some("a")),
            (day(1, 5), Some("b")),
            (day(2, DAY_NS - 1), Some("a")),
            (None, Some("a")),
            (day(2, 7), Some("")),
            (day(2, 7), None),
            (Some(i64::MIN), Some("b")),
            (Some(i64::MAX), Some("b")),
            (Some(i64::MAX), Some("b")),
            (day(-1, 3), Some("b")),
        ];
        let (info, batch) = table(&rows);
        let divided = |common: &Common| {
            let parts = RowLayout::of(&info, common).divide(&batch, common).unwrap();
            let part = |(partition, rows): (Partition, RecordBatch)| {
                let numbers = rows.column_by_name("n").unwrap().as_primitive::<Int64Type>().values().to_vec();
                (partition.host, partition.day, numbers)
            };
            parts.into_iter().map(part).collect::<Vec<_>>()
        };
        let common = Common {
            opened: "t".to_owned(),
            pointer: "/t".to_owned(),
            labels: BTreeMap::new(),
            has_wall_clock: true,
            first_day: Some(1),
        };
        let host = |name: &str| Some(name.to_owned());
        let (first, last) = (i64::MIN.div_euclid(DAY_NS), i64::MAX.div_euclid(DAY_NS));
        let expect = [
            (None, Some(2), vec![5, 6]),
            (host("a"), Some(1), vec![1, 4]),
            (host("a"), Some(2), vec![0, 3]),
            (host("b"), Some(first), vec![7]),
            (host("b"), Some(-1), vec![10]),
            (host("b"), Some(1), vec![2]),
            (host("b"), Some(last), vec![8, 9]),
        ];
        assert_eq!(divided(&common), expect);
        // A clock that counts from somewhere else has no days.
        let without = Common { has_wall_clock: false, first_day: None, ..common };
        let hosts: Vec<_> = divided(&without).into_iter().map(|(host, day, rows)| (host, day, rows.len())).collect();
        assert_eq!(hosts, [(None, None, 2), (host("a"), None, 4), (host("b"), None, 5)]);
    }
}
