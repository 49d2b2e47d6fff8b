// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups in the index: answers that are made of it are those of all records, of random windows of random traces,
//! whatever threads are asked for; and whatever happens to the index, the answers stay.

use std::collections::BTreeSet;

use crate::common;
use crate::indexed;
use crate::latencies;
use crate::random_trace;

use common::{Made, NICE, ask};
use indexed::{damaged, in_shapes, index, index_with, made, open, window};
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
    let (least, plan) = in_shapes(&mut random, |with, without, random| same(with, without, random, 100)[1]);
    assert!(least > 40, "{least} of 100 answers about {plan} were made of the index");
}

/// Wake-ups and what they lead to, and little else: many waits are as long as others, some wakers are interrupts.
fn busy(random: &mut Random, wakes: u32) -> tempfile::TempDir {
    let (mut made, mut at, mut running) = (Made::default(), 1000, [0, 0]);
    for _ in 0..wakes {
        let [cpu, by] = [(); 2].map(|()| random.below(2u32));
        let tid = 10 * cpu as i32 + 1 + random.below(5u32) as i32;
        let now = &mut running[cpu as usize];
        if *now == tid {
            continue;
        }
        at += 10;
        let is_by_irq = random.below(5u32) == 0;
        if is_by_irq {
            made.record(by, at, 3, &[&24i32.to_le_bytes(), b"eth0\0"]);
        }
        made.waking(by, at + 1, (tid, "t", NICE), cpu as i32);
        if is_by_irq {
            made.record(by, at + 2, 4, &[&24i32.to_le_bytes()]);
        }
        at += 100 * (1 + random.below(9u64));
        let name = if random.below(40u32) == 0 { "other" } else { "t" };
        made.switch(cpu, at + 1, (*now, 1), (tid, name, NICE));
        *now = tid;
        if random.below(4u32) == 0 {
            at += 50;
            made.switch(cpu, at, (tid, 1), (0, "idle", NICE));
            *now = 0;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    made.write(dir.path());
    dir
}

/// Parts of the index list some of their wake-ups only: in longer parts, or in all.
#[test]
fn wakes_that_parts_do_not_list_are_found() {
    let mut random = Random::new("longest", 7);
    let dir = busy(&mut random, 40_000);
    let without = open(dir.path(), false);
    for (records, least) in [(400, 50), (10_000, 40), (30_000, 10)] {
        index_with(dir.path(), records);
        let with = open(dir.path(), true);
        let [_, of_index] = same(&with, &without, &mut random, 80);
        assert!(of_index > least, "{of_index} of 80 answers were made of the index, with parts of {records} records");
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
        let [records, of_index] = same(&with, &without, &mut random, 12);
        assert_eq!(records + of_index, if with.bounds.is_some() { 12 } else { 0 });
    }
}

#[test]
fn damaged_wakes_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, user: 0, ..Plan::default() });
    let query = "";
    let expect = ask(&open(dir.path(), false), "arrows", query);
    let found = damaged(&index(dir.path()), 600, |of| {
        let found = ask(of, "arrows", query);
        let (is_of_index, is_right) = (found["info"]["source"] == "index", found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
