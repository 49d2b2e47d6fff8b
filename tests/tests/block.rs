// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--block`: who has agreed waits for room, within the time, and nobody else does; what is not waited for is counted.

use std::time::{Duration, Instant};

use kymo_tests::record::Attached;
use kymo_tests::{Lab, Proc, Recorded, Ring, has, skip, trace};
use rustix::process::Signal;

const AGREED: (&str, &str) = ("KYMO_ALLOW_BLOCKING", "1");

/// Programs that agreed and records that waited, by the summary.
fn waited(recorded: &Recorded) -> (u64, u64) {
    let of = |key: &str| recorded.summary["blocking"][key].as_u64().expect("what came of waiting");
    (of("programs"), of("waits"))
}

#[test]
fn one_writer_at_full_speed_loses_nothing() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_full_speed");
        lab.ring(ring);
        let program = lab.cc("produce.c");
        let command = [program.to_str().unwrap(), "1", "1000000"];
        let args = ["--ring-size", "64K", "--poll-us", "2000", "--block", "10s"];
        // Without its word the program is as fast as ever, and loses.
        let recorded = lab.record("without").args(&args).run(&command).expect(0);
        assert!(recorded.lost_by("full") > 0, "the test must overflow the ring\n{}", recorded.outcome.stderr);
        assert_eq!(recorded.records() + recorded.lost(), 1_000_000);
        assert_eq!(waited(&recorded), (0, 0));
        assert!(recorded.outcome.stderr.contains("KYMO_ALLOW_BLOCKING=1"), "{}", recorded.outcome.stderr);
        lab.env(AGREED.0, AGREED.1);
        let recorded = lab.record("trace").args(&args).run(&command).expect(0).lossless();
        let (programs, waits) = waited(&recorded);
        assert!(programs == 1 && waits > 0, "{programs} {waits}");
        trace::assert_counts_up(&recorded.read(&lab).numbers("produce:rec", "n"), 1_000_000);
    }
}

/// A program of runner.c in a session with tiny rings, whose collector is stopped and takes nothing until it is let go
/// on.
fn stopped_collector(lab: &Lab, program: &str, args: &[&str], block: &str) -> (Proc, Attached) {
    let mut proc = lab.spawn(program, args);
    proc.until("ready");
    let options = ["--ring-size", "4K", "--block", block, "-u", "runner:*"];
    let mut recording = lab.record("trace").args(&options).attach();
    proc.say("enabled");
    proc.until("enabled");
    recording.proc().stop();
    (proc, recording)
}

/// A CPU that this process may run on.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its CPUs").trim();
    list.split([',', '-']).next().expect("a CPU").to_owned()
}

/// Writes `count` records; how long it took.
fn burst(proc: &mut Proc, count: u64) -> Duration {
    let begun = Instant::now();
    proc.say(&format!("burst {count}"));
    proc.until("done");
    begun.elapsed()
}

#[test]
fn when_the_time_is_over_each_loss_is_counted() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_time_over");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc("runner.c");
        // On one CPU: where it could go to another one, it would find room there.
        let args = ["-c", &first_cpu(), program.to_str().unwrap()];
        let (mut proc, mut recording) = stopped_collector(&lab, "taskset", &args, "50ms");
        // 28 bytes each: 146 fit.
        let took = burst(&mut proc, 160);
        recording.proc().signal(Signal::CONT);
        let recorded = recording.end(Signal::INT).expect(0);
        assert_eq!(recorded.lost_by("full"), 160 - 146, "{}", recorded.outcome.stderr);
        assert_eq!((recorded.records(), recorded.lost()), (146, 14));
        assert_eq!(waited(&recorded), (1, 14));
        assert!(took >= Duration::from_millis(14 * 50), "{took:?}");
        assert_eq!(recorded.read(&lab).lost(), 14);
        assert_eq!(proc.wait().code, 0);
    }
}

/// Waits until the program's first thread is in a pause of a wait.
fn until_it_waits(lab: &Lab, proc: &Proc) {
    let path = format!("/proc/{}/syscall", proc.pid());
    let number = format!("{} ", clock_nanosleep());
    lab.wait_for("a wait", || std::fs::read_to_string(&path).ok()?.starts_with(&number).then_some(()));
}

fn clock_nanosleep() -> u32 {
    if cfg!(target_arch = "x86_64") { 230 } else { 115 }
}

#[test]
fn who_waits_goes_on_when_the_collector_dies() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_killed");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc("runner.c");
        let (mut proc, recording) = stopped_collector(&lab, program.to_str().unwrap(), &[], "10s");
        let begun = Instant::now();
        proc.say("burst 100000");
        until_it_waits(&lab, &proc);
        recording.end(Signal::KILL);
        proc.until("done");
        // At once; each of those that wait would take ten seconds, and nearly all would.
        assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
        proc.say("disabled");
        proc.until("disabled");
        assert_eq!(proc.wait().expect(0).stderr, "");
    }
}

#[test]
fn who_waits_goes_on_when_the_session_ends() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_ended");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc("runner.c");
        let (mut proc, mut recording) = stopped_collector(&lab, program.to_str().unwrap(), &[], "10s");
        proc.say("burst 50000000");
        until_it_waits(&lab, &proc);
        // SIGINT first: the session that goes on is about to end, while rings fill as fast as they are emptied.
        recording.proc().signal(Signal::INT);
        recording.proc().signal(Signal::CONT);
        let recorded = recording.wait().expect(0).lossless();
        let numbers = recorded.read(&lab).numbers("runner:rec", "n");
        assert!(numbers.len() >= 146 && numbers.iter().copied().eq(0..numbers.len() as u64));
        proc.until("done");
        assert_eq!(proc.wait().code, 0);
    }
}

#[test]
fn real_time_threads_never_wait() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_real_time");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc("runner.c");
        if !has("chrt") || lab.run("chrt", &["-f", "1", "/bin/true"]).code != 0 {
            return skip("real_time_threads_never_wait", "no right to SCHED_FIFO, or no chrt");
        }
        let args = ["-f", "1", program.to_str().unwrap()];
        let (mut proc, mut recording) = stopped_collector(&lab, "chrt", &args, "10s");
        burst(&mut proc, 100_000);
        recording.proc().signal(Signal::CONT);
        let recorded = recording.end(Signal::INT).expect(0);
        assert_eq!(recorded.records() + recorded.lost_by("full"), 100_000);
        // It has agreed, and no record waited: one that did would have taken ten seconds.
        assert_eq!(waited(&recorded), (1, 0));
        assert_eq!(proc.wait().code, 0);
    }
}

/// Main and a handler that interrupts it anywhere, at every wait too. A handler's record that interrupted another one
/// does not wait.
const HANDLERS: &str = r#"
#include "common.h"
#include <sys/time.h>
KYMO_EVENT(block, main, (u64, n))
KYMO_EVENT(block, handler, (u64, n))
static volatile uint64_t handled;
static void handler(int number)
{
	(void)number;
	for (int i = 0; i < 20; i++) {
		kymo_trace(block, handler, handled);
		handled++;
	}
}
int main(void)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	uint64_t n;

	live_shortly();
	/* They count together: one that came amid the other's record would have its number. */
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGVTALRM);
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGVTALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	for (n = 0; n < 200000; n++) {
		kymo_trace(block, main, n);
		if (n % 1000 == 0)
			raise(SIGUSR1);
	}
	setitimer(ITIMER_VIRTUAL, &never, NULL);
	printf("main=%" PRIu64 " handled=%" PRIu64 "\n", n, (uint64_t)handled);
	return 0;
}
"#;

#[test]
fn signal_handlers_and_waits_do_not_lock_each_other_out() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_handlers");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc_text("handlers", HANDLERS);
        let args = ["--ring-size", "4K", "--poll-us", "200", "--block", "10s"];
        let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap()]).expect(0);
        let (main, handled) = (recorded.outcome.number("main"), recorded.outcome.number("handled"));
        assert_eq!(recorded.records() + recorded.lost(), main + handled, "{}", recorded.outcome.stderr);
        assert!(handled >= 4000 && waited(&recorded).1 > 0);
        let read = recorded.read(&lab);
        trace::assert_counts_up(&read.numbers("block:main", "n"), main);
        let numbers = read.numbers("block:handler", "n");
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(handled - numbers.len() as u64, recorded.lost());
    }
}

/// While a thread waits, another one forks, and the child writes into rings of its own.
const FORKS: &str = r#"
#include "common.h"
KYMO_EVENT(block, rec, (u64, n))
static void *writer(void *unused)
{
	for (uint64_t n = 0; n < 100000; n++)
		kymo_trace(block, rec, n);
	return unused;
}
int main(void)
{
	pthread_t thread;

	live_shortly();
	if (pthread_create(&thread, NULL, writer, NULL))
		die("pthread_create");
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			for (uint64_t n = 0; n < 1000; n++)
				kymo_trace(block, rec, n);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			die("fork");
	}
	pthread_join(thread, NULL);
	return 0;
}
"#;

#[test]
fn forks_beside_waits() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("block_forks");
        lab.ring(ring).env(AGREED.0, AGREED.1);
        let program = lab.cc_text("forks", FORKS);
        let args = ["--ring-size", "16K", "--memory", "16G", "--poll-us", "200", "--block", "10s"];
        let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap()]).expect(0).lossless();
        assert_eq!(recorded.records(), 100_000 + 20 * 1000);
        assert!(waited(&recorded).1 > 0);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let lab = Lab::new("block_refused");
    let check = |args: &[&str], part: &str| {
        let recorded = lab.record("trace").args(args).run(&["/bin/true"]).expect(2);
        assert!(recorded.outcome.stderr.contains(part), "{}", recorded.outcome.stderr);
        assert!(!recorded.dir.exists());
    };
    check(&["--block", "1s", "--flight"], "exclude each other");
    check(&["--block", "11s"], "at most 10 s");
    check(&["--block", "x"], "give a time");
}
