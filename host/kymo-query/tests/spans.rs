// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a program: those of the index, and those of all records that were ever read, are the same.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::ask;
use crate::indexed::{damaged, index, made, open, window};
use crate::random_trace::{Plan, Random};

/// More than any trace is long.
pub const ALL: &str = "&lead=1000000000000000";

/// How many answers had which kind of rows.
#[derive(Debug, Default)]
struct Seen {
    slices: usize,
    merged: usize,
    open: usize,
    doubtful: usize,
    deep: usize,
}

pub fn rows(answer: &Value, table: &str, column: &str) -> Vec<i64> {
    let column = answer["tables"][table][column].as_array().unwrap();
    column.iter().map(|value| value.as_i64().unwrap_or_default()).collect()
}

/// The first row that differs: both, as text.
fn first_difference(found: &Value, wanted: &Value) -> Option<[String; 2]> {
    let count = |of: &Value| of["from"].as_array().or(of["pixel"].as_array()).unwrap().len();
    let row = |of: &Value, at: usize| -> String {
        let columns = of.as_object().unwrap().iter();
        columns.map(|(name, values)| format!("{name}={} ", values.get(at).unwrap_or(&Value::Null))).collect()
    };
    let rows = (0..count(found).max(count(wanted))).map(|at| [row(found, at), row(wanted, at)]);
    rows.into_iter().find(|[found, wanted]| found != wanted)
}

fn compare(random: &mut Random, plan: &Plan, seen: &mut Seen) {
    let dir = made(&Plan { seed: random.word(), ..*plan });
    index(dir.path());
    let (with, without) = (open(dir.path(), true), open(dir.path(), false));
    let bounds = with.bounds.unwrap();
    for round in 0..20 {
        let (from, to) = window(random, round, bounds);
        let (from, to) = (from - bounds.0, to - bounds.0);
        let pixels = [1, 3, 20, 100, 1000, 8000][random.below(6usize)];
        let tids = ["", "&tids=13", "&tids=12,14,99"][random.below(3usize)];
        let query = format!("from=@{from}&to=@{to}&grid=1&pixels={pixels}{tids}");
        let quick = ask(&with, "slices", &query);
        let all = ask(&without, "slices", &format!("{query}{ALL}"));
        assert_eq!(quick["info"]["source"], "index", "{plan:?}: {query}");
        assert_eq!(all["info"]["source"], "records");
        for table in ["slices", "merged", "losses"] {
            let (found, wanted) = (&quick["tables"][table], &all["tables"][table]);
            assert_eq!(first_difference(found, wanted), None, "{plan:?}: {table} of {query}");
        }
        for key in ["from", "to", "lost"] {
            assert_eq!(quick[key], all[key], "{plan:?}: {key} of {query}");
        }
        for key in ["pixels", "frame", "left_out", "lead", "spans"] {
            assert_eq!(quick["info"][key], all["info"][key], "{plan:?}: {key} of {query}");
        }
        seen.slices += rows(&quick, "slices", "from").len();
        seen.merged += rows(&quick, "merged", "pixel").len();
        seen.open += rows(&quick, "slices", "open").iter().filter(|open| **open == 1).count();
        seen.doubtful += rows(&quick, "slices", "doubt").iter().filter(|doubt| **doubt != 0).count();
        seen.deep += rows(&quick, "merged", "level").iter().filter(|level| **level > 1).count();
    }
}

#[test]
fn the_index_has_the_spans_of_all_records() {
    let (mut random, mut seen) = (Random::new("indexed_spans", 5), Seen::default());
    let plan = Plan { records: 1000, user: 1500, spans: 4, ..Plan::default() };
    let plans = [plan, Plan { lossy: 4, packet: 50, ..plan }, Plan { spans: 1, user: 4000, packet: 7, ..plan }];
    for plan in plans {
        for _ in 0..6 {
            compare(&mut random, &plan, &mut seen);
        }
    }
    let least = [seen.slices, seen.merged, seen.open, seen.doubtful, seen.deep].into_iter().min();
    assert!(least > Some(100), "{seen:?}");
}

/// By the pairs that a frame lies in, and its own: its numbers.
pub fn frames(answer: &Value) -> BTreeMap<Vec<i64>, Vec<Value>> {
    let table = &answer["tables"]["frames"];
    let (parents, spans) = (table["parent"].as_array().unwrap(), rows(answer, "frames", "span"));
    let mut paths: Vec<Vec<i64>> = Vec::new();
    for (parent, span) in parents.iter().zip(spans) {
        let before = parent.as_u64().map_or(Vec::new(), |parent| paths[parent as usize].clone());
        paths.push([before, vec![span]].concat());
    }
    let names = ["depth", "total_ns", "self_ns", "count", "longest_from", "longest_to", "longest_tid"];
    let numbers = |at: usize| names.iter().map(|name| table[*name][at].clone()).collect();
    let count = paths.len();
    let all: BTreeMap<_, _> = paths.into_iter().enumerate().map(|(at, path)| (path, numbers(at))).collect();
    assert_eq!(all.len(), count, "a path has one frame");
    all
}

#[test]
fn the_index_has_the_flame_graph_of_all_records() {
    let (mut random, mut by_index, mut deep) = (Random::new("indexed_flame", 5), 0, 0);
    let plan = Plan { records: 1000, user: 3000, spans: 4, overlapping: 0, ..Plan::default() };
    let plans = [plan, Plan { lossy: 4, packet: 50, ..plan }, Plan { spans: 1, unended: 1000, packet: 7, ..plan }];
    for plan in [plans, plans].concat() {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index(dir.path());
        let (with, without) = (open(dir.path(), true), open(dir.path(), false));
        let bounds = with.bounds.unwrap();
        for round in 0..20 {
            let (from, to) = window(&mut random, round, bounds);
            let tids = ["", "&tids=13", "&tids=12,14,99"][random.below(3usize)];
            let query = format!("from=@{}&to=@{}{tids}", from - bounds.0, to - bounds.0);
            let quick = ask(&with, "flame", &query);
            let all = ask(&without, "flame", &format!("{query}{ALL}"));
            let (found, wanted) = (frames(&quick), frames(&all));
            let difference = wanted.iter().find(|(path, numbers)| found.get(*path) != Some(numbers));
            let other = difference.and_then(|(path, _)| found.get(path));
            assert_eq!(difference, None, "{plan:?}: {query}: {other:?}");
            assert_eq!(found.len(), wanted.len(), "{plan:?}: {query}");
            for key in ["lost", "tables/losses", "info/frames_left_out"] {
                let [found, wanted] = [&quick, &all].map(|of| of.pointer(&format!("/{key}")));
                assert_eq!(found, wanted, "{plan:?}: {key} of {query}");
            }
            by_index += u32::from(quick["info"]["source"] == "index" && quick["info"]["lead"] == quick["from"]);
            deep += found.keys().filter(|path| path.len() > 2).count();
        }
    }
    assert!(by_index > 60 && deep > 500, "{by_index} and {deep}");
}

/// What the index does not have is read.
#[test]
fn other_spans_are_read() {
    let dir = made(&Plan { user: 1500, spans: 4, ..Plan::default() });
    index(dir.path());
    let of = open(dir.path(), true);
    // With an index of these spans all is known that was before.
    let knows_all = |query: &str| {
        let answer = ask(&of, "slices", query);
        answer["info"]["lead"] == answer["from"]
    };
    let from = "from=@1000000&grid=1";
    assert!(knows_all(from));
    for query in ["lead=10", "span=axis:begin,axis:end&lead=10", "filter=$tid==13&lead=10"] {
        assert!(!knows_all(&format!("{from}&{query}")), "{query}");
    }
    let quick = ask(&of, "slices", &format!("{from}&most=1"));
    assert!(!rows(&quick, "slices", "from").is_empty(), "nothing is left out where little is read");
}

#[test]
fn damaged_spans_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 300, user: 1500, spans: 3, ..Plan::default() });
    let query = "from=@200000&pixels=300&grid=1";
    let expect = ask(&open(dir.path(), false), "slices", &format!("{query}{ALL}"));
    let found = damaged(&index(dir.path()), 300, |of| {
        let found = ask(of, "slices", query);
        // What is read has only what began a little before the window.
        let is_of_index = found["info"]["lead"] == found["from"];
        let is_right = ["slices", "merged"]
            .into_iter()
            .all(|table| !is_of_index || first_difference(&found["tables"][table], &expect["tables"][table]).is_none());
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
