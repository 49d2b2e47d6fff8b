// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of formats: each is found by its own file alone, and has its row in spec/exchange.md 3. docs/extending.md
//! says what a new one needs.

use std::path::Path;

use kymo_export::import::{FORMATS, format_of, probe};

/// A file of each format, by the format's name.
const EXAMPLES: &[(&str, &str)] = &[
    ("trace.dat", "\x17\x08\x44tracing6\0"),
    ("kernel log", "[    0.000000] Linux version 6.1\n"),
    ("ftrace text", "           a b-7       [000] d..2.    10.000001: sched_wakeup: comm=a pid=7\n"),
    ("perf script", "a b  7/8 [001]  5.123456789:     250000 cpu-clock:pppH: \n"),
];

#[test]
fn no_step_of_a_format_is_forgotten() {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/exchange.md");
    let spec = std::fs::read_to_string(spec).unwrap();
    let import = spec.split("\n## ").find(|section| section.starts_with("3. Import")).unwrap();
    let rows: Vec<&str> = import.lines().filter(|line| line.starts_with("| ")).map(|line| &line[2..]).collect();
    let mut missing = Vec::new();
    let mut step = |number, name: &str, what| {
        missing.push(format!("{name}: docs/extending.md, a trace format, step {number}: {what}"))
    };
    for format in FORMATS {
        let is_in_spec =
            |row: &&&str| row.split(" | ").next().is_some_and(|cell| cell.replace('`', "").contains(format.name));
        if rows.iter().find(is_in_spec).is_none() {
            step(3, format.name, "the table in spec/exchange.md 3 has no row of it");
        }
        if !EXAMPLES.iter().any(|(name, _)| *name == format.name) {
            step(4, format.name, "no example in host/kymo-export/tests/formats.rs");
        }
    }
    for (name, bytes) in EXAMPLES {
        if format_of(bytes.as_bytes()).is_none_or(|format| format.name != *name) {
            step(2, name, "FORMATS has no row of it, or a row before it takes its example");
        }
        probe(bytes.as_bytes());
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}
