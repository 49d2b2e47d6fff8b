// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over time in the index: answers that are made of them are those of all records, of random windows of random
//! traces; and whatever happens to the sums, the answers stay.

use crate::common;
use crate::indexed;
use crate::random_trace;

use common::ask;
use indexed::{damaged, in_shapes, index, made, open, window};
use kymo_query::Opened;
use random_trace::{Plan, Random, damage};
use serde_json::Value;

/// Windows of all lengths, some of which begin or end where the trace does. `Some` of what an answer was made of.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [u32; 2] {
    let mut sources = [0, 0];
    let Some((first, last)) = with.bounds else { return sources };
    let [found, expect] = [with, without].map(|of| ask(of, "summary", ""));
    assert_eq!(found["tables"], expect["tables"], "losses of the summary");
    assert_eq!(found["lost"], expect["lost"]);
    for round in 0..rounds {
        let (from, to) = window(random, round, (first, last));
        let query = format!("from={from}&to={to}&limit=10000");
        let [found, expect] = [with, without].map(|of| ask(of, "threads", &query));
        for part in ["tables", "lost", "notes"] {
            assert_eq!(found[part], expect[part], "{part} of {query}");
        }
        assert_eq!(found["info"]["total"], expect["info"]["total"], "{query}");
        assert_eq!(expect["info"]["source"], "records");
        sources[usize::from(found["info"]["source"] == "index")] += 1;
    }
    sources
}

#[test]
fn answers_of_sums_are_those_of_all_records() {
    let mut random = Random::new("sums", 3);
    let (least, plan) = in_shapes(&mut random, |with, without, random| same(with, without, random, 60)[1]);
    assert!(least > 20, "{least} of 60 windows of {plan} were answered by the index");
}

#[test]
fn losses_of_programs_and_damage_are_never_left_out() {
    let mut random = Random::new("damaged", 5);
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
fn traces_of_no_record_and_of_one_have_an_index() {
    for (cpus, records) in [(1, 0), (1, 1), (3, 1)] {
        let dir = made(&Plan { cpus, records, user: 0, ..Plan::default() });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let rounds = same(&with, &without, &mut Random::new("few", 1), 5).iter().sum::<u32>();
        assert_eq!(rounds, if records == 0 { 0 } else { 5 });
    }
}

#[test]
fn damaged_sums_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, user: 0, ..Plan::default() });
    let expect = ask(&open(dir.path(), false), "threads", "limit=10000");
    let found = damaged(&index(dir.path()), 300, |of| {
        let found = ask(of, "threads", "limit=10000");
        let is_of_index = found["info"]["source"] == "index";
        let is_told = found["notes"].to_string().contains("sums over time in the index are damaged");
        // Where there is an index, and it is not used, it is said why.
        let is_right = found["tables"] == expect["tables"] && is_told == (!is_of_index && of.indexes.states.is_some());
        (found, is_of_index, is_right)
    });
    index(dir.path());
    let whole: Value = ask(&open(dir.path(), true), "threads", "limit=10000");
    assert_eq!((&whole["info"]["source"], &whole["notes"]), (&"index".into(), &Value::Array(Vec::new())));
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
