// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures in the index: rows of CPUs and threads that are made of them are those of all records, pixel by pixel, of
//! random windows of random traces; and whatever happens to the pictures, the answers stay.

use crate::common;
use crate::indexed;
use crate::random_trace;

use common::{ask, column, shares_of_threads};
use indexed::{damaged, in_shapes, index, made, open, window};
use kymo_query::Opened;
use random_trace::{Plan, Random, damage};
use serde_json::Value;

/// Of a pixel of a CPU the index knows the four longest threads of each column only; and of a stretch of a CPU what was
/// doubtful before the window, too.
fn without_threads_of_mixed(mut answer: Value) -> Value {
    for (table, column) in
        [("mixed", "tid"), ("mixed", "name"), ("mixed", "process"), ("mixed", "doubt"), ("spans", "doubt")]
    {
        answer["tables"][table].as_object_mut().unwrap().remove(column);
    }
    answer
}

/// Shares of a pixel are together 1, as exactly as they are told; none is there that is 0.
fn shares_are_all_of_each_pixel(states: &Value) {
    for shares in shares_of_threads(states) {
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
    }
    let shares = column(states, "shares", "share");
    assert!(shares.iter().all(|share| share.as_f64().is_some_and(|share| share > 0.0)), "{shares:?}");
}

/// Windows of all lengths, some of which begin or end where the trace does. How many were made of records and of the
/// index, by question.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [[u32; 2]; 2] {
    let mut sources = [[0; 2]; 2];
    let Some((first, last)) = with.bounds else { return sources };
    let threads = ask(without, "threads", "limit=200");
    let tids: Vec<String> =
        threads["tables"]["threads"]["tid"].as_array().unwrap().iter().map(ToString::to_string).collect();
    for round in 0..rounds {
        let (from, to) = window(random, round, (first, last));
        let pixels = 1 + random.below(40u32);
        let window = format!("from={from}&to={to}&pixels={pixels}&grid=1");
        let states = format!("{window}&tids={}&calls=1&late=1000000", tids.join(","));
        for (number, (question, query)) in [("cpus", window.clone()), ("states", states)].into_iter().enumerate() {
            if question == "states" && tids.is_empty() {
                continue;
            }
            let [found, expect] = [with, without].map(|of| ask(of, question, &query));
            assert_eq!(expect["info"]["source"], "records");
            sources[number][usize::from(found["info"]["source"] == "index")] += 1;
            let is_cpus = question == "cpus";
            if !is_cpus {
                shares_are_all_of_each_pixel(&found);
            }
            let [found, expect] = [found, expect].map(|of| if is_cpus { without_threads_of_mixed(of) } else { of });
            for (name, table) in expect["tables"].as_object().unwrap() {
                let rows = |table: &Value| {
                    let columns: Vec<&Vec<Value>> =
                        table.as_object().unwrap().values().map(|column| column.as_array().unwrap()).collect();
                    let count = columns.first().map_or(0, |column| column.len());
                    (0..count).map(|row| columns.iter().map(|column| column[row].to_string()).collect()).collect()
                };
                let [found, expect]: [Vec<Vec<String>>; 2] = [&found["tables"][name], table].map(rows);
                let differs =
                    found.iter().zip(&expect).position(|(a, b)| a != b).unwrap_or(found.len().min(expect.len()));
                let near = |all: &[Vec<String>]| all[differs.saturating_sub(1)..(differs + 4).min(all.len())].to_vec();
                let names: Vec<&String> = table.as_object().unwrap().keys().collect();
                let counts = (found.len(), expect.len());
                assert!(
                    found == expect,
                    "row {differs} of {name}, {names:?}, {counts:?}: {:#?} and not {:#?}; {question}?{window}",
                    near(&found),
                    near(&expect)
                );
            }
            for part in ["lost", "notes", "from", "to"] {
                assert_eq!(found[part], expect[part], "{part} of {question}?{query}");
            }
        }
    }
    sources
}

#[test]
fn pictures_are_those_of_all_records() {
    let mut random = Random::new("pictures", 3);
    let (least, plan) = in_shapes(&mut random, |with, without, random| {
        let sources = same(with, without, random, 60);
        sources.iter().map(|[_, of_index]| *of_index).min().unwrap_or_default()
    });
    assert!(least > 10, "{least} answers of a question about {plan} were made of the index");
}

#[test]
fn pictures_of_damaged_traces_are_those_of_all_records() {
    let mut random = Random::new("damaged_pictures", 5);
    for round in 0..12 {
        let plan = Plan { seed: random.word(), records: 400, lossy: 4, packet: 40, ..Plan::default() };
        let dir = made(&plan);
        damage(dir.path(), &mut random, round % 4).unwrap();
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        same(&with, &without, &mut random, 12);
    }
}

#[test]
fn spans_of_more_records_than_are_wanted_are_not_read() {
    let dir = made(&Plan { records: 1200, ..Plan::default() });
    let without = open(dir.path(), false);
    index(dir.path());
    let with = open(dir.path(), true);
    let query = |most: &str| format!("span=sched_waking,sched_switch&pixels=20{most}");
    let all = ask(&with, "slices", &query(""));
    assert!(!all["tables"]["merged"]["count"].as_array().unwrap().is_empty(), "{all}");
    let few = ask(&with, "slices", &query("&most=100"));
    assert!(few["info"]["records"].as_u64().unwrap() >= 1200, "{}", few["info"]);
    assert!(few["notes"][0].as_str().unwrap().contains("would be read"), "{}", few["notes"]);
    assert_eq!(few["info"]["spans"], all["info"]["spans"]);
    for part in ["from", "to"] {
        assert_eq!(few[part], all[part], "the window that was asked for");
    }
    for table in ["slices", "merged"] {
        assert!(few["tables"][table]["level"].as_array().unwrap().is_empty(), "{table}");
    }
    // A window with fewer, and a trace without an index: nobody knows how many they are.
    assert_eq!(ask(&with, "slices", &query("&most=1000000"))["tables"], all["tables"]);
    assert_eq!(ask(&without, "slices", &query("&most=100"))["tables"], all["tables"]);
}

#[test]
fn damaged_pictures_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, user: 0, ..Plan::default() });
    let query = "pixels=20&grid=1";
    let expect = without_threads_of_mixed(ask(&open(dir.path(), false), "cpus", query));
    let found = damaged(&index(dir.path()), 300, |of| {
        let found = without_threads_of_mixed(ask(of, "cpus", query));
        let (is_of_index, is_right) = (found["info"]["source"] == "index", found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
