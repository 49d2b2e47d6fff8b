// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies in the index: answers that are made of it are those of all records, of random windows of random traces,
//! whatever is chosen; and whatever happens to the index, the answers stay.

use crate::common;
use crate::indexed;
use crate::random_trace;

use common::{ask, small};
use indexed::{damaged, index, index_with, made, open, window};
use kymo_query::Opened;
use random_trace::{Plan, Random, damage};
use serde_json::Value;

/// What an answer was made of.
fn is_of_index(answer: &Value) -> bool {
    answer["info"]["source"] == "index"
}

/// All but where it is from.
fn without_source(mut answer: Value) -> Value {
    answer["info"].as_object_mut().unwrap().remove("source");
    answer
}

/// Answers are the same. What that with an index was made of.
#[track_caller]
pub fn same_answer(with: &Opened, without: &Opened, question: &str, query: &str) -> bool {
    let [found, expect] = [with, without].map(|of| ask(of, question, query));
    assert!(!is_of_index(&expect));
    let is_of_index = is_of_index(&found);
    let [found, expect] = [found, expect].map(without_source);
    for (name, table) in expect["tables"].as_object().unwrap() {
        for (column, values) in table.as_object().unwrap() {
            let [values, own] = [values, &found["tables"][name][column]].map(|list| list.as_array().unwrap());
            let differs = own.iter().zip(values).position(|(a, b)| a != b).unwrap_or(own.len().min(values.len()));
            let near = |all: &[Value]| all[differs.saturating_sub(1)..(differs + 3).min(all.len())].to_vec();
            assert!(
                own == values,
                "row {differs} of {name}.{column}: {:?} and not {:?}, {} rows and not {}; {question}?{query}",
                near(own),
                near(values),
                own.len(),
                values.len(),
            );
        }
    }
    for part in ["info", "lost", "notes", "from", "to"] {
        assert_eq!(found[part], expect[part], "{part} of {question}?{query}");
    }
    is_of_index
}

/// A series of a window, as it is chosen.
fn choice(without: &Opened, window: &str, random: &mut Random) -> String {
    let all = ask(without, "worst", window);
    let series = &all["tables"]["series"];
    let count = series["what"].as_array().unwrap().len();
    if count == 0 {
        return String::new();
    }
    let row = random.below(count as u64) as usize;
    let text = |column: &str| series[column][row].as_str().unwrap_or_default().to_owned();
    match random.below(3) {
        0 => format!("&kind={}", text("what")),
        _ => format!("&kind={}&of={}", text("what"), text("of")),
    }
}

/// Windows of all lengths, whatever is chosen. How many were made of records and of the index.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [u32; 2] {
    let mut sources = [0; 2];
    let Some(bounds) = with.bounds else { return sources };
    for round in 0..rounds {
        let (from, to) = window(random, round, bounds);
        let stretch = format!("from={from}&to={to}");
        let limit = [1, 3, 20, 300, 5000][random.below(5) as usize];
        let mut chosen = String::new();
        if random.below(2) == 0 {
            chosen = choice(without, &stretch, random);
        }
        if random.below(3) == 0 {
            let kinds = [
                "wakeup",
                "runqueue,preempted",
                "softirq-raise,irq,block",
                "timer,syscall",
                "futex,net,irqs-off",
                "span",
                "span,futex",
            ];
            chosen += &format!("&what={}", kinds[random.below(7) as usize]);
        }
        let bins = 1 + random.below(80u32);
        for (question, more) in [("latencies", format!("&bins={bins}&grid=1")), ("worst", String::new())] {
            let query = format!("{stretch}&limit={limit}{chosen}{more}");
            sources[usize::from(same_answer(with, without, question, &query))] += 1;
        }
        same_answer(with, without, "places", &stretch);
    }
    sources
}

#[test]
fn latencies_of_the_index_are_those_of_all_records() {
    let mut random = Random::new("latencies", 3);
    let plan = Plan { records: 1200, ..Plan::default() };
    let plans = [
        plan,
        Plan { devices: 3, ..plan },
        Plan { cpus: 16, threads: 200, records: 300, devices: 9, ..plan },
        Plan { lossy: 4, packet: 50, user: 0, devices: 4, ..plan },
        Plan { lossy: 9, packet: 50, user: 3000, spans: 3, ..plan },
        Plan { user: 4000, spans: 4, overlapping: 40, unended: 90, ..plan },
        // No record of a kernel.
        Plan { records: 0, user: 4000, spans: 4, ..plan },
        Plan { records: 0, user: 4000, spans: 2, lossy: 7, packet: 40, ..plan },
        Plan { cpus: 1, threads: 1, ..plan },
    ];
    for plan in plans {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let [_, of_index] = same(&with, &without, &mut random, 60);
        assert!(of_index > 40, "{of_index} of 120 answers about {plan:?} were made of the index");
    }
}

/// Parts of the index list some of their samples only.
#[test]
fn points_that_parts_do_not_list_are_found() {
    let mut random = Random::new("longest", 7);
    let plans = [
        Plan { records: 9000, threads: 6, ..Plan::default() },
        Plan { records: 9000, devices: 2, user: 0, lossy: 30, ..Plan::default() },
        Plan { records: 900, user: 30_000, spans: 2, ..Plan::default() },
    ];
    for plan in plans {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index_with(dir.path(), 250);
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let [_, of_index] = same(&with, &without, &mut random, 40);
        assert!(of_index > 20, "{of_index} of 80 answers about {plan:?} were made of the index");
    }
}

/// The page asks for them first.
#[test]
fn places_come_from_the_index() {
    let mut titles = std::collections::BTreeSet::new();
    for seed in 0..6 {
        // The threads of one CPU of four are real-time ones.
        let dir = made(&Plan { seed, cpus: 1 + seed as u32 % 2, records: 1500, devices: 3, ..Plan::default() });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        assert!(same_answer(&with, &without, "places", "spans=0"), "seed {seed}");
        let titled = ask(&with, "places", "")["tables"]["places"]["title"].clone();
        titles.extend(titled.as_array().unwrap().iter().map(ToString::to_string));
    }
    assert!(titles.len() > 2, "{titles:?}");
}

#[test]
fn places_have_the_longest_span() {
    let mut made = small();
    for round in 0..2000u64 {
        made.step(1, 3000 + round, 1.0);
    }
    let dir = tempfile::tempdir().unwrap();
    made.write(dir.path());
    index(dir.path());
    let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
    same_answer(&with, &without, "places", "");
    let found = ask(&with, "places", "");
    assert_eq!(found["info"]["has_spans"], true);
    let kinds = found["tables"]["places"]["kind"].as_array().unwrap();
    assert!(kinds.contains(&serde_json::json!("span")), "{kinds:?}");
    let without_spans = ask(&with, "places", "spans=0");
    assert!(!without_spans["tables"]["places"]["kind"].as_array().unwrap().contains(&serde_json::json!("span")));
}

#[test]
fn what_the_index_lacks_is_read() {
    let dir = made(&Plan { records: 1500, devices: 5, ..Plan::default() });
    index(dir.path());
    let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
    for (query, is_of_index) in [
        ("grid=1&bins=20", true),
        ("bins=1", true),
        ("bins=20", false),
        ("grid=1&bins=20&by=thread", false),
        ("grid=1&bins=20&by=cpu,prio", false),
        ("grid=1&bins=20&past=900", false),
        ("grid=1&bins=20&low=500", false),
        ("grid=1&bins=20&high=5000&kind=wakeup", false),
        ("grid=1&bins=20&kind=irq&of=irq 1", true),
        ("grid=1&bins=20&kind=block&of=sda", false),
        ("grid=1&bins=20&kind=wakeup&tid=3", true),
        ("grid=1&bins=20&filter=$cpu==1", false),
        ("grid=1&bins=20&span=sched_waking,sched_switch", false),
        ("grid=1&bins=20&span=sched_waking,sched_switch&what=irq,wakeup", false),
        ("grid=1&bins=20&what=irq,wakeup", true),
    ] {
        assert_eq!(same_answer(&with, &without, "latencies", query), is_of_index, "{query}");
    }
    let frame = ask(&with, "latencies", "grid=1&bins=20");
    let (from, to) = (frame["info"]["frame"][0].as_i64().unwrap(), frame["info"]["frame"][1].as_i64().unwrap());
    let bins = frame["info"]["bins"].as_i64().unwrap();
    assert!((14..=32).contains(&bins) && (to - from) % bins == 0, "{bins} bins from {from} to {to}");
    assert!((u64::try_from((to - from) / bins).unwrap()).is_power_of_two());
}

#[test]
fn latencies_of_damaged_traces_are_those_of_all_records() {
    let mut random = Random::new("damaged_latencies", 5);
    for round in 0..12 {
        let plan = Plan { seed: random.word(), records: 400, lossy: 4, packet: 40, devices: 5, ..Plan::default() };
        let dir = made(&plan);
        damage(dir.path(), &mut random, round % 4).unwrap();
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        same(&with, &without, &mut random, 8);
    }
}

/// More spans of a series than parts list: their records are read again, from places that the index has.
#[test]
fn damaged_places_of_spans_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 200, user: 20_000, spans: 3, ..Plan::default() });
    let query = "what=span&limit=10000&bins=20&grid=1";
    let expect = ask(&open(dir.path(), false), "latencies", query);
    let found = damaged(&index_with(dir.path(), 200), 700, |of| {
        let found = ask(of, "latencies", query);
        let (is_of_index, is_right) = (is_of_index(&found), found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}

#[test]
fn damaged_latencies_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 600, user: 0, devices: 5, ..Plan::default() });
    let query = "bins=20&grid=1&limit=5000";
    let expect = ask(&open(dir.path(), false), "latencies", query);
    let found = damaged(&index(dir.path()), 300, |of| {
        let found = ask(of, "latencies", query);
        let (is_of_index, is_right) = (is_of_index(&found), found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
