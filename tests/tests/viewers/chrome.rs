// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's JSON, by the rules that its readers have.

use std::collections::HashMap;
use std::path::Path;

use kymo_tests::Lab;
use serde_json::Value;

use super::{Names, Nesting, export, of_lttng, recorded};

/// A file that keeps to the rules.
pub struct Checked {
    pub events: Vec<Value>,
    pub names: Names,
    pub slices: usize,
    pub other: Value,
}

impl Checked {
    pub fn named<'c>(&'c self, name: &'c str, phase: &'c str) -> impl Iterator<Item = &'c Value> {
        self.events.iter().filter(move |event| event["name"] == name && event["ph"] == phase)
    }
}

/// Fails unless a file keeps to them.
#[track_caller]
pub fn check(path: &Path) -> Checked {
    let text = std::fs::read_to_string(path).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(events) = document["traceEvents"].take() else { panic!("no events") };
    let ns = |event: &Value| (event["ts"].as_f64().unwrap_or(0.0) * 1000.0).round() as i64;
    let (mut names, mut renamed): (Names, HashMap<_, Vec<String>>) = (Names::default(), HashMap::new());
    let mut in_time: Vec<&Value> = Vec::new();
    for event in &events {
        let track = (event["pid"].as_i64().expect("a pid"), event["tid"].as_i64().expect("a tid"));
        match (event["ph"].as_str().expect("a phase"), event["name"].as_str().expect("a name")) {
            ("M", "thread_name") => names.named(track, event["args"]["name"].as_str().expect("a thread's name")),
            ("M", what) => assert_eq!(what, "process_name"),
            (phase, name) => {
                assert!(event["ts"].is_number() && "BEiX".contains(phase), "{event}");
                assert!(phase != "X" || event["dur"].as_f64().is_some_and(|dur| dur >= 0.0), "{event}");
                assert!(phase == "i" || !name.contains("syscall_") && !name.contains("sys_enter"), "{event}");
                if name == "renamed" {
                    let to = event["args"]["to"].as_str().expect("a name").to_owned();
                    renamed.entry(track).or_default().push(to);
                }
                in_time.push(event);
            }
        }
    }
    for (thread, names) in &names.0 {
        assert_eq!(renamed.remove(thread).unwrap_or_default(), names[1..], "each new name of {thread:?} is told");
    }
    // As readers do: by time, and what has the same time in the order of the file.
    in_time.sort_by_key(|event| ns(event));
    let mut nesting = Nesting::default();
    for event in in_time {
        let track = (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap());
        match event["ph"].as_str().unwrap() {
            "B" => nesting.begin(track, event["name"].as_str().unwrap()),
            "E" => nesting.end(track, event["name"].as_str().unwrap()),
            _ => {}
        }
    }
    let slices = nesting.finish();
    Checked { names, slices, other: document["otherData"].take(), events }
}

#[test]
fn slices_close_and_threads_have_one_name() {
    let lab = Lab::new("viewers_chrome");
    let Some((trace, read)) = recorded(&lab) else { return };
    let file = lab.path("t.json");
    let told = export(&lab, &trace, "chrome", &file).stderr;
    let checked = check(&file);
    let of_records = |event: &&Value| event["args"]["$cpu"].is_number() || event["args"]["end"]["$cpu"].is_number();
    let of_records = checked.events.iter().filter(of_records).count();
    assert!(of_records > read.records.len() / 2, "{of_records} of {}", read.records.len());
    // Each entry of a call is a slice with the call's name, but for calls that do not return.
    let entries = |call: &str| read.of(&format!("syscall_entry_{call}")).count();
    for call in ["clock_nanosleep", "wait4", "tgkill", "execve"] {
        let parts = checked.named(call, "B").filter(|event| event["cat"] == "kernel").count();
        assert_eq!((parts, parts > 0), (entries(call), true), "{call}: {told}");
    }
    assert_eq!(checked.named("rt_sigreturn", "B").count(), 0);
    assert!(checked.named("syscall_entry_exit_group", "i").count() >= 3, "{told}");
    // Slices that are open when their thread or program ends, end there.
    assert!(told.contains("slices that were open when their thread or its program ended"), "{told}");
    let ended = checked.named("viewers:step", "E").filter(|event| !event["args"]["$end"].is_null()).count();
    assert!(ended >= 3, "of the thread, and of both children: {told}");
    // The thread that is renamed has one name after the other, and the main thread its own.
    let painter = checked.names.of("painter");
    assert_eq!(painter.len(), 1, "{:?}", checked.names.0);
    let own: Vec<&str> = painter[0].iter().map(String::as_str).filter(|name| *name != "viewers").collect();
    assert_eq!(own, ["painter", "drawer"]);
    assert_eq!(checked.names.of("leafling").len(), 2, "both children");
    assert_eq!(checked.other["lost_records"], 0);
}

#[test]
fn traces_of_lttng_keep_to_the_rules() {
    let lab = Lab::new("viewers_chrome_lttng");
    let file = lab.path("t.json");
    let told = export(&lab, &of_lttng(), "chrome", &file).stderr;
    let checked = check(&file);
    assert!(checked.slices > 0, "{told}");
    assert!(checked.named("running", "X").count() == 0 && checked.events.iter().any(|event| event["ph"] == "X"));
}
