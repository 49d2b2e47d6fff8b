// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo stats` and `kymo latency`, held against a program whose pattern is known and which measures itself.

use kymo_tests::{Kernel, Lab, Recorded};
use serde_json::Value;

/// What `kymo` says as JSON.
#[track_caller]
fn ask(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.kymo(args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

fn recorded(lab: &Lab) -> Recorded {
    let program = lab.cc("pattern.c");
    let recording = lab.record("trace").args(&["-k", "sched,irq,syscalls", "--kernel-ring", "32M"]);
    recording.run(&[program.to_str().unwrap()]).expect(0)
}

/// The series of a kind, each of one thread.
fn series<'v>(found: &'v Value, what: &str) -> Vec<&'v Value> {
    found["series"].as_array().expect("series").iter().filter(|series| series["what"] == what).collect()
}

/// The series with the worst sample of a thread of this name, and that sample. A sample has the name that the thread
/// had then, and a thread may have its worst one before it takes its name: so a series is the thread's if any sample
/// is.
#[track_caller]
fn worst<'v>(found: &'v Value, what: &str, of: &str, name: &str) -> (&'v Value, &'v Value) {
    let all = series(found, what).into_iter().filter(|series| of.is_empty() || series["of"] == of);
    let is_named = |sample: &Value| sample["name"] == name;
    let worst = |series: &'v Value| Some((series, series["worst"].as_array()?.iter().find(|sample| is_named(sample))?));
    let mut of_thread: Vec<_> = all.filter_map(worst).collect();
    of_thread.sort_by_key(|(_, worst)| worst["value"].as_u64());
    of_thread.pop().unwrap_or_else(|| panic!("no {what} {of} of {name} in {found}"))
}

const MS: u64 = 1_000_000;

#[test]
fn findings_name_what_the_program_did() {
    if Kernel::find("findings_name_what_the_program_did").is_none() {
        return;
    }
    let lab = Lab::alone("analyze");
    let recorded = recorded(&lab);
    lab.kernel_lossless(&recorded);
    let trace = recorded.dir.to_str().unwrap();
    let found = ask(&lab, &["latency", trace, "--by", "thread", "--json"]);

    // The mutex: who waited, how long as the program saw it, and who held it.
    let waited = kymo_tests::process::number(&recorded.outcome.stdout, "waited_ns");
    let (_, wait) = worst(&found, "futex", "", "waiter");
    let value = wait["value"].as_u64().unwrap();
    assert!(value <= waited && value + 2000 * MS >= waited, "{value} ns found, {waited} ns seen by the program");
    assert_eq!(wait["owner"]["name"], "owner", "{wait}");
    assert_eq!(wait["doubt"], serde_json::json!([]), "{wait}");

    // The sleeps: all of them, none shorter than asked.
    let (sleeps, _) = worst(&found, "syscall", "clock_nanosleep", "sleeper");
    assert_eq!(sleeps["count"], 20, "{sleeps}");
    assert!(sleeps["min"].as_u64().unwrap() >= 5 * MS, "{sleeps}");
    // Each ends with a wake-up by a timer, before the call returns.
    let (wakeups, wakeup) = worst(&found, "wakeup", "", "sleeper");
    assert!(wakeups["count"].as_u64().unwrap() >= 20, "{wakeups}");
    assert!(wakeup["waker"]["cpu"].is_u64(), "{wakeup}");

    // Two threads that never sleep share a CPU: each waits for it, for a time slice at least once.
    for hog in ["hog_a", "hog_b"] {
        let (waits, wait) = worst(&found, "runqueue", "", hog);
        assert!(wait["value"].as_u64().unwrap() >= MS, "{waits}");
        assert_eq!(wait["cpu"], 0, "{wait}");
    }
    critical(&lab, trace, value);
    let text = lab.kymo(&["latency", trace, "--what", "futex", "--utc", "--worst", "500"]).expect(0).stdout;
    assert!(text.contains("waiter[") && text.contains("released by owner["), "{text}");
}

/// The path of the wait for the mutex goes through its owner, down to the timer that ended the owner's sleep.
#[track_caller]
fn critical(lab: &Lab, trace: &str, wait_ns: u64) {
    let path = ask(lab, &["critical", trace, "--thread", "waiter", "--worst", "futex", "--json"]);
    let steps = path["steps"].as_array().unwrap();
    let ns = |step: &Value| step["to"].as_u64().unwrap() - step["from"].as_u64().unwrap();
    assert_eq!(steps.iter().map(ns).sum::<u64>(), wait_ns, "{path}");
    let slept =
        |step: &&Value| step["name"] == "owner" && step["text"].as_str().unwrap().contains("in clock_nanosleep");
    let sleep = steps.iter().find(slept).unwrap_or_else(|| panic!("no sleep of the owner in {path}"));
    assert!(ns(sleep) >= 30 * MS && sleep["depth"] == 1 && sleep["act"] == "blocked", "{path}");
    let woken = sleep["text"].as_str().unwrap();
    assert!(woken.contains("woken by hrtimer hrtimer_wakeup") || woken.contains("local_timer"), "{path}");
    let parts = path["budget"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| part["ns"].as_u64().unwrap()).sum::<u64>(), wait_ns, "{path}");
    // The cause is what the owner did meanwhile: it slept with the lock.
    assert_eq!(parts[0]["kind"], "lock_owner", "{path}");
    let text = parts[0]["part"].as_str().unwrap();
    assert!(text.contains("owner[") && text.contains("was blocked in clock_nanosleep"), "{path}");
}

#[test]
fn statistics_count_what_is_read() {
    if Kernel::find("statistics_count_what_is_read").is_none() {
        return;
    }
    let lab = Lab::alone("stats");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    let stats = ask(&lab, &["stats", trace, "--by", "event,thread", "--fields", "--json"]);
    let rows = stats["rows"].as_array().unwrap();
    let read = recorded.read(&lab);
    for event in ["sched_switch", "syscall_entry_clock_nanosleep", "irq_softirq_entry"] {
        let counted = rows.iter().filter(|row| row["event"] == event).map(|row| row["records"].as_u64().unwrap());
        assert_eq!(counted.sum::<u64>(), read.of(event).count() as u64, "{event}");
    }
    let of_sleeper = |row: &&Value| row["event"] == "syscall_entry_clock_nanosleep" && row["name"] == "sleeper";
    let row = rows.iter().find(of_sleeper).unwrap_or_else(|| panic!("no sleeper in {stats}"));
    assert_eq!(row["records"], 20, "{row}");
    // The clock that it asks for is 1 each time.
    let fields = row["fields"].as_array().unwrap();
    let clock = fields.iter().find(|field| field["field"] == "which_clock").unwrap_or_else(|| panic!("{row}"));
    assert_eq!((&clock["min"], &clock["max"], &clock["mean"]), (&1.into(), &1.into(), &1.0.into()), "{clock}");
}

#[test]
fn spans_of_the_user_and_what_is_no_span() {
    if Kernel::find("spans_of_the_user_and_what_is_no_span").is_none() {
        return;
    }
    let lab = Lab::alone("spans");
    let recorded = recorded(&lab);
    let trace = recorded.dir.to_str().unwrap();
    let span = "sched_process_fork, sched_process_exit, by=child_tid";
    let wrong = lab.kymo(&["latency", trace, "--span", span]).expect(2).stderr;
    assert!(wrong.contains("no event has a field `child_tid`"), "{wrong}");
    let wrong = lab.kymo(&["latency", trace, "--span", "sched_switch"]).expect(2).stderr;
    assert!(wrong.contains("'BEGIN, END, by=FIELD'"), "{wrong}");
    let span = "sched_waking, sched_wakeup, by=tid";
    let found = ask(&lab, &["latency", trace, "--span", span, "--json"]);
    let all = series(&found, "span");
    assert_eq!(all.len(), found["series"].as_array().unwrap().len(), "only spans: {found}");
    assert!(all[0]["count"].as_u64().unwrap() >= 20, "{found}");
    assert_eq!(all[0]["of"], span);
    let wrong = lab.kymo(&["latency", trace, "--what", "wakup"]).expect(2).stderr;
    assert!(wrong.contains("wakeup, runqueue"), "{wrong}");
}

/// Events that tell a system call by its number: the architecture of the trace decides what it is called.
#[test]
fn calls_by_number_have_the_names_of_their_architecture() {
    let name = "calls_by_number_have_the_names_of_their_architecture";
    if Kernel::find(name).is_none() {
        return;
    }
    if std::env::consts::ARCH != "x86_64" {
        return kymo_tests::skip(name, "its numbers are those of x86_64");
    }
    let lab = Lab::alone("numbers");
    let events = "sched,raw_syscalls:sys_enter,raw_syscalls:sys_exit";
    let recorded = lab.record("trace").args(&["-k", events]).run(&["sleep", "0.01"]).expect(0);
    let trace = recorded.dir.to_str().unwrap();
    let metadata = recorded.dir.join("metadata");
    let text = std::fs::read_to_string(&metadata).unwrap();
    assert!(text.contains("\"x86_64\""), "{text}");
    for (machine, sleep) in [("x86_64", "clock_nanosleep"), ("aarch64", "mlockall"), ("riscv64", "syscall_230")] {
        std::fs::write(&metadata, text.replace("\"x86_64\"", &format!("{machine:?}"))).unwrap();
        let found = ask(&lab, &["latency", trace, "--what", "syscall", "--json"]);
        // Others may sleep, too.
        assert!(worst(&found, "syscall", sleep, "sleep").0["count"].as_u64() >= Some(1), "{machine}: {found}");
        let stats = ask(&lab, &["stats", trace, "--event", "raw_syscalls_sys_enter", "--by", "id", "--json"]);
        let id: Value = if machine == "riscv64" { 230.into() } else { sleep.into() };
        let is_there = stats["rows"].as_array().unwrap().iter().any(|row| row["id"] == id);
        assert!(is_there, "{machine}: {stats}");
        let to = lab.path(machine);
        lab.kymo(&["export", trace, "--format", "chrome", "-o", to.to_str().unwrap()]).expect(0);
        let events: Value = serde_json::from_str(&std::fs::read_to_string(&to).unwrap()).unwrap();
        let is_call = |event: &Value| event["name"] == sleep && event["ph"] == "B";
        assert!(events["traceEvents"].as_array().unwrap().iter().any(is_call), "{machine}: no {sleep}");
    }
}
