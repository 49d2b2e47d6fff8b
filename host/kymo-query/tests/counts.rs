// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts over time and by event: from columns of the index they are those of the records.

use serde_json::Value;

use crate::common::ask;
use crate::indexed::{index, made, open, window};
use crate::random_trace::{Plan, Random};

fn column<'a>(answer: &'a Value, table: &str, name: &str) -> &'a [Value] {
    answer["tables"][table][name].as_array().unwrap()
}

/// Questions that the index answered, by question.
fn compare(random: &mut Random, plan: &Plan) -> [u32; 2] {
    let dir = made(&Plan { seed: random.word(), ..*plan });
    index(dir.path());
    let (with, without) = (open(dir.path(), true), open(dir.path(), false));
    let (bounds, mut by_index) = (with.bounds.unwrap(), [0; 2]);
    for round in 0..15 {
        let (from, to) = window(random, round, bounds);
        let query = format!("from=@{}&to=@{}", from - bounds.0, to - bounds.0);
        let [quick, all] = [&with, &without].map(|of| ask(of, "statistics", &query));
        assert_eq!(quick["tables"], all["tables"], "{plan:?}: {query}");
        assert_eq!(quick["lost"], all["lost"], "{plan:?}: {query}");
        for name in ["records", "selected", "first", "last", "total"] {
            assert_eq!(quick["info"][name], all["info"][name], "{plan:?}: {query}");
        }
        by_index[0] += u32::from(quick["info"]["source"] == "index");

        let found = ask(&with, "overview", &format!("{query}&bins=40"));
        if found["info"]["source"] != "index" {
            continue;
        }
        by_index[1] += 1;
        let [begins, ends, counts] = ["from", "to", "records"].map(|name| column(&found, "bins", name));
        assert!(begins.len() <= 40 && begins[1..] == ends[..ends.len() - 1], "{found}");
        for bin in [0, begins.len() / 2, begins.len() - 1] {
            let part = format!("from=@{}&to=@{}", begins[bin], ends[bin]);
            let counted = ask(&without, "statistics", &part);
            assert_eq!(counts[bin], counted["info"]["records"], "{plan:?}: {query}: {part}");
        }
    }
    by_index
}

#[test]
fn counts_of_windows_are_those_of_their_records() {
    let mut random = Random::new("counts", 5);
    let plan = Plan { records: 6000, ..Plan::default() };
    let plans = [plan, Plan { cpus: 8, ..plan }, Plan { lossy: 4, packet: 50, ..plan }, Plan { lossy: 1, ..plan }];
    for plan in plans {
        let by_index = compare(&mut random, &plan);
        assert!(by_index[0] > 5 && by_index[1] > 5, "{by_index:?}: {plan:?}");
    }
}
