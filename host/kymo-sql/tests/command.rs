// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as people run it: files, exit status, messages, the prompt.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::common;

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
    let refused = run(dir.path(), &["SELECT array_agg(axis) AS list FROM motor.step", "-o", name], "");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("axis,position"));
    assert!(!dir.path().join("out.csv.part").exists());
}

/// A trace of so many records that they are not sorted in memory.
fn large_trace() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut made = common::Made::default();
    for at in 0..40_000_u32 {
        made.step(0, 1000 + u64::from(at), f64::from(at % 977));
    }
    made.write(dir.path());
    dir
}

/// Sorts more than it may keep, in a directory of its own for temporary files.
fn sorting(trace: &Path, temporary: &Path) -> std::process::Child {
    let times = (1..=12).map(|number| format!("({number})")).collect::<Vec<_>>().join(", ");
    let query = format!(
        "SELECT r.time, r.fields AS f, r.bits FROM records r CROSS JOIN (VALUES {times}) AS v(n) ORDER BY f, time"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-sql"));
    command.arg("sql").arg(trace).args([&query, "--format", "jsonl", "--memory", "16", "--threads", "2"]);
    command.env("TMPDIR", temporary).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("kymo-sql starts")
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// Sends SIGTERM as soon as there are temporary files.
fn end_when_it_spills(child: &std::process::Child, temporary: &Path) {
    for _ in 0..6000 {
        if !is_empty(temporary) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!is_empty(temporary), "it sorts in memory");
    let kill = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
}

#[test]
fn what_is_interrupted_leaves_no_temporary_files() {
    let (dir, temporary) = (large_trace(), tempfile::tempdir().unwrap());
    let child = sorting(dir.path(), temporary.path());
    end_when_it_spills(&child, temporary.path());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("interrupted"), "{}", text(&ended.stderr));
    assert!(is_empty(temporary.path()));
}

#[test]
fn a_closed_pipe_ends_it_without_a_word_and_without_temporary_files() {
    use std::io::Read as _;

    let (dir, temporary) = (large_trace(), tempfile::tempdir().unwrap());
    let mut child = sorting(dir.path(), temporary.path());
    let mut first = [0; 8];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(141), String::new()));
    assert!(is_empty(temporary.path()));
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
