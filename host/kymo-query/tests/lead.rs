// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much is read around what is asked about.

use serde_json::Value;

use crate::common::ask;
use crate::indexed::{index, made, open};
use crate::random_trace::Plan;

/// Records on each side that are read, where there are more in a second.
const MOST: u64 = 1 << 16;

fn number(answer: &Value, name: &str) -> i64 {
    answer["info"][name].as_i64().unwrap()
}

#[test]
fn of_a_dense_trace_fewer_records_are_read() {
    let dir = made(&Plan { records: 300_000, packet: 2000, ..Plan::default() });
    index(dir.path());
    let (with, without) = (open(dir.path(), true), open(dir.path(), false));
    let length = with.bounds.unwrap().0.abs_diff(with.bounds.unwrap().1) as i64;
    assert!(length < 1_000_000_000, "all of it is within a second");
    let middle = length / 2;
    let records = |from: i64, to: i64| {
        ask(&without, "statistics", &format!("from=@{from}&to=@{to}"))["info"]["records"].as_u64().unwrap()
    };
    for (question, rest) in
        [("explain", format!("at=@{middle}")), ("critical", format!("from=@{middle}&to=@{}", middle + 9000))]
    {
        for tid in [3, 5] {
            let query = format!("tid={tid}&{rest}");
            let [few, all] = [&with, &without].map(|of| ask(of, question, &query));
            let [from, to] = ["read_from", "read_to"].map(|name| number(&few, name));
            for part in [records(from, middle), records(middle, to)] {
                assert!((MOST..MOST + 8192).contains(&part), "{question}: {part} records on one side");
            }
            assert!(number(&all, "read_from") <= 0 && number(&all, "read_to") > length);
            assert_eq!(few["tables"], all["tables"], "{query}");
            let given = ask(&with, question, &format!("{query}&lead={length}"));
            assert!(number(&given, "read_from") <= 0 && number(&given, "read_to") > length);
        }
    }
}
