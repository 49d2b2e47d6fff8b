// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ring memory of portable programs follows the threads that exist, within the session's cap.

use kymo_tests::session::contains;
use kymo_tests::{Lab, Ring};
use serde_json::{Value, json};

fn portable(name: &str) -> Lab {
    let mut lab = Lab::new(name);
    lab.ring(Ring::Portable);
    lab
}

#[test]
fn six_short_programs_share_a_small_cap() {
    let lab = portable("portable_six");
    lab.cc("produce.c");
    let script = "for n in 1 2 3 4 5 6; do ./produce 2 1000 8 200 & done; wait";
    let recorded = lab.record("trace").args(&["--memory", "64M"]).run(&["sh", "-c", script]).expect(0).lossless();
    assert_eq!((recorded.records(), &recorded.summary["recorded_count"]), (12_000, &json!(6)));
    let most = recorded.summary["rings_bytes_max"].as_u64().unwrap();
    assert!(most < 64 << 20, "{most} bytes of rings");
    recorded.read(&lab);
}

/// Threads that are all alive when the last of them has written.
const CROWD: &str = r#"
#include "common.h"
KYMO_EVENT(crowd, rec, (u32, writer), (u64, n))
static pthread_barrier_t all;
static void *writer(void *argument)
{
	for (uint64_t n = 0; n < 100; n++)
		kymo_trace(crowd, rec, (uint32_t)(uintptr_t)argument, n);
	pthread_barrier_wait(&all);
	return NULL;
}
int main(int argc, char **argv)
{
	uint32_t threads = (uint32_t)atoi(argv[1]);
	pthread_t thread[256];

	(void)argc;
	live_shortly();
	pthread_barrier_init(&all, NULL, threads);
	for (uint32_t at = 0; at < threads; at++)
		if (pthread_create(&thread[at], NULL, writer, (void *)(uintptr_t)at))
			die("pthread_create");
	for (uint32_t at = 0; at < threads; at++)
		pthread_join(thread[at], NULL);
	return 0;
}
"#;

/// What a program has no memory for is counted, record by record.
#[test]
fn threads_beyond_the_cap_are_counted() {
    let lab = portable("portable_cap");
    let program = lab.cc_text("crowd", CROWD);
    let args = ["--ring-size", "1M", "--memory", "4M"];
    let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap(), "60"]).expect(0);
    assert_eq!(recorded.records() + recorded.lost(), 6000, "{}", recorded.outcome.stderr);
    let lanes = recorded.records() / 100;
    // A lane of 256 KiB for each of the threads that have room, beside the control blocks.
    assert!((10..=16).contains(&lanes), "{lanes} threads were recorded");
    assert_eq!(recorded.lost_by("lane"), recorded.lost());
    let most = recorded.summary["rings_bytes_max"].as_u64().unwrap();
    // Lanes are bounded by the cap. On top come the header and the control blocks of 288 lanes.
    assert!(most <= (4 << 20) + 4096 + 288 * 128, "{most} bytes of rings");
    contains(&recorded.outcome.stderr, "--memory");
    assert_eq!(recorded.read(&lab).lost(), recorded.lost());
}

/// Writes into all of its memory, whether it may or not. It may die of that: its rings are taken away meanwhile.
const GREEDY: &str = r#"
#include "common.h"
KYMO_EVENT(greedy, rec, (u64, n))
int main(void)
{
	FILE *maps;
	char line[512];

	live_shortly();
	for (uint64_t n = 0; n < 10; n++)
		kymo_trace(greedy, rec, n);
	say("greedy");
	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, at;

		if (!strstr(line, "memfd:kymo") || sscanf(line, "%lx-%lx", &from, &to) != 2 || to - from < (1 << 22))
			continue;
		/* Behind the control blocks and the lane that it has. */
		from += 1 << 20;
		if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))
			die("mprotect");
		for (at = from; at < to; at += 4096)
			((volatile char *)at)[0] = 1;
	}
	hear();
	return 0;
}
"#;

/// A program that takes what it was not given is cut off; the memory is free for others.
#[test]
fn a_program_that_takes_more_than_it_was_given_is_cut_off() {
    let lab = portable("portable_greedy");
    let greedy = lab.cc_text("greedy", GREEDY);
    lab.cc("produce.c");
    let args = ["--ring-size", "1M", "--memory", "4M"];
    let mut recording = lab.record("trace").args(&args).start(&["sh"]);
    recording.proc().say("mkfifo fifo; exec 3<>fifo");
    recording.proc().say(&format!("{} <fifo &", greedy.display()));
    recording.proc().until("greedy");
    // Again and again, until it is out of the way.
    recording.proc().say(
        "n=0; while [ $n -lt 40 ]; do ./produce 1 10 >produced 2>&1; sleep 0.05; n=$((n + 1)); done; echo >&3; wait",
    );
    let recorded = recording.wait().expect(3);
    let unknown = recorded.summary["unknown"].as_array().unwrap();
    let of_greedy = unknown.iter().find(|entry| entry["comm"] == "greedy").unwrap_or_else(|| panic!("{unknown:#?}"));
    assert_eq!(of_greedy["what"], "rest");
    contains(of_greedy["why"].as_str().unwrap(), "took more ring memory");
    let processes = recorded.summary["processes"].as_array().unwrap();
    // Program and collector may have found each other both ways.
    let is_it = |process: &Value, comm: &str| process["comm"] == comm && process["outcome"] != "duplicate";
    let of = |comm: &str| processes.iter().rfind(|process| is_it(process, comm)).unwrap();
    assert_eq!((&of("greedy")["records"], &of("produce")["records"]), (&json!(10), &json!(10)));
}
