// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random values of all kinds go out as CSV, Parquet and Chrome JSON, and come back the same.

use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use kymo_abi::record_head;
use kymo_ctf::read::{Item, Memory, Reader, Trace};
use kymo_ctf::write::{
    ClockMeta, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind, TraceMeta,
    metadata_ctf18,
};
use kymo_export::export::stacks::NoNames;
use kymo_export::export::{Format, begin};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One record's values.
#[derive(Clone, Debug)]
struct Row {
    u8: u8,
    i64: i64,
    u64: u64,
    f32: f32,
    f64: f64,
    bool: bool,
    kind: i8,
    text: String,
    blob: Vec<u8>,
    array: [u16; 3],
    seq: Vec<i32>,
}

fn text() -> impl Strategy<Value = String> {
    // What quoting is for, and what no tool likes.
    prop_oneof!["[ -~]{0,12}", "[\"',;\r\n\t\\\\]{0,6}", "\\PC{0,8}", Just(String::new())]
}

prop_compose! {
    fn row()(
        (u8, i64, u64) in (any::<u8>(), any::<i64>(), any::<u64>()),
        (f32, f64) in (proptest::num::f32::ANY, proptest::num::f64::ANY),
        (bool, kind) in (any::<bool>(), -2i8..3),
        text in text(),
        blob in proptest::collection::vec(any::<u8>(), 0..9),
        array in any::<[u16; 3]>(),
        seq in proptest::collection::vec(any::<i32>(), 0..5),
    ) -> Row {
        Row { u8, i64, u64, f32, f64, bool, kind, text, blob, array, seq }
    }
}

fn fields() -> Vec<Field> {
    let number = |number| FieldClass::Number(number);
    let field = |name: &str, class| Field { name: name.to_owned(), class };
    let labels = vec![("off".to_owned(), 0), ("on,\"x\"".to_owned(), 1)];
    vec![
        field("u8", number(Number::unsigned(8))),
        field("i64", number(Number::signed(64))),
        field("u64", number(Number::hex(64))),
        field("f32", number(Number::Float { bits: 32 })),
        field("f64", number(Number::Float { bits: 64 })),
        field("bool", number(Number::Bool)),
        field("kind", FieldClass::Enum { number: Number::signed(8), labels }),
        field("text", FieldClass::Text),
        field("blob", FieldClass::Blob),
        field("array", FieldClass::Array { element: Number::unsigned(16), count: 3 }),
        field("seq", FieldClass::Seq { element: Number::signed(32) }),
    ]
}

fn bytes_of(row: &Row, time: u64) -> Vec<u8> {
    let mut out = record_head(1, time).to_vec();
    out.extend_from_slice(&7u32.to_le_bytes());
    out.push(row.u8);
    out.extend_from_slice(&row.i64.to_le_bytes());
    out.extend_from_slice(&row.u64.to_le_bytes());
    out.extend_from_slice(&row.f32.to_le_bytes());
    out.extend_from_slice(&row.f64.to_le_bytes());
    out.push(row.bool.into());
    out.push(row.kind as u8);
    for bytes in [row.text.as_bytes(), &row.blob] {
        out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    row.array.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out.extend_from_slice(&(row.seq.len() as u16).to_le_bytes());
    row.seq.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out
}

const START_S: i64 = 1_700_000_000;

fn trace(rows: &[Row]) -> Trace {
    let event = EventClass { id: 1, name: "a:b".to_owned(), file: String::new(), line: 0, fields: fields() };
    let clock = ClockMeta {
        name: "c".to_owned(),
        uuid: [1; 16],
        description: String::new(),
        frequency_hz: 1_000_000_000,
        offset_s: START_S,
        offset_cycles: 0,
        precision_cycles: 0,
        absolute: true,
    };
    let streams = vec![StreamClass { kind: StreamKind::User, contexts: Vec::new(), events: vec![event] }];
    let meta = TraceMeta { uuid: [2; 16], env: Vec::new(), clock, streams };
    let content: Vec<u8> = rows.iter().enumerate().flat_map(|(at, row)| bytes_of(row, at as u64 * 1001)).collect();
    let mut procname = [0; 16];
    procname[..3].copy_from_slice(b"p,q");
    let head = PacketHead {
        uuid: meta.uuid,
        stream_instance: 0,
        begin: 0,
        end: rows.len() as u64 * 1001,
        content_bytes: content.len() as u64,
        seq: 0,
        discarded: 0,
        cpu: 3,
        program: Some(Program { vpid: 5, lane: 0, procname }),
    };
    let bytes = [head.encode(), content].concat();
    let files = Memory { metadata: metadata_ctf18(&meta).into_bytes(), streams: vec![("s".to_owned(), bytes)] };
    Trace::from_files(&files).unwrap().value
}

fn export(rows: &[Row], format: Format, path: &Path) {
    let traces = [trace(rows)];
    let mut exporter = begin(format, &traces, path, Box::new(NoNames)).unwrap();
    let mut reader = Reader::new(&traces);
    let mut count = 0;
    while let Some(item) = reader.next() {
        exporter.item(&item).unwrap();
        count += usize::from(matches!(item, Item::Record(_)));
    }
    assert_eq!(count, rows.len());
    assert_eq!(exporter.finish().unwrap().left_out, Default::default());
}

/// A float as text that tells all values apart but those of NaN.
fn bits(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{:x}", value.to_bits()) }
}

fn float(value: &str) -> f64 {
    value.parse().unwrap()
}

/// A row as it must come back.
fn expected(row: &Row) -> Value {
    let label = [None, Some("off"), Some("on,\"x\"")][usize::from(row.kind == 0) + 2 * usize::from(row.kind == 1)];
    json!({
        "u8": row.u8, "i64": row.i64, "u64": row.u64, "f32": bits(row.f32.into()), "f64": bits(row.f64), "bool": row.bool,
        "kind": label, "kind.value": row.kind, "text": shown(&row.text), "blob": row.blob, "array": row.array, "seq": row.seq,
    })
}

/// Text of a counted length ends at a NUL, as the reader has it.
fn shown(text: &str) -> &str {
    text.split('\0').next().unwrap_or("")
}

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

/// Lines of cells, by RFC 4180; whether a cell was quoted tells an empty text from none.
fn parse_csv(text: &str) -> Vec<Vec<(String, bool)>> {
    let (mut lines, mut line, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if cell.is_empty() && !quoted => {
                quoted = true;
                loop {
                    match chars.next().expect("a closing quote") {
                        '"' if chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
                        '"' => break,
                        c => cell.push(c),
                    }
                }
            }
            ',' => line.push((std::mem::take(&mut cell), std::mem::take(&mut quoted))),
            '\r' if chars.peek() == Some(&'\n') => {
                chars.next();
                line.push((std::mem::take(&mut cell), std::mem::take(&mut quoted)));
                lines.push(std::mem::take(&mut line));
            }
            c => cell.push(c),
        }
    }
    assert!(line.is_empty() && cell.is_empty(), "the last line has an end");
    lines
}

fn csv_value(name: &str, (text, is_quoted): &(String, bool)) -> Value {
    match name {
        "text" => text.as_str().into(),
        "kind" if text.is_empty() && !is_quoted => Value::Null,
        "kind" => text.as_str().into(),
        "f32" => bits(f64::from(text.parse::<f32>().unwrap())).into(),
        "f64" => bits(float(text)).into(),
        "blob" => (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
            .collect::<Vec<_>>()
            .into(),
        _ => serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}: {text:?}")),
    }
}

/// A number as it stands in a line: a parser of JSON may be off by the last bit.
fn raw<'l>(line: &'l str, name: &str) -> &'l str {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).expect("the field");
    rest.split(',').next().unwrap_or(rest).trim_matches('"')
}

/// The values of an event, which is a line of the file.
fn chrome_value(line: &str) -> Value {
    let event: Value = serde_json::from_str(line.trim_end_matches(',')).unwrap();
    let args = &event["args"];
    let integer = |value: &Value| match value {
        Value::String(text) if text.starts_with('-') => json!(text.parse::<i64>().unwrap()),
        Value::String(text) => json!(text.parse::<u64>().unwrap()),
        value => value.clone(),
    };
    let hex = args["blob"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    let blob: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
    let f32 = f64::from(raw(line, "f32").parse::<f32>().unwrap());
    json!({
        "u8": args["u8"], "i64": integer(&args["i64"]), "u64": integer(&args["u64"]), "f32": bits(f32),
        "f64": bits(float(raw(line, "f64"))), "bool": args["bool"], "kind": args["kind"]["label"],
        "kind.value": args["kind"]["value"], "text": args["text"], "blob": blob, "array": args["array"],
        "seq": args["seq"],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parquet_holds_all_values(rows in proptest::collection::vec(row(), 1..20)) {
        let dir = tempfile::tempdir().unwrap();
        export(&rows, Format::Parquet, &dir.path().join("o"));
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

    #[test]
    fn csv_holds_all_values(rows in proptest::collection::vec(row(), 1..20)) {
        let dir = tempfile::tempdir().unwrap();
        export(&rows, Format::Csv, &dir.path().join("o"));
        let lines = parse_csv(&std::fs::read_to_string(dir.path().join("o/a.b.csv")).unwrap());
        let names: Vec<&String> = lines[0].iter().map(|(name, _)| name).collect();
        prop_assert_eq!(&names[..5], &["time_ns", "cpu", "proc", "pid", "tid"]);
        for (at, (line, row)) in lines[1..].iter().zip(&rows).enumerate() {
            let own = names.iter().zip(line).skip(5);
            let values = own.map(|(name, cell)| ((*name).clone(), csv_value(name, cell)));
            prop_assert_eq!(Value::Object(values.collect()), expected(row));
            let time = (START_S * 1_000_000_000 + at as i64 * 1001).to_string();
            let head: Vec<&str> = line[..5].iter().map(|(text, _)| text.as_str()).collect();
            prop_assert_eq!(head, [time.as_str(), "3", "p,q", "5", "7"]);
        }
        prop_assert_eq!(lines.len(), rows.len() + 1);
    }

    #[test]
    fn chrome_json_holds_all_values(rows in proptest::collection::vec(row(), 1..20)) {
        let dir = tempfile::tempdir().unwrap();
        export(&rows, Format::Chrome, &dir.path().join("o"));
        let text = std::fs::read_to_string(dir.path().join("o")).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        prop_assert!(events.len() >= rows.len());
        let own = text.lines().filter(|line| line.starts_with("{\"name\":\"a:b\""));
        prop_assert_eq!(own.map(chrome_value).collect::<Vec<_>>(), rows.iter().map(expected).collect::<Vec<_>>());
        let start = (START_S * 1_000_000_000).to_string();
        prop_assert_eq!(&document["otherData"]["begin_ns"], &json!(start));
        // Three decimals of a microsecond are exact.
        let ts = format!("\"ts\":{}.{:03}", (rows.len() - 1) * 1001 / 1000, (rows.len() - 1) * 1001 % 1000);
        prop_assert!(text.contains(&ts));
    }
}
