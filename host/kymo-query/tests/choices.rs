// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a picture chooses: a series and lengths of latencies, records over time of a filter, spans that have not ended,
//! frequencies that were set before the window, and how many threads a process has.

use serde_json::{Value, json};

use crate::common::{Made, NICE, ask, column, rows, small, try_ask};

fn numbers(answer: &Value, table: &str, name: &str) -> Vec<u64> {
    column(answer, table, name).iter().filter_map(Value::as_u64).collect()
}

#[test]
fn points_and_density_are_of_the_chosen_series_and_lengths() {
    let of = small().open();
    let query = "what=wakeup,futex,span&bins=10";
    for (only, values) in [
        ("", vec![700, 100, 60, 50]),
        ("&kind=wakeup", vec![100, 50]),
        ("&kind=wakeup&low=51", vec![100]),
        ("&low=60&high=100", vec![100, 60]),
        ("&kind=span&of=axis:begin, axis:end", vec![60]),
        ("&kind=span&of=other", vec![]),
        ("&by=thread&tid=30", vec![700, 50]),
        ("&by=cpu,thread&kind=wakeup&tid=20&cpu=0", vec![100]),
        ("&by=cpu&kind=wakeup&cpu=7", vec![]),
        // What is not kept apart is of no thread.
        ("&tid=30", vec![]),
    ] {
        let found = ask(&of, "latencies", &format!("{query}{only}"));
        assert_eq!(numbers(&found, "points", "value_ns"), values, "{only}");
        assert_eq!(numbers(&found, "density", "count").iter().sum::<u64>(), values.len() as u64, "{only}");
        assert_eq!(found["info"]["samples"], json!(values.len()), "{only}");
        // Series and histogram stay: another one can be chosen among them.
        let counted: u64 = numbers(&found, "series", "count").iter().sum();
        let in_histogram: u64 = numbers(&found, "histogram", "count").iter().sum();
        assert_eq!((counted, in_histogram), (4, 4), "{only}");
        let worst = ask(&of, "worst", &format!("what=wakeup,futex,span{only}"));
        assert_eq!(numbers(&worst, "points", "value_ns"), values, "worst {only}");
    }
    assert!(try_ask(&of, "latencies", "kind=what").is_err());
    assert!(try_ask(&of, "worst", "low=x").is_err());
}

#[test]
fn records_over_time_are_those_of_a_filter() {
    let of = small().open();
    let of_filter = |filter: &str| {
        let found = ask(&of, "overview", &format!("from=@0&to=@1000&bins=2&filter={filter}"));
        assert_eq!(found["info"]["source"], "records");
        numbers(&found, "bins", "records")
    };
    assert_eq!(of_filter("$event == \"motor:step\""), [2, 1]);
    assert_eq!(of_filter("position > 0.0"), [1, 1]);
    assert!(try_ask(&of, "overview", "filter=$cpu ==").is_err());
}

#[test]
fn a_span_that_has_not_ended_goes_on_to_the_end_of_the_window() {
    let of = small().open();
    let slices = |query: &str| rows(&ask(&of, "slices", query), "slices", &["tid", "from", "to", "open"]);
    assert_eq!(slices("pixels=100&from=@0&to=@450"), [vec![json!(20), json!(420), json!(450), json!(1)]]);
    assert_eq!(slices("pixels=100&from=@440&to=@460"), [vec![json!(20), json!(420), json!(460), json!(1)]]);
    assert_eq!(slices("pixels=100&from=@0&to=@500"), [vec![json!(20), json!(420), json!(480), json!(0)]]);
    assert_eq!(slices("pixels=100&from=@0&to=@450&tids=10"), Vec::<Vec<Value>>::new());
    // A filter chooses by the record that ends it, which is not there.
    let filtered = ask(&of, "slices", "pixels=100&from=@0&to=@450&filter=$cpu == 0");
    assert_eq!(column(&filtered, "slices", "tid").len(), 0);
    assert!(filtered["notes"].to_string().contains("have not ended"), "{}", filtered["notes"]);
    // How long it is, is not known: it has no share of a flame graph.
    assert_eq!(column(&ask(&of, "flame", "from=@0&to=@450"), "frames", "span").len(), 0);
}

/// Rows of keys: spans of one key that overlap are in one row at two levels, whoever began and ended them; what has not
/// ended has its key; a pair without a key keeps the rows of threads.
#[test]
fn spans_have_rows_by_key() {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE)).switch(1, 1010, (0, 0), (20, "b", NICE));
    made.axis_of(0, 1100, true, 1).axis_of(1, 1200, true, 2).axis_of(1, 1300, false, 1).axis_of(0, 1400, false, 2);
    made.axis_of(0, 1500, true, 30).step(1, 1600, 1.0);
    let of = made.open();
    let by_key = "pixels=600&rows=key&span=axis:begin, axis:end, by=n&span=axis:begin, axis:end";
    let found = ask(&of, "slices", by_key);
    let slices = rows(&found, "slices", &["span", "by_key", "key", "tid", "level", "open"]);
    let of_first: Vec<_> = slices.iter().filter(|slice| slice[0] == 0).cloned().collect();
    let wanted = json!([[0, 1, "1", 20, 0, 0], [0, 1, "2", 10, 0, 0], [0, 1, "30", 10, 0, 1]]);
    assert_eq!(json!(of_first), wanted);
    let of_second: Vec<_> = slices.iter().filter(|slice| slice[0] == 1).collect();
    assert!(!of_second.is_empty() && of_second.iter().all(|slice| slice[1] == 0 && slice[2].is_null()), "{slices:?}");
    // One pixel for all: blocks know whose row they are in.
    let merged = rows(&ask(&of, "slices", &by_key.replace("600", "1")), "merged", &["tid", "span", "key", "count"]);
    assert!(merged.contains(&vec![Value::Null, json!(0), json!("1"), json!(1)]), "{merged:?}");
    assert!(merged.iter().any(|block| block[0] == 10 && block[1].is_null() && block[2].is_null()), "{merged:?}");
    // By thread, as without it.
    let by_thread = ask(&of, "slices", "pixels=600&rows=thread&span=axis:begin, axis:end, by=n");
    assert!(column(&by_thread, "slices", "key").iter().all(Value::is_null));
    assert!(try_ask(&of, "slices", "rows=cpu").is_err());
}

#[test]
fn an_open_span_is_doubtful_behind_a_loss() {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE)).axis(0, 1100, true).lose(0, 3).step(0, 1300, 1.0).step(0, 1400, 1.0);
    let found = ask(&made.open(), "slices", "pixels=100");
    let doubts = found["info"]["doubts"].as_array().unwrap().iter().position(|name| name == "lost").unwrap();
    assert_eq!(rows(&found, "slices", &["open", "doubt"]), [vec![json!(1), json!(1 << doubts)]]);
}

#[test]
fn a_thread_tells_how_many_its_process_has() {
    let of = small().open();
    let found = ask(&of, "threads", "limit=1&by=tid");
    assert_eq!(column(&found, "threads", "process_threads"), &[Value::Null], "the process is not known");
    assert_eq!(found["info"]["total"], 3);
}

#[test]
fn a_frequency_that_was_set_before_the_window_holds_at_its_begin() {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE));
    made.frequency(0, 1100, 2_000_000).idle(0, 1150, 2).frequency(0, 1500, 800_000).idle(0, 1600, u32::MAX);
    made.switch(0, 1700, (10, 1), (0, "swapper/0", NICE));
    let of = made.open();
    let all = ask(&of, "cpus", "pixels=100");
    assert_eq!(rows(&all, "frequency", &["at", "khz"]), [[json!(100), json!(2_000_000)], [json!(500), json!(800_000)]]);
    assert_eq!(rows(&all, "idle", &["at", "state"]), [[json!(150), json!(2)], [json!(600), Value::Null]]);
    let later = ask(&of, "cpus", "pixels=100&from=@300&to=@550");
    assert_eq!(
        rows(&later, "frequency", &["at", "khz"]),
        [[json!(300), json!(2_000_000)], [json!(500), json!(800_000)]]
    );
    assert_eq!(rows(&later, "idle", &["at", "state"]), [[json!(300), json!(2)]]);
}

/// A window of more spans than are kept at a time is shown up to its end: what lies within a span that ends much later
/// is below it, and all of them are counted.
#[test]
fn spans_of_a_whole_window_are_shown_however_many_they_are() {
    const SPANS: u64 = 140_000;
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE)).axis(0, 1500, true);
    for n in 0..SPANS {
        made.axis(0, 2000 + 10 * n, true).axis(0, 2004 + 10 * n, false);
    }
    let end = 2000 + 10 * SPANS;
    made.axis(0, end, false).axis(0, end + 100, true);
    let of = made.open();
    let found = ask(&of, "slices", "span=axis:begin,axis:end&pixels=1000");
    assert_eq!((&found["info"]["left_out"], &found["notes"]), (&json!(0), &json!([])));
    // Times are from the first record on, at 1000.
    let outer = vec![json!(0), json!(500), json!(end - 1000), json!(0)];
    assert!(rows(&found, "slices", &["level", "from", "to", "open"]).contains(&outer), "{}", found["tables"]["slices"]);
    let blocks = rows(&found, "merged", &["level", "pixel", "pixels", "count"]);
    let sum: u64 = blocks.iter().filter(|block| block[0] == 1).filter_map(|block| block[3].as_u64()).sum();
    assert_eq!(sum, SPANS);
    let last = blocks.iter().filter_map(|block| Some(block[1].as_u64()? + block[2].as_u64()?)).max();
    assert!(last >= Some(998), "nothing behind pixel {last:?}");
    let frames =
        rows(&ask(&of, "flame", "span=axis:begin,axis:end"), "frames", &["parent", "total_ns", "self_ns", "count"]);
    let wanted = json!([[null, end - 1500, end - 1500 - 4 * SPANS, 1], [0, 4 * SPANS, 4 * SPANS, SPANS]]);
    assert_eq!(json!(frames), wanted);
}
