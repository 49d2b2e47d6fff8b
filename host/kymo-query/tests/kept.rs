// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that somebody chose: those that are kept in parts, and those that were ever read, are the same.

use std::collections::{BTreeMap, BTreeSet};

use kymo_index::KeepHow;
use kymo_query::{KeepSpans, Opened, Stop, keep_spans};
use serde_json::Value;

use crate::common::ask;
use crate::indexed::{index, made, open, window};
use crate::latencies::same_answer;
use crate::random_trace::{Plan, Random};
use crate::spans::{ALL, frames, rows};

/// In parts of so many spans.
fn keeping(of: Opened, spans: usize, bytes_max: u64) -> Opened {
    let file = Box::new(tempfile::tempfile);
    of.keeping(KeepSpans { file, records_min: 0, how: KeepHow { spans, bytes_max } })
}

/// An answer, after which its spans are kept.
fn kept(of: &Opened, question: &str, query: &str) -> Value {
    let before = ask(of, question, query);
    assert!(before["notes"].to_string().contains("is being made"), "{query}: {}", before["notes"]);
    assert!(keep_spans(of, &Stop::default()).unwrap(), "{query}");
    assert!(!keep_spans(of, &Stop::default()).unwrap(), "{query}: only once");
    before
}

/// The rows of a table as text, without a column, in an order that does not depend on which key came first.
fn in_order(answer: &Value, table: &str, without: &str) -> Vec<String> {
    let table = answer["tables"][table].as_object().unwrap();
    let columns: Vec<_> = table.iter().filter(|(name, _)| *name != without).collect();
    let row = |at: usize| columns.iter().map(|(name, values)| format!("{name}={} ", values[at])).collect::<String>();
    let mut all: Vec<String> = (0..columns[0].1.as_array().unwrap().len()).map(row).collect();
    all.sort();
    all
}

/// How many spans each thread has, whatever their levels.
fn counts(answer: &Value) -> BTreeMap<i64, i64> {
    let mut counts = BTreeMap::new();
    let merged = rows(answer, "merged", "tid").into_iter().zip(rows(answer, "merged", "count"));
    let slices = rows(answer, "slices", "tid").into_iter().map(|tid| (tid, 1));
    merged.chain(slices).for_each(|(tid, count)| *counts.entry(tid).or_default() += count);
    counts
}

/// Within a thread or a key; others lie in a thread only from their ends on, and have no levels that could be known.
const NESTED: [&str; 5] = [
    "span=irq_handler_entry,irq_handler_exit,by=irq&rows=key",
    "span=irq_handler_entry,irq_handler_exit,by=$cpu&span=irq_softirq_entry,irq_softirq_exit,by=vec&rows=key",
    "span=sched_waking,sched_switch,by=tid:next_tid&rows=key",
    "span=axis:begin,axis:end",
    "span=syscall_entry_futex,syscall_exit_futex&span=load:begin,load:end",
];

fn compare(random: &mut Random, plan: &Plan, spans: &str, seen: &mut [usize; 5]) {
    let dir = made(&Plan { seed: random.word(), ..*plan });
    index(dir.path());
    let (with, without) = (keeping(open(dir.path(), true), 5, u64::MAX), open(dir.path(), false));
    let bounds = with.bounds.unwrap();
    kept(&with, "slices", &format!("from=@1000&grid=1&{spans}"));
    for round in 0..12 {
        let (from, to) = window(random, round, bounds);
        let (from, to) = (from - bounds.0, to - bounds.0);
        let pixels = [1, 3, 20, 100, 1000, 8000][random.below(6usize)];
        let tids = ["", "", "&tids=13", "&tids=1,2,3"][random.below(4usize)];
        let tids = if spans.contains("rows") { "" } else { tids };
        let query = format!("from=@{from}&to=@{to}&grid=1&pixels={pixels}{tids}&{spans}");
        let quick = ask(&with, "slices", &query);
        let all = ask(&without, "slices", &format!("{query}{ALL}"));
        assert_eq!(quick["info"]["source"], "index", "{plan:?}: {query}");
        for table in ["slices", "merged", "losses"] {
            let [found, wanted] = [&quick, &all].map(|of| in_order(of, table, ""));
            let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
            assert_eq!(differs, None, "{plan:?}: {table} of {query}");
            assert_eq!(found.len(), wanted.len(), "{plan:?}: {table} of {query}");
        }
        for key in ["from", "to", "lost"] {
            assert_eq!(quick[key], all[key], "{plan:?}: {key} of {query}");
        }
        for key in ["pixels", "frame", "left_out", "lead", "spans"] {
            assert_eq!(quick["info"][key], all["info"][key], "{plan:?}: {key} of {query}");
        }
        seen[0] += rows(&quick, "slices", "from").len();
        seen[1] += rows(&quick, "merged", "pixel").len();
        seen[2] += rows(&quick, "slices", "open").iter().filter(|open| **open == 1).count();
        seen[3] += rows(&quick, "slices", "doubt").iter().filter(|doubt| **doubt != 0).count();
        seen[4] += rows(&quick, "slices", "level").iter().filter(|level| **level > 0).count();
    }
}

#[test]
fn kept_spans_are_those_of_all_records() {
    let mut random = Random::new("kept_spans", 5);
    let plan = Plan { records: 1000, user: 1500, spans: 4, ..Plan::default() };
    let plans = [plan, Plan { lossy: 4, packet: 50, ..plan }, Plan { cpus: 8, threads: 100, records: 300, ..plan }];
    for spans in NESTED {
        let mut seen = [0; 5];
        for plan in [plans, plans].concat() {
            compare(&mut random, &plan, spans, &mut seen);
        }
        // Interrupts of one CPU follow each other.
        let has_levels = !spans.contains("irq") && !spans.contains("sched");
        assert!(seen[..4].iter().min() > Some(&20) && (!has_levels || seen[4] > 20), "{spans}: {seen:?}");
    }
}

#[test]
fn kept_spans_that_end_in_other_threads_are_those_of_all_records() {
    let mut random = Random::new("kept_across", 5);
    let waking = "span=sched_waking,sched_switch,by=tid:next_tid&span=irq_softirq_raise,irq_softirq_entry,by=vec";
    // A switch between them makes it another thread.
    let interrupts = "span=irq_handler_entry,irq_handler_exit,by=$cpu";
    for (round, spans) in [waking, interrupts].repeat(4).into_iter().enumerate() {
        let dir = made(&Plan {
            seed: random.word(),
            user: 0,
            lossy: (round / 2 % 2) as u64 * 6,
            packet: 60,
            ..Plan::default()
        });
        index(dir.path());
        let (with, without) = (keeping(open(dir.path(), true), 6, u64::MAX), open(dir.path(), false));
        kept(&with, "slices", &format!("from=@1000&grid=1&{spans}"));
        let bounds = with.bounds.unwrap();
        let mut count = 0;
        for round in 0..12 {
            let (from, to) = window(&mut random, round, bounds);
            // So many pixels that each is shown.
            let to = to.min(from + 65536);
            let stretch = format!("from=@{}&to=@{}&{spans}", from - bounds.0, to - bounds.0);
            let query = format!("{stretch}&grid=1&pixels=8192");
            let [found, wanted] = [ask(&with, "slices", &query), ask(&without, "slices", &format!("{query}{ALL}"))];
            assert_eq!(found["info"]["source"], "index", "{query}");
            assert_eq!(in_order(&found, "slices", "level"), in_order(&wanted, "slices", "level"), "{query}");
            let query = format!("{stretch}&grid=1&pixels=20");
            let [found_rows, wanted_rows] =
                [ask(&with, "slices", &query), ask(&without, "slices", &format!("{query}{ALL}"))];
            assert_eq!(counts(&found_rows), counts(&wanted_rows), "{query}");
            count += rows(&found, "slices", "from").len();
            // What lies within such a span is not known at the end of a part.
            assert_eq!(frames(&ask(&with, "flame", &stretch)), frames(&ask(&without, "flame", &stretch)));
        }
        assert!(count > 100, "{count}");
    }
}

#[test]
fn flame_graphs_and_latencies_of_kept_spans_are_those_of_all_records() {
    let mut random = Random::new("kept_flame", 5);
    let plan = Plan { records: 1000, user: 3000, spans: 4, overlapping: 0, ..Plan::default() };
    let (mut deep, mut by_index) = (0, [0; 2]);
    for (spans, plan) in [
        ("span=irq_handler_entry,irq_handler_exit,by=$cpu", plan),
        ("span=axis:begin,axis:end", plan),
        ("span=load:begin,load:end&span=axis:begin,axis:end", Plan { lossy: 5, packet: 50, ..plan }),
        // Some records do not say who wrote them.
        ("span=axis:begin,axis:end", Plan { lossy: 3, packet: 50, compact: true, ..plan }),
        ("span=syscall_entry_futex,syscall_exit_futex", Plan { records: 3000, ..plan }),
    ] {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index(dir.path());
        let (with, without) = (keeping(open(dir.path(), true), 8, u64::MAX), open(dir.path(), false));
        kept(&with, "flame", spans);
        let bounds = with.bounds.unwrap();
        for round in 0..20 {
            let (from, to) = window(&mut random, round, bounds);
            let stretch = format!("from=@{}&to=@{}&{spans}", from - bounds.0, to - bounds.0);
            let tids = ["", "&tids=13", "&tids=1,2,3"][random.below(3usize)];
            let query = format!("{stretch}{tids}");
            let quick = ask(&with, "flame", &query);
            let all = ask(&without, "flame", &format!("{query}{ALL}"));
            assert_eq!(frames(&quick), frames(&all), "{plan:?}: {query}");
            // Read, they would be of all records.
            by_index[0] += u32::from(spans.contains("syscall") && quick["info"]["source"] == "index");
            deep += frames(&quick).keys().filter(|path| path.len() > 1).count();
            let limit = [3, 200, 4096][random.below(3usize)];
            for question in ["latencies", "worst"] {
                let more = if question == "latencies" { "&bins=30&grid=1" } else { "" };
                let query = format!("{stretch}&limit={limit}&what=span{more}");
                by_index[1] += u32::from(same_answer(&with, &without, question, &query));
            }
        }
    }
    assert!(deep > 50 && by_index[0] > 15 && by_index[1] > 80, "{deep}, {by_index:?}");
}

/// There is a bound, and what cannot be kept is read, and told of.
#[test]
fn what_cannot_be_kept_is_read() {
    let dir = made(&Plan { user: 1500, spans: 4, ..Plan::default() });
    index(dir.path());
    let query = "from=@1000&grid=1&span=axis:begin,axis:end";
    let of = keeping(open(dir.path(), true), 5, 2000);
    let before = kept(&of, "slices", query);
    let again = ask(&of, "slices", query);
    assert_eq!(again["tables"], before["tables"]);
    assert!(again["notes"].to_string().contains("as they are more than 2000 bytes"), "{}", again["notes"]);
    assert!(!keep_spans(&of, &Stop::default()).unwrap(), "nothing is tried again");
    let refused = Box::new(|| Err(std::io::Error::other("no room")));
    let how = KeepHow { spans: 5, bytes_max: u64::MAX };
    let of = open(dir.path(), true).keeping(KeepSpans { file: refused, records_min: 0, how });
    kept(&of, "slices", query);
    let again = ask(&of, "slices", query);
    assert!(again["notes"].to_string().contains("cannot write them: no room"), "{}", again["notes"]);
}

/// What is stopped may be asked for again; small traces, traces without an index, and filters are read.
#[test]
fn what_is_not_worth_it_is_not_kept() {
    let dir = made(&Plan { user: 1500, spans: 4, ..Plan::default() });
    index(dir.path());
    let query = "from=@1000&grid=1&span=axis:begin,axis:end";
    let (stop, go) = (Stop::default(), Stop::default());
    stop.set();
    let of = keeping(open(dir.path(), true), 5, u64::MAX);
    for more in ["&lead=100", "&filter=$tid==13"] {
        ask(&of, "slices", &format!("{query}{more}"));
        assert!(!keep_spans(&of, &go).unwrap(), "{more}");
    }
    ask(&of, "slices", query);
    assert!(keep_spans(&of, &stop).is_err());
    assert!(!keep_spans(&of, &go).unwrap(), "nobody asked since");
    ask(&of, "slices", query);
    assert!(keep_spans(&of, &go).unwrap());
    assert_eq!(ask(&of, "slices", query)["notes"], serde_json::json!([]));
    let how = KeepHow { spans: 5, bytes_max: u64::MAX };
    let small = KeepSpans { file: Box::new(tempfile::tempfile), records_min: 1_000_000, how };
    for of in [open(dir.path(), true).keeping(small), keeping(open(dir.path(), false), 5, u64::MAX)] {
        assert!(!ask(&of, "slices", query)["notes"].to_string().contains("being made"));
        assert!(!keep_spans(&of, &go).unwrap());
    }
}

/// Of many choices the last ones are kept.
#[test]
fn the_last_choices_are_kept() {
    let dir = made(&Plan { user: 1500, spans: 4, ..Plan::default() });
    index(dir.path());
    let of = keeping(open(dir.path(), true), 5, u64::MAX);
    let query = |number: usize| {
        let spans: Vec<&str> = (0..=number / 2).map(|_| "&span=axis:begin,axis:end").collect();
        let rows = if number % 2 == 0 { "" } else { "&span=load:begin,load:end" };
        format!("from=@1000&grid=1{}{rows}", spans.concat())
    };
    (0..10).for_each(|number| drop(kept(&of, "slices", &query(number))));
    let is_kept = |number: usize| ask(&of, "slices", &query(number))["notes"] == serde_json::json!([]);
    let found: BTreeSet<usize> = (2..10).filter(|number| is_kept(*number)).collect();
    assert_eq!(found, (2..10).collect());
    assert!(!is_kept(0) && !is_kept(1) && !is_kept(2), "and each takes the place of the oldest");
}
