// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indexes: whatever there is beside a trace, and whoever builds it, what is said of the trace is the same.

#[path = "../../host/kymo-index/tests/common/mod.rs"]
pub mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{Plan, Random};
use kymo_tests::{Kernel, Lab, Outcome, paths, skip};
use rustix::process::Signal;
use serde_json::Value;

/// A checkpoint is at each 32,768 records.
const PLAN: Plan = Plan {
    seed: 3,
    cpus: 2,
    threads: 40,
    calm: false,
    records: 150_000,
    packet: 700,
    lossy: 60,
    user: 20_000,
    compact: false,
    begin: 1_000_000,
    devices: 0,
    faults: 0,
    spans: 0,
    unended: 0,
    overlapping: 0,
};

/// A trace of a machine that there is not.
fn made(lab: &Lab, plan: &Plan) -> PathBuf {
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).expect("a directory");
    common::write(&dir, plan).expect("a trace");
    dir
}

fn index_of(dir: &Path) -> PathBuf {
    dir.join(".kymo-index")
}

/// Questions of every kind, about stretches and moments all over the trace.
fn questions(dir: &str, begin: u64, ns: u64) -> Vec<Vec<String>> {
    let mut random = Random(17);
    let mut questions = vec![format!("read {dir} --count"), format!("stats {dir}"), format!("stats {dir} --json")];
    for _ in 0..3 {
        let from = begin + random.below(ns);
        let to = from + ns / 200;
        let (span, at) = (format!("--from {from} --to {to}"), begin + random.below(ns));
        questions.push(format!("read {dir} --utc {span}"));
        questions.push(format!("read {dir} --json {span} --limit 50"));
        questions.push(format!("read {dir} --count {span}"));
        questions.push(format!("latency {dir} --json {span}"));
        questions.push(format!("stats {dir} --json --by thread,event {span}"));
        questions.push(format!("state {dir} --json --at {at}"));
    }
    questions.push(format!("read {dir} --from -200us --utc"));
    questions.push(format!("critical {dir} --thread 7 --from +1ms --to +4ms --utc"));
    questions.push(format!("state {dir} --at -3ms --cpu 1 --utc"));
    questions.push(format!("state {dir} --at +3ms --thread thread-5 --utc"));
    questions.into_iter().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn ask(lab: &Lab, question: &[String]) -> Outcome {
    lab.kymo(&question.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What is said: exit status, output, and messages.
fn answers(lab: &Lab, questions: &[Vec<String>]) -> Vec<(i32, String, String)> {
    let answer = |question: &Vec<String>| {
        let outcome = ask(lab, question);
        assert!(outcome.code < 2, "{question:?}: {}", outcome.stderr);
        (outcome.code, outcome.stdout, outcome.stderr)
    };
    questions.iter().map(answer).collect()
}

#[track_caller]
fn same(questions: &[Vec<String>], one: &[(i32, String, String)], other: &[(i32, String, String)]) {
    for ((question, one), other) in questions.iter().zip(one).zip(other) {
        assert_eq!(one, other, "{question:?}");
    }
}

/// First time of the trace in ns, and how long it is.
fn bounds(lab: &Lab, dir: &str) -> (u64, u64) {
    let stats: Value = serde_json::from_str(&lab.kymo(&["stats", dir, "--json"]).expect(0).stdout).expect("JSON");
    let (from, to) = (stats["from"].as_u64().expect("a time"), stats["to"].as_u64().expect("a time"));
    (from, to - from)
}

#[test]
fn answers_are_the_same_with_an_index_and_without() {
    let lab = Lab::new("index_same");
    let dir = made(&lab, &PLAN);
    let trace = dir.to_str().unwrap();
    let (begin, ns) = bounds(&lab, trace);
    let questions = questions(trace, begin, ns);
    let without = answers(&lab, &questions);
    assert!(without.iter().all(|(code, out, _)| *code == 0 && !out.is_empty()));
    let built = lab.kymo(&["index", trace]).expect(0).stdout;
    assert!(built.contains("9 checkpoints") && built.contains("over time"), "{built}");
    same(&questions, &answers(&lab, &questions), &without);
    assert!(lab.kymo(&["index", trace]).expect(0).stdout.contains("holds"));
    let document: Value = serde_json::from_str(&lab.kymo(&["index", trace, "--json"]).expect(0).stdout).unwrap();
    assert_eq!(document["records"], 2 * PLAN.records + PLAN.user, "{document}");
    let columns = document["columns"][0].as_array().unwrap();
    let sum = |name: &str| columns.iter().map(|column| column[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (sum("records"), Some(sum("lost"))),
        (2 * PLAN.records + PLAN.user, document["lost"]["records"].as_u64())
    );
}

#[test]
fn a_damaged_trace_is_the_same_too() {
    let lab = Lab::new("index_damaged");
    let dir = made(&lab, &Plan { lossy: 20, ..PLAN });
    common::damage(&dir, &mut Random(5), 12).expect("damage");
    let trace = dir.to_str().unwrap();
    let questions: Vec<Vec<String>> = questions(trace, 1_700_000_000_000_594_000, 150_000_000);
    let ask_all = || questions.iter().map(|question| ask(&lab, question)).map(|of| (of.code, of.stdout, of.stderr));
    let without: Vec<_> = ask_all().collect();
    assert!(without.iter().any(|(code, _, _)| *code == 1), "the trace is not damaged");
    lab.kymo(&["index", trace]).expect(0);
    same(&questions, &ask_all().collect::<Vec<_>>(), &without);
}

#[test]
fn an_index_that_does_not_hold_is_said_and_replaced() {
    let lab = Lab::new("index_stale");
    let dir = made(&lab, &Plan { records: 3000, user: 100, ..PLAN });
    let trace = dir.to_str().unwrap();
    assert!(lab.kymo(&["index", trace, "--check"]).expect(1).stderr.contains("no index that holds"));
    lab.kymo(&["index", trace]).expect(0);
    lab.kymo(&["index", trace, "--check"]).expect(0);
    let whole = std::fs::read(index_of(&dir)).unwrap();
    let before = lab.kymo(&["read", trace, "--count"]).expect(0).stdout;
    // Torn, cut, and something else.
    for (bytes, why) in [(&whole[..whole.len() / 2], "torn"), (&whole[..7], "no head"), (b"PNG", "no head")] {
        std::fs::write(index_of(&dir), bytes).unwrap();
        let read = lab.kymo(&["read", trace, "--count"]).expect(0);
        assert_eq!(read.stdout, before);
        assert!(read.stderr.contains(why) && read.stderr.contains("is not used"), "{}", read.stderr);
        lab.kymo(&["index", trace, "--check"]).expect(1);
    }
    // A bit in a checkpoint: only who comes there sees it.
    let mut bytes = whole.clone();
    bytes[100] ^= 4;
    std::fs::write(index_of(&dir), &bytes).unwrap();
    lab.kymo(&["index", trace, "--check"]).expect(1);
    assert_eq!(lab.kymo(&["read", trace, "--count"]).expect(0).stdout, before);
    let replaced = lab.kymo(&["index", trace, "--rebuild"]).expect(0).stdout;
    assert!(replaced.contains("built in"), "{replaced}");
    // The trace goes on.
    let stream = dir.join("user_0_0");
    let longer = [std::fs::read(&stream).unwrap(), b"rubbish behind".to_vec()].concat();
    std::fs::write(&stream, longer).unwrap();
    let read = lab.kymo(&["read", trace, "--count"]).expect(1);
    assert_eq!(read.stdout, before);
    assert!(read.stderr.contains("user_0_0 has "), "{}", read.stderr);
    assert!(lab.kymo(&["index", trace]).expect(0).stderr.contains("replaced: user_0_0 has "));
    let read = lab.kymo(&["read", trace, "--count"]).expect(1);
    assert!(!read.stderr.contains("is not used"), "{}", read.stderr);
}

#[test]
fn a_directory_that_cannot_be_written_has_its_index_in_the_cache() {
    let mut lab = Lab::new("index_cache");
    let dir = made(&lab, &Plan { records: 3000, user: 100, ..PLAN });
    let trace = dir.to_str().unwrap().to_owned();
    let cache = lab.path("cache");
    std::fs::create_dir(&cache).unwrap();
    lab.env("XDG_CACHE_HOME", cache.to_str().unwrap());
    let before = lab.kymo(&["state", &trace, "--at", "+1ms", "--utc"]).expect(0).stdout;
    let built = lab.kymo(&["index", &trace, "--no-write"]).expect(0).stdout;
    assert!(built.contains(cache.join("kymo").to_str().unwrap()), "{built}");
    assert!(!index_of(&dir).exists());
    lab.kymo(&["index", &trace, "--check"]).expect(0);
    assert_eq!(lab.kymo(&["state", &trace, "--at", "+1ms", "--utc"]).expect(0).stdout, before);
    if !rustix::process::geteuid().is_root() {
        return skip(lab.name(), "needs root, to be another user");
    }
    std::fs::remove_dir_all(cache.join("kymo")).unwrap();
    for (path, mode) in [(&lab.path(""), 0o755), (&dir, 0o755), (&cache, 0o777)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    }
    let mut command = lab.command("setpriv");
    command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).arg(paths::kymo()).args(["index", &trace]);
    let outcome = lab.start(command).wait();
    if outcome.stderr.contains("setpriv") {
        return skip(lab.name(), &format!("other users cannot run kymo: {}", outcome.stderr));
    }
    assert!(outcome.expect(0).stdout.contains(cache.join("kymo").to_str().unwrap()));
    assert!(!index_of(&dir).exists());
}

#[test]
fn several_builders_make_one_index() {
    let lab = Lab::new("index_builders");
    let dir = made(&lab, &PLAN);
    let trace = dir.to_str().unwrap();
    let builders: Vec<_> = (0..4).map(|_| lab.spawn(paths::kymo(), &["index", trace])).collect();
    for builder in builders {
        builder.wait().expect(0);
    }
    lab.kymo(&["index", trace, "--check"]).expect(0);
    assert_eq!(hidden(&dir), [".kymo-index"]);
}

#[test]
fn a_builder_that_ends_early_leaves_no_index() {
    let lab = Lab::new("index_killed");
    let dir = made(&lab, &Plan { records: 600_000, ..PLAN });
    let trace = dir.to_str().unwrap();
    let new = dir.join(".kymo-index.new");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let builder = lab.spawn(paths::kymo(), &["index", trace, "--rebuild"]);
        // There while it builds, or the whole index.
        lab.wait_for("the builder", || (new.exists() || index_of(&dir).exists()).then_some(()));
        let outcome = builder.end(signal);
        if index_of(&dir).exists() {
            // It was done before it was told.
            std::fs::remove_file(index_of(&dir)).unwrap();
            continue;
        }
        assert!(outcome.code != 0, "{outcome:?}");
        if signal != Signal::KILL {
            assert_eq!(outcome.code, 130, "{}", outcome.stderr);
            assert_eq!(hidden(&dir), Vec::<String>::new());
        }
        lab.kymo(&["index", trace, "--check"]).expect(1);
    }
    lab.kymo(&["index", trace]).expect(0);
    lab.kymo(&["index", trace, "--check"]).expect(0);
    assert_eq!(hidden(&dir), [".kymo-index"]);
}

/// Hidden files of a trace.
fn hidden(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with('.'));
    names.sort();
    names
}

#[test]
fn state_is_right_where_the_program_is_known() {
    if Kernel::find("state_is_right_where_the_program_is_known").is_none() {
        return;
    }
    let lab = Lab::alone("index_state");
    let program = lab.cc("pattern.c");
    let recording = lab.record("trace").args(&["-k", "sched,irq,syscalls", "--kernel-ring", "32M"]);
    let recorded = recording.run(&[program.to_str().unwrap()]).expect(0);
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    // The longest wait for the mutex, and its middle: the waiter is blocked in futex then.
    let worst = ["critical", trace, "--thread", "waiter", "--worst", "futex", "--json"];
    let path: Value = serde_json::from_str(&lab.kymo(&worst).expect(0).stdout).unwrap();
    let steps = path["steps"].as_array().unwrap();
    let middle = steps.iter().map(|step| (step["from"].as_i64().unwrap(), step["to"].as_i64().unwrap()));
    let (from, to) = middle.max_by_key(|(from, to)| to - from).unwrap();
    let at = ((from + to) / 2).to_string();
    let ask = |args: &[&str]| lab.kymo(&[&["state", trace, "--at", &at], args].concat()).expect(0).stdout;
    let state: Value = serde_json::from_str(&ask(&["--thread", "waiter", "--json"])).unwrap();
    let waiter = &state["threads"][0];
    assert_eq!((&waiter["state"], &waiter["call"]["name"]), (&"blocked".into(), &"futex".into()), "{state}");
    let (all, text) = (ask(&["--json"]), ask(&["--utc"]));
    let beyond = lab.kymo(&["state", trace, "--at", "+1h"]).expect(2).stderr;
    assert!(beyond.contains("--at lies outside of the trace"), "{beyond}");
    assert!(text.contains("waiter[") && text.contains(", in futex for "), "{text}");
    lab.kymo(&["index", trace]).expect(0);
    assert_eq!((ask(&["--json"]), ask(&["--utc"])), (all, text));
    // babeltrace2 and kymo read it as before.
    recorded.read(&lab);
}
