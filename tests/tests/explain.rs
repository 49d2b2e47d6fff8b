// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo explain`, held against programs whose delays are known and which measure themselves.

use kymo_tests::{Kernel, Lab, Recorded};
use serde_json::Value;

const MS: u64 = 1_000_000;
/// Many runs of the command, on a machine that does other work too.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(400);

#[track_caller]
fn ask(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.kymo(args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// ns of the parts of a story's budget that a condition picks.
fn part(story: &Value, is_it: impl Fn(&Value) -> bool) -> u64 {
    let parts = story["budget"].as_array().unwrap_or_else(|| panic!("{story}")).iter();
    parts.filter(|part| is_it(part)).map(|part| part["ns"].as_u64().unwrap()).sum()
}

#[track_caller]
fn assert_sums_up(story: &Value) {
    let whole = story["to"].as_i64().unwrap().abs_diff(story["from"].as_i64().unwrap());
    assert_eq!(part(story, |_| true), whole, "{story}");
}

fn text<'v>(story: &'v Value, name: &str) -> &'v str {
    story[name].as_str().unwrap_or_else(|| panic!("no {name} in {story}"))
}

/// A row of the time line that says something.
fn has_row(story: &Value, needle: &str) -> bool {
    let rows = story["rows"].as_array().unwrap_or_else(|| panic!("{story}")).iter();
    rows.filter_map(|row| row["moment"]["text"].as_str()).any(|text| text.contains(needle))
}

fn recorded(lab: &Lab, program: &str) -> Option<Recorded> {
    let program = lab.cc(program);
    let recording = lab.record("trace").args(&["-k", "sched,irq,syscalls,timer", "--kernel-ring", "32M"]);
    let recorded = recording.run(&[program.to_str().unwrap()]);
    if recorded.outcome.stderr.contains("is not allowed") {
        kymo_tests::skip(lab.name(), "FIFO priorities are not allowed here");
        return None;
    }
    Some(recorded.expect(0))
}

#[test]
fn a_late_wakeup_names_the_thread_that_outranked_it() {
    if Kernel::find("a_late_wakeup_names_the_thread_that_outranked_it").is_none() {
        return;
    }
    let lab = Lab::alone("explain").within(DEADLINE);
    let Some(recorded) = recorded(&lab, "delay.c") else { return };
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    let late = kymo_tests::process::number(&recorded.outcome.stdout, "late_ns");
    let story = ask(&lab, &["explain", trace, "--thread", "victim", "--json"]);
    assert_sums_up(&story);
    assert_eq!((&story["schema"], &story["name"]), (&"kymo-explain-1".into(), &"victim".into()), "{story}");
    // The program's own measure has the timer's lateness and the way back from the call in it.
    let whole = story["to"].as_u64().unwrap() - story["from"].as_u64().unwrap();
    assert!(whole <= late && whole + 20 * MS >= late, "{whole} ns told, {late} ns seen by the program");
    // The hog was busy for 60 ms from 10 ms on, the victim should have woken at 30 ms: it had the CPU for most of that.
    let by_hog = part(&story, |part| part["text"].as_str().unwrap().contains("hog["));
    assert!(by_hog * 2 > whole, "{by_hog} of {whole} ns: {story}");
    let headline = text(&story, "headline");
    assert!(headline.contains("victim[") && headline.contains("(rt 10)"), "{headline}");
    assert!(headline.contains("hog[") && headline.contains("(rt 20)"), "{headline}");
    // Another thread, as the kernel's migration, may have the CPU for a moment between the two.
    assert!(has_row(&story, "victim[") && has_row(&story, "switch from "), "{story}");
    assert!(has_row(&story, ") to victim["), "{story}");
    let advice = story["advice"].to_string();
    assert!(advice.contains("outranks it (rt 20 before rt 10)"), "{advice}");
    assert!(text(&story["gap"], "text").contains("hog["), "{story}");
    screenful(&lab, trace, &story);
    moments(&lab, trace, &story);
    same_causes(&lab, trace, &story);
}

/// `latency --explain` has the same causes for the same wake-up.
#[track_caller]
fn same_causes(lab: &Lab, trace: &str, story: &Value) {
    let args = ["latency", trace, "--what", "wakeup", "--explain", "--limit", "1", "--by", "thread"];
    let found = ask(lab, &[&args[..], &["--json"]].concat());
    let worst = found["series"].as_array().unwrap().iter().map(|series| &series["worst"][0]);
    let sample = worst.into_iter().find(|sample| sample["name"] == "victim").expect("the victim's worst");
    assert_eq!((&sample["from"], &sample["to"]), (&story["from"], &story["to"]), "{sample}");
    assert_eq!(sample["causes"], story["budget"], "{sample}");
    let told = lab.kymo(&args).expect(0).stdout;
    assert!(told.lines().any(|line| line.contains(" %) ") && line.contains("hog[")), "{told}");
    let plain = ask(lab, &["latency", trace, "--what", "wakeup", "--json"]);
    assert!(plain["series"][0]["worst"][0]["causes"].is_null(), "{plain}");
}

/// The text fits a screen, and has all its parts.
#[track_caller]
fn screenful(lab: &Lab, trace: &str, story: &Value) {
    let told = lab.kymo(&["explain", trace, "--thread", "victim", "--utc"]).expect(0).stdout;
    for needle in ["where the time went:", "what happened:", ">>> ", "what to try:", "kymo shield 0"] {
        assert!(told.contains(needle), "no {needle:?} in\n{told}");
    }
    // Where nothing was recorded just before, there is nothing in front of the begin.
    let is_before =
        |row: &Value| row["moment"]["time"].as_i64().is_some_and(|time| Some(time) < story["from"].as_i64());
    let has_before = story["rows"].as_array().is_some_and(|rows| rows.iter().any(is_before));
    assert_eq!(told.contains("- it begins -"), has_before, "{told}");
    assert!(told.lines().count() < 60, "{told}");
    let short = lab.kymo(&["explain", trace, "--thread", "victim", "--lines", "4"]).expect(0).stdout;
    assert!(short.lines().count() < told.lines().count(), "{short}");
}

/// The same stretch by the time it lies in, and by its ends.
#[track_caller]
fn moments(lab: &Lab, trace: &str, story: &Value) {
    let (from, to) = (story["from"].as_i64().unwrap(), story["to"].as_i64().unwrap());
    let middle = (from + (to - from) / 2).to_string();
    let at = ask(lab, &["explain", trace, "--at", &middle, "--thread", "victim", "--json"]);
    assert_eq!((&at["from"], &at["to"]), (&story["from"], &story["to"]), "{at}");
    assert_sums_up(&at);
    let at = ask(lab, &["explain", trace, "--at", &middle, "--cpu", "0", "--json"]);
    assert_sums_up(&at);
    assert!(at["from"].as_i64() <= middle.parse().ok() && at["to"].as_i64() > middle.parse().ok(), "{at}");
    let at = ask(lab, &["explain", trace, "--at", &middle, "--json"]);
    assert!(at["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{at}");
    let (begin, end) = (from.to_string(), to.to_string());
    let part = ask(lab, &["explain", trace, "--thread", "victim", "--from", &begin, "--to", &end, "--json"]);
    assert_eq!(part["budget"], story["budget"], "{part}");
    for (args, needle) in [
        (&["--worst", "wakup"][..], "there is wakeup, runqueue"),
        (&["--worst", "wakeup:0"], "N is 1"),
        (&["--thread", "nobody"], "has 0 of wakeup of \"nobody\""),
        (&["--at", "+1h"], "outside of the trace"),
        (&["--span", "sched_switch"], "'BEGIN, END, by=FIELD'"),
        (&["--symbols", "/nonexistent"], "cannot be read"),
    ] {
        let wrong = lab.kymo(&[&["explain", trace][..], args].concat()).expect(2).stderr;
        assert!(wrong.contains(needle), "{args:?}: {wrong}");
    }
}

/// The worst wake-up is later than the one of the recorded command, but of another program: only `--all` and
/// `--process` are about that.
#[test]
fn without_a_thread_it_is_about_the_recorded_command() {
    if Kernel::find("without_a_thread_it_is_about_the_recorded_command").is_none() {
        return;
    }
    let lab = Lab::alone("explain-default").within(DEADLINE);
    // It waits for the hog, too, from the hog's begin on: for longer than the victim.
    let other = lab.spawn(lab.cc("sleeper.c"), &[]);
    let other_tid: u64 = other.until("tid=").trim_start_matches("tid=").trim().parse().unwrap();
    let Some(recorded) = recorded(&lab, "delay.c") else { return };
    drop(other);
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    let story = |args: &[&str]| ask(&lab, &[&["explain", trace, "--json"], args].concat());
    let ns = |story: &Value| story["to"].as_u64().unwrap() - story["from"].as_u64().unwrap();
    let named = story(&["--thread", "victim"]);
    let by_default = story(&[]);
    assert_eq!((&by_default["tid"], &by_default["headline"]), (&named["tid"], &named["headline"]), "{by_default}");
    assert_eq!(story(&["--prio", "10"])["tid"], named["tid"]);
    // Its longest wait may be its first, before it has its name.
    let hog = &story(&["--thread", "hog"])["tid"];
    assert_eq!(&story(&["--prio", "20"])["tid"], hog);
    assert_eq!(&story(&["--prio", "15-50"])["tid"], hog);
    // A thread of a normal class is asked for only by its priority.
    let normal = story(&["--prio", "normal"]);
    assert!(normal["prio"].as_i64().unwrap() >= 100, "{normal}");
    for (args, is_other) in [
        (&["--all"][..], true),
        (&["--process", &other_tid.to_string()], true),
        (&["--process", "sleeper"], true),
        (&["--all", "--prio", "10"], false),
    ] {
        let found = story(args);
        assert_eq!(found["tid"] == other_tid, is_other, "{args:?}: {found}");
        assert!(!is_other || ns(&found) > ns(&named), "{args:?}: {found}");
    }
    latencies_of(&lab, trace, &named, ns(&named), &other_tid.to_string());
    // The critical path is chosen the same way.
    let path = ask(&lab, &["critical", trace, "--worst", "wakeup", "--json"]);
    assert_eq!((&path["tid"], &path["from"], &path["to"]), (&named["tid"], &named["from"], &named["to"]), "{path}");
    let path = ask(&lab, &["critical", trace, "--worst", "wakeup", "--all", "--json"]);
    assert_eq!(path["tid"], other_tid, "{path}");
}

/// `kymo latency` of a thread or process has their latencies, whoever wrote the records that end them.
fn latencies_of(lab: &Lab, trace: &str, victim: &Value, worst_ns: u64, other: &str) {
    let of = |words: &[&str]| {
        let found = ask(lab, &[&["latency", trace, "--what", "wakeup", "--by", "thread", "--json"], words].concat());
        let series = found["series"].as_array().unwrap().clone();
        series.iter().map(|series| (series["tid"].clone(), series["max"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let tid = victim["tid"].to_string();
    let by_name = of(&["--thread", "victim"]);
    assert_eq!(by_name, [(victim["tid"].clone(), worst_ns)]);
    assert_eq!(of(&["--thread", &tid]), by_name);
    let words = ["latency", trace, "--what", "wakeup", "--by", "process", "--thread", "victim", "--json"];
    let process = ask(lab, &words)["series"][0]["process"].to_string();
    let of_process = of(&["--process", &process]);
    assert!(of_process.len() > 1 && of_process.contains(&by_name[0]), "{of_process:?}");
    let named = of(&["--process", "sleeper"]);
    assert_eq!(named, of(&["--process", other]));
    assert_eq!(named.iter().map(|(tid, _)| tid.to_string()).collect::<Vec<_>>(), [other]);
    assert!(of(&["--thread", "no such thread"]).is_empty());
}

#[test]
fn a_wait_for_a_lock_names_what_its_owner_did() {
    if Kernel::find("a_wait_for_a_lock_names_what_its_owner_did").is_none() {
        return;
    }
    let lab = Lab::alone("explain_lock").within(DEADLINE);
    let Some(recorded) = recorded(&lab, "pattern.c") else { return };
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    let waited = kymo_tests::process::number(&recorded.outcome.stdout, "waited_ns");
    let story = ask(&lab, &["explain", trace, "--worst", "futex", "--thread", "waiter", "--json"]);
    assert_sums_up(&story);
    let whole = story["to"].as_u64().unwrap() - story["from"].as_u64().unwrap();
    assert!(whole <= waited && whole + 20 * MS >= waited, "{whole} ns told, {waited} ns seen by the program");
    let headline = text(&story, "headline");
    assert!(headline.contains("waiter[") && headline.contains("in futex, woken by owner["), "{headline}");
    let chain = story["chain"].to_string();
    assert!(chain.contains("blocked in clock_nanosleep"), "{chain}");
    // Spans of the user: the longest, and one by its number.
    let span = "syscall_entry_clock_nanosleep, syscall_exit_clock_nanosleep";
    let longest = ask(&lab, &["explain", trace, "--span", span, "--thread", "sleeper", "--json"]);
    let nth = ask(&lab, &["explain", trace, "--span", span, "--thread", "sleeper", "--nth", "7", "--json"]);
    let long = |story: &Value| story["to"].as_u64().unwrap() - story["from"].as_u64().unwrap();
    assert!(long(&longest) >= long(&nth) && long(&nth) > 0, "{longest} {nth}");
    assert_sums_up(&nth);
    timers_of_a_thread(&lab, trace);
    // The kernel's functions have names: the trace is of this boot. Where they are hidden it says so.
    let timers = lab.kymo(&["explain", trace, "--worst", "timer"]).expect(0).stdout;
    assert!(
        timers.contains("hrtimer_wakeup") || timers.contains("are not named") || timers.contains("timer of"),
        "{timers}"
    );
}

/// A timer is of the thread that started it: the latest one of the sleeper, by its number, lies in one of its sleeps.
#[track_caller]
fn timers_of_a_thread(lab: &Lab, trace: &str) {
    let found = ask(lab, &["latency", trace, "--what", "syscall", "--by", "thread", "--limit", "1000", "--json"]);
    let all = found["series"].as_array().unwrap().iter();
    let is_sleep = |series: &&Value| series["of"] == "clock_nanosleep" && series["worst"][0]["name"] == "sleeper";
    let sleeps = all.clone().find(is_sleep).unwrap_or_else(|| panic!("no sleeper in {found}"));
    let tid = sleeps["tid"].to_string();
    let story = ask(lab, &["explain", trace, "--worst", "timer", "--thread", &tid, "--json"]);
    assert_eq!(story["what"], "timer", "{story}");
    let is_in =
        |sleep: &Value| sleep["from"].as_i64() <= story["to"].as_i64() && story["to"].as_i64() <= sleep["to"].as_i64();
    assert!(sleeps["worst"].as_array().unwrap().iter().any(is_in), "{story} in {sleeps}");
    let named = ask(lab, &["explain", trace, "--worst", "timer", "--thread", "sleeper", "--json"]);
    assert_eq!((&named["from"], &named["to"]), (&story["from"], &story["to"]), "{named}");
    let nobody = lab.kymo(&["explain", trace, "--worst", "timer", "--thread", "nobody"]).expect(2).stderr;
    assert!(nobody.contains("has 0 of timer"), "{nobody}");
}

#[test]
fn a_report_of_a_latency_tracer() {
    let lab = Lab::new("explain_report");
    let reports = kymo_tests::paths::repository().join("host/kymo-ftrace/tests/reports");
    let report = reports.join("irqsoff_6_12_rt_of_a_module.txt");
    let report = report.to_str().unwrap();
    let told = lab.kymo(&["explain", report]).expect(0).stdout;
    assert!(told.starts_with("interrupts were off for 20083 us on cpu 1 under irq_test[114] (nice 0)"), "{told}");
    let symbols = lab.write("System.map", "ffffffffa0201100 t delay_it [delay_test]\nffffffffa0202000 t other\n");
    let told = lab.kymo(&["explain", report, "--symbols", symbols.to_str().unwrap()]).expect(0).stdout;
    assert!(told.contains("from delay_it+0x3a [delay_test] (0xffffffffa020113a)"), "{told}");
    let story = ask(&lab, &["explain", report, "--json"]);
    assert_eq!((&story["schema"], &story["length"]), (&"kymo-explain-report-1".into(), &20_083_000.into()), "{story}");
    let none = lab.write("notes.txt", "nothing of that sort\n");
    let wrong = lab.kymo(&["explain", none.to_str().unwrap()]).expect(2).stderr;
    assert!(wrong.contains("not a report of a latency tracer"), "{wrong}");
}
