// SPDX-License-Identifier: MIT OR Apache-2.0
//! `errors/NAME.txt`: the three lines that an expression gives; the first one is the expression itself. The events are
//! those of the probe. `KYMO_BLESS=1` writes the other two lines anew.

use std::path::Path;

use kymo_filter::probe::events;
use kymo_filter::{compile, parse};

/// Of the parser, of the check, or, in files named `program_*`, of the compiler for event 0.
fn message(text: &str, is_program: bool) -> String {
    let checked = match parse(text).and_then(|filter| filter.check(&events())) {
        Ok(checked) => checked,
        Err(error) => return error.to_string(),
    };
    match compile(&checked, 0) {
        Err(error) if is_program => error.to_string(),
        _ => format!("{text}\nis accepted"),
    }
}

#[test]
fn texts() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 30, "{} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let expect = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = message(expect.lines().next().unwrap_or(""), name.starts_with("program_")) + "\n";
        if found == expect {
            continue;
        }
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        wrong.push(format!("{name}: expected\n{expect}found\n{found}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
