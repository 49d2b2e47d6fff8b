// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of the worst samples: faults are injected for real, and the sample that each hit has the right cause; every
//! result is as the schema says; slots run in turns.
//!
//! On a busy machine other samples may be worse than the injected one: only that one is asked about.

use std::process::Command;

use kymo_tests::session::contains;
use kymo_tests::{Lab, paths, skip};
use serde_json::Value;

/// Whether the kernel's events and real-time classes can be had.
fn may_explain(name: &str) -> bool {
    let real_time = Command::new("chrt").args(["-f", "80", "true"]).status().is_ok_and(|status| status.success());
    let python = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    let kernel = kymo_tracefs::Tracefs::find().is_ok_and(|tracefs| tracefs.events().is_ok());
    if !(real_time && kernel && python) {
        skip(name, "needs SCHED_FIFO, the kernel's events and python3");
    }
    real_time && kernel && python
}

/// The last CPU that this process may use.
fn cpu() -> String {
    let own = rustix::thread::sched_getaffinity(None).expect("an affinity");
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| own.is_set(*cpu));
    last.expect("a CPU").to_string()
}

fn record(text: &str) -> Value {
    let record: Value = serde_json::from_str(text).expect("a record");
    assert_eq!(kymo_testing::schema::check(&record), [""; 0]);
    record
}

/// The samples that have a budget; each budget sums to its sample.
fn explained(record: &Value) -> Vec<&Value> {
    let series = record["series"].as_array().expect("series").iter();
    let worst = series.flat_map(|series| series["worst"].as_array().expect("a list"));
    let with: Vec<&Value> = worst.filter(|worst| worst.get("budget").is_some()).collect();
    for worst in &with {
        let parts = worst["budget"]["parts"].as_array().expect("parts").iter();
        assert_eq!(parts.filter_map(|part| part["ns"].as_u64()).sum::<u64>(), worst["value_ns"], "{worst:#}");
    }
    assert_eq!(record["causes"]["explained"], with.len() as u64);
    with
}

/// The causes of the samples that have most of each stretch (ns since 1970).
fn causes_in(record: &Value, stretches: &str) -> Vec<String> {
    let samples = explained(record);
    let line = |line: &str| {
        let (from, to) = line.split_once(' ').expect("two times");
        let (from, to): (i64, i64) = (from.parse().expect("ns"), to.parse().expect("ns"));
        let common = |worst: &&&Value| {
            let end = worst["budget"]["at_ns"].as_i64().expect("a time");
            end.min(to) - (end - worst["value_ns"].as_i64().expect("ns")).max(from)
        };
        let hit = samples.iter().max_by_key(common).filter(|worst| common(worst) > (to - from) / 10);
        hit.map_or_else(|| "none".to_owned(), |worst| worst["budget"]["signature"].as_str().expect("text").to_owned())
    };
    stretches.lines().map(line).collect()
}

/// Until a thread of the probe has slept so often that its samples count.
fn wait_for_samples(lab: &Lab, pid: u32) {
    let children = format!("/proc/{pid}/task/{pid}/children");
    lab.wait_for("samples", || {
        // The probe, and the guard of the kernel's instance, which never has so many.
        let pids = std::fs::read_to_string(&children).ok()?;
        let tasks = pids.split_whitespace().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok());
        let threads = tasks.flatten().flatten();
        let slept = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        };
        let mut slept = threads.filter_map(slept);
        slept.any(|slept| slept > 30).then_some(())
    });
}

fn inject(lab: &Lab, args: &[&str]) -> String {
    let mut command = lab.command(paths::repository().join("lab/labfaults/inject.py"));
    command.args(args);
    lab.start(command).wait().expect(0).stdout
}

#[test]
fn a_hog_of_higher_priority_is_named() {
    if !may_explain("a_hog_of_higher_priority_is_named") {
        return;
    }
    let (lab, cpu) = (Lab::alone("explain_hog"), cpu());
    let mut command = lab.command(paths::kymo());
    command.args(["wakeup", "-c", &cpu, "-d", "8s", "--explain", "20", "--no-check", "--json"]);
    let run = lab.start(command);
    wait_for_samples(&lab, run.pid());
    // Some half a second apart, in a run of eight seconds: on a busy machine the last ones may come behind its end.
    let stretches = inject(&lab, &["hog", &cpu, "95", "50", "6", "0.5"]);
    let record = record(&run.wait().expect(0).stdout);
    let mut causes = causes_in(&record, &stretches);
    causes.retain(|cause| cause != "none");
    assert!(!causes.is_empty() && causes.iter().all(|cause| cause == "higher_priority fault-hog"), "{causes:?}");
    assert_eq!(record["causes"]["watching"]["outcome"], "not_tested");
    assert_eq!(record["causes"]["level"], "tracepoints");
    let clusters = record["causes"]["clusters"].as_array().expect("clusters");
    assert!(clusters.iter().any(|cluster| cluster["signature"] == "higher_priority fault-hog"), "{clusters:#?}");
}

/// The largest cause of a list of parts, and its time: `kind` is the member that has the word. None where another one
/// is nearly as large. The laboratory tells apart what a thread that runs does; who only knows the trace does not.
fn largest(parts: &Value, kind: &str) -> Option<(String, u64)> {
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for part in parts.as_array().expect("parts") {
        let word = match part[kind].as_str().expect("a word") {
            "steal" | "remainder" | "page_fault" => "own",
            word => word,
        };
        *sums.entry(word.to_owned()).or_default() += part["ns"].as_u64().expect("ns");
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let second = sums.get(1).map_or(0, |(_, ns)| *ns);
    sums.into_iter().next().filter(|(_, ns)| *ns > second + second / 5)
}

#[test]
fn explain_and_the_laboratory_agree_about_one_trace() {
    if !may_explain("explain_and_the_laboratory_agree_about_one_trace") {
        return;
    }
    let (lab, cpu) = (Lab::alone("explain_agree"), cpu());
    let kept = lab.path("kept");
    let mut command = lab.command(paths::kymo());
    command.args(["wakeup", "-c", &cpu, "-d", "6s", "--explain", "8", "--no-check", "--json", "--keep-traces"]);
    command.arg(&kept);
    let run = lab.start(command);
    wait_for_samples(&lab, run.pid());
    inject(&lab, &["hog", &cpu, "95", "50", "3", "0.4"]);
    let record = record(&run.wait().expect(0).stdout);
    let slots = std::fs::read_dir(&kept).expect("kept traces").flatten().map(|entry| entry.path());
    let inside =
        |dir: std::path::PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let traces: Vec<_> = slots.flat_map(inside).filter(|dir| dir.join("metadata").exists()).collect();
    assert!(!traces.is_empty(), "{}", kept.display());
    let mut compared = 0;
    for worst in explained(&record) {
        let to = worst["budget"]["at_ns"].as_i64().expect("a time");
        let from = to - worst["value_ns"].as_i64().expect("ns");
        // What the probe does by itself is no work of its own to the laboratory, but to whoever only knows the trace.
        let Some((kind, ns)) = largest(&worst["budget"]["parts"], "cause").filter(|(kind, _)| kind != "own") else {
            continue;
        };
        let tid = worst["tid"].to_string();
        let ask = |verb: &str, trace: &std::path::PathBuf| {
            let dir = trace.to_str().expect("UTF-8");
            let (from_text, to_text) = (from.to_string(), to.to_string());
            let range = ["--from", &from_text, "--to", &to_text];
            let outcome = lab.kymo(&[&[verb, dir, "--thread", &tid], &range[..], &["--json"]].concat());
            serde_json::from_str::<Value>(&outcome.stdout)
                .ok()
                .filter(|story| story["from"] == from && story["to"] == to)
        };
        // The slots' traces follow one another: the sample is in the one that does not begin or end in it.
        let is_cut = |story: &Value| {
            let doubt = story["doubt"].as_array().expect("doubt");
            doubt.iter().any(|mark| mark == "end" || mark == "start")
        };
        let whole = |trace| ask("explain", trace).filter(|story| !is_cut(story)).map(|story| (trace, story));
        let Some((trace, story)) = traces.iter().find_map(whole) else { continue };
        let told = largest(&story["budget"], "kind").unwrap_or_else(|| panic!("no largest: {story:#} {worst:#}"));
        assert_eq!(told.0, kind, "{story:#} {worst:#}");
        assert!(told.1.abs_diff(ns) * 50 <= ns, "{} ns and {ns} ns of {kind}: {story:#} {worst:#}", told.1);
        let path = ask("critical", trace).expect("a path");
        assert_eq!(largest(&path["budget"], "kind"), Some(told), "{path:#} {story:#}");
        compared += 1;
    }
    assert!(compared > 0, "{record:#}");
}

#[test]
fn a_locks_owner_is_named_and_who_kept_it_from_running() {
    if !may_explain("a_locks_owner_is_named_and_who_kept_it_from_running") {
        return;
    }
    let (lab, cpu) = (Lab::alone("explain_lock"), cpu());
    let html = lab.path("lock.html");
    let file = lab.path("lock.json");
    let args = ["pi", "--no-inherit", "-c", &cpu, "-l", "10", "--explain", "10", "--no-check", "-o"];
    let outcome = lab.kymo(&[&args[..], &[file.to_str().expect("UTF-8")]].concat()).expect(0);
    contains(&outcome.stdout, "lock_owner pi-low");
    contains(&outcome.stdout, "behind pi-middle");
    contains(&outcome.stdout, "cannot see:");
    let record = record(&std::fs::read_to_string(&file).expect("a result"));
    let samples = explained(&record);
    assert_eq!(samples.len(), 10);
    // Else the time that the host of a guest took is told of interrupts, and nobody is warned.
    let blind = record["causes"]["cannot_see"].as_array().expect("a list").iter();
    let is_warned = blind.filter_map(Value::as_str).any(|text| text.contains("steal") && text.contains("handler"));
    assert_eq!(is_warned, record["environment"]["hypervisor"] != "none", "{}", record["causes"]["cannot_see"]);
    // All were injected. The machine may hold one up for longer than the lock's owner did; the owner is told then, too.
    let signatures: Vec<_> = samples.iter().map(|worst| &worst["budget"]["signature"]).collect();
    let by_owner = signatures.iter().filter(|signature| **signature == "lock_owner pi-low").count();
    assert!(by_owner > 5, "{signatures:?}");
    for worst in &samples {
        let mut parts = worst["budget"]["parts"].as_array().expect("parts").iter();
        let is_kept = |part: &Value| part["name"] == "pi-low" && part["behind"] == "pi-middle";
        assert!(parts.any(is_kept), "{worst:#}");
    }
    lab.kymo(&["report", file.to_str().expect("UTF-8"), "--html", html.to_str().expect("UTF-8")]).expect(0);
    contains(&std::fs::read_to_string(html).expect("a page"), "lock_owner pi-low");
}

#[test]
fn page_faults_are_named() {
    if !may_explain("page_faults_are_named") {
        return;
    }
    let (lab, cpu) = (Lab::alone("explain_fault"), cpu());
    let args = ["wakeup", "-c", &cpu, "-i", "20ms", "-l", "100", "--explain", "20", "--no-check", "--json"];
    let inject = ["--inject-fault-every", "20", "--inject-fault-bytes", "16777216"];
    let record = record(&lab.kymo(&[&args[..], &inject].concat()).expect(0).stdout);
    let injected: Vec<&Value> =
        explained(&record).into_iter().filter(|worst| worst["budget"]["faults"] == 4096).collect();
    assert!(!injected.is_empty(), "{record:#}");
    // Something else of the machine may hold one up for longer than its faults.
    let named = injected.iter().filter(|worst| worst["budget"]["signature"] == "page_fault").count();
    assert!(2 * named > injected.len(), "{named} of {}: {injected:#?}", injected.len());
}

#[test]
fn slots_with_and_without_the_recorder_are_compared_and_nothing_is_left() {
    if !may_explain("slots_with_and_without_the_recorder_are_compared_and_nothing_is_left") {
        return;
    }
    let (lab, cpu) = (Lab::alone("explain_slots"), cpu());
    let mut command = lab.command(paths::kymo());
    command.env("TMPDIR", lab.path("tmp")).args(["wakeup", "-c", &cpu, "-l", "500", "--explain", "5", "--json"]);
    let record = record(&lab.start(command).wait().expect(0).stdout);
    let number = |name: &str| record["series"][0][name].as_u64().expect("a number");
    assert_eq!(number("count") - number("lost"), 500);
    assert_eq!(explained(&record).len(), 5);
    let watching = &record["causes"]["watching"];
    assert_eq!(watching["slots"], serde_json::json!([5, 5]));
    let outcomes = ["better", "worse", "mixed", "no_difference", "not_enough_data"];
    assert!(outcomes.contains(&watching["outcome"].as_str().expect("a word")), "{watching}");
    let left: Vec<_> = std::fs::read_dir(lab.path("tmp")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tests_run_in_turns_and_files_of_several_records_are_compared() {
    let (lab, cpu) = (Lab::alone("slots"), cpu());
    let out = lab.path("records");
    let args = ["slots", "--cpu", &cpu, "--slot", "200ms", "--rounds", "5", "--seed", "7", "--json", "-o"];
    let foreign =
        "printf '# Histogram\\n000004 000008\\n000009 000002\\n# Total: 000000010\\n# Histogram Overflows: 00000\\n'";
    let tests = ["--", "wakeup", "--best-effort", "--", "wakeup", "--best-effort", "--", "exec", foreign];
    let outcome = lab.kymo(&[&args[..], &[out.to_str().expect("UTF-8")], &tests].concat());
    contains(&outcome.stderr, "seed 7");
    let text: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&text["schema"], &text["seed"]), (&"kymo-slots-1".into(), &7.into()));
    for test in text["tests"].as_array().expect("tests") {
        let records = test["records"].as_array().expect("records");
        assert_eq!(records.len(), 5);
        records.iter().for_each(|record| assert_eq!(kymo_testing::schema::check(record), [""; 0]));
    }
    assert_eq!(text["tests"][2]["records"][0]["tool"], "cyclictest");
    let lines = |letter: &str| {
        let read = |round: u32| std::fs::read_to_string(out.join(format!("{letter}-{round:04}.json"))).expect("a slot");
        let path = lab.path(&format!("{letter}.jsonl"));
        std::fs::write(&path, (0..5).map(read).collect::<String>()).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let outcome = lab.kymo(&["compare", "--json", &lines("A"), "--", &lines("B")]);
    let text: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(text["runs"], serde_json::json!([5, 5]));
    contains(&lab.kymo(&["slots", "--cpu", &cpu, "--", "dance"]).expect(2).stderr, "no such test");
}
