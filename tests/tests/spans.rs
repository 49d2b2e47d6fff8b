// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of the user [spec/analyze.md 5.1]: all verbs find the same ones, and they are as long as the program measured.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kymo_tests::{Kernel, Lab, Recorded, process, trace};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// Two threads at the same time, with spans of 20 ms and of 2 ms under one name; a third with spans that are nested,
/// repeated, without end and without begin. Prints the longest that each of the first two has measured.
const SPANS: &str = r#"
#include "common.h"
KYMO_EVENT(work, begin, (u32, id))
KYMO_EVENT(work, end, (u32, id))
KYMO_EVENT(call, begin, (u32, depth))
KYMO_EVENT(call, end, (u32, depth))
struct loop {
	long us;
	unsigned count;
	uint64_t longest_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *loop(void *argument)
{
	struct loop *loop = argument;

	for (unsigned i = 0; i < loop->count; i++) {
		uint64_t from = now_ns(), took;

		kymo_trace(work, begin, 1);
		nap_us(loop->us);
		kymo_trace(work, end, 1);
		took = now_ns() - from;
		if (took > loop->longest_ns)
			loop->longest_ns = took;
	}
	return NULL;
}

static void *calls(void *unused)
{
	kymo_trace(call, end, 9);
	kymo_trace(call, begin, 1);
	kymo_trace(call, begin, 2);
	nap_us(1000);
	kymo_trace(call, end, 2);
	kymo_trace(call, end, 1);
	kymo_trace(call, begin, 3);
	kymo_trace(call, begin, 4);
	kymo_trace(call, end, 4);
	return unused;
}

int main(void)
{
	struct loop slow = { 20000, 10, 0 }, fast = { 2000, 60, 0 };
	pthread_t threads[3];

	live_shortly();
	until_enabled(work, begin);
	until_enabled(call, end);
	if (pthread_create(&threads[0], NULL, loop, &slow) || pthread_create(&threads[1], NULL, loop, &fast) ||
	    pthread_create(&threads[2], NULL, calls, NULL))
		die("pthread_create");
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("slow_ns=%" PRIu64 "\nfast_ns=%" PRIu64 "\n", slow.longest_ns, fast.longest_ns);
	return 0;
}
"#;

/// The spans of the two threads.
const WORK: &str = "work:begin, work:end";
const SLOW: usize = 10;
const FAST: usize = 60;

#[track_caller]
fn ask(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.kymo(args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

fn recorded(lab: &Lab) -> Recorded {
    let program = lab.cc_text("spans", SPANS);
    lab.record("trace").run(&[program.to_str().unwrap()]).expect(0).lossless()
}

/// The lengths of the spans of each thread, as `latency --span` has them: the shortest first, of the fewest first.
#[track_caller]
fn lengths(lab: &Lab, trace: &str, span: &str) -> Vec<Vec<u64>> {
    let found = ask(lab, &["latency", trace, "--span", span, "--by", "$tid", "--limit", "1000", "--json"]);
    let lengths = |series: &Value| {
        let worst = series["worst"].as_array().expect("worst").iter();
        let mut lengths: Vec<u64> = worst.map(|sample| sample["value"].as_u64().expect("a length")).collect();
        lengths.sort_unstable();
        lengths
    };
    let mut all: Vec<Vec<u64>> = found["series"].as_array().expect("series").iter().map(lengths).collect();
    all.sort_by_key(Vec::len);
    all
}

fn sorted(mut all: Vec<u64>) -> Vec<u64> {
    all.sort_unstable();
    all
}

/// How many records of a trace a filter selects.
#[track_caller]
fn selected(lab: &Lab, trace: &str, filter: &str) -> usize {
    trace::read(lab, Path::new(trace), &["--filter", filter]).whole().records.len()
}

/// The lengths of the slices with this name in Chrome's JSON: what an end ends is innermost in its thread.
fn slices(lab: &Lab, trace: &str, name: &str, to: &str) -> Vec<u64> {
    let to = lab.path(to);
    lab.kymo(&["export", trace, "--to", "chrome", "-o", to.to_str().unwrap()]).expect(0);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(to).unwrap()).unwrap();
    let mut open: HashMap<(u64, u64), Vec<(String, u64)>> = HashMap::new();
    let mut found = Vec::new();
    for event in document["traceEvents"].as_array().unwrap() {
        let thread = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let ns = || (event["ts"].as_f64().unwrap() * 1000.0).round() as u64;
        match event["ph"].as_str().unwrap() {
            "B" => open.entry(thread).or_default().push((event["name"].as_str().unwrap().to_owned(), ns())),
            "E" => {
                let (begun, from) = open.get_mut(&thread).and_then(Vec::pop).expect("a slice to end");
                found.extend((begun == name).then(|| ns() - from));
            }
            _ => {}
        }
    }
    sorted(found)
}

#[test]
fn threads_with_spans_of_different_lengths_are_kept_apart_by_every_verb() {
    let lab = Lab::new("spans");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    let by_thread = lengths(&lab, trace, WORK);
    assert_eq!(by_thread.iter().map(Vec::len).collect::<Vec<_>>(), [SLOW, FAST]);
    for (of, ms, measured) in [(&by_thread[0], 20, "slow_ns"), (&by_thread[1], 2, "fast_ns")] {
        let longest = process::number(&recorded.outcome.stdout, measured);
        assert!(of[0] >= ms * MS && *of.last().unwrap() <= longest, "{of:?}, {longest} ns as the program measured");
    }
    // The thread by its name as a context; and what is of one process, one id, or of any thread.
    assert_eq!(lengths(&lab, trace, "work:begin, work:end, by=$tid"), by_thread);
    assert_eq!(lengths(&lab, trace, "work:begin, work:end, by=$vtid, id"), by_thread);
    let across = sorted(lengths(&lab, trace, "work:begin, work:end, by=*").concat());
    for by in ["$pid", "$procname", "$proc", "id"] {
        let span = format!("work:begin, work:end, by={by}");
        assert_eq!(sorted(lengths(&lab, trace, &span).concat()), across, "{by}");
    }
    let all = sorted(by_thread.concat());
    let (longest, middle) = (*all.last().unwrap(), all[all.len() / 2]);
    // Explain: the longest, and each by its number.
    let long = |args: &[&str]| {
        let story = ask(&lab, &[&["explain", trace, "--span", WORK, "--json"][..], args].concat());
        story["to"].as_u64().unwrap() - story["from"].as_u64().unwrap()
    };
    assert_eq!((long(&[]), long(&["--worst", "2"])), (longest, all[all.len() - 2]));
    let nth: Vec<u64> = (1..=5).map(|n| long(&["--nth", &n.to_string()])).collect();
    assert!(nth.iter().all(|ns| all.contains(ns)), "{nth:?} of {all:?}");
    let none = lab.kymo(&["explain", trace, "--span", WORK, "--nth", "71"]).expect(2).stderr;
    assert!(none.contains("fewer such spans"), "{none}");
    // Filters of other verbs.
    assert_eq!(selected(&lab, trace, "latency(work:begin, work:end) > 0"), SLOW + FAST);
    let bound = format!("latency(work:begin, work:end) >= {middle}");
    let longer = all.iter().filter(|ns| **ns >= middle).count();
    assert_eq!(selected(&lab, trace, &bound), longer);
    let stats = ask(&lab, &["stats", trace, "--filter", &bound, "--json"]);
    assert_eq!(stats["rows"][0]["records"], longer, "{stats}");
    // Exports.
    assert_eq!(slices(&lab, trace, "work", "spans.json"), all);
}

#[test]
fn nested_repeated_and_missing_ones_are_counted() {
    let lab = Lab::new("spans_odd");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    let span = "call:begin, call:end";
    let found = ask(&lab, &["latency", trace, "--span", span, "--span", WORK, "--json"]);
    let odd = &found["spans"][0];
    let counts = ["spans", "nested", "repeated", "unended", "unbegun", "dropped", "without_key"].map(|of| &odd[of]);
    assert_eq!(counts, [3, 1, 1, 1, 1, 0, 0], "{odd}");
    assert_eq!(found["spans"][1]["spans"], SLOW + FAST, "{found}");
    let series = found["series"].as_array().unwrap().iter().find(|series| series["of"] == span).expect("the calls");
    assert_eq!((&series["count"], &series["marks"]["nested"], &series["doubtful"]), (&3.into(), &1.into(), &1.into()));
    assert!(series["max"].as_u64().unwrap() >= MS, "{series}");
    let text = lab.kymo(&["latency", trace, "--span", span, "--span", WORK]).expect(0).stdout;
    let line =
        text.lines().find(|line| line.starts_with("'call:begin, call:end': ")).unwrap_or_else(|| panic!("{text}"));
    for part in [
        "1 begins inside of a span with the same key (nested)",
        "1 begins behind one without end (repeated)",
        "1 begins without end",
        "1 ends without begin",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!text.contains("'work:begin, work:end': "), "what is plain is not mentioned: {text}");
    let story = ask(&lab, &["explain", trace, "--span", span, "--json"]);
    assert!(story["doubts"].as_array().unwrap().iter().any(|doubt| doubt == line), "{story}");
    assert!(story["doubt"].as_array().unwrap().iter().any(|mark| mark == "nested"), "{story}");
    // Depths as keys: each is a span of its own, and nothing nests.
    let found = ask(&lab, &["latency", trace, "--span", "call:begin, call:end, by=depth", "--by", "key", "--json"]);
    assert_eq!((&found["spans"][0]["spans"], &found["spans"][0]["nested"]), (&3.into(), &0.into()), "{found}");
    let keys: Vec<&str> =
        found["series"].as_array().unwrap().iter().filter_map(|series| series["of"].as_str()).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    // Threads as keys have their names.
    let found = ask(&lab, &["latency", trace, "--span", WORK, "--by", "key", "--json"]);
    let keys: Vec<&str> =
        found["series"].as_array().unwrap().iter().filter_map(|series| series["of"].as_str()).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.ends_with(']') && key.contains('[')), "{keys:?}");
    // The same in exports: the begin without end lasts until the trace ends, the end without begin is an instant.
    assert_eq!(slices(&lab, trace, "call", "odd.json").len(), 4);
    let to = lab.path("odd.pftrace");
    let said = lab.kymo(&["export", trace, "--to", "perfetto", "-o", to.to_str().unwrap()]).expect(0).stderr;
    assert!(said.contains("ends without a begin in their thread") && said.contains("begins without end"), "{said}");
}

#[test]
fn names_that_are_none_get_a_near_miss() {
    let lab = Lab::new("spans_names");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    for (verb, span, part) in [
        ("latency", "work:begin, work:end, by=$tidd", "did you mean `$tid`?"),
        ("latency", "work:begin, work:end, by=tid", "did you mean the context `$tid`?"),
        ("explain", "work:begin, work:end, by=idd", "did you mean `id`?"),
        ("explain", "work:begin, work:ende", "did you mean `work:end`"),
        ("latency", "work:begin, by=id", "'BEGIN, END, by=FIELD'"),
    ] {
        let wrong = lab.kymo(&[verb, trace, "--span", span]).expect(2).stderr;
        assert!(wrong.contains(part), "{span}: {wrong}");
    }
    for (by, part) in [("$tidd", "did you mean $tid?"), ("thred", "did you mean thread?")] {
        let wrong = lab.kymo(&["stats", trace, "--by", by]).expect(2).stderr;
        assert!(wrong.contains(part), "{by}: {wrong}");
    }
    let rows = |by: &str| ask(&lab, &["stats", trace, "--by", by, "--json"])["rows"].clone();
    assert_eq!(rows("$tid,$event"), rows("thread,event"));
}

#[test]
fn rows_by_process_have_its_name() {
    let lab = Lab::new("spans_process");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    let pid = recorded.read(&lab).records[0].pid;
    let text = lab.kymo(&["latency", trace, "--span", WORK, "--by", "process"]).expect(0).stdout;
    assert!(text.contains(&format!("process spans[{pid}]")), "{text}");
    let found = ask(&lab, &["latency", trace, "--span", WORK, "--by", "process,thread", "--json"]);
    for series in found["series"].as_array().unwrap() {
        let names = (&series["process"], &series["process_name"], &series["thread_name"]);
        assert_eq!(names, (&pid.into(), &"spans".into(), &"spans".into()), "{series}");
    }
}

/// The snapshot of the end.
fn last_snapshot(recorded: &Recorded) -> PathBuf {
    let entries = std::fs::read_dir(&recorded.dir).expect("a directory").flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().contains("snapshot-")).max().expect("a snapshot")
}

#[test]
fn a_trigger_fires_at_the_spans_that_latency_finds() {
    let lab = Lab::new("spans_trigger");
    let program = lab.cc_text("spans", SPANS);
    let condition = "latency(work:begin, work:end) > 15ms";
    let args = ["--flight", "--trigger", condition, "--trigger-pause", "1us", "--on-trigger", "mark"];
    let recorded = lab.record("flight").args(&args).run(&[program.to_str().unwrap()]).expect(0);
    let acted = &recorded.summary["flight"];
    let fired = acted["times"].as_u64().unwrap() + acted["held_back"].as_u64().unwrap();
    let last = last_snapshot(&recorded);
    let all = lengths(&lab, last.to_str().unwrap(), WORK);
    let longer = all.concat().into_iter().filter(|ns| *ns > 15 * MS).count();
    assert!(longer >= SLOW && fired == longer as u64, "fired {fired} times, {longer} spans: {acted}");
}

/// A function that two threads call for different times.
const PROBED: &str = r#"
#include "common.h"
__attribute__((noinline)) int work(long us)
{
	nap_us(us);
	return us > 0;
}

static void *loop(void *argument)
{
	const long *loop = argument;

	for (long i = 0; i < loop[1]; i++)
		work(loop[0]);
	return NULL;
}

int main(void)
{
	long slow[] = { 20000, 5 }, fast[] = { 2000, 20 };
	pthread_t threads[2];

	live_shortly();
	if (pthread_create(&threads[0], NULL, loop, slow) || pthread_create(&threads[1], NULL, loop, fast))
		die("pthread_create");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return 0;
}
"#;

#[test]
fn entry_and_return_of_a_probed_function_are_a_span_and_a_slice() {
    let Some(kernel) = Kernel::find("spans_probed") else { return };
    let lab = Lab::new("spans_probed");
    let program = lab.cc_text("probed", PROBED);
    let places = ["work", "work%return"].map(|place| format!("{}:{place}", program.display()));
    let args = ["-U", &places[0], "-U", &places[1], "--state", "none", "--names", "kernel"];
    let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap()]).expect(0);
    kernel.assert_clean(recorded.pid);
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    let by_thread = lengths(&lab, trace, "uprobe:work, uprobe:work_return");
    assert_eq!(by_thread.iter().map(Vec::len).collect::<Vec<_>>(), [5, 20]);
    assert!(by_thread[0][0] >= 20 * MS && by_thread[1][0] >= 2 * MS, "{by_thread:?}");
    assert_eq!(slices(&lab, trace, "uprobe:work", "probed.json"), sorted(by_thread.concat()));
    let long = by_thread.concat().into_iter().filter(|ns| *ns >= 20 * MS).count();
    assert_eq!(selected(&lab, trace, "latency(uprobe:work, uprobe:work_return) >= 20ms"), long);
}
