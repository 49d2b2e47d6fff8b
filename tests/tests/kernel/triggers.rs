// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers on kernel events and on wake-ups [spec/flight.md 3.1, spec/filter.md 5.1].

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kymo_tests::trace::{self, Record};
use kymo_tests::{Kernel, Lab, Read, Recorded};
use rustix::process::Signal;
use serde_json::Value;

/// A thread `late` that is to wake up every `gap` ms, on the same CPU as a real-time thread `hog`, which takes it from
/// 1 ms before to 2 ms after that. Says its own process id and that of `late`.
const DELAYED: &str = r#"
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
KYMO_EVENT(req, begin, (u32, n))
static int64_t base, gap;
static int rounds;
static pthread_barrier_t ready, go;
static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static void until(int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
static void on_last_cpu(const char *name)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
	sched_setaffinity(0, sizeof(set), &set);
	prctl(PR_SET_NAME, name);
}
static void begin(void)
{
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);
}
static void *hog(void *unused)
{
	struct sched_param param = { .sched_priority = 40 };
	on_last_cpu("hog");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		abort();
	begin();
	for (int i = 0; i < rounds; i++) {
		int64_t at = base + i * gap - 1000000;
		/* It sleeps, however late it is: its CPU is switched to it then. */
		until(at > now() ? at : now() + 100000);
		while (now() < base + i * gap + 2000000)
			;
	}
	return unused;
}
/* Some kernels do not record a switch from the idle thread: that CPU has always something to do. */
static volatile int is_over;
static void *filler(void *unused)
{
	struct sched_param param = { 0 };
	on_last_cpu("filler");
	if (sched_setscheduler(0, SCHED_IDLE, &param))
		abort();
	while (!is_over)
		;
	return unused;
}
static void *late(void *unused)
{
	on_last_cpu("late");
	begin();
	for (int i = 0; i < rounds; i++) {
		kymo_trace(req, begin, (uint32_t)i);
		until(base + i * gap);
	}
	return unused;
}
int main(int argc, char **argv)
{
	pthread_t a, b, c;
	rounds = atoi(argv[1]);
	gap = atoi(argv[2]) * 1000000ll;
	live_shortly();
	if (argc > 3)
		until_enabled(req, begin);
	pthread_barrier_init(&ready, NULL, 3);
	pthread_barrier_init(&go, NULL, 3);
	pthread_create(&c, NULL, filler, NULL);
	pthread_create(&a, NULL, hog, NULL);
	pthread_create(&b, NULL, late, NULL);
	pthread_barrier_wait(&ready);
	base = now() + 100000000;
	pthread_barrier_wait(&go);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	is_over = 1;
	pthread_join(c, NULL);
	until(now() + 30000000);
	return 0;
}
"#;

/// Snapshots that a trigger asked for.
fn fired(recorded: &Recorded) -> Vec<Value> {
    let all = recorded.summary["flight"]["snapshots"].as_array().expect("a list of snapshots");
    all.iter().filter(|snapshot| !snapshot["trigger"].is_null()).cloned().collect()
}

/// How often conditions held.
fn times_fired(recorded: &Recorded) -> u64 {
    let acted = &recorded.summary["flight"];
    acted["times"].as_u64().expect("a count") + acted["held_back"].as_u64().expect("a count")
}

/// The snapshot of the end.
fn last_moments(recorded: &Recorded) -> PathBuf {
    let count = std::fs::read_dir(&recorded.dir).expect("a directory").flatten();
    let names = count.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("snapshot-"));
    names.max().expect("a snapshot")
}

fn reason(snapshot: &Value) -> &str {
    snapshot["reason"].as_str().expect("a reason")
}

/// A field that is text.
fn text<'a>(record: &'a Record, field: &str) -> &'a str {
    record.fields[field].as_str().unwrap_or_else(|| panic!("{field} is no text in {record:?}"))
}

fn cycles(snapshot: &Value, path: &str) -> u64 {
    snapshot.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} is not in {snapshot}"))
}

fn flight<'a>(lab: &'a Lab, name: &str, condition: &'a str, more: &[&str]) -> kymo_tests::record::Recording<'a> {
    let args = ["--flight", "--state", "none", "--trigger-pause", "1us", "--trigger", condition];
    lab.record(name).args(&args).args(more)
}

#[test]
fn a_thread_that_runs_late_leaves_what_it_waited_for() {
    let Some(kernel) = Kernel::find("late") else { return };
    let lab = Lab::alone("late");
    let program = lab.cc_text("delayed", DELAYED);
    let command = [program.to_str().unwrap(), "3", "100"];
    let check = |name: &str, condition: &str, more: &[&str]| {
        let recorded = flight(&lab, name, condition, more).run(&command).expect(0);
        kernel.assert_clean(recorded.pid);
        let taken = fired(&recorded);
        // The filter says of the whole trace what the trigger said of the moment; other work may make the thread late
        // more often.
        let last = trace::read(&lab, &last_moments(&recorded), &["--filter", condition]).whole();
        let late = last.of("sched_switch").count() as u64;
        assert!(late > 0 && times_fired(&recorded) == late, "{name}: {late} times late: {}", recorded.outcome.stderr);
        for snapshot in &taken {
            super::says(reason(snapshot), &[condition, "sched_switch of ", "] to late[", "] on CPU ", " ms"]);
            check_snapshot(&lab, snapshot);
        }
    };
    check("with", "wakeup($proc == \"late\") > 1ms", &["-k", "sched"]);
    // The condition alone brings its events; the general form of the same.
    check("without", "wakeup(comm == \"late\" && prio >= 0) > 1ms && prev_prio != 127", &[]);
    check("pair", "latency(sched_waking, sched_switch, by=tid:next_tid, where=comm == \"late\") > 1ms", &[]);
    // What is not late does not fire.
    let recorded = flight(&lab, "never", "wakeup($proc == \"late\") > 1s", &["-k", "sched"]).run(&command).expect(0);
    assert_eq!(fired(&recorded), Vec::<Value>::new());
    let found = trace::read(&lab, &last_moments(&recorded), &["--filter", "wakeup($proc == \"late\") > 1ms"]).whole();
    assert!(found.of("sched_switch").count() > 0, "it was late, though not so late");
}

/// The record that fired. Two instances recorded it, each with its own look at the clock.
fn switch_to_late(read: &Read, cycles: u64) -> &Record {
    let switches = read.of("sched_switch").filter(|of| text(of, "next_comm") == "late");
    let nearest = switches.min_by_key(|of| of.cycles.abs_diff(cycles)).expect("a switch");
    assert!(nearest.cycles.abs_diff(cycles) < 1_000_000, "{} cycles away", nearest.cycles.abs_diff(cycles));
    nearest
}

/// The filter of an event in an instance. The kernel gives it to one read only.
fn filter_of(instance: &Path) -> Option<String> {
    let mut room = [0; 4096];
    let length = std::fs::File::open(instance.join("events/sched/sched_switch/filter")).ok()?.read(&mut room).ok()?;
    Some(String::from_utf8_lossy(&room[..length]).trim().to_owned())
}

/// The wake-up, the hog in between, and the switch that the trigger saw.
fn check_snapshot(lab: &Lab, snapshot: &Value) {
    let dir = Path::new(snapshot["dir"].as_str().expect("a directory"));
    let read = trace::read(lab, dir, &[]).whole();
    let record = cycles(snapshot, "/trigger/record");
    let order = ["/trigger/record", "/trigger/seen", "/at", "/frozen"].map(|path| cycles(snapshot, path));
    assert!(order.is_sorted(), "{order:?}");
    let late = switch_to_late(&read, record);
    assert_eq!(text(late, "next_comm"), "late");
    let waking = read.of("sched_waking").filter(|of| text(of, "comm") == "late" && of.cycles < late.cycles).last();
    let waking = waking.expect("the wake-up");
    let hog = read.of("sched_switch").filter(|of| text(of, "prev_comm") == "hog" && of.cycles <= late.cycles).last();
    assert!(hog.is_some_and(|hog| hog.cycles > waking.cycles), "the hog ran between wake-up and switch");
}

#[test]
fn single_events_by_both_names_with_filters_of_the_kernels_own() {
    let Some(kernel) = Kernel::find("single") else { return };
    let lab = Lab::alone("single");
    let program = lab.cc_text("delayed", DELAYED);
    // FIFO 40: the kernel's priority 59, LTTng's -41.
    for (names, condition, name, prio, pushed) in [
        ("lttng", "sched_switch: next_prio == -41 && next_comm == \"hog\"", "sched_switch", -41, "next_prio == 59"),
        (
            "kernel",
            "sched:sched_switch.next_prio in (59, 1000)",
            "sched:sched_switch",
            59,
            "(next_prio == 59) || (next_prio == 1000)",
        ),
    ] {
        let mut running = flight(&lab, names, condition, &["--names", names, "--on-trigger", "mark"]).start(&[
            program.to_str().unwrap(),
            "4",
            "100",
        ]);
        let pid = running.proc().pid();
        let filters = lab.wait_for("both instances", || {
            let filters: Vec<String> = kernel.instances_of(pid).iter().filter_map(|path| filter_of(path)).collect();
            (filters.len() == 2 && filters.iter().any(|filter| filter != "none")).then_some(filters)
        });
        assert!(filters.iter().any(|filter| filter.contains(pushed)), "{filters:?}");
        let recorded = running.wait().expect(0);
        kernel.assert_clean(recorded.pid);
        // How often the hog got its CPU depends on what else runs here; each time is in the trace, which has all
        // switches.
        let times = times_fired(&recorded);
        let wanted = format!("{name}: next_prio == {prio}");
        let switches = trace::read(&lab, &recorded.dir.join("snapshot-0001"), &["--filter", &wanted]).whole();
        let switches = switches.of(name).filter(|of| names == "kernel" || text(of, "next_comm") == "hog").count();
        assert!(times > 0 && times == switches as u64, "{times} of {switches}: {}", recorded.outcome.stderr);
        let marks = trace::read(&lab, &recorded.dir.join("snapshot-0001"), &[]).whole();
        let said: Vec<&str> = marks.of("kymo_mark").map(|mark| text(mark, "text")).collect();
        assert!(said.iter().any(|text| text.contains(&format!("{name} of ")) && text.contains("hog[")), "{said:?}");
    }
}

#[test]
fn programs_and_the_kernel_in_one_pair() {
    let Some(kernel) = Kernel::find("mixed") else { return };
    let lab = Lab::alone("mixed");
    let program = lab.cc_text("delayed", DELAYED);
    let condition = "latency(req:begin, sched_switch, by=$tid : next_tid) > 30ms";
    let command = [program.to_str().unwrap(), "4", "100", "wait"];
    let recorded = flight(&lab, "trace", condition, &[]).run(&command).expect(0);
    kernel.assert_clean(recorded.pid);
    let taken = fired(&recorded);
    assert!(taken.len() >= 2, "{}", recorded.outcome.stderr);
    for snapshot in &taken {
        super::says(reason(snapshot), &["sched_switch of ", "to late["]);
        let read = trace::read(&lab, Path::new(snapshot["dir"].as_str().unwrap()), &[]).whole();
        let record = cycles(snapshot, "/trigger/record");
        let switch = switch_to_late(&read, record);
        let begin = read.of("req:begin").filter(|of| of.cycles < record).last().expect("the request");
        assert_eq!(begin.tid, switch.number("next_tid"), "of the same thread");
    }
}

#[test]
fn what_cannot_be_watched_is_said_at_the_start() {
    let Some(kernel) = Kernel::find("wrong") else { return };
    let lab = Lab::new("wrong");
    for (condition, more, parts) in [
        ("sched_swich: next_tid == 1", &[][..], &["no event sched_swich", "sched_switch"][..]),
        ("latency(sched_waking, nothing_like_it) > 1ms", &[], &["nothing_like_it", "kymo list -k"]),
        ("sched:sched_switch.next_tid == 1", &[], &["is called sched_switch", "--names kernel"]),
        ("sched_switch: next_tidd == 1", &[], &["no event has a field `next_tidd`", "did you mean `next_tid`"]),
        ("\"sched_switch\".next_pid == 1", &[], &["no event has a field `next_pid`"]),
        ("sched_switch.next_tid == 1", &[], &["sched_switch is an event", "sched_switch: next_tid"]),
        ("wakeup(colour == 3) > 1ms", &[], &["no event has a field `colour`"]),
        ("sched_switch: next_tid == \"x\"", &["--names", "lttng"], &["--trigger"]),
    ] {
        let recorded =
            lab.record("none").args(&["--flight", "--trigger", condition]).args(more).run(&["true"]).expect(2);
        super::says(&recorded.outcome.stderr, parts);
        assert!(!recorded.dir.exists(), "{condition}: a directory is left");
        kernel.assert_clean(recorded.pid);
    }
    // What was made already goes with a session that does not begin.
    let args = ["--flight", "-k", "sched:sched_switch", "--trigger", "wakeup() > 10s"];
    let absent = lab.record("absent").args(&args).run(&["/nowhere/to/be/found"]).expect(127);
    kernel.assert_clean(absent.pid);
    let refused =
        lab.record("refused").args(&args).args(&["-k", "sched:sched_waking[nothing == 1]"]).run(&["true"]).expect(2);
    super::says(&refused.outcome.stderr, &["nothing"]);
    kernel.assert_clean(refused.pid);
    // Where the kernel need not be had, the session runs and says so.
    let mut lab = Lab::new("wrong_optional");
    lab.env("KYMO_TRACEFS", "/nowhere");
    let args = ["--flight", "--kernel-optional", "--trigger", "wakeup() > 1ms"];
    let recorded = lab.record("optional").args(&args).run(&["true"]).expect(0);
    super::says(&recorded.outcome.stderr, &["no kernel events"]);
    lab.record("needed").args(&["--flight", "--trigger", "wakeup() > 1ms"]).run(&["true"]).expect(2);
}

#[test]
fn a_flood_is_counted_as_not_seen() {
    let Some(kernel) = Kernel::find("flood") else { return };
    let lab = Lab::new("flood");
    let program = lab.cc("calls.c");
    let condition = "latency(syscall_entry_close, syscall_exit_close, by=$tid) > 100s";
    let recorded = flight(&lab, "trace", condition, &["--poll-us", "1000000"])
        .run(&[program.to_str().unwrap(), "numbers", "300000"])
        .expect(0);
    kernel.assert_clean(recorded.pid);
    super::says(&recorded.outcome.stderr, &["triggers did not see", "of the kernel"]);
}

/// A collector that was killed had two instances; both go, with a session after it or without.
#[test]
fn a_killed_watcher() {
    let Some(kernel) = Kernel::find("killed_watcher") else { return };
    let lab = Lab::new("killed_watcher");
    let mut dead = flight(&lab, "dead", "wakeup() > 10s", &["-k", "sched:sched_switch"]).attach();
    let pid = dead.proc().pid();
    assert_eq!(kernel.instances_of(pid).len(), 2);
    dead.end(Signal::KILL);
    let next = lab.record("next").args(&["-k", "sched:sched_switch", "--state", "none"]).run(&["true"]).expect(0);
    lab.wait_for("both are gone", || kernel.instances_of(pid).is_empty().then_some(()));
    kernel.assert_clean(next.pid);
}
