// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random values of all kinds go out as Parquet, and come back the same.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use kymo_sql::parquet::Tables;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rows::{START_S, bits, expected, export, row};

fn cell(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::Int8 => array.as_primitive::<arrow_array::types::Int8Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => bits(array.as_primitive::<Float32Type>().value(row).into()).into(),
        DataType::Float64 => bits(array.as_primitive::<Float64Type>().value(row)).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Binary => array.as_binary::<i32>().value(row).to_vec().into(),
        DataType::Dictionary(..) => {
            let array = array.as_dictionary::<Int32Type>();
            let key = array.keys().value(row) as usize;
            cell(array.values(), key)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(row);
            (0..list.len()).map(|at| cell(&list, at)).collect::<Vec<_>>().into()
        }
        other => panic!("a column of {other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parquet_holds_all_values(rows in proptest::collection::vec(row(), 1..20)) {
        let dir = tempfile::tempdir().unwrap();
        export(&rows, |traces| Box::new(Tables::new(traces, &dir.path().join("o")).unwrap()));
        let file = dir.path().join("o/a.b/host=unknown/day=2023-11-14/part-0.parquet");
        let file = std::fs::File::open(file).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let mut back = Vec::new();
        for batch in reader {
            let batch = batch.unwrap();
            for at in 0..batch.num_rows() {
                let schema = batch.schema();
                let own = schema.fields().iter().enumerate().skip(5);
                let values = own.map(|(column, field)| (field.name().clone(), cell(batch.column(column), at)));
                let time = batch.column(0).as_primitive::<arrow_array::types::TimestampNanosecondType>().value(at);
                prop_assert_eq!(time, START_S * 1_000_000_000 + back.len() as i64 * 1001);
                prop_assert_eq!(cell(batch.column(4), at), json!("p,q"));
                back.push(Value::Object(values.collect()));
            }
        }
        prop_assert_eq!(back, rows.iter().map(expected).collect::<Vec<_>>());
    }
}
