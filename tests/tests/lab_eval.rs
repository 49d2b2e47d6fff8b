// SPDX-License-Identifier: MIT OR Apache-2.0
//! kymo eval and kymo maxrate: what was planned is run and told, also where it was interrupted.

use kymo_tests::session::contains;
use kymo_tests::{Lab, paths};
use rustix::process::Signal;
use serde_json::Value;

fn report(lab: &Lab, dir: &str) -> Value {
    let text = std::fs::read_to_string(lab.path(dir).join("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["schema"], "kymo-eval-1");
    report
}

fn text(lab: &Lab, path: &str) -> String {
    std::fs::read_to_string(lab.path(path)).expect("a file")
}

#[test]
fn an_evaluation_runs_each_test_under_each_load() {
    let lab = Lab::new("eval");
    let args =
        ["eval", "-c", "0", "-d", "14s", "--rounds", "2", "--seed", "7", "--best-effort", "--limit", "1h", "-o", "e"];
    let args = [&args[..], &["--test", "wakeup,npt", "--load", "none,hackbench+net"]].concat();
    let outcome = lab.kymo(&args).expect(0);
    contains(&outcome.stderr, "run 8 of 8");
    let report = report(&lab, "e");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!((runs.len(), &report["seed"], &report["ended"]), (8, &7.into(), &"time".into()));
    for run in runs {
        let file = run["file"].as_str().unwrap_or_else(|| panic!("a record: {run:#}"));
        let record: Value = serde_json::from_str(&text(&lab, &format!("e/results/{file}"))).expect("JSON");
        assert_eq!((&record["test"], &record["environment"]["load.kind"]), (&run["test"], &run["load"]));
        let loads = if run["load"] == "none" { 0 } else { 2 };
        assert_eq!(run["did"].as_array().map(Vec::len), Some(loads), "{run:#}");
    }
    // Two runs a side are too few to compare, and it says so.
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    assert_eq!(comparisons.len(), 2);
    assert!(comparisons.iter().all(|one| one["comparison"]["outcome"] == "not_enough_data"));
    let told = text(&lab, "e/report.txt");
    contains(&told, "wakeup under hackbench+net, against no load: Not enough data");
    for part in ["Begun 20", "from seed 7", "Machine: ", "worst samples of wakeup, in the order of time:"] {
        contains(&told, part);
    }
    let cpus = report["cpus"].as_array().expect("results of CPUs");
    assert!(cpus.len() >= 4 && cpus.iter().all(|one| one["cpu"] == 0 && one["runs"] == 2), "{cpus:#?}");
    let worst = report["worst"].as_array().expect("worst samples");
    let is_dated = |one: &Value| one["into_s"].as_f64().is_some_and(|seconds| (0.0..600.0).contains(&seconds));
    assert!(!worst.is_empty() && worst.iter().all(is_dated), "{worst:#?}");
    // Each has its cause, or why there is none.
    assert!(worst.iter().all(|one| one["budget"].is_object() != one["why"].is_string()), "{worst:#?}");
    if rustix::process::geteuid().is_root() {
        assert!(worst.iter().any(|one| one["budget"]["signature"].is_string()), "{worst:#?}");
    }
    let html = text(&lab, "e/report.html");
    assert!(html.contains("kymo doctor") && html.contains("<svg") && !html.contains("http-equiv"), "{html}");
    // Another evaluation would mix with this one.
    contains(&lab.kymo(&args).expect(2).stderr, "is not empty");
}

#[test]
fn an_interrupted_evaluation_has_what_there_was() {
    let lab = Lab::new("eval_interrupted");
    let mut command = lab.command(paths::kymo());
    command.args(["eval", "-c", "0", "-d", "100s", "--rounds", "50", "--load", "none", "--test", "wakeup"]);
    command.args(["--best-effort", "-o", "e"]);
    let proc = lab.start(command);
    proc.until_stderr("run 2 of 50");
    let outcome = proc.end(Signal::INT).expect(3);
    contains(&outcome.stdout, "INTERRUPTED after");
    let report = report(&lab, "e");
    assert_eq!(report["ended"], "signal");
    let runs = report["runs"].as_array().expect("runs");
    assert!((1..50).contains(&runs.len()) && runs[0]["file"].is_string(), "{report:#}");
}

#[test]
fn what_cannot_be_evaluated_is_said() {
    let lab = Lab::new("eval_errors");
    contains(&lab.kymo(&["eval", "-d", "2s", "-o", "e"]).expect(2).stderr, "runs do not fit into 2 s: --duration");
    contains(&lab.kymo(&["eval", "-c", "4000", "-o", "e"]).expect(2).stderr, "does not exist or is offline");
    contains(&lab.kymo(&["eval", "--load", "none,x", "-o", "e"]).expect(2).stderr, "no load \"x\"");
    let outcome = lab.kymo(&[
        "eval",
        "-c",
        "0",
        "-d",
        "2s",
        "--rounds",
        "1",
        "--load",
        "none",
        "--test",
        "wakeup",
        "--best-effort",
        "--limit",
        "1us",
        "-o",
        "limit",
    ]);
    contains(&outcome.expect(1).stdout, "ABOVE 1.00 us");
}

/// A search; on a machine without a free CPU not even its first rate may be reached, which is status 1.
fn maxrate(lab: &Lab, args: &[&str]) -> Value {
    let common = ["maxrate", "--json", "--for", "200ms", "--confirm", "2", "-c", "0"];
    let outcome = lab.kymo(&[&common, args].concat());
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    assert_eq!(report["schema"], "kymo-maxrate-1");
    let results = report["results"].as_array().expect("results");
    let is_found = results.iter().all(|result| result["lossless_per_s"].is_f64());
    assert_eq!(outcome.code, i32::from(!is_found), "{report:#}");
    for result in results {
        let trials = result["trials"].as_array().expect("trials");
        let of = |trial: &Value, key: &str| trial[key].as_u64().unwrap_or_else(|| panic!("no {key}: {trial:#}"));
        assert!(trials.iter().all(|trial| of(trial, "written") > 0), "{result:#}");
        // The rate that is given was without loss in at least two trials, and none that lost something is called so.
        if let Some(lossless) = result["lossless_per_s"].as_f64() {
            let at_it = trials.iter().filter(|trial| trial["asked_per_s"].as_f64() == Some(lossless));
            assert!(at_it.filter(|trial| of(trial, "lost") == 0).count() >= 2, "{result:#}");
        }
        let lossy =
            trials.iter().filter(|trial| of(trial, "lost") > 0).filter_map(|trial| trial["asked_per_s"].as_f64());
        assert_eq!(result["lossy_per_s"].as_f64(), lossy.reduce(f64::min), "{result:#}");
        assert!(result["limiter"].as_str().is_some_and(|text| !text.is_empty()), "{result:#}");
    }
    report
}

#[test]
fn the_rate_that_is_given_was_confirmed() {
    let lab = Lab::new("maxrate");
    let report = maxrate(&lab, &["--max", "200", "--first", "100", "--payload", "0,32"]);
    let sizes: Vec<_> =
        report["results"].as_array().expect("results").iter().map(|one| &one["payload_bytes"]).collect();
    assert_eq!(sizes, [0, 32]);
    let rates = report["results"].as_array().expect("results").iter().filter_map(|one| one["lossless_per_s"].as_f64());
    assert!(rates.into_iter().all(|rate| rate <= 200.0), "{report:#}");
}

#[test]
fn a_machine_that_is_too_busy_is_reported_as_such() {
    let lab = Lab::new("maxrate_busy");
    // Eight that never sleep share the writer's CPU: it gets a ninth of it, or a little more while it is new.
    let hogs: Vec<_> = (0..8).map(|_| lab.spawn("taskset", &["-c", "0", "sh", "-c", "while :; do :; done"])).collect();
    let outcome = lab.kymo(&["maxrate", "--json", "--for", "1s", "-c", "0"]).expect(1);
    let text = lab.kymo(&["maxrate", "--for", "1s", "-c", "0"]).expect(1).stdout;
    hogs.into_iter().for_each(|hog| drop(hog.end(Signal::KILL)));
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let result = &report["results"][0];
    assert_eq!((&result["too_busy"], &result["lossless_per_s"]), (&true.into(), &Value::Null), "{report:#}");
    let trials = result["trials"].as_array().expect("trials");
    assert!((3..20).contains(&trials.len()), "{report:#}");
    assert!(trials.iter().any(|trial| trial["writers_cpu"].as_f64() < Some(0.9)), "{report:#}");
    for part in ["the machine is too busy to tell", "had a CPU in", "--prio 10"] {
        contains(&text, part);
    }
}

#[test]
fn writers_run_as_they_are_told() {
    let lab = Lab::new("maxrate_writers");
    let args = ["maxrate", "--json", "--confirm", "1", "--first", "5000", "--max", "5000", "-c", "0", "--threads", "2"];
    let outcome = lab.kymo(&[&args[..], &["--loops", "50", "--warmup", "7", "--no-lock", "-o", "rates.json"]].concat());
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    let saved = std::fs::read(lab.path("rates.json")).expect("the file");
    assert_eq!(serde_json::from_slice::<Value>(&saved).expect("JSON"), report);
    let of = |key: &str| report[key].clone();
    assert_eq!((of("policy"), of("prio"), of("locked")), ("other".into(), Value::Null, false.into()), "{report:#}");
    assert_eq!((of("trial_records"), of("trial_s"), of("warmup")), (50.into(), Value::Null, 7.into()), "{report:#}");
    // Those of the warm-up are in the trace, but are not counted.
    let trials = report["results"][0]["trials"].as_array().expect("trials");
    assert!(trials.iter().all(|trial| trial["written"] == 100), "{report:#}");
    let outcome = lab.kymo(&[&args[..], &["--policy", "other", "--prio", "3"]].concat());
    contains(&outcome.expect(2).stderr, "--prio is of --policy fifo or rr");
    let outcome = lab.kymo(&[&args[..], &["--policy", "deadline"]].concat());
    contains(&outcome.expect(2).stderr, "--policy deadline is for wakeup");
}

#[test]
fn the_kernel_is_recorded_beside_the_writers() {
    if !rustix::process::geteuid().is_root() {
        return kymo_tests::skip("the_kernel_is_recorded_beside_the_writers", "needs the kernel's events");
    }
    let lab = Lab::alone("maxrate_kernel");
    let report = maxrate(&lab, &["--first", "100", "--max", "200", "-k", "sched:sched_switch", "--prio", "5"]);
    assert_eq!((&report["kernel"], &report["prio"]), (&serde_json::json!(["sched:sched_switch"]), &5.into()));
    let trials = report["results"][0]["trials"].as_array().expect("trials");
    // A writer that is started, and ends, is switched to and from.
    assert!(trials.iter().all(|trial| trial["kernel_records"].as_u64() > Some(0)), "{report:#}");
    let without = maxrate(&lab, &["--first", "100", "--max", "100"]);
    let trials = without["results"][0]["trials"].as_array().expect("trials");
    assert!(trials.iter().all(|trial| trial["kernel_records"] == 0 && trial["kernel_lost"] == 0), "{without:#}");
}

#[test]
fn loss_is_found_where_there_is_too_little_room() {
    let lab = Lab::new("maxrate_loss");
    // As fast as a thread can, whatever slice of time it gets, and the smallest rings.
    let args =
        ["--first", "1000000", "--max", "1000000", "--payload", "4000", "--ring-size", "4K", "--precision", "100"];
    let report = maxrate(&lab, &args);
    let trials = report["results"][0]["trials"].as_array().expect("trials");
    let is_lossy = |trial: &Value| trial["lost"].as_u64() > Some(0);
    assert!(trials.iter().any(is_lossy), "{report:#}");
}
