// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata that makes no sense: each file in `tests/metadata` beside the message that it must give (`.expect`).
//! In CTF 2 files `␞` stands for the byte 0x1E. With KYMO_BLESS=1 the messages are written anew, to be
//! read in review.

use std::path::Path;

use kymo_ctf::read::parse_metadata;

#[test]
fn every_case_gives_its_message() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metadata");
    let mut cases = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "expect") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap().replace('␞', "\u{1E}");
        let message = match parse_metadata("metadata", text.as_bytes()) {
            Ok(_) => "no error".to_owned(),
            Err(error) => error.to_string(),
        };
        let expect = dir.join(format!("{name}.expect"));
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&expect, format!("{message}\n")).unwrap();
        }
        let expected = std::fs::read_to_string(&expect).unwrap_or_default();
        if message != expected.trim_end() {
            wrong.push(format!("{name}\n  gives   {message}\n  expects {}", expected.trim_end()));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases >= 50, "only {cases} cases were found");
}
