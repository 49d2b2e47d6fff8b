// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts that only some events have are exported like those that all records have.

use crate::contexts;

use std::path::Path;

use kymo_ctf::read::{Item, Reader};
use kymo_export::export::stacks::NoNames;
use kymo_export::export::{Done, Format, begin};
use serde_json::{Value, json};

use contexts::traces;

fn export(format: Format, path: &Path) -> Done {
    let traces = traces();
    let mut exporter = begin(format, &traces, path, Box::new(NoNames)).unwrap();
    let mut reader = Reader::new(&traces);
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            exporter.record(&record).unwrap();
        }
    }
    assert_eq!(reader.caveat_count(), 0);
    exporter.finish().unwrap()
}

/// Nothing is said to be left out.
#[track_caller]
fn all_is_there(done: &Done) {
    assert!(done.left_out.iter().all(|(what, _)| !what.contains("context")), "{:?}", done.left_out);
}

#[test]
fn csv_has_them_in_fields_and_as_columns() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.csv");
    all_is_there(&export(Format::Csv, &file));
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "10,,,,,a,\"{\"\"n\"\":7,\"\"$prio\"\":3}\"");
    assert_eq!(lines[2], "20,,,,77,b,\"{\"\"n\"\":8,\"\"$prio\"\":4,\"\"$depth\"\":5,\"\"$who\"\":\"\"me\"\"}\"");
    let by_event = dir.path().join("by_event");
    all_is_there(&export(Format::Csv, &by_event));
    let text = |name: &str| std::fs::read_to_string(by_event.join(name)).unwrap();
    assert_eq!(text("a.csv"), "time_ns,cpu,proc,pid,tid,n,$prio\r\n10,,,,,7,3\r\n");
    assert_eq!(text("b.csv"), "time_ns,cpu,proc,pid,tid,n,$prio,$depth,$who\r\n20,,,,77,8,4,5,me\r\n");
}

#[test]
fn chrome_has_them_among_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.json");
    all_is_there(&export(Format::Chrome, &file));
    let found: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let events = found["traceEvents"].as_array().unwrap();
    let args = |name: &str| &events.iter().find(|event| event["name"] == name).unwrap()["args"];
    assert_eq!(*args("a"), json!({ "n": 7, "$prio": 3 }));
    assert_eq!(*args("b"), json!({ "n": 8, "$prio": 4, "$depth": 5, "$who": "me" }));
}
