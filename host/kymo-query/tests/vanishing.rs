// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index that is removed, cut short or overwritten while a viewer uses it: the answers stay the same.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Made, NICE, try_ask};
use kymo_ctf::read::Trace;
use kymo_index::{FILE_NAME, How, Indexes, Named, Spacing, Stop, build};
use kymo_query::Opened;
use serde_json::Value;

fn made() -> Made {
    let mut made = Made::default();
    for at in 0..2000u64 {
        let (one, other) = ((10, "a", NICE), (20, "b", NICE));
        let (before, next) = if at % 2 == 0 { (20, one) } else { (10, other) };
        made.switch(0, 1000 + at * 50, (before, 1), next);
    }
    made
}

fn open(dir: &Path) -> Opened {
    let named = Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] };
    let traces = vec![Trace::open(dir).unwrap().value];
    let indexes = Indexes::open(&[named], &traces);
    Opened::new(traces, indexes, "made".to_owned(), Vec::new())
}

/// Without what they were made of, and without the note that sums are damaged: the rest is the same.
fn answers(of: &Opened) -> Vec<Value> {
    let window = "from=@60000&to=@70000";
    let questions = [
        ("cpus", format!("{window}&pixels=100")),
        ("states", format!("{window}&tids=10,20")),
        ("records", format!("{window}&limit=50")),
        ("latencies", window.to_owned()),
        ("threads", String::new()),
        ("search", "at=@60000&filter=$cpu==0&direction=previous".to_owned()),
    ];
    let answer = |(question, query): &(&str, String)| {
        let mut answer = try_ask(of, question, query).unwrap();
        answer["info"].as_object_mut().unwrap().remove("source");
        let is_other = |note: &Value| !note.as_str().unwrap().contains("sums over time in the index are damaged");
        answer["notes"].as_array_mut().unwrap().retain(is_other);
        answer
    };
    questions.iter().map(answer).collect()
}

/// Counts, which an index has.
fn counts(of: &Opened) -> (Value, u64) {
    let summary = try_ask(of, "summary", "").unwrap();
    let overview = try_ask(of, "overview", "bins=20").unwrap();
    let bins = overview["tables"]["bins"]["records"].as_array().unwrap().clone();
    (summary["info"]["records"].clone(), bins.iter().filter_map(Value::as_u64).sum())
}

/// What happens to an index file.
type Spoil = fn(&Path);

#[test]
fn an_index_that_vanishes_changes_no_answer() {
    let spoil: [(&str, Spoil); 4] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("emptied", |path| fs::File::create(path).map(drop).unwrap()),
        ("cut short", |path| {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }),
        ("overwritten", |path| {
            let bytes = fs::metadata(path).unwrap().len() as usize;
            fs::write(path, vec![0xa5; bytes]).unwrap();
        }),
    ];
    for (how, spoil) in spoil {
        let dir = tempfile::tempdir().unwrap();
        made().write(dir.path());
        let plain = open(dir.path());
        assert!(plain.indexes.states.is_none());
        let (expect, expect_counts) = (answers(&plain), counts(&plain));
        let named = Named { dir: dir.path().to_owned(), parts: vec![dir.path().to_owned()] };
        let spacing = Spacing { records: 100, share: 0 };
        let built = How { spacing, ..How::default() };
        build(&named, &plain.traces, built, &Stop::new(), &|_| {}).unwrap();
        let of = open(dir.path());
        assert!(of.indexes.states.as_ref().is_some_and(|states| states.checkpoints.len() > 3), "{how}");
        assert_eq!(answers(&of), expect, "before it was {how}");
        spoil(&dir.path().join(FILE_NAME));
        assert_eq!(answers(&of), expect, "after it was {how}");
        assert_eq!(counts(&of), expect_counts, "after it was {how}");
    }
}
