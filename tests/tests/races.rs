// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things that happen at the same time: attaching, forking, libraries, snapshots, cuts, starts and stops. Programs end
//! well, nothing hangs, what was produced was read or counted as lost, and nothing is left behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kymo_tests::session::{Session, ask, runner, session};
use kymo_tests::{Build, Lab, Proc, Random, Ring, trace};
use rustix::process::Signal;

/// How long each race goes on.
fn race_time() -> Duration {
    Duration::from_secs(kymo_tests::times(2, 30) as u64)
}

/// Forks children one after the other until its input ends; each traces, and tells how much.
const FORKER: &str = r#"
#include "common.h"
/* However little it runs, so much it does. */
#define ROUNDS 10
KYMO_EVENT(race, child, (u32, round))
KYMO_EVENT(race, parent, (u32, round))
int main(void)
{
	unsigned round = 0;

	live_shortly();
	fcntl(0, F_SETFL, O_NONBLOCK);
	say("ready");
	for (;; round++) {
		int status;
		char c;
		pid_t child = fork();

		if (!child) {
			kymo_trace(race, child, round);
			_exit(0);
		}
		kymo_trace(race, parent, round);
		if (waitpid(child, &status, 0) != child || status)
			return 1;
		if (round >= ROUNDS && !read(0, &c, 1))
			break;
	}
	printf("rounds=%u\n", round + 1);
	return 0;
}
"#;

/// Opens and closes a library with tracepoints until its input ends.
const OPENER: &str = r#"
#include "common.h"
#include <dlfcn.h>
#define ROUNDS 10
KYMO_EVENT(race, opened, (u32, round))
int main(int argc, char **argv)
{
	unsigned round = 0;

	(void)argc;
	live_shortly();
	fcntl(0, F_SETFL, O_NONBLOCK);
	say("ready");
	for (;; round++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		char c;

		if (!library)
			return 1;
		kymo_trace(race, opened, round);
		dlclose(library);
		if (round >= ROUNDS && !read(0, &c, 1))
			break;
	}
	printf("rounds=%u\n", round + 1);
	return 0;
}
"#;

/// Sessions that come and go at least.
const SESSIONS_LEAST: usize = 3;

/// Nothing of sessions is left, and programs have ended.
#[track_caller]
fn assert_clean(lab: &Lab) {
    lab.wait_for("leftovers to go", || {
        session(lab, &["list"]).expect(1);
        lab.kymo(&["list"]);
        lab.sockets("").is_empty().then_some(())
    });
}

/// Sessions that come and go while `program` does what it does.
fn while_it_runs(lab: &Lab, args: &[&str], program: &std::path::Path, words: &[&str]) -> usize {
    let mut random = Random::new(lab.name(), 20_261_124);
    let proc = lab.spawn(program, words);
    proc.until("ready");
    let end = Instant::now() + race_time();
    let mut sessions = 0;
    // Time alone says nothing on a machine that stands still.
    while Instant::now() < end || sessions <= SESSIONS_LEAST {
        let recording = lab.record("trace").args(&["--overwrite", "--ring-size", "64K"]).args(args).attach();
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        let recorded = recording.end(Signal::INT);
        assert!([0, 1].contains(&recorded.outcome.code), "{}", recorded.outcome.stderr);
        assert_eq!(recorded.summary["complete"], true);
        let read = recorded.read(lab);
        let flight = args.contains(&"--flight");
        assert!(flight || read.records.len() as u64 == recorded.records(), "the trace and its summary differ");
        sessions += 1;
    }
    let outcome = proc.wait().expect(0);
    assert!(outcome.number("rounds") > 10 && outcome.stderr.is_empty(), "{outcome:?}");
    sessions
}

#[test]
fn sessions_come_and_go_while_a_program_forks() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("race_fork").within(race_time() * 4 + Duration::from_secs(300));
        lab.ring(ring);
        let program = lab.cc_text("forker", FORKER);
        assert!(while_it_runs(&lab, &[], &program, &[]) > SESSIONS_LEAST);
        assert_clean(&lab);
    }
}

#[test]
fn sessions_come_and_go_while_libraries_do() {
    let lab = Lab::new("race_dlopen").within(race_time() * 4 + Duration::from_secs(300));
    let program = lab.cc_text("opener", OPENER);
    let library = lab.build(&Build::new(&["plugin.c"]).library().flag("-DTAG=1"), "plug.so");
    assert!(while_it_runs(&lab, &[], &program, &[library.to_str().expect("UTF-8")]) > SESSIONS_LEAST);
    assert_clean(&lab);
}

#[test]
fn events_go_on_and_off_while_libraries_come_and_go() {
    let lab = Lab::new("race_switch").within(race_time() * 4 + Duration::from_secs(300));
    let program = lab.cc_text("opener", OPENER);
    let library = lab.build(&Build::new(&["plugin.c"]).library().flag("-DTAG=1"), "plug.so");
    let session_ = Session::start(&lab, "switch", &["--ring-size", "64K"]);
    let proc = lab.spawn(&program, &[library.to_str().expect("UTF-8")]);
    proc.until("ready");
    session_.until("a record", |status| status["records"].as_u64() > Some(0));
    let end = Instant::now() + race_time();
    while Instant::now() < end {
        for (verb, pattern) in
            [("disable", "plug:*"), ("disable", "race:*"), ("enable", "plug:*"), ("enable", "race:*")]
        {
            session_.ask(&[verb, pattern]);
        }
    }
    proc.wait().expect(0);
    let summary = session_.ask(&["stop"]);
    assert_eq!(summary["damage"], serde_json::json!([]));
    let read = lab.read("switch");
    assert_eq!(summary["records"].as_u64(), Some(read.records.len() as u64));
    assert!(!read.records.is_empty());
    assert_clean(&lab);
}

/// Runs `other` again and again in a thread while `body` runs.
fn beside(other: impl Fn() + Sync, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                other();
            }
        });
        let _stops = StopOnDrop(&stop);
        body();
    });
}

/// A failed body must not leave the thread running.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn snapshots_beside_snapshots_while_programs_come_and_die() {
    let lab = Lab::new("race_snapshot").within(race_time() * 4 + Duration::from_secs(300));
    let mut steady = runner(&lab);
    let session_ = Session::start(&lab, "box", &["--flight", "--ring-size", "64K", "-u", "runner:*"]);
    ask(&mut steady, "enabled", "enabled");
    let end = Instant::now() + race_time();
    let (program, mut random) = (lab.path("runner"), Random::new("race_snapshot", 20_261_125));
    let other = || {
        let outcome = session(&lab, &["snapshot", "box", "--wait"]).expect(0);
        assert!(outcome.stderr.contains("kymo read"), "{}", outcome.stderr);
    };
    beside(other, || {
        let mut rounds = 0;
        while Instant::now() < end || rounds < 4 {
            rounds += 1;
            let mut procs: Vec<Proc> = (0..4).map(|_| lab.spawn(&program, &[])).collect();
            for proc in &mut procs {
                proc.until("ready");
                proc.say("burst 100000");
            }
            ask(&mut steady, "burst 100", "done");
            session_.ask(&["snapshot", "--wait"]);
            std::thread::sleep(Duration::from_micros(random.below(5000)));
            for proc in procs {
                assert_eq!(proc.end(Signal::KILL).code, 137);
            }
            session_.ask(&["status"]);
        }
    });
    session_.ask(&["stop"]);
    // Before the traces are read, which takes longer than a program lives.
    assert_eq!(steady.wait().code, 0);
    let entries = std::fs::read_dir(lab.path("box")).expect("a directory").flatten();
    let dirs: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    assert!(dirs.len() > 3, "{} snapshots", dirs.len());
    for dir in dirs.iter().step_by(dirs.len().div_ceil(kymo_tests::times(25, 500))) {
        trace::read(&lab, dir, &[]).whole();
    }
    assert_clean(&lab);
}

#[test]
fn a_trace_is_cut_while_it_is_asked_changed_and_stopped() {
    let lab = Lab::new("race_rotate").within(race_time() * 4 + Duration::from_secs(300));
    let session_ = Session::start(&lab, "cut", &["--ring-size", "1M", "--memory", "4G"]);
    let mut proc = runner(&lab);
    let end = Instant::now() + race_time();
    let mut written = 0;
    let other = || {
        // The last of them meet the end.
        let outcome = session(&lab, &["rotate", "cut"]);
        assert!(outcome.code == 0 || outcome.code == 1 || outcome.stderr.contains("ended"), "{}", outcome.stderr);
        session(&lab, &["status", "cut"]);
    };
    beside(other, || {
        while Instant::now() < end {
            ask(&mut proc, "burst 500", "done");
            written += 500;
            session_.ask(&["disable", "nobody:*"]);
        }
        let summary = session_.ask(&["stop"]);
        let lost: u64 = summary["lost"].as_object().expect("causes").values().filter_map(|count| count.as_u64()).sum();
        assert_eq!(summary["records"].as_u64().map(|records| records + lost), Some(written), "{summary:#}");
    });
    ask(&mut proc, "disabled", "disabled");
    let read = trace::read(&lab, &lab.path("cut"), &[]);
    assert_eq!(read.code, 0, "{}", read.stderr);
    assert_eq!(read.records.len() as u64 + read.lost(), written);
    assert_eq!(proc.wait().code, 0);
    assert_clean(&lab);
}

#[test]
fn four_processes_start_and_stop_two_names() {
    let lab = Lab::new("race_names").within(race_time() * 4 + Duration::from_secs(300));
    let mut proc = runner(&lab);
    let end = Instant::now() + race_time();
    let (started, stopped) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (lab, started, stopped) = (&lab, &started, &stopped);
            scope.spawn(move || {
                for round in 0.. {
                    let all = [started, stopped].map(|count| count.load(Ordering::Relaxed));
                    if Instant::now() >= end && all.iter().all(|count| *count > 5) {
                        return;
                    }
                    let name = ["a", "b"][(worker + round) % 2];
                    let dir = lab.path(&format!("{name}-{worker}-{round}"));
                    let outcome =
                        session(lab, &["start", name, "-q", "-o", dir.to_str().expect("UTF-8"), "--ring-size", "64K"]);
                    match outcome.code {
                        0 => drop(started.fetch_add(1, Ordering::Relaxed)),
                        code => assert!(code == 2 && outcome.stderr.contains("runs already"), "{outcome:?}"),
                    }
                    assert_eq!(dir.exists(), outcome.code == 0);
                    // Absent, or another one's stop was first.
                    let outcome = session(lab, &["stop", name, "-q"]);
                    match outcome.code {
                        0 => drop(stopped.fetch_add(1, Ordering::Relaxed)),
                        code => assert!(code == 1 || outcome.stderr.contains("ended"), "{outcome:?}"),
                    }
                }
            });
        }
    });
    for name in ["a", "b"] {
        session(&lab, &["stop", name, "-q"]);
    }
    let (started, stopped) = (started.into_inner(), stopped.into_inner());
    assert!(started > 5 && stopped > 5, "{started} started, {stopped} stopped");
    ask(&mut proc, "disabled", "disabled");
    ask(&mut proc, "burst 10", "done");
    assert_eq!(proc.wait().expect(0).stderr, "");
    assert_clean(&lab);
}
