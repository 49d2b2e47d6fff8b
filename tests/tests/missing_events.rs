// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of events that a trace does not have: every verb that names causes tells of those that could have been a part
//! of its answer, and of no others [spec/analyze.md 6.1].

use crate::index::common::{self, Plan};

use kymo_tests::Lab;
use serde_json::Value;

/// What begins the line of a text that tells of them.
const LINE: &str = "not in the trace, and it could have been part of this: ";

/// A trace with events of the scheduler, interrupts, softirqs and system calls, and of nothing else.
fn lab_with_trace(name: &str) -> (Lab, String) {
    let lab = Lab::new(name);
    let dir = lab.path("t");
    std::fs::create_dir(&dir).expect("a directory");
    common::write(&dir, &Plan { seed: 5, threads: 8, records: 4000, ..Plan::default() }).expect("a trace");
    let dir = dir.to_str().unwrap().to_owned();
    (lab, dir)
}

/// The text, and kind and text of all kinds that the document has.
fn ask(lab: &Lab, words: &[&str]) -> (String, Vec<(String, String)>) {
    let text = lab.kymo(words).expect(0).stdout;
    let json = lab.kymo(&[words, &["--json"]].concat()).expect(0).stdout;
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let list = document["missing_events"].as_array().unwrap_or_else(|| panic!("no missing_events in {document}"));
    let word = |one: &Value, key: &str| one[key].as_str().expect("text").to_owned();
    (text, list.iter().map(|one| (word(one, "kind"), word(one, "text"))).collect())
}

/// Whether it is told what could matter, and not what the trace has.
#[track_caller]
fn check_kinds(missing: &[(String, String)]) {
    let kinds: Vec<&str> = missing.iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(kinds.contains(&"page_faults") || kinds.contains(&"irqs_off"), "{kinds:?}");
    for recorded in ["switches", "wakeups", "interrupts", "softirqs", "system_calls"] {
        assert!(!kinds.contains(&recorded), "{kinds:?}");
    }
    assert!(missing.iter().all(|(_, text)| text.contains("; record with -k ")), "{missing:?}");
}

/// The line that tells of them, if there is one; there is no second.
#[track_caller]
fn line(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(LINE));
    let first = lines.next();
    assert_eq!(lines.next(), None, "{text}");
    first
}

#[test]
fn a_critical_path_tells_them_in_one_line() {
    let (lab, t) = lab_with_trace("missing_events_critical");
    let (text, missing) = ask(&lab, &["critical", &t, "--thread", "3"]);
    check_kinds(&missing);
    assert!(line(&text).is_some_and(|line| line.contains("; record with -k ")), "{text}");
}

#[test]
fn causes_of_latencies_tell_them_in_one_line_and_latencies_alone_do_not() {
    let (lab, t) = lab_with_trace("missing_events_latency");
    let words = ["latency", &t, "--what", "runqueue", "--limit", "5"];
    let (text, missing) = ask(&lab, &[&words[..], &["--explain"]].concat());
    check_kinds(&missing);
    assert!(line(&text).is_some(), "{text}");
    let (text, missing) = ask(&lab, &words);
    assert_eq!((line(&text), &missing[..]), (None, &[][..]));
}

#[test]
fn a_story_tells_them_in_what_is_not_in_the_trace() {
    let (lab, t) = lab_with_trace("missing_events_explain");
    let (text, missing) = ask(&lab, &["explain", &t, "--thread", "3", "--from", "+100us", "--to", "+2ms"]);
    check_kinds(&missing);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = words(text.split("not in the trace:").nth(1).unwrap_or_else(|| panic!("{text}")));
    assert!(missing.iter().all(|(_, text)| told.contains(&words(text))), "{text}\n{missing:?}");
}
