// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that is being written answers as the whole one does: while it grows, and when it has ended.

use crate::common;

use common::{Made, NICE, ask, column};
use kymo_index::{GrowingIndex, Indexes};
use kymo_query::Opened;
use kymo_testing::Random;
use serde_json::{Value, json};

/// Two CPUs whose threads take turns, from 1000 ns on. CPU 1 begins later.
fn made(records: u64) -> Made {
    let mut random = Random::new("growing", 11);
    let mut made = Made::default();
    for cpu in 0..2u32 {
        let (mut at, mut before) = (1000 + u64::from(cpu) * 5000, 0);
        for _ in 0..records {
            at += 1 + random.below(200u64);
            let next = 10 * (cpu as i32 + 1) + random.below(4i32);
            if random.below(3u8) == 0 {
                made.waking(cpu, at, (next, "t", NICE), cpu as i32);
                at += 1;
            }
            let next = if next == before { 0 } else { next };
            made.switch(cpu, at, (before, 1), (next, if next == 0 { "idle" } else { "t" }, NICE));
            before = next;
        }
    }
    made
}

fn grown(made: &Made, index: &mut GrowingIndex, at: u64, until: i64) -> Opened {
    Opened::growing(vec![made.trace_until(at, 7)], index, until, "made".to_owned(), Vec::new())
}

/// What a page asks of a window.
fn pictures(of: &Opened, from: i64, to: i64) -> Vec<Value> {
    let window = format!("from={from}&to={to}&pixels=300");
    let mut all =
        vec![ask(of, "cpus", &window), ask(of, "states", &format!("{window}&tids=10,11,12,13,20,21&late=500"))];
    let threads = ask(of, "threads", &format!("from={from}&to={to}"));
    all.push(threads["tables"]["threads"].clone());
    all
}

#[test]
fn each_window_shows_what_the_whole_trace_shows() {
    let made = made(3000);
    let whole = Opened::new(vec![made.trace_until(u64::MAX, 7)], Indexes::default(), "made".to_owned(), Vec::new());
    let (first, last) = whole.bounds.unwrap();
    let mut index = GrowingIndex::default();
    let mut random = Random::new("windows", 3);
    let mut seen = 0;
    let mut at = first;
    while at < last {
        at += random.below(15_000i64);
        // A packet of 7 records is not older than 7 * 201 ns when it is written.
        let of = grown(&made, &mut index, at as u64, at - 2000);
        let Some((begin, end)) = of.bounds else { continue };
        assert!(of.is_growing() && begin == first && end <= at - 2000);
        let (from, to) = (first + random.below(end - first + 1), end);
        if from + 500 < to {
            assert_eq!(pictures(&of, from, to), pictures(&whole, from, to), "{from} to {to}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} windows");
    assert_eq!(index.restarts(), 0);
    // Many of them began where an earlier look had ended.
    assert!((16..=64).contains(&index.recent_count()), "{} ends of looks", index.recent_count());
}

#[test]
fn a_trace_that_has_ended_is_the_whole_one() {
    let made = made(2000);
    let whole = Opened::new(vec![made.trace_until(u64::MAX, 7)], Indexes::default(), "made".to_owned(), Vec::new());
    let mut index = GrowingIndex::default();
    for at in [0, 20_000, 50_000, 120_000] {
        grown(&made, &mut index, at, at as i64 - 2000);
    }
    index.end();
    let of = grown(&made, &mut index, u64::MAX, i64::MAX);
    assert!(!of.is_growing() && of.bounds == whole.bounds && index.recent_count() == 0);
    for (question, query) in [
        ("cpus", ""),
        ("latencies", "limit=50"),
        ("worst", ""),
        ("places", ""),
        ("records", "limit=500"),
        ("arrows", ""),
    ] {
        assert_eq!(ask(&of, question, query), ask(&whole, question, query), "{question}");
    }
    let sum = |of: &Opened| {
        column(&ask(of, "overview", "bins=40"), "bins", "records").iter().filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!((sum(&of), index.records()), (sum(&whole), sum(&whole)));
}

#[test]
fn what_is_too_new_waits_for_the_next_look() {
    let made = made(100);
    let mut index = GrowingIndex::default();
    let of = grown(&made, &mut index, u64::MAX, 2000);
    let (_, last) = of.bounds.unwrap();
    assert!(last <= 2000 && index.held().is_some());
    let found = ask(&of, "records", "limit=10000");
    assert!(column(&found, "records", "time").iter().all(|time| time.as_i64().unwrap() + of.base() <= last));
    let counted = column(&found, "records", "time").len() as u64;
    assert_eq!(index.records(), counted);
    let of = grown(&made, &mut index, u64::MAX, i64::MAX);
    assert!(index.held().is_none() && of.bounds.unwrap().1 > last && index.records() > counted);
}

#[test]
fn checkpoints_are_kept_and_used() {
    let made = made(60_000);
    let whole = Opened::new(vec![made.trace_until(u64::MAX, 500)], Indexes::default(), "made".to_owned(), Vec::new());
    let (first, last) = whole.bounds.unwrap();
    let mut index = GrowingIndex::default();
    let mut of = None;
    for part in 1..=8 {
        let at = first + (last - first) * part / 8;
        of = Some(Opened::growing(
            vec![made.trace_until(at as u64, 500)],
            &mut index,
            at - 150_000,
            "made".to_owned(),
            Vec::new(),
        ));
    }
    let of = of.unwrap();
    assert!(index.checkpoint_count() >= 2, "{} checkpoints", index.checkpoint_count());
    let end = of.bounds.unwrap().1;
    for from in [first, (first + end) / 2, end - 100_000] {
        assert_eq!(pictures(&of, from, from + 90_000), pictures(&whole, from, from + 90_000), "from {from}");
    }
}

#[test]
fn another_trace_in_its_place_is_read_anew() {
    let (one, other) = (made(300), common::small());
    let mut index = GrowingIndex::default();
    grown(&one, &mut index, u64::MAX, i64::MAX);
    // It has fewer bytes than were read: no place of the first one is in it.
    let of = Opened::growing(vec![other.trace()], &mut index, i64::MAX, "made".to_owned(), Vec::new());
    assert_eq!(of.bounds, other.open().bounds);
    assert!(index.restarts() >= 1);
}

#[test]
fn a_trace_without_records_becomes_one_with_one() {
    let mut empty = Made::default();
    empty.cpus_without_records();
    let mut index = GrowingIndex::default();
    let of = grown(&empty, &mut index, u64::MAX, i64::MAX);
    assert_eq!((of.bounds, of.base(), of.whole()), (None, 0, (0, 0)));
    assert_eq!(ask(&of, "overview", "")["tables"]["bins"]["records"], json!([]));
    assert_eq!(ask(&of, "records", "")["tables"]["records"]["time"], json!([]));
    let mut one = Made::default();
    one.switch(0, 1000, (0, 0), (10, "a", NICE));
    let of = Opened::growing(vec![one.trace()], &mut index, i64::MAX, "made".to_owned(), Vec::new());
    assert_eq!((of.bounds, of.whole()), (Some((1000, 1000)), (1000, 1001)));
    assert_eq!(ask(&of, "records", "")["tables"]["records"]["time"], json!([0]));
    for question in ["cpus", "threads", "latencies", "places", "overview", "summary", "schema", "arrows", "slices"] {
        ask(&of, question, "");
    }
}

#[test]
fn one_record_and_none_have_answers() {
    let mut one = Made::default();
    one.switch(0, 1000, (0, 0), (10, "a", NICE));
    let mut none = Made::default();
    none.cpus_without_records();
    for (made, records) in [(one, 1u64), (none, 0)] {
        let of = made.open();
        for question in ["cpus", "threads", "latencies", "worst", "places", "overview", "schema", "arrows", "slices"] {
            ask(&of, question, "");
        }
        assert_eq!(ask(&of, "summary", "")["info"]["records"], json!(records));
        assert_eq!(column(&ask(&of, "records", ""), "records", "time").len() as u64, records);
        ask(&of, "states", "tids=10");
    }
}
