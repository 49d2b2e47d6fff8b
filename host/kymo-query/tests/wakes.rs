// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups in the index: answers that are made of it are those of all records, of random windows of random traces,
//! whatever threads are asked for; and whatever happens to the index, the answers stay.

use std::collections::BTreeSet;

use crate::common;
use crate::indexed;
use crate::latencies;
use crate::random_trace;

use common::ask;
use indexed::{index, index_with, made, open, window};
use kymo_query::Opened;
use latencies::same_answer;
use random_trace::{Plan, Random, damage};

/// Threads that are woken or wake in the trace.
fn threads(without: &Opened) -> Vec<i64> {
    let all = ask(without, "arrows", "limit=10000");
    let of = |column: &str| all["tables"]["arrows"][column].as_array().unwrap().clone();
    let mut tids: Vec<i64> = [of("tid"), of("from_tid")].concat().iter().filter_map(|tid| tid.as_i64()).collect();
    tids.retain(|tid| *tid > 0);
    tids.sort_unstable();
    tids.dedup();
    tids
}

/// Windows of all lengths, whatever is asked for. How many were made of records and of the index.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [u32; 2] {
    let mut sources = [0; 2];
    let (Some(bounds), tids) = (with.bounds, threads(without)) else { return sources };
    for round in 0..rounds {
        let (from, to) = window(random, round, bounds);
        let limit = [1, 3, 20, 300, 2000, 10000][random.below(6) as usize];
        let mut query = format!("from={from}&to={to}&limit={limit}");
        let count = [0, 1, 1, 2, 2, 30][random.below(6) as usize];
        if count > 0 && !tids.is_empty() {
            let some: BTreeSet<i64> = (0..count).map(|_| tids[random.below(tids.len() as u64) as usize]).collect();
            let some: Vec<String> = some.iter().map(ToString::to_string).collect();
            query += &format!("&tids={}", some.join(","));
        }
        sources[usize::from(same_answer(with, without, "arrows", &query))] += 1;
    }
    sources
}

#[test]
fn wakes_of_the_index_are_those_of_all_records() {
    let mut random = Random::new("wakes", 3);
    let plan = Plan { records: 1200, ..Plan::default() };
    let plans = [
        plan,
        Plan { cpus: 16, threads: 200, records: 300, ..plan },
        // Losses of the kernel only: those of programs are not in sums.
        Plan { lossy: 4, packet: 50, user: 0, ..plan },
        Plan { cpus: 1, threads: 1, ..plan },
    ];
    for plan in plans {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let [_, of_index] = same(&with, &without, &mut random, 100);
        assert!(of_index > 40, "{of_index} of 100 answers about {plan:?} were made of the index");
    }
}

/// Parts of the index list some of their wake-ups only.
#[test]
fn wakes_that_parts_do_not_list_are_found() {
    let mut random = Random::new("longest", 7);
    let plan = Plan { records: 60_000, user: 0, ..Plan::default() };
    for (plan, records) in [
        (Plan { threads: 6, ..plan }, 2500),
        (Plan { threads: 3, packet: 500, lossy: 50, ..plan }, 20_000),
        (Plan { threads: 300, ..plan }, 30_000),
    ] {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index_with(dir.path(), records);
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let [_, of_index] = same(&with, &without, &mut random, 40);
        assert!(of_index > 20, "{of_index} of 40 answers about {plan:?} were made of the index");
    }
}

#[test]
fn totals_of_several_threads_are_not_known() {
    let dir = made(&Plan { records: 900, ..Plan::default() });
    index(dir.path());
    for with_index in [true, false] {
        let of = open(dir.path(), with_index);
        let tids = threads(&open(dir.path(), false));
        for (query, is_known) in [
            (String::new(), true),
            (format!("tids={}", tids[0]), true),
            (format!("tids={},{}", tids[0], tids[1]), false),
        ] {
            let info = ask(&of, "arrows", &(query.clone() + "&limit=5"))["info"].clone();
            assert_eq!(info["source"], if with_index { "index" } else { "records" }, "{query}");
            let [total, left_out] = ["total", "left_out"].map(|name| info[name].as_u64());
            assert_eq!(total.zip(left_out).is_some(), is_known, "{query}: {info}");
            assert!(total.zip(left_out).is_none_or(|(total, left_out)| total == left_out + 5), "{query}: {info}");
        }
    }
}

#[test]
fn wakes_of_damaged_traces_are_those_of_all_records() {
    let mut random = Random::new("damaged_wakes", 5);
    for round in 0..12 {
        let dir = made(&Plan { seed: random.word(), records: 400, lossy: 4, packet: 40, ..Plan::default() });
        damage(dir.path(), &mut random, round % 4).unwrap();
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        same(&with, &without, &mut random, 12);
    }
}

#[test]
fn damaged_wakes_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, user: 0, ..Plan::default() });
    let path = index(dir.path());
    let whole = std::fs::read(&path).unwrap();
    let expect = ask(&open(dir.path(), false), "arrows", "");
    let (mut told, mut believed) = (0, 0);
    for at in (60..whole.len()).step_by(whole.len() / 600) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let found = ask(&open(dir.path(), true), "arrows", "");
        assert_eq!(found["tables"], expect["tables"], "byte {at}");
        let is_told = found["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("damaged"));
        told += u32::from(is_told);
        believed += u32::from(found["info"]["source"] == "index");
    }
    assert!(told > 0 && believed > 0, "{told} and {believed}");
}
