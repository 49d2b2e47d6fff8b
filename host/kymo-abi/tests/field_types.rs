// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each type of one number is everywhere where docs/extending.md wants it. A message names the step that is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_abi::desc::Scalar;

const CASE: &str = "tests/cases/every-number-type-is-read-back.c";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A row of `KYMO_SCALARS` in `types.h`.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    upper: String,
    code: u8,
    bytes: u32,
}

/// The table, as the preprocessor gives it.
fn rows_in_c() -> Vec<Row> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("rows.c");
    let asks = "#include <kymo/abi/types.h>\n#define ROW(name, upper, code, bytes) row #name #upper code bytes;\nKYMO_SCALARS(ROW)\n";
    fs::write(&source, asks).unwrap();
    let ran = Command::new("cc").args(["-E", "-P", "-I"]).arg(root().join("emit/include")).arg(&source).output();
    let ran = ran.expect("cc must run");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let out = String::from_utf8(ran.stdout).unwrap();
    let statements = out.split(';').filter_map(|statement| statement.trim().split_once("row "));
    let row = |(_, words): (&str, &str)| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let [name, upper, code, bytes] = words[..] else { panic!("types.h: a row of {words:?}") };
        let name_of = |quoted: &str| quoted.trim_matches('"').to_owned();
        Row { name: name_of(name), upper: name_of(upper), code: code.parse().unwrap(), bytes: bytes.parse().unwrap() }
    };
    statements.map(row).collect()
}

/// Whether a code span of the table in spec/event.md 1 names the type.
fn is_in_spec(spec: &str, name: &str) -> bool {
    let rows = spec.lines().filter(|line| line.starts_with("| `"));
    let types = rows.filter_map(|row| row.split('|').nth(1));
    types.flat_map(|cell| cell.split(|c: char| !c.is_alphanumeric())).any(|word| word == name)
}

#[test]
fn no_step_of_a_field_type_is_forgotten() {
    let (spec, event_h, case) = (text("spec/event.md"), text("emit/include/kymo/event.h"), text(CASE));
    let in_c = rows_in_c();
    let mut missing = Vec::new();
    let mut step = |number: u32, name: &str, what: &str| {
        missing.push(format!("{name}: docs/extending.md, a field type, step {number}: {what}"));
    };
    for scalar in Scalar::ALL {
        let name = scalar.name();
        if !is_in_spec(&spec, name) {
            step(1, name, "the table in spec/event.md 1 has no such type");
        }
        let row = Row { name: name.into(), upper: name.to_uppercase(), code: scalar.code(), bytes: scalar.bytes() };
        if !in_c.contains(&row) {
            step(2, name, &format!("KYMO_SCALARS in emit/include/kymo/abi/types.h has no row like {row:?}"));
        }
        if !["T", "C", "BITS"].iter().all(|part| event_h.contains(&format!("#define KYMO__{part}_{name}"))) {
            step(3, name, "emit/include/kymo/event.h does not define KYMO__T_, KYMO__C_ and KYMO__BITS_ of it");
        }
        if !case.contains(&format!("({name}, ")) {
            step(5, name, &format!("{CASE} has no field of it"));
        }
    }
    for row in &in_c {
        if !Scalar::ALL.iter().any(|scalar| scalar.name() == row.name) {
            step(4, &row.name, "the table in host/kymo-abi/src/desc/scalar.rs has no row of it");
        }
    }
    let (mut codes, all) = (in_c.iter().map(|row| row.code).collect::<Vec<_>>(), in_c.len());
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), all, "two types of types.h have one code");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}
