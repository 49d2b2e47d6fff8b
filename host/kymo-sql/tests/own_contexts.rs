// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts that only some events have are columns like those that all records have.

use kymo_ctf::read::{Item, Reader};
use kymo_tables::columns::Table;

use crate::contexts::traces;

#[test]
fn columns_have_them() {
    let traces = traces();
    let mut table = Table::new(&traces[0].metadata, 1);
    let mut reader = Reader::new(&traces);
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) if record.event_position == 1 => table.push(&record),
            _ => {}
        }
    }
    let batch = table.take().unwrap();
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["time", "cpu", "pid", "tid", "proc", "n", "$prio", "$depth", "$who"]);
    let number = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        column.as_any().downcast_ref::<arrow_array::UInt8Array>().unwrap().value(0)
    };
    assert_eq!([number("n"), number("$prio"), number("$depth")], [8, 4, 5]);
}
