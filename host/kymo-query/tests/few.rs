// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions that need records of few events, and no state: with an index, which reads few streams, and without one the
//! answers are the same.

use crate::common::ask;
use crate::indexed::{index, made, open, window};
use crate::random_trace::{Plan, Random};

/// Spans, and whether the index answers them.
const SPANS: [(&str, bool); 5] = [
    ("motor:step,motor:step", true),
    ("motor:step,motor:step,by=axis", true),
    ("motor:step,motor:step,by=$pid,axis", true),
    ("motor:step,motor:step,by=$cpu", false),
    ("sched_switch,sched_switch", false),
];

/// Questions that the index answered.
fn compare(random: &mut Random, plan: &Plan) -> u32 {
    let dir = made(&Plan { seed: random.word(), ..*plan });
    index(dir.path());
    let (with, without) = (open(dir.path(), true), open(dir.path(), false));
    let (bounds, mut by_index) = (with.bounds.unwrap(), 0);
    for round in 0..12 {
        let (from, to) = window(random, round, bounds);
        let (from, to) = (from - bounds.0, to - bounds.0);
        let mut same = |question: &str, rest: &str, is_quick: bool| {
            let query = format!("from=@{from}&to=@{to}&{rest}");
            let [quick, all] = [&with, &without].map(|of| ask(of, question, &query));
            assert_eq!(quick["tables"], all["tables"], "{plan:?}: {question}?{query}");
            assert_eq!(quick["lost"], all["lost"], "{plan:?}: {question}?{query}");
            assert_eq!(all["info"]["source"], "records");
            let is_from_index = quick["info"]["source"] == "index";
            assert!(is_quick || !is_from_index, "{plan:?}: {question}?{query}");
            by_index += u32::from(is_from_index);
        };
        for (span, is_quick) in SPANS {
            same("slices", &format!("span={span}&pixels=50&rows=key"), is_quick);
            same("slices", &format!("span={span}&pixels=2000&lead=0"), is_quick);
            same("flame", &format!("span={span}"), is_quick);
        }
        same("slices", "span=motor:step,motor:step&filter=axis>5", false);
        same("places", "span=motor:step,motor:step", true);
        same("values", "field=motor:step.axis&bins=30", true);
        same("values", "field=sched_switch.next_prio&bins=30", true);
        same("values", "field=motor:step.axis&bins=30&filter=axis>2", false);
    }
    by_index
}

#[test]
fn few_streams_answer_what_all_answer() {
    let mut random = Random::new("few_streams", 3);
    let plan = Plan { records: 1200, ..Plan::default() };
    let plans = [plan, Plan { cpus: 8, records: 300, ..plan }, Plan { lossy: 4, packet: 50, ..plan }];
    for plan in plans {
        let by_index = compare(&mut random, &plan);
        assert!(by_index > 30, "{by_index}: {plan:?}");
    }
}

#[test]
fn what_would_be_read_for_spans_is_what_they_need() {
    let dir = made(&Plan { records: 4000, ..Plan::default() });
    let without = open(dir.path(), false);
    index(dir.path());
    let with = open(dir.path(), true);
    let rows = |answer: &serde_json::Value| answer["tables"]["slices"]["from"].as_array().unwrap().len();
    let all = ask(&without, "slices", "span=motor:step,motor:step&pixels=8000");
    assert!(rows(&all) > 0);
    // A fraction of all records are of the program.
    let few = ask(&with, "slices", "span=motor:step,motor:step&pixels=8000&most=2000");
    assert_eq!((rows(&few), &few["info"]["source"]), (rows(&all), &"index".into()));
    let many = ask(&with, "slices", "span=sched_switch,sched_switch&pixels=8000&most=2000");
    assert!(rows(&many) == 0 && many["info"]["records"].as_u64().unwrap() > 2000, "{}", many["info"]);
}
