// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata by the rules of the two specifications [spec/conformance-ctf.md]: each file in `tests/metadata` breaks one
//! and gives the message beside it (`.expect`); each in `tests/metadata_valid` keeps them, and gives the remarks beside
//! it, mostly none. In CTF 2 files `␞` stands for the byte 0x1E. With KYMO_BLESS=1 what is given is written anew, to
//! be read in review.

use std::collections::BTreeSet;
use std::path::Path;

use kymo_ctf::read::{Decoded, Error, Metadata, parse_metadata};

/// Compares what `said` makes of each file of a directory with what is beside it.
fn check(dir: &str, least: usize, said: impl Fn(Result<Decoded<Metadata>, Error>) -> String) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
    let mut cases = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "expect") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap().replace('␞', "\u{1E}");
        let message = said(parse_metadata("metadata", text.as_bytes()));
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
    assert!(cases >= least, "only {cases} cases were found");
}

#[test]
fn what_breaks_a_rule_is_refused_with_its_place() {
    check("metadata", 100, |parsed| match parsed {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    });
}

#[test]
fn what_keeps_the_rules_is_read() {
    check("metadata_valid", 14, |parsed| match parsed {
        Ok(parsed) if parsed.caveats.is_empty() => "fine".to_owned(),
        Ok(parsed) => parsed.caveats.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("refused: {error}"),
    });
}

#[test]
fn the_table_of_rules_names_every_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("../../spec/conformance-ctf.md")).unwrap();
    let is_case = |word: &&str| word.ends_with(".tsdl") || word.ends_with(".ctf2");
    let named: BTreeSet<String> = table.split('`').filter(is_case).map(str::to_owned).collect();
    let files = ["metadata", "metadata_valid"].into_iter().flat_map(|dir| {
        let entries = std::fs::read_dir(root.join("tests").join(dir)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
    });
    let files: BTreeSet<String> = files.filter(|name| is_case(&name.as_str())).collect();
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(only(&files, &named), Vec::<String>::new(), "cases that spec/conformance-ctf.md does not name");
    assert_eq!(only(&named, &files), Vec::<String>::new(), "names in spec/conformance-ctf.md without a case");
}

/// Where the page's tests are: by the name of their file.
fn test_file(name: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = ["tests", "src/read", "../../tests/tests"];
    dirs.iter().find_map(|dir| std::fs::read_to_string(root.join(dir).join(name)).ok())
}

/// Rules are in tables of three columns: the rule, its good cases, its bad ones. A `-` says that there can be none.
#[test]
fn each_rule_of_the_table_names_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../spec/conformance-ctf.md")).unwrap();
    let (rules, not_kept) = page.split_once("\n## 6. ").expect("section 6");
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in rules.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule |")) {
        let cells: Vec<&str> =
            row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('|').trim()).collect();
        let [_, good, bad] = cells[..] else {
            wrong.push(format!("{} cells: {row}", cells.len()));
            continue;
        };
        count += 1;
        for cell in [good, bad] {
            let is_test = |word: &str| word.contains("::") || word.ends_with(".tsdl") || word.ends_with(".ctf2");
            if cell != "-" && !cell.split('`').skip(1).step_by(2).any(is_test) {
                wrong.push(format!("names no test: {row}"));
            }
        }
    }
    for word in rules.split('`').chain(not_kept.split('`')).filter(|word| !word.contains('\n')) {
        if let Some((file, test)) = word.split_once("::").filter(|(file, _)| file.ends_with(".rs")) {
            let text = test_file(file).unwrap_or_default();
            if !text.contains(&format!("#[test]\n    fn {test}(")) && !text.contains(&format!("#[test]\nfn {test}(")) {
                wrong.push(format!("there is no test {word}"));
            }
        } else if word.ends_with(".rs") && !word.contains('/') && rules.contains(&format!("`{word}`")) {
            wrong.push(format!("`{word}` is not the name of a test"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 100, "only {count} rules were found");
}
