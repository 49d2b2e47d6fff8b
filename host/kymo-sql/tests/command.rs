// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as people run it: files, exit status, messages, the prompt.

#[path = "../../kymo-query/tests/common/mod.rs"]
mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn trace() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    common::small().write(dir.path());
    dir
}

fn run(trace: &Path, words: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-sql"));
    command.arg("sql").arg(trace).args(words).env("XDG_STATE_HOME", trace.join("state"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kymo-sql starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_result_goes_to_a_file_whole_or_not_at_all() {
    let dir = trace();
    let file = dir.path().join("out.csv");
    let name = file.to_str().unwrap();
    let done = run(dir.path(), &["SELECT axis, position FROM motor.step ORDER BY time", "-o", name], "");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "axis,position\n2,1.5\n2,-4.0\n2,2.5\n");
    assert!(text(&done.stderr).contains("3 rows"), "{}", text(&done.stderr));
    // What fails leaves the file that was there, and nothing else.
    let failed = run(dir.path(), &["SELECT 1 / (axis - 2) FROM motor.step", "-o", name], "");
    assert_eq!(failed.status.code(), Some(2));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("axis,position"));
    assert!(!dir.path().join("out.csv.part").exists());
}

#[test]
fn several_queries_and_a_file_of_them() {
    let dir = trace();
    let done = run(dir.path(), &["SELECT 1 AS a; SELECT 2 AS b", "--format", "csv"], "");
    assert_eq!(text(&done.stdout), "a\n1\nb\n2\n");
    let done = run(dir.path(), &["--file", "-", "--json"], "SELECT count(*) AS n FROM records");
    assert_eq!(text(&done.stdout), "[{\"n\":19}]\n");
}

#[test]
fn what_is_wrong_has_status_2() {
    let dir = trace();
    for (words, part) in [
        (&["SELECT * FROM wakeup"][..], "did you mean \"wakeups\""),
        (&["no-such-trace"], "no such trace"),
        (&["SELECT 1 AS a", "-o", "a.unknown"], "which format"),
    ] {
        let failed = run(dir.path(), words, "");
        assert_eq!(failed.status.code(), Some(2), "{words:?}");
        assert!(text(&failed.stderr).contains(part), "{words:?}: {}", text(&failed.stderr));
    }
}

#[test]
fn the_prompt_runs_queries_and_goes_on_after_errors() {
    let dir = trace();
    let input = ".format csv\nSELECT x FROM nothing;\n.nonsense\nSELECT count(*) AS n\nFROM motor.step;\n.columns motor:step\n.quit\n";
    let done = run(dir.path(), &[], input);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = text(&done.stdout);
    for part in ["there is no table", "there is no command .nonsense", "n\n3\n", "1 rows in", "position  Float64"] {
        assert!(out.contains(part), "{part:?} in {out}");
    }
}
