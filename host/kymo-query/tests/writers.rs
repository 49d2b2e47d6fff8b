// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics by thread, process and CPU from the index: they are those of all records, of random windows of random
//! traces; and whatever happens to the index, the answers stay.

use crate::common;
use crate::common::lives;
use crate::indexed;
use crate::latencies;
use crate::random_trace;

use common::{Made, NICE, ask};
use indexed::{damaged, in_shapes, index, index_with, made, open, window};
use kymo_query::Opened;
use latencies::same_answer;
use lives::LifePlan;
use random_trace::{Plan, Random, damage};

/// Windows of all lengths, by all that there are rows of. How many were made of records and of the index.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [u32; 2] {
    let mut sources = [0; 2];
    let Some(bounds) = with.bounds else { return sources };
    for round in 0..rounds {
        let (from, to) = window(random, round, bounds);
        for by in ["thread", "process", "cpu"] {
            let limit = [1, 10, 10_000][random.below(3) as usize];
            let query = format!("by={by}&from={from}&to={to}&limit={limit}");
            sources[usize::from(same_answer(with, without, "statistics", &query))] += 1;
        }
    }
    sources
}

#[test]
fn statistics_of_the_index_are_those_of_all_records() {
    let mut random = Random::new("writers", 3);
    let (least, plan) = in_shapes(&mut random, |with, without, random| same(with, without, random, 40)[1]);
    assert!(least > 40, "{least} of 120 answers about {plan} were made of the index");
    // Records of programs in many stretches, by several threads.
    let dir = made(&Plan { seed: random.word(), records: 9000, user: 9000, spans: 5, ..Plan::default() });
    index(dir.path());
    let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
    let [_, of_index] = same(&with, &without, &mut random, 40);
    assert!(of_index > 40, "{of_index} of 120 answers were made of the index");
}

/// Who wrote is known without the scheduler's events, too, and nobody asks who ran.
#[test]
fn statistics_without_the_scheduler_are_those_of_all_records() {
    let mut random = Random::new("calm", 4);
    let dir = made(&Plan { seed: random.word(), calm: true, cpus: 3, threads: 30, records: 4000, ..Plan::default() });
    index(dir.path());
    let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
    let [_, of_index] = same(&with, &without, &mut random, 40);
    assert!(of_index > 40, "{of_index} of 120 answers were made of the index");
}

/// Threads that come, get other names, run other programs and end, while some of what tells of that is lost.
#[test]
fn statistics_of_lives_are_those_of_all_records() {
    let mut random = Random::new("lives_of_writers", 11);
    let whole = LifePlan {
        seed: 0,
        records: 3000,
        lossy: 0,
        has_tid: true,
        renames_have_tid: true,
        has_origins: true,
        has_renames: true,
    };
    let plans = [
        (whole, 60),
        (LifePlan { lossy: 60, ..whole }, 20),
        (LifePlan { lossy: 300, ..whole }, 20),
        (LifePlan { has_tid: false, ..whole }, 60),
        (LifePlan { has_tid: false, lossy: 200, ..whole }, 20),
        (LifePlan { has_origins: false, renames_have_tid: false, ..whole }, 60),
        (LifePlan { has_renames: false, lossy: 100, ..whole }, 20),
    ];
    for (plan, least) in plans {
        let mut found = [0; 2];
        for records in [20, 60, 400] {
            let dir = tempfile::tempdir().unwrap();
            lives::write(dir.path(), LifePlan { seed: random.word(), ..plan }).unwrap();
            index_with(dir.path(), records);
            let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
            let sources = same(&with, &without, &mut random, 25);
            found = [found[0] + sources[0], found[1] + sources[1]];
        }
        assert!(found[1] > least, "{found:?} answers about {plan:?} were made of the records and of the index");
    }
}

/// Many records have equal times, some CPUs begin late, and a program writes in between.
fn tied(random: &mut Random) -> tempfile::TempDir {
    let (mut made, mut at, mut running) = (Made::default(), 1000, [0; 4]);
    for step in 0..6000u64 {
        at += u64::from(random.below(3u32)) / 2 * u64::from(random.below(40u32));
        let cpu = random.below(1 + (step / 1000).min(3)) as u32;
        let now = &mut running[cpu as usize];
        match random.below(6u32) {
            0 => drop(made.step(cpu, at, 1.0)),
            1 => drop(made.irq(cpu, at, at)),
            2 => drop(made.waking(cpu, at, (10, "t", NICE), 0)),
            _ => {
                let next = [0, 10 * (1 + cpu as i32) + random.below(4u32) as i32][random.below(2) as usize];
                let name = if random.below(30u32) == 0 { "other" } else { "t" };
                made.switch(cpu, at, (*now, 1), (next, name, NICE));
                *now = next;
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    made.write(dir.path());
    dir
}

#[test]
fn statistics_of_equal_times_are_those_of_all_records() {
    let mut random = Random::new("tied", 9);
    let mut found = [0; 2];
    for records in [20, 100, 900] {
        let dir = tied(&mut random);
        index_with(dir.path(), records);
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let sources = same(&with, &without, &mut random, 40);
        found = [found[0] + sources[0], found[1] + sources[1]];
    }
    assert!(found[1] > 150, "{found:?}");
}

#[test]
fn statistics_of_damaged_and_of_lossy_programs_are_those_of_all_records() {
    let mut random = Random::new("damaged_writers", 5);
    for round in 0..12 {
        let dir = made(&Plan { seed: random.word(), records: 400, lossy: 4, packet: 40, ..Plan::default() });
        damage(dir.path(), &mut random, round % 4).unwrap();
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let asked: u32 = same(&with, &without, &mut random, 6).iter().sum();
        assert_eq!(asked, if with.bounds.is_some() { 18 } else { 0 });
    }
    // No kernel, and nothing at all.
    for (cpus, records, user) in [(0, 0, 5000), (1, 0, 300), (1, 1, 0), (3, 1, 1)] {
        let dir = made(&Plan { cpus, records, user, ..Plan::default() });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        same(&with, &without, &mut random, 5);
    }
}

#[test]
fn damaged_statistics_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, ..Plan::default() });
    let query = "by=thread";
    let expect = ask(&open(dir.path(), false), "statistics", query);
    let found = damaged(&index(dir.path()), 600, |of| {
        let found = ask(of, "statistics", query);
        let (is_of_index, is_right) = (found["info"]["source"] == "index", found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
