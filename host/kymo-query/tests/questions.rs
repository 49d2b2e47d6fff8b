// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each question against a trace of which every record is known.

use crate::common;

use common::{Made, NICE, ask, column, rows, small, try_ask};
use kymo_query::{Opened, QUESTIONS, Stop};
use serde_json::{Value, json};

#[test]
fn cpus_tell_who_ran_and_what_interrupted() {
    let of = small().open();
    let found = ask(&of, "cpus", "pixels=1001");
    assert_eq!((&found["base"], &found["from"], &found["to"]), (&json!("1000"), &json!(0), &json!(1001)));
    let spans = rows(&found, "spans", &["cpu", "from", "to", "state", "tid", "name", "open"]);
    let (idle, thread) = (1, 2);
    assert_eq!(
        spans,
        [
            json!([0, 0, 400, thread, 10, "a", 0]),
            json!([0, 400, 600, thread, 20, "rt", 0]),
            json!([0, 600, 1000, thread, 10, "a", 0]),
            json!([0, 1000, 1001, idle, null, null, 1]),
            json!([1, 0, 100, 0, null, null, 0]),
            json!([1, 100, 160, thread, 30, "b", 0]),
            json!([1, 160, 800, idle, null, null, 0]),
            json!([1, 800, 900, thread, 30, "b", 0]),
            json!([1, 900, 1001, idle, null, null, 1]),
        ]
        .map(|row| row.as_array().unwrap().clone())
    );
    assert!(column(&found, "mixed", "cpu").is_empty());
    let irqs = rows(&found, "interrupts", &["cpu", "from", "to", "kind", "level", "name"]);
    assert_eq!(irqs, [json!([0, 200, 250, 0, 0, "irq 24 eth0"]).as_array().unwrap().clone()]);
    let sums = rows(&found, "rows", &["cpu", "thread_ns", "idle_ns", "unknown_ns", "irq_ns", "longest_irq_ns"]);
    assert_eq!(sums[0], [json!(0), json!(1000), json!(1), json!(0), json!(50), json!(50)]);
    assert_eq!(sums[1], [json!(1), json!(160), json!(741), json!(100), json!(0), Value::Null]);
}

#[test]
fn pixels_that_are_mixed_have_their_shares() {
    let of = small().open();
    // Pixels of 100 ns; the interrupt does not divide what it interrupts.
    let found = ask(&of, "cpus", "from=@0&to=@1000&pixels=10&cpus=1");
    let mixed = rows(&found, "mixed", &["cpu", "pixel", "state", "tid", "thread", "idle", "unknown", "count"]);
    let expect = json!([1, 1, 2, 30, 0.6000000238418579, 0.4000000059604645, 0.0, 2]);
    assert_eq!(mixed, [expect.as_array().unwrap().clone()]);
    let spans = rows(&found, "spans", &["from", "to", "state"]);
    let expect = [[0, 100, 0], [160, 800, 1], [800, 900, 2], [900, 1000, 1]];
    assert_eq!(spans, expect.map(|row| row.map(|number| json!(number)).to_vec()));
    let of_cpu = ask(&of, "cpus", "from=@0&to=@1000&pixels=2&cpus=0");
    let irq = rows(&of_cpu, "interrupts_mixed", &["pixel", "irq", "softirq"]);
    assert_eq!(irq, [vec![json!(0), json!(0.10000000149011612), json!(0.0)]]);
    assert!(column(&of_cpu, "interrupts", "cpu").is_empty());
}

#[test]
fn shares_of_threads_are_those_that_there_are() {
    let of = small().open();
    // Thread 10 runs up to 400, is preempted up to 600 and runs again; 20 is woken at 300, runs from 400 on, and is
    // blocked from 600 on.
    let found = ask(&of, "states", "from=@0&to=@1000&pixels=2&tids=10,20");
    let mixed = rows(&found, "mixed", &["tid", "pixel", "state", "states", "count"]);
    let bits = |states: &[u32]| states.iter().fold(0, |bits, state| bits | 1 << state);
    let expect = [
        json!([10, 0, 1, bits(&[1, 2]), 2]),
        json!([10, 1, 1, bits(&[1, 2]), 2]),
        json!([20, 0, 0, bits(&[0, 1, 3]), 3]),
        json!([20, 1, 7, bits(&[1, 7]), 2]),
    ];
    assert_eq!(mixed, expect.map(|row| row.as_array().unwrap().clone()));
    let shares: Vec<f32> =
        column(&found, "shares", "share").iter().map(|share| share.as_f64().unwrap() as f32).collect();
    assert_eq!(shares, [0.8, 0.2, 0.8, 0.2, 0.6, 0.2, 0.2, 0.2, 0.8]);
}

#[test]
fn threads_tell_why_they_did_not_run() {
    let of = small().open();
    let found = ask(&of, "states", "tids=20,10,30&pixels=1001&calls=1&late=100");
    let names = found["info"]["states"].as_array().unwrap().clone();
    let spans = rows(&found, "spans", &["tid", "from", "to", "state", "cpu", "by", "by_name", "call"]);
    let of_tid = |tid: i32| {
        let own = spans.iter().filter(|row| row[0] == tid);
        own.map(|row| {
            let state = names[row[3].as_u64().unwrap() as usize].as_str().unwrap();
            (row[1].as_i64().unwrap(), row[2].as_i64().unwrap(), state, row[5].clone(), row[6].clone(), row[7].clone())
        })
        .collect::<Vec<_>>()
    };
    let none = Value::Null;
    let rt = of_tid(20);
    assert_eq!(rt[0].2, "unknown");
    assert_eq!(rt[1], (300, 400, "woken", json!(10), json!("a"), none.clone()));
    assert_eq!((rt[2].0, rt[2].1, rt[2].2), (400, 600, "running"));
    assert_eq!((rt[3].0, rt[3].1, rt[3].2), (600, 1001, "waiting"));
    let a = of_tid(10);
    assert_eq!(a[1], (400, 600, "preempted", json!(20), json!("rt"), none.clone()));
    let b = of_tid(30);
    let lock = b.iter().find(|row| row.2 == "lock").expect("a lock");
    assert_eq!((lock.0, lock.1, &lock.5), (160, 750, &json!("futex")));
    let late = rows(&found, "late", &["tid", "from", "to", "state"]);
    assert!(late.contains(&vec![json!(20), json!(300), json!(400), json!(3)]), "{late:?}");
    let calls = rows(&found, "calls", &["tid", "from", "to", "name", "value", "blocked", "open"]);
    assert_eq!(calls, [json!([30, 150, 850, "futex", 0, 1, 0]).as_array().unwrap().clone()]);
    assert_eq!(rows(&found, "rows", &["tid", "name", "prio"])[0], [json!(20), json!("rt"), json!(9)]);
}

#[test]
fn what_is_not_known_of_a_thread_begins_in_front_of_a_window() {
    let of = small().open();
    let states = ask(&of, "states", "tids=20,77&from=@150&to=@350&pixels=200");
    let spans = rows(&states, "spans", &["tid", "from", "to", "state"]);
    let of_rt = spans.iter().filter(|row| row[0] == 20).collect::<Vec<_>>();
    assert_eq!(of_rt[0][1..], [json!(0), json!(300), json!(0)], "from the begin of the trace on");
    assert_eq!(of_rt[1][1..3], [json!(300), json!(350)]);
    let never = spans.iter().find(|row| row[0] == 77).expect("a thread of which nothing is known");
    assert_eq!(never[1..], [json!(0), json!(350), json!(0)]);
}

#[test]
fn threads_are_listed_worst_first() {
    let of = small().open();
    let found = ask(&of, "threads", "");
    let list =
        rows(&found, "threads", &["tid", "name", "running_ns", "preempted_ns", "woken_ns", "worst_ns", "wakeups"]);
    assert_eq!(found["info"]["total"], 3);
    assert_eq!(list[0][..6], [json!(10), json!("a"), json!(800), json!(200), json!(0), json!(200)]);
    assert_eq!(list[1], [json!(20), json!("rt"), json!(200), json!(0), json!(100), json!(100), json!(1)]);
    let by_name = ask(&of, "threads", "by=name&limit=1&offset=1");
    assert_eq!(column(&by_name, "threads", "name"), &[json!("b")]);
    assert_eq!(column(&ask(&of, "threads", "match=r"), "threads", "tid"), &[json!(20)]);
    assert_eq!(column(&ask(&of, "threads", "match=30"), "threads", "tid"), &[json!(30)]);
    assert_eq!(rows(&found, "names", &["tid", "name"]).len(), 3);
}

#[test]
fn spans_and_arrows_and_values() {
    let of = small().open();
    let found = ask(&of, "slices", "pixels=100");
    assert_eq!(found["info"]["spans"], json!(["axis:begin, axis:end"]));
    let slices = rows(&found, "slices", &["span", "tid", "name", "level", "from", "to"]);
    assert_eq!(slices, [json!([0, 20, "rt", 0, 420, 480]).as_array().unwrap().clone()]);
    let merged = rows(&ask(&of, "slices", "pixels=4"), "merged", &["tid", "pixel", "pixels", "count", "longest_ns"]);
    assert_eq!(merged, [json!([20, 1, 1, 1, 60]).as_array().unwrap().clone()]);
    let arrows = ask(&of, "arrows", "");
    let list =
        rows(&arrows, "arrows", &["at", "from_cpu", "from_tid", "from_name", "tid", "runs_at", "cpu", "wait_ns"]);
    assert_eq!(list[0], json!([300, 0, 10, "a", 20, 400, 0, 100]).as_array().unwrap().clone());
    assert_eq!(list[1], json!([750, 0, 10, "a", 30, 800, 1, 50]).as_array().unwrap().clone());
    let longest = ask(&of, "arrows", "limit=1");
    assert_eq!((&longest["info"]["total"], &longest["info"]["left_out"]), (&json!(2), &json!(1)));
    assert_eq!(column(&longest, "arrows", "tid"), &[json!(20)]);
    let values = ask(&of, "values", "field=motor:step.position&bins=2&from=@0&to=@1000");
    let bins = rows(&values, "bins", &["bin", "count", "min", "max", "mean", "first", "last"]);
    assert_eq!(bins[0], json!([0, 2, -4.0, 1.5, -1.25, 1.5, -4.0]).as_array().unwrap().clone());
    assert_eq!(bins[1][..4], [json!(1), json!(1), json!(2.5), json!(2.5)]);
    let filtered = ask(&of, "values", "field=motor:step.position&bins=1&filter=position > 0.0");
    assert_eq!(column(&filtered, "bins", "count"), &[json!(2)]);
}

#[test]
fn latencies_are_those_of_the_sink() {
    let of = small().open();
    let found = ask(&of, "latencies", "what=wakeup,futex,span&bins=10&past=60");
    let series = rows(&found, "series", &["what", "of", "count", "min_ns", "max_ns"]);
    assert_eq!(series[0], json!(["wakeup", null, 2, 50, 100]).as_array().unwrap().clone());
    assert_eq!(series[1], json!(["futex", null, 1, 700, 700]).as_array().unwrap().clone());
    assert_eq!(series[2], json!(["span", "axis:begin, axis:end", 1, 60, 60]).as_array().unwrap().clone());
    let points = rows(&found, "points", &["series", "value_ns", "tid", "waker", "waker_name"]);
    assert_eq!(points[0][..3], [json!(1), json!(700), json!(30)]);
    assert_eq!(points[1], json!([0, 100, 20, 10, "a"]).as_array().unwrap().clone());
    assert_eq!(points.len(), 4);
    let density: u64 = column(&found, "density", "count").iter().filter_map(Value::as_u64).sum();
    assert_eq!((density, &found["info"]["samples"]), (4, &json!(4)));
    let worst = ask(&of, "worst", "what=wakeup&limit=1");
    assert_eq!(rows(&worst, "points", &["value_ns", "tid"]), [vec![json!(100), json!(20)]]);
    assert!(worst["tables"].get("density").is_none());
    let places = ask(&of, "places", "");
    let list = rows(&places, "places", &["kind", "title", "value_ns", "tid"]);
    assert_eq!(list[0], json!(["wakeup", "Worst wake-up of a real-time thread", 100, 20]).as_array().unwrap().clone());
    assert_eq!((&list[1][0], &list[2][0]), (&json!("futex"), &json!("span")));
}

#[test]
fn latencies_are_not_those_of_the_recorder() {
    let mut made = Made::default();
    made.switch(0, 0, (0, 0), (10, "a", NICE));
    for (number, thread) in [(41, "kymo-drain"), (42, "motor"), (43, "kymo-app")].into_iter().enumerate() {
        let (tid, name) = thread;
        let at = 1000 * (number as u64 + 1);
        made.waking(0, at, (tid, name, NICE), 0);
        made.switch(0, at + 500 - 100 * number as u64, (10, 0), (tid, name, NICE));
        made.switch(0, at + 600, (tid, 1), (10, "a", NICE));
    }
    let tids = |of: &Opened, question: &str| {
        let found = ask(of, question, "what=wakeup&limit=9");
        column(&found, "points", "tid").to_vec()
    };
    let (of, other) = (made.open_of_recorder(40), made.open());
    for question in ["latencies", "worst"] {
        // A thread of an unknown process is known by its name; a program of the user's may have one that is like these.
        assert_eq!(tids(&of, question), [json!(42), json!(43)], "{question}");
        assert_eq!(tids(&other, question), [json!(41), json!(42), json!(43)], "{question} of another tracer's trace");
    }
    let place = |of: &Opened| column(&ask(of, "places", ""), "places", "tid")[0].clone();
    assert_eq!((place(&of), place(&other)), (json!(42), json!(41)));
    let threads = ask(&of, "threads", "");
    assert!(column(&threads, "threads", "tid").contains(&json!(41)), "what it does is shown: {threads}");
}

#[test]
fn records_come_in_pages() {
    let of = small().open();
    let first = ask(&of, "records", "limit=3");
    let list = rows(&first, "records", &["time", "cpu", "event"]);
    assert_eq!(list[0], [json!(0), json!(0), json!("sched_switch")]);
    assert_eq!((list.len(), &first["info"]["has_more"]), (3, &json!(true)));
    let all = ask(&of, "records", "limit=100");
    assert_eq!(all["info"]["has_more"], false);
    let page = ask(&of, "records", "row=5&limit=4");
    assert_eq!(column(&page, "records", "time")[..], column(&all, "records", "time")[5..9]);
    let at = ask(&of, "records", "at=@430&limit=1");
    let fields: Value = serde_json::from_str(column(&at, "records", "fields")[0].as_str().unwrap()).unwrap();
    assert_eq!(fields, json!({ "position": 1.5, "axis": 2, "note": "<b>\u{1b}\"x\"" }));
    assert_eq!(rows(&at, "records", &["time", "tid", "name"]).len(), 1);
    let filtered = ask(&of, "records", "filter=$event == \"motor:step\"&filter=position < 2.0");
    assert_eq!(column(&filtered, "records", "time"), &[json!(430), json!(490)]);
}

#[test]
fn search_goes_both_ways() {
    let of = small().open();
    let search = |query: &str| {
        let found = ask(&of, "search", &format!("filter=$event == \"motor:step\"&{query}"));
        (found["info"]["found"] == true, column(&found, "records", "time").first().and_then(Value::as_i64))
    };
    assert_eq!(search("at=@430"), (true, Some(490)));
    assert_eq!(search("at=@0"), (true, Some(430)));
    assert_eq!(search("at=@700"), (false, None));
    assert_eq!(search("at=@700&direction=previous"), (true, Some(490)));
    assert_eq!(search("at=@430&direction=previous"), (false, None));
    assert_eq!(search("at=@99999999999&direction=previous"), (true, Some(700)));
    assert_eq!(search("at=@-5&direction=next"), (true, Some(430)));
}

#[test]
fn a_summary_counts_and_says_what_can_be_answered() {
    let mut made = small();
    made.lose(1, 17).switch(1, 2500, (0, 0), (30, "b", NICE)).switch(1, 2600, (30, 1), (0, "swapper/1", NICE));
    let of = made.open();
    let found = ask(&of, "summary", "");
    assert_eq!((&found["info"]["records"], &found["lost"]["records"]), (&json!(21), &json!(17)));
    assert_eq!(
        rows(&found, "events", &["name", "records", "is_kernel"])[0],
        [json!("sched_switch"), json!(10), json!(1)]
    );
    assert_eq!(rows(&found, "losses", &["cpu", "records", "count"]), [vec![json!(1), json!(17), json!(1)]]);
    let overview = ask(&of, "overview", "bins=3");
    let sum = |name: &str| column(&overview, "bins", name).iter().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!((sum("records"), sum("lost")), (21, 17));
    // Nothing is known of the CPU in its hole.
    let cpus = ask(&of, "cpus", "pixels=1601&cpus=1");
    let spans = rows(&cpus, "spans", &["from", "to", "state"]);
    assert!(spans.iter().any(|row| row[2] == 0 && row[1] == 1500), "{spans:?}");
    assert_eq!(column(&cpus, "losses", "records"), &[json!(17)]);
}

#[test]
fn a_schema_names_what_filters_can_say() {
    let found = ask(&small().open(), "schema", "");
    assert!(column(&found, "events", "name").contains(&json!("motor:step")));
    let fields = rows(&found, "fields", &["name", "kind"]);
    assert!(fields.contains(&vec![json!("position"), json!("float")]));
    assert!(column(&found, "contexts", "name").contains(&json!("$task_prio")));
    assert!(column(&found, "latencies", "name").contains(&json!("wakeup")));
    assert_eq!(column(&found, "pairs", "span"), &[json!("axis:begin, axis:end")]);
}

/// A query with which each question has an answer.
fn plain(question: &str) -> &'static str {
    match question {
        "states" => "tids=10",
        "values" => "field=motor:step.position",
        "search" => "filter=$cpu == 0&at=@5",
        "explain" | "critical" => "tid=20",
        _ => "",
    }
}

#[test]
fn hostile_parameters_are_refused_or_harmless() {
    let of = small().open();
    // Without results of the laboratory there is nothing to ask them for.
    for question in QUESTIONS.iter().filter(|question| question.name != "results") {
        let base = plain(question.name);
        ask(&of, question.name, base);
        let has = |name: &str| question.parameters.contains(&name);
        let refused = [
            "from=NaN",
            "from=1e9",
            "to=99999999999999999999",
            "from=@--1",
            "to=+5",
            "from=@",
            "from=@9&to=@9",
            "from=@10&to=@9",
            "pixels=0",
            "pixels=100000",
            "pixels=-1",
            "bins=100000",
            "bins=0",
            "limit=0",
            "limit=10001",
            "limit=NaN",
            "nothing=1",
            "cpus=x",
            "offset=-1",
            "row=-1",
            "lead=-1",
            "late=1.5",
            "past=x",
            "by=colour",
            "what=everything",
            "filter=(",
            "filter=nothing == 1",
            "span=a",
            "direction=up",
            "match=a&match=b",
        ];
        for query in refused {
            let name = query.split('=').next().unwrap();
            let result = try_ask(&of, question.name, &format!("{base}&{query}"));
            assert!(result.is_err(), "{}?{query}: {result:?}", question.name);
            let error = result.unwrap_err();
            assert!(matches!(error.kind(), "parameter" | "filter"), "{}?{query}: {error:?}", question.name);
            assert!(
                !has(name) || !error.to_string().contains("no such parameter"),
                "{}?{query}: {error}",
                question.name
            );
        }
        if has("from") {
            for query in ["from=@-100&to=@-50", "from=@5000", "to=-9223372036854775808&from=@-9223372036854775808"] {
                if let Ok(found) = try_ask(&of, question.name, &format!("{base}&{query}")) {
                    assert_eq!(found["from"], found["to"], "{}?{query}", question.name);
                }
            }
            ask(&of, question.name, &format!("{base}&from=-9223372036854775808&to=9223372036854775807"));
        }
    }
}

/// The names of an answer's tables and of their columns.
fn shape(answer: &Value) -> Vec<(&str, Vec<&str>)> {
    let tables = answer["tables"].as_object().unwrap();
    tables
        .iter()
        .map(|(name, table)| (name.as_str(), table.as_object().unwrap().keys().map(String::as_str).collect()))
        .collect()
}

#[test]
fn a_window_outside_of_the_trace_has_the_same_tables_without_rows() {
    let of = small().open();
    let mut asked = 0;
    for question in QUESTIONS.iter().filter(|question| question.parameters.contains(&"from")) {
        for grid in [0, 1].into_iter().take(if question.parameters.contains(&"grid") { 2 } else { 1 }) {
            let base = match question.parameters.contains(&"grid") {
                true => format!("{}&grid={grid}", plain(question.name)),
                false => plain(question.name).to_owned(),
            };
            let inside = ask(&of, question.name, &base);
            for window in ["from=@-100&to=@-50", "from=@5000&to=@9000"] {
                let query = format!("{base}&{window}");
                // An explanation is of two moments at least.
                let outside = match try_ask(&of, question.name, &query) {
                    Err(error) if question.name == "explain" => {
                        assert_eq!(error.kind(), "trace");
                        continue;
                    }
                    found => found.unwrap(),
                };
                assert_eq!(shape(&outside), shape(&inside), "{}?{query}", question.name);
                for (table, columns) in shape(&outside) {
                    for name in columns {
                        assert_eq!(column(&outside, table, name).len(), 0, "{}?{query}: {table}.{name}", question.name);
                    }
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 30, "{asked}");
}

#[test]
fn an_answer_has_a_bound() {
    let of = small().open();
    let tids: Vec<String> = (1..=512).map(|tid| tid.to_string()).collect();
    let query = |pixels: u32| format!("tids={}&pixels={pixels}", tids.join(","));
    assert_eq!(column(&ask(&of, "states", &query(2048)), "rows", "tid").len(), 512);
    let error = try_ask(&of, "states", &query(2049)).unwrap_err();
    assert_eq!(error.to_string(), "tids: at most 511 threads with so many pixels");
}

#[test]
fn small_and_empty_traces_have_answers() {
    let mut one = Made::default();
    one.step(0, 5, 1.0);
    let mut empty = Made::default();
    empty.cpus_without_records();
    for made in [one, empty] {
        let of = made.open();
        for question in QUESTIONS {
            match try_ask(&of, question.name, plain(question.name)) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), "trace", "{}: {error}", question.name),
            }
        }
    }
}

#[test]
fn who_does_not_wait_gets_nothing() {
    let of = small().open();
    let stop = Stop::default();
    stop.set();
    for question in QUESTIONS {
        let pairs = plain(question.name).split('&').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let error = kymo_query::answer(&of, question.name, kymo_query::Parameters::new(pairs), &stop).unwrap_err();
        assert_eq!(error.kind(), "stopped", "{}", question.name);
    }
}
