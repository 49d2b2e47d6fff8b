// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a lake whose types its manifests cannot tell [spec/lake.md 3]: they are those of the files.

use std::path::Path;

use kymo_sql::lake::place::Place;
use serde_json::{Value, json};

use crate::lakes::{add_one, order};
use crate::queries::Sql;

/// Names of members that Arrow's text of a type does not give back.
const ODD: [&str; 4] = ["a\"b", "c\\d", "e\nf", "g\", \"h"];

/// A trace with the event `odd:one` with a structure, of which each member is a byte, and one with `odd:two` alone.
fn write(dir: &Path, records: &[[u8; 4]]) {
    let u8 = |roles: &[&str]| json!({ "type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian", "roles": roles });
    let structure = |members: &[(&str, Value)]| {
        let members = members.iter().map(|(name, class)| json!({ "name": name, "field-class": class }));
        json!({ "type": "structure", "member-classes": members.collect::<Vec<_>>() })
    };
    let head = structure(&[("id", u8(&["event-record-class-id"])), ("t", u8(&["default-clock-timestamp"]))]);
    let inner = structure(&ODD.map(|name| (name, u8(&[]))));
    let fragments = [
        json!({ "type": "preamble", "version": 2 }),
        json!({ "type": "clock-class", "id": "c", "frequency": 1_000_000_000, "origin": "unix-epoch" }),
        json!({ "type": "data-stream-class", "default-clock-class-id": "c", "event-record-header-field-class": head }),
        json!({ "type": "event-record-class", "name": "odd:one", "id": 1,
                "payload-field-class": structure(&[("inner", inner), ("plain", u8(&[]))]) }),
        json!({ "type": "event-record-class", "name": "odd:two", "id": 2 }),
    ];
    std::fs::create_dir(dir).unwrap();
    let metadata: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    std::fs::write(dir.join("metadata"), metadata).unwrap();
    let mut stream = vec![2, 1];
    for (at, values) in records.iter().enumerate() {
        stream.extend([&[1, 2 + at as u8][..], values, &[9]].concat());
    }
    std::fs::write(dir.join("stream"), stream).unwrap();
}

fn inner(values: [u8; 4]) -> Value {
    let members = ODD.iter().zip(values).map(|(name, value)| ((*name).to_owned(), json!(value)));
    Value::Object(members.collect())
}

#[test]
fn a_type_that_no_manifest_tells_is_that_of_a_file() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::create(root.path().join("lake").to_str().unwrap()).unwrap();
    let add = |name: &str, records: &[[u8; 4]]| {
        write(&root.path().join(name), records);
        add_one(&place, &root.path().join(name), &order(&[("name", name)], &["*"]));
    };
    // Without a file there is no type, and no value.
    add("none", &[]);
    let query = "SELECT \"inner\", plain, label_name FROM odd.one ORDER BY plain, time";
    let lake = Sql::lake(&place).unwrap();
    assert_eq!(lake.rows("SELECT plain FROM odd.one"), [] as [Value; 0]);
    assert!(lake.error(query).contains("inner"));
    // The order of additions is that of their names, which are drawn: some of these come first, and some do not.
    add("some", &[[1, 2, 3, 4], [5, 6, 7, 8]]);
    for number in 0..6 {
        write(&root.path().join(format!("more{number}")), &[]);
        std::fs::write(root.path().join(format!("more{number}/other")), [2, 10 + number]).unwrap();
        add_one(&place, &root.path().join(format!("more{number}")), &order(&[], &["*"]));
    }
    let lake = Sql::lake(&place).unwrap();
    let row = |values| json!({ "inner": inner(values), "plain": 9, "label_name": "some" });
    assert_eq!(lake.rows(query), [row([1, 2, 3, 4]), row([5, 6, 7, 8])]);
    assert_eq!(
        lake.rows(query),
        Sql::trace(&root.path().join("some")).rows(&query.replace("label_name", "'some' AS label_name"))
    );
    assert_eq!(lake.rows("SELECT count(*) AS n FROM odd.two"), [json!({ "n": 14 })]);
}
