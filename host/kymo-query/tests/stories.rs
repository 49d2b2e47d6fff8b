// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stories, critical paths and causes of a trace of which every record is known.

use crate::common;

use common::{ask, column, rows, small, try_ask};
use serde_json::{Value, json};

/// The texts of the rows of a table.
fn texts(answer: &Value, table: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for row in rows(answer, "pieces", &["table", "row", "text"]) {
        if row[0] == table {
            let at = row[1].as_u64().unwrap() as usize;
            texts.resize(texts.len().max(at + 1), String::new());
            texts[at] += row[2].as_str().unwrap();
        }
    }
    texts
}

/// What the pieces of a table that are links say, and where to.
fn links(answer: &Value, table: &str) -> Vec<(String, Value, Value)> {
    let all = rows(answer, "pieces", &["table", "text", "tid", "cpu"]);
    let own = all.into_iter().filter(|row| row[0] == table && (!row[2].is_null() || !row[3].is_null()));
    own.map(|row| (row[1].as_str().unwrap().to_owned(), row[2].clone(), row[3].clone())).collect()
}

fn sum(answer: &Value, table: &str, name: &str) -> u64 {
    column(answer, table, name).iter().filter_map(Value::as_u64).sum()
}

#[test]
fn a_wake_up_is_explained_as_the_verb_does() {
    let of = small().open();
    let worst = ask(&of, "worst", "what=wakeup&limit=1");
    let point = rows(&worst, "points", &["from", "to", "tid"]).remove(0);
    assert_eq!(point, [json!(300), json!(400), json!(20)]);
    let found = ask(&of, "explain", "what=wakeup&tid=20&from=@300&to=@400");
    assert_eq!((&found["from"], &found["to"]), (&json!(300), &json!(400)));
    assert_eq!(
        (&found["info"]["what"], &found["info"]["tid"], &found["info"]["prio"]),
        (&json!("wakeup"), &json!(20), &json!(9))
    );
    let headline = texts(&found, "sentences").remove(0);
    assert_eq!(column(&found, "sentences", "kind")[0], "headline");
    assert!(headline.starts_with("rt[20] (rt 90) ran 100ns after it was woken by a[10]: "), "{headline}");
    let links = links(&found, "sentences");
    assert_eq!(
        links[..2],
        [("rt[20]".to_owned(), json!(20), json!(null)), ("a[10]".to_owned(), json!(10), json!(null))]
    );
    assert_eq!(sum(&found, "budget", "ns"), 100, "the parts are the whole");
    assert_eq!(texts(&found, "budget").len(), column(&found, "budget", "ns").len());
    // The time line has the wake-up and the switch.
    let records = rows(&found, "records", &["kind", "from", "event"]);
    assert!(records.contains(&vec![json!("record"), json!(300), json!("sched_waking")]), "{records:?}");
    assert!(records.contains(&vec![json!("record"), json!(400), json!("sched_switch")]), "{records:?}");
    assert!(column(&found, "losses", "from").is_empty());
}

#[test]
fn stretches_of_threads_and_cpus_are_found_by_a_moment() {
    let of = small().open();
    let stretch = |query: &str| {
        let found = ask(&of, "explain", query);
        (found["from"].as_i64().unwrap(), found["to"].as_i64().unwrap(), found["info"]["tid"].clone())
    };
    assert_eq!(stretch("tid=30&at=@500"), (160, 750, json!(30)), "b waits for the lock");
    assert_eq!(stretch("tid=20&at=@350"), (300, 400, json!(20)), "rt waits for the CPU");
    assert_eq!(stretch("cpu=0&at=@450"), (400, 600, json!(null)));
    assert_eq!(stretch("tid=10&from=@400&to=@600"), (400, 600, json!(10)));
    assert_eq!(stretch("tid=10"), (0, 1000, json!(10)), "all of the trace, up to its last record");
    let moment = ask(&of, "explain", "at=@500");
    let kinds = column(&moment, "sentences", "kind");
    assert_eq!(kinds.iter().filter(|kind| **kind == "cpu").count(), 2, "{moment}");
    for (query, parameter) in [
        ("", "tid"),
        ("at=@5000&tid=10", "at"),
        ("what=wakeup", "what"),
        ("what=wakeup&tid=20&from=@301&to=@401", "what"),
        ("what=noise&tid=20&from=@300&to=@400", "what"),
        ("tid=10&from=@1&to=@9&at=@3", "at"),
        ("tid=0", "tid"),
    ] {
        let error = try_ask(&of, "explain", query).unwrap_err().json();
        assert_eq!(error["error"]["parameter"], parameter, "{query}: {error}");
    }
    assert_eq!(try_ask(&of, "explain", "tid=77&at=@500").unwrap_err().kind(), "trace");
}

#[test]
fn a_critical_path_goes_across_threads() {
    let of = small().open();
    let found = ask(&of, "critical", "tid=30&from=@160&to=@900");
    let steps = rows(&found, "steps", &["from", "to", "tid", "name", "depth", "act"]);
    let expect = [
        json!([160, 400, 10, "a", 1, "runs"]),
        json!([400, 600, 10, "a", 1, "waits"]),
        json!([600, 750, 10, "a", 1, "runs"]),
        json!([750, 800, 30, "b", 0, "waits"]),
        json!([800, 900, 30, "b", 0, "runs"]),
    ];
    assert_eq!(steps, expect.map(|row| row.as_array().unwrap().clone()));
    assert_eq!(texts(&found, "steps")[1], "a[10] waits for cpu 0, preempted by rt[20]");
    assert_eq!(texts(&found, "steps")[3], "b[30] waits for cpu 1, woken by a[10] on cpu 0");
    assert_eq!(sum(&found, "budget", "ns"), 740);
    assert_eq!((&found["info"]["total"], &found["info"]["left_out"]), (&json!(5), &json!(0)));
    let longest = ask(&of, "critical", "tid=30&from=@160&to=@900&limit=2");
    assert_eq!(column(&longest, "steps", "from"), &[json!(160), json!(400)]);
    assert_eq!((&longest["info"]["left_out"], &longest["info"]["left_out_ns"]), (&json!(3), &json!(300)));
    assert_eq!(try_ask(&of, "critical", "").unwrap_err().kind(), "parameter");
    let expect = "not in the trace, and it could have been part of this: page faults; record with -k faults";
    assert_eq!(blind(&found), [expect], "{found}");
}

/// What an answer says was not recorded.
fn blind(answer: &Value) -> Vec<&str> {
    let notes = answer["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
    notes.filter(|note| note.starts_with("not in the trace")).collect()
}

#[test]
fn the_worst_have_causes_in_a_line() {
    let of = small().open();
    let without = ask(&of, "worst", "what=wakeup");
    assert!(column(&without, "causes", "point").is_empty());
    let found = ask(&of, "worst", "what=wakeup&causes=1");
    assert_eq!(column(&found, "causes", "point"), &[json!(0)]);
    let line = texts(&found, "causes").remove(0);
    assert!(line.contains(" %) ") && line.contains("a[10]"), "{line}");
    assert!(links(&found, "causes").contains(&("a[10]".to_owned(), json!(10), json!(null))), "{line}");
    // The same as the story of it says, however little of the trace is read around it.
    let story = ask(&of, "explain", "what=wakeup&tid=20&from=@300&to=@400&lead=200");
    assert!(line.contains(&texts(&story, "budget")[0]), "{line}");
    assert_eq!(column(&story, "budget", "kind")[0], column(&found, "causes", "kind")[0]);
    assert!(blind(&without).is_empty(), "nothing was explained: {without}");
    let expect = "not in the trace, and it could have been part of this: times with interrupts or preemption off; record \
                  with -k 'preemptirq:*'";
    assert_eq!(blind(&found), [expect], "{found}");
}

#[test]
fn losses_of_the_stretch_are_in_its_story() {
    let mut made = small();
    made.lose(1, 17).switch(1, 2500, (0, 0), (30, "b", common::NICE)).switch(
        1,
        2600,
        (30, 1),
        (0, "swapper/1", common::NICE),
    );
    let of = made.open();
    assert_eq!(ask(&of, "explain", "tid=30&from=@1000&to=@1600")["lost"]["records"], 17);
    assert_eq!(ask(&of, "explain", "tid=20&from=@300&to=@400")["lost"]["records"], 0, "it was lost later");
}

#[test]
fn a_flame_graph_sums_up_what_lies_within_the_same() {
    let mut made = small();
    // One more span, with another within it.
    made.switch(1, 2050, (0, 0), (30, "b", common::NICE));
    let of = made.axis(1, 2100, true).axis(1, 2200, true).axis(1, 2300, false).axis(1, 2500, false).open();
    let found = ask(&of, "flame", "span=axis:begin,axis:end");
    let frames = rows(&found, "frames", &["parent", "span", "depth", "total_ns", "self_ns", "count"]);
    let sum = frames.iter().filter(|row| row[2] == 0).filter_map(|row| row[3].as_u64()).sum::<u64>();
    let own = frames.iter().filter_map(|row| row[4].as_u64()).sum::<u64>();
    assert_eq!(sum, own, "each moment of a span is of one frame: {frames:?}");
    assert_eq!(frames[0], json!([null, 0, 0, 460, 360, 2]).as_array().unwrap().clone());
    assert_eq!(frames[1], json!([0, 0, 1, 100, 100, 1]).as_array().unwrap().clone());
    assert_eq!(rows(&found, "frames", &["longest_from", "longest_to"])[0], [json!(1100), json!(1500)]);
    let part = ask(&of, "flame", "span=axis:begin,axis:end&from=@1150&to=@1501");
    assert_eq!(rows(&part, "frames", &["total_ns", "count"]), [[json!(350), json!(1)], [json!(100), json!(1)]]);
}
