// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines in tests/doctor, each one text, against the answers beside it. `NAME.command.tree` is examined for a
//! command, too, `NAME.pid900.tree` for process 900. `KYMO_BLESS=1` writes the answers anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// Makes the files of a text below `root`.
fn unpack(text: &str, root: &Path) {
    for part in text.split("\n== ").skip(1) {
        let (path, content) = part.split_once('\n').unwrap_or((part, ""));
        let to = root.join(path.trim_start_matches('/'));
        if path.ends_with('/') {
            std::fs::create_dir_all(to).unwrap();
        } else {
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, content).unwrap();
        }
    }
}

fn target(name: &str) -> Target {
    match name.split('.').nth(1) {
        Some("command") => Target::Command,
        Some("pid900") => Target::Process(900),
        _ => Target::Machine,
    }
}

/// Checks of what no text can be: registers of a processor, a device that answers four bytes.
const UNANSWERED: [&str; 2] = ["firmware-interrupts", "dma-latency-held"];

fn ids() -> Vec<&'static str> {
    let root = tempfile::tempdir().unwrap();
    examine(&Machine::at(root.path()), &Target::Command).iter().map(|finding| finding.id).collect()
}

#[test]
fn machines_get_the_answers_beside_them() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor");
    let mut seen = 0;
    let mut unanswered: BTreeSet<&str> = ids().into_iter().filter(|id| !UNANSWERED.contains(id)).collect();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().unwrap().to_string_lossy().strip_suffix(".tree").map(str::to_owned) else {
            continue;
        };
        seen += 1;
        let root = tempfile::tempdir().unwrap();
        unpack(&std::fs::read_to_string(&path).unwrap(), root.path());
        let findings = examine(&Machine::at(root.path()), &target(&name));
        let mut got = format!("fit: {}\n", is_fit(&findings).map_or("unknown".to_owned(), |is_fit| is_fit.to_string()));
        for finding in &findings {
            if matches!(finding.state, State::Ok | State::Problem) {
                unanswered.remove(finding.id);
            }
            writeln!(got, "{:?} {:?} {}: {}", finding.state, finding.severity, finding.id, finding.current).unwrap();
        }
        let beside = path.with_extension("expect");
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&beside, &got).unwrap();
        }
        let want = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(got, want, "{name}: KYMO_BLESS=1 writes the answers of a new check (docs/extending.md)");
    }
    assert!(seen >= 7, "{seen} machines");
    let missing = "docs/extending.md, a doctor check, step 2: no machine in tests/doctor has what these checks read";
    assert!(unanswered.is_empty(), "{missing}: {unanswered:?}");
}

/// Paths of the files below a directory.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn nothing_is_fine_on_a_machine_that_shows_nothing() {
    for target in [Target::Machine, Target::Command, Target::Process(900)] {
        let root = tempfile::tempdir().unwrap();
        let findings = examine(&Machine::at(root.path()), &target);
        let fine: Vec<_> = findings.iter().filter(|finding| finding.state == State::Ok).collect();
        assert!(fine.is_empty(), "{target:?}: {fine:#?}");
        assert_eq!(is_fit(&findings), None, "{target:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_makes_nothing_fine() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor");
    let mut tried = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".tree") else { continue };
        let root = tempfile::tempdir().unwrap();
        unpack(&std::fs::read_to_string(&path).unwrap(), root.path());
        let look = || examine(&Machine::at(root.path()), &target(name));
        let before = look();
        for file in files(root.path()) {
            // Reading a directory fails, whoever tries.
            let content = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            std::fs::create_dir(&file).unwrap();
            for finding in look() {
                let was = before.iter().find(|other| other.id == finding.id).unwrap();
                let is_new = |state| finding.state == state && was.state != state;
                let text = format!("{name} without {}: {}: {}", file.display(), finding.id, finding.current);
                assert!(
                    !is_new(State::Ok) && !is_new(State::NotApplicable),
                    "{text}, was {:?} {}",
                    was.state,
                    was.current
                );
            }
            std::fs::remove_dir(&file).unwrap();
            std::fs::write(&file, content).unwrap();
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried} files");
}

#[test]
fn every_check_says_all_that_is_promised() {
    let root = tempfile::tempdir().unwrap();
    let findings = examine(&Machine::at(root.path()), &Target::Command);
    let mut ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
    for finding in &findings {
        let texts = [finding.title, finding.wanted, finding.why, finding.now, finding.keep, finding.see];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", finding.id);
        assert!(finding.why.ends_with('.'), "{}", finding.id);
    }
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are there once");
}
