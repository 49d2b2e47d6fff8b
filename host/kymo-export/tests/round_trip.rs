// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random values of all kinds go out as CSV and Chrome JSON, and come back the same. Parquet: kymo-sql.

use crate::rows;

use std::path::Path;

use kymo_export::export::stacks::NoNames;
use kymo_export::export::{Format, begin};
use proptest::prelude::*;
use serde_json::{Value, json};

use rows::{Row, START_S, bits, expected, row};

fn export(rows: &[Row], format: Format, path: &Path) {
    rows::export(rows, |traces| begin(format, traces, path, Box::new(NoNames)).unwrap());
}

fn float(value: &str) -> f64 {
    value.parse().unwrap()
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
