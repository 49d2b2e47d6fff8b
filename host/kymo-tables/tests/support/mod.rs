// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in directories, and rows of tables as JSON.

#![allow(dead_code, reason = "each user needs its part")]

use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float64Type, Int8Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use kymo_index::{How, Named, Stop};
use kymo_tables::{Batches, OpenOptions, Scan, Source};
use kymo_testing::Random;
use serde_json::Value;
use tempfile::TempDir;

use super::common::{Made, NICE};

/// The trace in a directory, opened.
pub fn open(made: &Made) -> (Source, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    made.write(dir.path());
    (Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap(), dir)
}

/// The same with an index: such a trace can be divided by time.
pub fn open_indexed(made: &Made) -> (Source, TempDir) {
    let (_, dir) = open(made);
    (index(dir.path()), dir)
}

/// Makes the index of a trace, and opens both.
pub fn index(dir: &Path) -> Source {
    let trace = kymo_ctf::read::Trace::open(dir).unwrap().value;
    let named = Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] };
    kymo_index::build(&named, &[trace], How::default(), &Stop::default(), &|_| {}).unwrap();
    Source::open(&[dir.to_owned()], &OpenOptions::default()).unwrap()
}

/// A thread of a CPU; 0 is the idle one.
pub fn tid(cpu: u32, number: u32) -> i32 {
    if number == 0 { 0 } else { (100 * cpu + 10 * number) as i32 }
}

/// Three CPUs with so many records, by a seed.
pub fn random(seed: u64, records: u32) -> Made {
    let mut numbers = Random(seed);
    let mut made = Made::default();
    let (mut at, mut running) = (1000u64, [0i32; 3]);
    for _ in 0..records {
        at += numbers.below(20u64);
        let cpu = numbers.below(3u32);
        let own = &mut running[cpu as usize];
        match numbers.below(8u32) {
            0 | 1 => {
                // A thread runs on one CPU at a time, and no switch is to the same one.
                let next = tid(cpu, numbers.below(4));
                if next == *own {
                    continue;
                }
                let name = if next == 0 { format!("swapper/{cpu}") } else { format!("t{next}") };
                made.switch(cpu, at, (*own, numbers.below(3i64)), (next, &name, NICE));
                *own = next;
            }
            2 => {
                let tid = tid(cpu, 1 + numbers.below(3));
                made.waking(cpu, at, (tid, &format!("t{tid}"), NICE), cpu as i32);
            }
            3 => {
                made.axis(cpu, at, numbers.below(2u32) == 0);
            }
            4 => {
                made.futex(cpu, at, numbers.below(2u32) == 0);
            }
            _ => {
                made.step(cpu, at, f64::from(numbers.below(100u32)));
            }
        }
    }
    made
}

/// All rows of a scan as objects.
pub fn rows(source: &Source, table: &str, scan: &Scan) -> Vec<Value> {
    rows_of(source.scan(table, scan).unwrap())
}

/// The same, of rows on their way.
pub fn rows_of(batches: Batches) -> Vec<Value> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let cells = schema.fields().iter().zip(batch.columns());
            rows.push(Value::Object(cells.map(|(field, array)| (field.name().clone(), cell(array, row))).collect()));
        }
    }
    rows
}

/// Whether two lists of rows are one, with the first difference.
#[track_caller]
pub fn assert_same<T: PartialEq + std::fmt::Debug>(found: &[T], expect: &[T], what: &str) {
    if let Some(at) = (0..found.len().max(expect.len())).find(|at| found.get(*at) != expect.get(*at)) {
        let (found_rows, expect_rows) = (found.len(), expect.len());
        let (found, expect) = (found.get(at), expect.get(at));
        panic!("{what}: row {at} of {found_rows} is {found:?}, of {expect_rows} expected {expect:?}");
    }
}

fn cell(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).into()
        }
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Dictionary(..) => {
            let array = array.as_dictionary::<Int32Type>();
            cell(array.values(), array.keys().value(row) as usize)
        }
        other => panic!("a column of {other}"),
    }
}
