// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view`: a recorded trace through the server; the same answers as the verbs; its end by Ctrl-C.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::index::common::{self, Plan};
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
        let process = lab.spawn(kymo_tests::paths::kymo(), &["view", dir, "--no-open", "--port", "0"]);
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
