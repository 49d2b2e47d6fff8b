// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view`: a recorded trace through the server; the same answers as the verbs; its end by Ctrl-C.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::index::common::{self, Plan};
use kymo_tests::session::Session;
use kymo_tests::{Lab, Proc};
use rustix::process::Signal;
use serde_json::Value;

const PROGRAM: &str = r#"
#include "common.h"
KYMO_EVENT(axis, begin, (u32, n))
KYMO_EVENT(axis, end, (u32, n))
KYMO_EVENT(motor, step, (f64, position), (str, note))

int main(void)
{
	for (unsigned i = 0; i < 50; i++) {
		kymo_trace(axis, begin, i);
		kymo_trace(motor, step, i / 2.0, "<script>alert(1)</script>");
		kymo_trace(axis, end, i);
	}
	return 0;
}
"#;

/// A server that runs.
struct Viewer {
    process: Proc,
    port: u16,
    base: String,
}

impl Viewer {
    fn start(lab: &Lab, dir: &str) -> Viewer {
        Viewer::of(lab.spawn(kymo_tests::paths::kymo(), &["view", dir, "--no-open", "--port", "0"]))
    }

    fn of(process: Proc) -> Viewer {
        let address = process.line();
        let rest = address.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("no address: {address}"));
        let (port, path) = rest.split_once('/').expect("a path");
        Viewer { process, port: port.parse().expect("a port"), base: format!("/{}", path.trim_end_matches('/')) }
    }

    /// Status and body.
    fn get(&self, rest: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let head = format!("GET {}/{rest} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", self.base);
        stream.write_all(head.as_bytes()).expect("a request");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("a response");
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("the end of its head");
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, all[end + 4..].to_vec())
    }

    #[track_caller]
    fn ask(&self, question: &str, query: &str) -> Value {
        let (status, body) = self.get(&format!("q/{question}?format=json&{query}"));
        assert_eq!(status, 200, "{question}?{query}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    fn end(self) {
        self.process.end(Signal::INT).expect(0);
    }
}

fn column<'v>(answer: &'v Value, table: &str, name: &str) -> &'v [Value] {
    answer["tables"][table][name].as_array().unwrap_or_else(|| panic!("{table}.{name} in {answer}"))
}

fn verb(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&lab.kymo(args).expect(0).stdout).expect("JSON")
}

#[test]
fn a_recorded_trace_is_served_until_ctrl_c() {
    let lab = Lab::new("view");
    let program = lab.cc_text("axis", PROGRAM);
    let recorded = lab.record("trace").run(&[program.to_str().expect("a path")]).expect(0).lossless();
    let viewer = Viewer::start(&lab, recorded.dir.to_str().expect("a path"));
    let (status, page) = viewer.get("");
    assert!(status == 200 && !page.is_empty());
    assert_eq!(viewer.get("../../etc/passwd").0, 404);
    assert_eq!(viewer.ask("summary", "")["info"]["records"], 150);
    let slices = viewer.ask("slices", "pixels=8192");
    assert_eq!(slices["info"]["spans"], serde_json::json!(["axis:begin, axis:end"]));
    let count = column(&slices, "merged", "count").iter().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(column(&slices, "slices", "from").len() as u64 + count, 50);
    let values = viewer.ask("values", "field=motor:step.position&bins=1");
    assert_eq!((&column(&values, "bins", "max")[0], &column(&values, "bins", "count")[0]), (&24.5.into(), &50.into()));
    let records = viewer.ask("records", "filter=$event%20==%20%22motor:step%22&row=10&limit=1");
    let fields: Value = serde_json::from_str(column(&records, "records", "fields")[0].as_str().unwrap()).unwrap();
    assert_eq!(fields, serde_json::json!({ "position": 5.0, "note": "<script>alert(1)</script>" }));
    let (status, frame) = viewer.get("q/overview?bins=10");
    assert_eq!((status, &frame[..8]), (200, &b"KYMOCOL1"[..]));
    // The scheduler's events are not in it: said with what to record.
    let (status, error) = viewer.get("q/cpus");
    assert!(status == 422 && String::from_utf8_lossy(&error).contains("kymo record -k"));
    viewer.end();
}

#[test]
fn the_picture_says_what_the_verbs_say() {
    let lab = Lab::new("view-verbs");
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).expect("a directory");
    let plan = Plan { seed: 5, records: 4000, lossy: 6, ..Plan::default() };
    common::write(&dir, &plan).expect("a trace");
    let dir = dir.to_str().expect("a path");
    let viewer = Viewer::start(&lab, dir);
    let latency = verb(&lab, &["latency", dir, "--json"]);
    let answer = viewer.ask("latencies", "limit=10");
    let series = latency["series"].as_array().expect("series");
    assert_eq!(column(&answer, "series", "what").len(), series.len());
    for (row, expect) in series.iter().enumerate() {
        for (name, of) in
            [("what", "what"), ("count", "count"), ("max_ns", "max"), ("min_ns", "min"), ("mean_ns", "mean")]
        {
            assert_eq!(column(&answer, "series", name)[row], expect[of], "{name} of {expect}");
        }
        assert_eq!(column(&answer, "series", "doubtful")[row], expect["doubtful"]);
    }
    assert_eq!(answer["lost"]["records"], latency["lost"]["records"]);
    let stats = verb(&lab, &["stats", dir, "--json"]);
    assert_eq!(viewer.ask("summary", "")["info"]["records"], stats["records"]);
    same_moments(&lab, &viewer, dir, &answer);
    same_numbers(&lab, &viewer, dir, &answer);
    let kinds: Vec<&str> = series.iter().filter_map(|series| series["what"].as_str()).collect();
    assert!(kinds.contains(&"wakeup"), "{kinds:?}");
    same_story(&lab, &viewer, dir, "wakeup");
    viewer.end();
}

/// Who runs on each CPU at some moments, by `kymo state` and by the picture.
fn same_moments(lab: &Lab, viewer: &Viewer, dir: &str, answer: &Value) {
    let base: i64 = answer["base"].as_str().expect("a base").parse().expect("a number");
    let ns = answer["to"].as_i64().expect("a number");
    for part in 1..8 {
        let at = base + ns * part / 8;
        // The state behind all records of that time is that of the next nanosecond, if no record comes then.
        let state = verb(lab, &["state", dir, "--json", "--at", &at.to_string()]);
        let picture = viewer.ask("cpus", &format!("from={at}&to={}&pixels=1", at + 1));
        let pairs = column(&picture, "spans", "cpu").iter().zip(column(&picture, "spans", "tid"));
        let shown: Vec<(u64, Option<i64>)> = pairs.map(|(cpu, tid)| (cpu.as_u64().unwrap(), tid.as_i64())).collect();
        let cpus = state["cpus"].as_array().expect("CPUs");
        assert_eq!(shown.len(), cpus.len(), "{picture}");
        for cpu in cpus {
            let number = cpu["cpu"].as_u64().expect("a number");
            let own = shown.iter().find(|(cpu, _)| *cpu == number).expect("its row").1;
            let expect = cpu["current"]["tid"].as_i64();
            assert_eq!(own, expect, "CPU {number} at {at}: {cpu}");
        }
    }
}

/// Counts and times of the whole trace and of parts of it, by `kymo stats`, `kymo top`, and by the picture.
fn same_numbers(lab: &Lab, viewer: &Viewer, dir: &str, answer: &Value) {
    let base: i64 = answer["base"].as_str().expect("a base").parse().expect("a number");
    let ns = answer["to"].as_i64().expect("a number");
    let parts = [None, Some((ns / 4, ns * 3 / 4)), Some((ns / 2, ns / 2 + ns / 50))];
    for part in parts.map(|part| part.map(|(from, to)| (base + from, base + to))) {
        let range = part.map_or_else(Vec::new, |(from, to)| vec![format!("--from={from}"), format!("--to={to}")]);
        let window = part.map_or_else(String::new, |(from, to)| format!("from={from}&to={to}&"));
        let said = |args: &[&str]| {
            verb(lab, &args.iter().copied().chain(range.iter().map(String::as_str)).collect::<Vec<_>>())
        };
        for (by, key) in [("event", "name"), ("process", "process"), ("thread", "tid"), ("cpu", "cpu")] {
            let found = viewer.ask("statistics", &format!("{window}by={by}&limit=10000"));
            let stats = said(&["stats", dir, "--json", "--by", by]);
            same_counts(&found, &stats, (by, key), base);
            assert_eq!(found["lost"]["records"], stats["lost"]["records"], "by {by} {window}");
        }
        let top = said(&["top", dir, "--json", "--by", "cpu,thread"]);
        same_times(viewer, &window, &top);
    }
}

fn same_counts(found: &Value, stats: &Value, (by, key): (&str, &str), base: i64) {
    let rows = stats["rows"].as_array().expect("rows");
    assert!(!rows.is_empty(), "{stats}");
    assert_eq!(found["info"]["records"], stats["records"]);
    let keys = column(found, "rows", key);
    let counted = column(found, "rows", "records").iter().filter(|records| **records != 0).count();
    assert_eq!(counted, rows.len(), "by {by}: {found}");
    for row in rows {
        let at = keys.iter().position(|key| *key == row[by]).unwrap_or_else(|| panic!("{row} by {by} in {found}"));
        assert_eq!(column(found, "rows", "records")[at], row["records"], "{row}");
        for name in ["first", "last"] {
            let time = column(found, "rows", name)[at].as_i64().map(|ns| ns + base);
            assert_eq!(time, row[name].as_i64(), "{name} of {row}");
        }
    }
}

fn same_times(viewer: &Viewer, window: &str, top: &Value) {
    let found = viewer.ask("statistics", &format!("{window}by=cpu&sort=name"));
    let cpus = top["cpus"].as_array().expect("CPUs");
    assert!(cpus.len() > 1, "{top}");
    for (row, cpu) in cpus.iter().enumerate() {
        for name in ["cpu", "interrupt_ns", "other_ns", "idle_ns", "unknown_ns", "runs"] {
            assert_eq!(column(&found, "rows", name)[row], cpu[name], "{name} of {cpu}");
        }
        let busy = ["thread_ns", "interrupt_ns"].map(|name| cpu[name].as_u64().expect("a number"));
        assert_eq!(column(&found, "rows", "busy_ns")[row].as_u64(), Some(busy[0] + busy[1]), "{cpu}");
    }
    let found = viewer.ask("statistics", &format!("{window}by=thread&limit=10000"));
    let threads = top["threads"].as_array().expect("threads");
    assert!(threads.len() > 3, "{top}");
    for thread in threads {
        let tids = column(&found, "rows", "tid");
        let at = tids.iter().position(|tid| *tid == thread["tid"]).unwrap_or_else(|| panic!("{thread} in {found}"));
        for (name, of_top) in [
            ("busy_ns", "ns"),
            ("interrupt_ns", "interrupted_ns"),
            ("runs", "runs"),
            ("longest_ns", "longest_ns"),
            ("doubtful_ns", "doubtful_ns"),
        ] {
            assert_eq!(column(&found, "rows", name)[at], thread["cpu"][of_top], "{name} of {thread}");
        }
    }
}

impl Viewer {
    #[track_caller]
    fn news(&self, query: &str) -> Value {
        let (status, body) = self.get(&format!("live{query}"));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    fn records(&self) -> u64 {
        let answer = self.ask("overview", "bins=1");
        column(&answer, "bins", "records").iter().filter_map(Value::as_u64).sum()
    }
}

#[test]
fn a_running_session_is_seen_while_it_is_recorded_and_when_it_has_ended() {
    let lab = Lab::new("view-session");
    let program = lab.cc_text("axis", PROGRAM);
    let session = Session::start(&lab, "seen", &["-u", "axis:*", "-u", "motor:*"]);
    let viewer = Viewer::start(&lab, "seen");
    assert_eq!(viewer.news("")["state"], "live");
    let own = |news: &Value| news["records"].as_u64().unwrap_or(0);
    let mut before = own(&viewer.news(""));
    for round in 1..=3 {
        lab.run(&program, &[]).expect(0);
        let slices = lab.wait_for("its records", || {
            let slices = viewer.ask("slices", "pixels=8192");
            let merged = column(&slices, "merged", "count").iter().filter_map(Value::as_u64).sum::<u64>();
            let count = column(&slices, "slices", "from").len() as u64 + merged;
            (count >= 50 * round).then_some(count)
        });
        assert_eq!(slices, 50 * round);
        let news = viewer.news("");
        assert!(news["state"] == "live" && own(&news) >= before + 150 && news["problem"].is_null(), "{news}");
        before = own(&news);
    }
    let number = viewer.news("")["number"].as_u64().expect("a number");
    session.ask(&["stop"]);
    let ended = lab.wait_for("the end", || Some(viewer.news("")).filter(|news| news["state"] == "ended"));
    assert!(ended["number"].as_u64() > Some(number), "{ended}");
    // Now it is a trace as any other: the same count.
    let dir = lab.path("seen");
    let stats = verb(&lab, &["stats", dir.to_str().expect("a path"), "--json"]);
    assert_eq!((own(&ended), viewer.records()), (stats["records"].as_u64().expect("records"), own(&ended)));
    viewer.end();
    let whole = Viewer::start(&lab, dir.to_str().expect("a path"));
    assert_eq!(whole.news("")["state"], "whole");
    whole.end();
}

#[test]
fn who_is_no_session_and_no_trace_is_told_so() {
    let lab = Lab::new("view-nothing");
    let outcome = lab.kymo(&["view", "nothing", "--no-open"]).expect(2);
    assert!(outcome.stderr.contains("there is no session nothing"), "{}", outcome.stderr);
    let dir = lab.path("missing");
    lab.kymo(&["view", dir.to_str().expect("a path"), "--no-open"]).expect(2);
}

#[test]
fn a_part_of_a_trace_is_saved_as_one_file_that_says_what_is_not_in_it() {
    let lab = Lab::new("view-save");
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).expect("a directory");
    common::write(&dir, &Plan { seed: 9, records: 4000, ..Plan::default() }).expect("a trace");
    let (dir, page) = (dir.to_str().expect("a path").to_owned(), lab.path("page.html"));
    let file = page.to_str().expect("a path");
    let outcome = lab.kymo(&["view", &dir, "--save", file, "--save-size", "1"]);
    if outcome.stderr.contains("the page of kymo view is not in this build") {
        kymo_tests::skip("a saved page", "the page is not in this build");
        return;
    }
    let outcome = outcome.expect(0);
    assert!(outcome.stderr.contains("page.html: ") && outcome.stderr.contains(" answers; "), "{}", outcome.stderr);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.len() < 3 << 20 && html.contains("id=\"saved\"") && html.contains("Content-Security-Policy"));
    assert!(!html.contains("src=\"app.js\"") && !html.contains("href=\"style.css\""));
    // Nothing of it stays if it cannot be written.
    lab.kymo(&["view", &dir, "--save", lab.path("none/page.html").to_str().expect("a path")]).expect(2);
    lab.kymo(&["view", &dir, "--save", file, "--port", "5"]).expect(2);
    lab.kymo(&["view", &dir, "--save", file, "--beside", &dir]).expect(2);
}

#[test]
fn two_traces_are_served_beside_each_other() {
    let lab = Lab::new("view-beside");
    let dirs = [("a", 3000), ("b", 5000)].map(|(name, records)| {
        let dir = lab.path(name);
        std::fs::create_dir(&dir).expect("a directory");
        common::write(&dir, &Plan { seed: 4, records, ..Plan::default() }).expect("a trace");
        dir.to_str().expect("a path").to_owned()
    });
    let process =
        lab.spawn(kymo_tests::paths::kymo(), &["view", &dirs[0], "--beside", &dirs[1], "--no-open", "--port", "0"]);
    let viewer = Viewer::of(process);
    let count = |dir: &str| verb(&lab, &["stats", dir, "--json"])["records"].clone();
    let (status, body) = viewer.get("o/1/q/summary?format=json");
    assert_eq!(status, 200);
    let beside: Value = serde_json::from_slice(&body).expect("JSON");
    let both = [viewer.ask("summary", "")["info"]["records"].clone(), beside["info"]["records"].clone()];
    assert_eq!(both, [count(&dirs[0]), count(&dirs[1])]);
    viewer.end();
}

/// `kymo index` builds what the questions take.
#[test]
fn an_index_answers_with_spans_values_and_wake_ups() {
    let lab = Lab::new("view-indexed");
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).expect("a directory");
    // More than one checkpoint, and more than one part of spans.
    let plan = Plan { records: 200_000, user: 40_000, spans: 3, ..Plan::default() };
    common::write(&dir, &plan).expect("a trace");
    let dir = dir.to_str().expect("a path");
    lab.kymo(&["index", dir]).expect(0);
    let viewer = Viewer::of(lab.spawn(kymo_tests::paths::kymo(), &["view", dir, "--no-open", "--port", "0"]));
    let window = "from=@100000000&to=@150000000";
    for (question, rest) in
        [("slices", "&grid=1"), ("flame", ""), ("values", "&grid=1&field=motor:step.axis"), ("arrows", "")]
    {
        let answer = viewer.ask(question, &format!("{window}{rest}"));
        assert_eq!(answer["info"]["source"], "index", "{question}");
        // What lies before the window is known, without reading it.
        assert!(!matches!(question, "slices" | "flame") || answer["info"]["lead"] == answer["from"], "{question}");
    }
    viewer.end();
}

/// The texts of the rows of a table.
/// What somebody chooses is read once, and kept then, in a file that nobody sees.
#[test]
fn chosen_spans_are_kept_behind_the_first_answer() {
    let lab = Lab::new("view-kept");
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).expect("a directory");
    common::write(&dir, &Plan { seed: 7, records: 140_000, user: 500, ..Plan::default() }).expect("a trace");
    let text = dir.to_str().expect("a path");
    lab.kymo(&["index", text]).expect(0);
    let viewer = Viewer::start(&lab, text);
    let span = "span=irq_handler_entry,irq_handler_exit,by=irq";
    // From the begin of the trace: nothing began before the window.
    let slices = format!("from=@0&to=@150000000&pixels=500&grid=1&rows=key&{span}");
    let latencies = format!("what=span&bins=20&grid=1&{span}");
    let before = ["slices", "latencies"].map(|question| {
        let query = if question == "slices" { &slices } else { &latencies };
        let answer = viewer.ask(question, query);
        assert!(answer["notes"].to_string().contains("an index of these spans is being made"), "{}", answer["notes"]);
        assert_eq!(answer["info"]["source"], "records", "{question}");
        answer
    });
    let kept = |question: &str, query: &str| {
        let answer = || Some(viewer.ask(question, query)).filter(|answer| answer["info"]["source"] == "index");
        lab.wait_for("spans that are kept", answer)
    };
    let after = kept("latencies", &latencies);
    for table in ["series", "histogram", "density", "points"] {
        assert_eq!(after["tables"][table], before[1]["tables"][table], "{table}");
    }
    let after = kept("slices", &slices);
    let spans = |answer: &Value| -> u64 {
        let merged: u64 = column(answer, "merged", "count").iter().filter_map(Value::as_u64).sum();
        column(answer, "slices", "from").len() as u64 + merged
    };
    assert!(spans(&before[0]) > 1000);
    assert_eq!(spans(&after), spans(&before[0]));
    viewer.end();
}

fn texts(answer: &Value, table: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let columns = ["table", "row", "text"].map(|name| column(answer, "pieces", name));
    for ((_, row), text) in columns[0].iter().zip(columns[1]).zip(columns[2]).filter(|((of, _), _)| **of == table) {
        let at = row.as_u64().expect("a row") as usize;
        texts.resize(texts.len().max(at + 1), String::new());
        texts[at] += text.as_str().expect("a text");
    }
    texts
}

/// Everything is read, as the verbs do.
const ALL: &str = "lead=9223372036854775807";

/// The story and the critical path of the worst of a kind, by the verbs and by the questions.
fn same_story(lab: &Lab, viewer: &Viewer, dir: &str, what: &str) {
    let story = verb(lab, &["explain", dir, "--json", "--all", "--worst", what]);
    let (from, to, tid) = (&story["from"], &story["to"], &story["tid"]);
    let found = viewer.ask("explain", &format!("what={what}&tid={tid}&from={from}&to={to}&{ALL}"));
    assert_eq!(texts(&found, "sentences")[0], story["headline"].as_str().expect("a headline"));
    let budget = story["budget"].as_array().expect("a budget");
    assert_eq!(column(&found, "budget", "ns").len(), budget.len());
    for (row, (expect, text)) in budget.iter().zip(texts(&found, "budget")).enumerate() {
        assert_eq!(text, expect["text"].as_str().expect("a text"));
        for name in ["kind", "ns", "pieces", "tid"] {
            assert_eq!(column(&found, "budget", name)[row], expect[name], "{name} of {text}");
        }
    }
    let moments: Vec<&Value> =
        story["rows"].as_array().expect("rows").iter().filter_map(|row| row.get("moment")).collect();
    let kinds = column(&found, "records", "kind");
    assert_eq!(kinds.iter().filter(|kind| **kind == "record").count(), moments.len());
    let told = texts(&found, "records");
    for moment in moments {
        assert!(told.iter().any(|text| moment["text"] == text.as_str()), "{moment}");
    }
    let path = verb(lab, &["critical", dir, "--json", "--all", "--thread", &tid.to_string()]);
    let found = viewer.ask("critical", &format!("tid={tid}&limit=10000&{ALL}"));
    let steps = path["steps"].as_array().expect("steps");
    assert_eq!(column(&found, "steps", "tid").len(), steps.len().min(10_000));
    let base: i64 = found["base"].as_str().expect("a base").parse().expect("a number");
    for (row, (step, text)) in steps.iter().zip(texts(&found, "steps")).enumerate().take(10_000) {
        for name in ["tid", "act", "depth"] {
            assert_eq!(column(&found, "steps", name)[row], step[name], "{name} of {text}");
        }
        assert_eq!(column(&found, "steps", "from")[row].as_i64().map(|from| from + base), step["from"].as_i64());
        assert!(text.ends_with(step["text"].as_str().expect("a text")), "{text}: {step}");
    }
}

/// A record of the laboratory with three samples in one bucket.
const RECORD: &str = r#"{"schema":"kymo-lab-1","tool":"kymo","version":"1","test":"wakeup","method":"m","options":{},
"started_ns":null,"duration_s":null,"ended":"count","series":[{"name":"wakeup","cpu":0,"thread":null,"count":3,"lost":0,
"overflow":null,"min":null,"max":null,"mean":null,"std":null,"bucket_ns":null,"histogram":[[5,3]],"worst":[]}],
"counts":{},"floor":null,"environment":{},"meanwhile":{},"caveats":[],"source":null}"#;

#[test]
fn results_of_the_laboratory_are_served_without_a_trace() {
    let lab = Lab::new("view-results");
    let path = lab.path("a.json");
    std::fs::write(&path, RECORD).expect("a file");
    let viewer = Viewer::start(&lab, path.to_str().expect("a path"));
    let summary = viewer.ask("summary", "");
    assert_eq!((&summary["info"]["records"], &summary["info"]["has_results"]), (&0.into(), &true.into()));
    let found = viewer.ask("results", "");
    assert_eq!(column(&found, "runs", "name"), &[Value::from("a.json")]);
    assert_eq!(column(&found, "series", "count"), &[Value::from(3)]);
    assert_eq!(column(&found, "buckets", "count"), &[Value::from(3)]);
    viewer.end();
}
