// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other rings for programs that run and write: no record is lost by the change, and none comes twice.

use std::collections::BTreeMap;

use kymo_tests::{Lab, Ring, times, trace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// THREADS write as fast as they can, every other record to an event of its own, until a line comes.
const LOAD: &str = r#"
#include "common.h"
KYMO_EVENT(load, even, (u32, writer), (u64, n))
KYMO_EVENT(load, odd, (u32, writer), (u64, n), (str, text))
static volatile int over;
static uint64_t produced[16];
static long nap;
static void *writer(void *argument)
{
	uint32_t self = (uint32_t)(uintptr_t)argument;
	uint64_t n;

	for (n = 0; !over; n++) {
		if (n % 2)
			kymo_trace(load, odd, self, n, "text");
		else
			kymo_trace(load, even, self, n);
		if (nap && n % 64 == 63)
			nap_us(nap);
	}
	produced[self] = n;
	return NULL;
}
int main(int argc, char **argv)
{
	uint32_t threads = (uint32_t)atoi(argv[1]);
	pthread_t thread[16];
	uint64_t sum = 0;

	live_shortly();
	(void)argc;
	nap = atol(argv[2]);
	say("ready");
	hear();
	for (uint32_t at = 0; at < threads; at++)
		if (pthread_create(&thread[at], NULL, writer, (void *)(uintptr_t)at))
			die("pthread_create");
	hear();
	over = 1;
	for (uint32_t at = 0; at < threads; at++) {
		pthread_join(thread[at], NULL);
		sum += produced[at];
	}
	printf("produced=%" PRIu64 "\n", sum);
	return 0;
}
"#;

/// A session of the test by name, ended with it.
struct Session<'a>(&'a Lab, Option<Pid>);

impl<'a> Session<'a> {
    fn start(lab: &'a Lab, args: &[&str]) -> Session<'a> {
        let dir = lab.path("trace");
        let start = ["session", "start", "box", "--json", "-o", dir.to_str().unwrap()];
        let outcome = lab.kymo(&[&start, args].concat()).expect(0);
        let ready: Value = serde_json::from_str(&outcome.stdout).unwrap();
        Session(lab, Pid::from_raw(ready["pid"].as_i64().unwrap() as i32))
    }

    /// A verb, and its answer.
    #[track_caller]
    fn ask(&self, args: &[&str]) -> Value {
        let outcome = self.0.kymo(&[&["session", args[0], "box", "--json"], &args[1..]].concat()).expect(0);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// Other rings for all; one program must take them.
    #[track_caller]
    fn change(&self, size: &str) {
        let answer = self.ask(&["add", "--ring-size", size, "--running"]);
        let late = answer["late"].as_u64().unwrap();
        assert_eq!(answer["changed"].as_u64().unwrap() + late, 1, "{answer}");
        if late > 0 {
            self.0.wait_for("the answer", || (self.ask(&["status"])["view"]["offers_open"] == 0).then_some(()));
        }
    }

    fn stop(mut self) -> Value {
        self.1 = None;
        self.ask(&["stop"])
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.1 {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Fails unless the records of a trace come in the order of time, and the numbers of each writer in theirs. Gives how
/// many records there are, and how many are lost. The trace may be larger than memory: 40 rounds once took 24 GB.
#[track_caller]
fn count_in_order(lab: &Lab) -> (u64, u64) {
    let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut records, mut time) = (0, 0);
    let losses = trace::each(lab, &lab.path("trace"), |record| {
        let (writer, n) = (record.number("writer"), record.number("n"));
        if let Some(before) = newest.insert(writer, n) {
            assert!(before < n, "writer {writer}: {n} comes behind {before}");
        }
        assert!(time <= record.cycles, "time runs backwards: {time} {record:?}");
        (records, time) = (records + 1, record.cycles);
    });
    (records, losses.iter().map(|loss| loss.records).sum())
}

const SIZES: [&str; 5] = ["64K", "1M", "256K", "4M", "512K"];

/// Twenty changes while two threads write at full speed. What is lost is lost to full rings, and counted.
#[test]
fn changes_under_full_load() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("rings_full_load");
        lab.ring(ring);
        let program = lab.cc_text("load", LOAD);
        let session = Session::start(&lab, &["--ring-size", "1M", "--memory", "8G", "-u", "load:*"]);
        let mut proc = lab.spawn(program, &["2", "20"]);
        proc.until("ready");
        proc.say("go");
        for round in 0..times(1, 8) {
            for size in SIZES {
                session.change(size);
            }
            assert!(proc.is_running(), "round {round}");
        }
        proc.say("over");
        let produced = proc.wait().expect(0).number("produced");
        let summary = session.stop();
        let lost: u64 = summary["lost"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        let (records, told) = count_in_order(&lab);
        assert_eq!((told, lost), (lost, summary["lost"]["full"].as_u64().unwrap()), "{}", summary["lost"]);
        assert_eq!(records + lost, produced);
        assert_eq!(summary["damage"], serde_json::json!([]));
        assert_eq!(summary["processes"].as_array().unwrap().len(), 1);
        assert_eq!(summary["recorded_count"], 1);
    }
}

/// The same where nobody loses a record for want of room: then not one is lost, and a filter goes along.
#[test]
fn nothing_is_lost_where_writers_wait() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("rings_block");
        lab.ring(ring).env("KYMO_ALLOW_BLOCKING", "1");
        let program = lab.cc_text("load", LOAD);
        let args = ["--ring-size", "512K", "--memory", "8G", "--block", "10s", "-u", "load:*", "--poll-us", "200"];
        let session = Session::start(&lab, &[&args[..], &["--filter", "load:odd: n & 3 == 1"]].concat());
        let mut proc = lab.spawn(program, &["3", "100"]);
        proc.until("ready");
        proc.say("go");
        for size in [SIZES, SIZES].concat() {
            session.change(size);
        }
        proc.say("over");
        let produced = proc.wait().expect(0).number("produced");
        let summary = session.stop();
        // Of each writer 0, 1, 2, 4, 5, 6, 8, ...: all even ones, and every other odd one.
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        let losses = trace::each(&lab, &lab.path("trace"), |record| {
            let next = next.entry(record.number("writer")).or_default();
            assert_eq!(record.number("n"), *next, "{record:?}");
            *next += if *next % 4 == 2 { 2 } else { 1 };
        });
        assert_eq!(losses, [], "{}", summary["lost"]);
        // A writer whose last number is one that the filter rejects counts one more here.
        let seen: u64 = next.values().sum();
        assert!((produced..=produced + 3).contains(&seen), "{produced} {next:?}");
        assert_eq!(summary["blocking"]["programs"], 1);
        assert_eq!(summary["unfiltered_count"], 0);
    }
}

/// Flight recorder: what the old rings held is in the snapshot, in front of what the new ones hold.
#[test]
fn a_flight_recorder_keeps_what_the_old_rings_held() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("rings_flight");
        lab.ring(ring);
        let program = lab.cc("runner.c");
        let session = Session::start(&lab, &["--flight", "--ring-size", "256K", "--memory", "8G", "-u", "runner:*"]);
        let mut proc = lab.spawn(program, &[]);
        proc.until("ready");
        for (size, count) in [("1M", 100), ("256K", 200), ("512K", 50)] {
            proc.say(&format!("burst {count}"));
            proc.until("done");
            session.change(size);
        }
        proc.say("burst 10");
        proc.until("done");
        let done = session.ask(&["snapshot", "--wait"]);
        assert_eq!(done["records"], 360);
        let read = kymo_tests::trace::read(&lab, done["dir"].as_str().unwrap().as_ref(), &[]).whole();
        kymo_tests::trace::assert_counts_up(&read.numbers("runner:rec", "n"), 360);
        session.stop();
    }
}

#[test]
fn who_cannot_is_counted() {
    let lab = Lab::new("rings_cannot");
    let program = lab.cc("runner.c");
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    // Room for two sets of 64K rings, and not for a third one.
    let memory = (cpus * 2 * 64 * 1024 + 4096).to_string();
    let session = Session::start(&lab, &["--ring-size", "64K", "--memory", &memory, "-u", "runner:*"]);
    let mut hears = lab.spawn(&program, &[]);
    hears.until("ready");
    let mut command = lab.command(&program);
    command.env("KYMO_NO_THREAD", "1");
    let mut deaf = lab.start(command);
    deaf.until("ready");
    session.0.wait_for("two programs", || (session.ask(&["status"])["recorded_programs"] == 2).then_some(()));
    let answer = session.ask(&["add", "--ring-size", "32K", "--running"]);
    assert_eq!((&answer["deaf"], &answer["no_memory"], &answer["changed"]), (&1.into(), &1.into(), &0.into()));
    let text = lab.kymo(&["session", "add", "box", "--ring-size", "64K", "--running"]).expect(0).stderr;
    assert!(text.contains("KYMO_NO_THREAD=1") && text.contains("had rings of that size"), "{text}");
    for proc in [&mut hears, &mut deaf] {
        proc.say("burst 100");
        proc.until("done");
    }
    // With one of the two gone there is room.
    assert_eq!(deaf.wait().code, 0);
    session.0.wait_for("its end", || (session.ask(&["status"])["view"]["program_count"] == 1).then_some(()));
    session.0.wait_for("the change", || {
        let answer = session.ask(&["add", "--ring-size", "32K", "--running"]);
        (answer["changed"] == 1).then_some(())
    });
    hears.say("burst 100");
    hears.until("done");
    let summary = session.stop();
    assert_eq!(summary["records"], 300);
    assert!(summary["rings_bytes_max"].as_u64().unwrap() <= cpus * 2 * 64 * 1024 + 4096);
    assert_eq!(hears.wait().code, 0);
}

/// A child that is forked after a change, by a program whose rings have another size than those that it was given
/// first.
#[test]
fn forked_children_after_a_change() {
    let lab = Lab::new("rings_fork");
    let program = lab.cc_text(
        "forks",
        r#"
#include "common.h"
KYMO_EVENT(forks, rec, (u64, n))
int main(void)
{
	live_shortly();
	kymo_trace(forks, rec, 0);
	say("ready");
	hear();
	for (uint64_t child = 1; child <= 5; child++) {
		pid_t pid = fork();

		if (!pid) {
			for (int i = 0; i < 1000; i++)
				kymo_trace(forks, rec, child);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		kymo_trace(forks, rec, 0);
	}
	return 0;
}
"#,
    );
    let session = Session::start(&lab, &["--ring-size", "256K", "--memory", "8G"]);
    let mut proc = lab.spawn(program, &[]);
    proc.until("ready");
    session.change("512K");
    // Its children get rings of this size, while it keeps the others.
    session.ask(&["add", "--ring-size", "128K"]);
    proc.say("go");
    assert_eq!(proc.wait().code, 0);
    let summary = session.stop();
    assert_eq!(summary["records"], 6 + 5000, "{summary:#}");
    let read = lab.read("trace");
    for child in 1..=5 {
        assert_eq!(read.numbers("forks:rec", "n").iter().filter(|n| **n == child).count(), 1000);
    }
}
