// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may still write into a memory is asked of the kernel: children that write into their parent's rings are read
//! until they have rings of their own, or end; whatever became of the connection.

use kymo_tests::process::number;
use kymo_tests::session::{Session, ask};
use kymo_tests::{Lab, Proc, Ring, times};
use serde_json::Value;

/// Forks children, by fork or _Fork, that write RECORDS each and pause in between; `rounds N` makes N of them, four at
/// a time.
const FAMILY: &str = r#"
#include "common.h"
KYMO_EVENT(family, rec, (u32, child), (u64, n))
static long pause_us;
static void child(uint32_t self, uint64_t records)
{
	for (uint64_t n = 0; n < records; n++) {
		kymo_trace(family, rec, self, n);
		if (pause_us && n % 50 == 49)
			nap_us(pause_us);
	}
	_exit(0);
}
int main(int argc, char **argv)
{
	int raw = argc > 1 && !strcmp(argv[1], "_Fork");
	uint64_t records = 500, produced = 0;
	uint32_t next = 0, running = 0;
	char line[64];

	live_shortly();
	pause_us = 1000;
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		uint32_t rounds = (uint32_t)atoi(line + 7);

		if (!strncmp(line, "leave", 5)) {
			/* The parent goes, a child stays. */
			if (!(raw ? _Fork() : fork())) {
				nap_us(200000);
				child(next, records);
			}
			produced += records;
			printf("produced=%" PRIu64 "\n", produced);
			return 0;
		}
		for (uint32_t at = 0; at < rounds; at++) {
			pid_t pid = raw ? _Fork() : fork();

			if (pid < 0)
				die("fork");
			if (!pid)
				child(next, records);
			next++;
			produced += records;
			if (++running >= 4 && wait(NULL) > 0)
				running--;
		}
		while (wait(NULL) > 0)
			running--;
		running = 0;
		printf("done produced=%" PRIu64 "\n", produced);
		fflush(stdout);
	}
	return 0;
}
"#;

/// Records that a session has and has lost, which must be all that it knows of.
#[track_caller]
fn counted(summary: &Value) -> (u64, u64) {
    assert_eq!(summary["unknown"], serde_json::json!([]));
    let lost = summary["lost"].as_object().expect("counts").values().map(|count| count.as_u64().unwrap()).sum();
    (summary["records"].as_u64().unwrap(), lost)
}

fn family(lab: &Lab, how: &str) -> Proc {
    let program = lab.cc_text("family", FAMILY);
    let proc = lab.spawn(program, &[how]);
    proc.until("ready");
    proc
}

/// Children are made all the time while their parent goes over to other rings: what they write into the old ones is
/// read.
#[test]
fn rings_change_while_the_program_forks() {
    for how in ["fork", "_Fork"] {
        let lab = Lab::new("lease_change");
        let session = Session::start(&lab, "s", &["--ring-size", "1M", "--memory", "8G", "-u", "family:*"]);
        let mut proc = family(&lab, how);
        session.until("the program", |status| status["recorded_programs"] == 1);
        for _ in 0..times(2, 10) {
            proc.say("rounds 40");
            for size in ["256K", "2M", "512K", "1M"] {
                session.ask(&["add", "--ring-size", size, "--running"]);
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            proc.until("done");
        }
        let produced = number(&ask(&mut proc, "rounds 1", "done"), "produced");
        assert_eq!(proc.wait().code, 0);
        let summary = session.ask(&["stop"]);
        // Where the collector stood still for long, a ring was full: that is counted.
        let (records, lost) = counted(&summary);
        assert_eq!(records + lost, produced, "{how}: {lost} lost");
    }
}

/// The parent is gone, and with it its connection; its child writes on into the rings that both had.
#[test]
fn a_child_outlives_the_connection_of_its_parent() {
    for how in ["fork", "_Fork"] {
        for _ in 0..times(2, 20) {
            let lab = Lab::new("lease_orphan");
            let session = Session::start(&lab, "s", &["--ring-size", "1M", "--memory", "8G", "-u", "family:*"]);
            let mut proc = family(&lab, how);
            session.until("the program", |status| status["recorded_programs"] == 1);
            proc.say("leave");
            let outcome = proc.wait().expect(0);
            let produced = outcome.number("produced");
            session.until("the child's records", |status| status["records"].as_u64() == Some(produced));
            assert_eq!(counted(&session.ask(&["stop"])), (produced, 0), "{how}");
        }
    }
}

/// A child of _Fork, and its own children, run no handler and have no lanes of the portable ring. What they do not
/// record is counted, also after their parent has ended.
#[test]
fn children_without_portable_lanes_are_counted() {
    let mut lab = Lab::new("lease_portable");
    lab.ring(Ring::Portable);
    let session = Session::start(&lab, "s", &["--ring-size", "1M", "-u", "family:*"]);
    let mut proc = family(&lab, "_Fork");
    session.until("the program", |status| status["recorded_programs"] == 1);
    assert_eq!(number(&ask(&mut proc, "rounds 8", "done"), "produced"), 4000);
    session.until("what the children lost", |status| status["lost"] == 4000);
    proc.say("leave");
    let said = proc.wait().expect(0).stdout;
    assert!(said.ends_with("produced=4500\n"), "{said}");
    session.until("what the last child lost", |status| status["lost"] == 4500);
    assert_eq!(counted(&session.ask(&["stop"])), (0, 4500));
}
