// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo session start --lake`: what a session closes is in the lake, and outlives the collector until it is.

use std::path::{Path, PathBuf};

use kymo_tests::{Lab, Outcome, paths, skip};
use serde_json::Value;

const LABEL: &str = "board=a b";

/// The lab with a program that writes; none: `kymo-sql` is not built.
fn lab(name: &str) -> Option<(Lab, PathBuf)> {
    let lab = Lab::new(name);
    if !paths::kymo().with_file_name("kymo-sql").is_file() {
        skip(name, "kymo-sql is not built: make sql");
        return None;
    }
    let program = lab.cc("produce.c");
    Some((lab, program))
}

fn start(lab: &Lab, words: &[&str]) -> Outcome {
    let command = [&["session", "start", "s", "-o", "t", "-u", "produce:*"], words].concat();
    lab.kymo(&command)
}

fn json(lab: &Lab, words: &[&str]) -> Value {
    let outcome = lab.kymo(words).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// Waits until the process that ships has ended.
fn ended(lab: &Lab, pid: u64) {
    lab.wait_for("the end of shipping", || (!Path::new(&format!("/proc/{pid}/exe")).exists()).then_some(()));
}

fn shipper(lab: &Lab) -> u64 {
    json(lab, &["session", "status", "s", "--json"])["shipper"].as_u64().expect("a process that ships")
}

#[test]
fn what_a_session_closes_is_in_the_lake() {
    let Some((lab, program)) = lab("shipping") else { return };
    start(&lab, &["--rotate-time", "1h", "--lake", "lake", "--lake-label", LABEL]).expect(0);
    let pid = shipper(&lab);
    for _ in 0..2 {
        lab.run(&program, &["1", "500", "20", "0"]).expect(0);
        json(&lab, &["session", "rotate", "s", "--json"]);
    }
    let summary = json(&lab, &["session", "stop", "s", "--json"]);
    ended(&lab, pid);
    let log = std::fs::read_to_string(lab.path("t.log")).unwrap();
    assert_eq!(log.matches("added: ").count(), 3, "{log}");
    let listed = json(&lab, &["lake", "list", "lake", "--json"]);
    assert_eq!((listed["additions"].as_array().unwrap().len(), &listed["unfinished"]), (3, &serde_json::json!([])));
    // The lake has the programs of the chunks, and the label.
    let query = "SELECT DISTINCT label_board AS board FROM processes";
    let boards = json(&lab, &["sql", "--lake", "lake", query, "--format", "json"]);
    assert_eq!(boards, serde_json::json!([{ "board": "a b" }]));
    let bytes: u64 = summary["chunks"].as_array().unwrap().iter().map(|chunk| chunk["bytes"].as_u64().unwrap()).sum();
    assert!(bytes > 0 && summary["records"] == 1000, "{summary}");
}

/// Rare events are recorded whole; the lake has those that no snapshot has, too.
#[test]
fn rare_events_of_a_flight_recorder_are_in_the_lake() {
    let Some((lab, program)) = lab("shipping_rare") else { return };
    start(&lab, &["--flight", "--rare", "produce:*", "--lake", "lake"]).expect(0);
    let pid = shipper(&lab);
    lab.run(&program, &["1", "500", "20", "0"]).expect(0);
    json(&lab, &["session", "snapshot", "s", "--wait", "--json"]);
    lab.run(&program, &["1", "500", "20", "0"]).expect(0);
    json(&lab, &["session", "stop", "s", "--json"]);
    ended(&lab, pid);
    let query = "SELECT trace, records FROM hosts ORDER BY trace";
    let rows = json(&lab, &["sql", "--lake", "lake", query, "--format", "json"]);
    let dir = lab.path("t").canonicalize().unwrap();
    let expect = [(dir.clone(), 1000), (dir.join("snapshot-0001"), 500)];
    let expect = expect.map(|(dir, records)| serde_json::json!({ "trace": dir, "records": records }));
    assert_eq!(rows, serde_json::json!(expect));
}

#[test]
fn a_collector_that_is_killed_leaves_a_chunk_that_is_named() {
    let Some((lab, program)) = lab("shipping_killed") else { return };
    start(&lab, &["--rotate-time", "1h", "--lake", "lake"]).expect(0);
    let status = json(&lab, &["session", "status", "s", "--json"]);
    let pid = status["shipper"].as_u64().unwrap();
    lab.run(&program, &["1", "500", "20", "0"]).expect(0);
    json(&lab, &["session", "rotate", "s", "--json"]);
    lab.run(Path::new("/bin/kill"), &["-KILL", &status["pid"].to_string()]).expect(0);
    ended(&lab, pid);
    let log = std::fs::read_to_string(lab.path("t.log")).unwrap();
    assert!(log.contains("did not close chunk-0002"), "{log}");
    assert_eq!(json(&lab, &["lake", "list", "lake", "--json"])["additions"].as_array().unwrap().len(), 1);
    // It is not there twice when somebody ships what is left, once it is closed by hand.
    let again = lab.kymo(&["lake", "add", "t/chunk-0001", "--to", "lake"]).expect(0);
    assert!(again.stdout.starts_with("already there"), "{}", again.stdout);
}

#[test]
fn a_lake_that_cannot_be_is_told_before_anything_begins() {
    let Some((lab, _)) = lab("shipping_refused") else { return };
    std::fs::write(lab.path("file"), "").unwrap();
    for (words, part) in [
        (&["--lake", "file"][..], "is a file"),
        (&["--lake", "ftp://host/lake"], "not ftp://"),
        (&["--lake", "lake", "--lake-label", "a b=c"], "letters, digits"),
        (&["--lake", "lake", "--lake-remove"], "--lake-with-trace"),
        (&["--lake-bandwidth", "1M"], "--lake"),
    ] {
        let outcome = start(&lab, words);
        assert!(outcome.code == 2 && outcome.stderr.contains(part), "{words:?}: {}", outcome.stderr);
        assert!(!lab.path("t").exists(), "{words:?}");
    }
}
