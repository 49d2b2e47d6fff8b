// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cannot be counted is unknown: said by the summary, its JSON, the exit status, the status of a session, and
//! `kymo read`.

use kymo_tests::session::{Session, ask, contains, runner, session};
use kymo_tests::{Lab, Recorded, Ring, trace};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A recording that admits one thing about a program, everywhere.
#[track_caller]
fn admits(lab: &Lab, recorded: &Recorded, comm: &str, what: &str, why: &str) {
    let summary = &recorded.summary;
    let entries = summary["unknown"].as_array().unwrap_or_else(|| panic!("{}", recorded.outcome.stderr));
    let is_it = |entry: &&Value| entry["comm"] == comm && entry["what"] == what;
    let entry = entries.iter().find(is_it).unwrap_or_else(|| panic!("{entries:#?}"));
    contains(entry["why"].as_str().unwrap(), why);
    assert!(!entry["next"].as_str().unwrap().is_empty(), "{entry}");
    assert_eq!((&summary["lost"], &summary["unknown_count"]), (&Value::Null, &json!(entries.len())));
    let process = &summary["processes"][entry["process"].as_u64().unwrap() as usize];
    assert_eq!((&process["comm"], &process["lost"]), (&json!(comm), &Value::Null));
    let said = &recorded.outcome.stderr;
    contains(said, "how much was lost is UNKNOWN");
    contains(said, why);
    assert!(!said.contains("nothing was lost"), "{said}");
    let read = trace::read(lab, &recorded.dir, &[]);
    contains(&read.stderr, "how much was lost is UNKNOWN");
    contains(&read.stderr, why);
}

#[test]
fn a_program_for_which_there_is_no_memory() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("unknown_memory");
        lab.ring(ring);
        lab.cc("produce.c");
        let record = || lab.record("trace").args(&["--memory", "100K", "--overwrite"]);
        let recorded = record().run(&["./produce", "1", "10"]).expect(3);
        admits(&lab, &recorded, "produce", "program", "memory");
        // The command's own failure says more.
        record().run(&["sh", "-c", "./produce 1 10; exit 7"]).expect(7);
        let recorded = record().args(&["--json"]).run(&["./produce", "1", "10"]).expect(3);
        let json = recorded.outcome.stdout.split_once('{').map(|(_, json)| format!("{{{json}")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["exit_status"], &json["unknown_count"], &json["lost"]), (&json!(3), &json!(1), &Value::Null));
        // Without a summary, too: a status of 3 has a reason.
        let quiet = record().args(&["-q"]).run(&["./produce", "1", "10"]).expect(3).outcome.stderr;
        contains(&quiet, "how much was lost is UNKNOWN");
        contains(&quiet, "memory");
        assert!(!quiet.contains("clock:"), "{quiet}");
    }
}

#[test]
fn a_program_that_matches_no_pattern_does_not_count() {
    let lab = Lab::new("unknown_foreign");
    lab.cc("produce.c");
    let record = lab.record("trace").args(&["--memory", "100K", "-u", "other:*"]);
    let recorded = record.run(&["./produce", "1", "10"]).expect(0);
    assert_eq!((&recorded.summary["unknown"], &recorded.summary["unknown_count"]), (&json!([]), &json!(0)));
    contains(&recorded.outcome.stderr, "nothing was lost");
}

#[test]
fn a_program_with_another_clock_counts_if_it_is_meant() {
    let mut lab = Lab::new("unknown_clock");
    lab.cc("produce.c");
    lab.env("KYMO_START_WAIT", "1000");
    let command = ["sh", "-c", "KYMO_CLOCK=monotonic ./produce 1 10"];
    let recorded = lab.record("trace").run(&command).expect(3);
    admits(&lab, &recorded, "produce", "program", "clock");
    let recorded = lab.record("foreign").args(&["-u", "other:*"]).run(&command).expect(0);
    assert_eq!(recorded.summary["unknown"], json!([]));
}

#[test]
fn a_program_that_cannot_map_its_rings() {
    let lab = Lab::new("unknown_map");
    lab.cc("produce.c");
    // A limit of address space, of which the rings would take too much.
    let script = "ulimit -v 100000; exec ./produce 1 10";
    let recorded =
        lab.record("trace").args(&["--ring-size", "64M", "--memory", "4G"]).run(&["sh", "-c", script]).expect(3);
    admits(&lab, &recorded, "produce", "program", "could not map its rings");
}

#[test]
fn a_lane_that_was_given_up() {
    let lab = Lab::new("unknown_lane");
    let hostile = lab.cc("hostile.c");
    let script = format!("{} c 5 3000 >hostile.out 2>&1; true", hostile.display());
    let recorded = lab.record("trace").args(&["--memory", "16G"]).run(&["sh", "-c", &script]).expect(3);
    admits(&lab, &recorded, "hostile", "rest", "was given up");
}

#[test]
fn a_session_says_it_while_it_runs_and_at_its_end() {
    let lab = Lab::new("unknown_session");
    let session_ = Session::start(&lab, "s", &["--memory", "100K"]);
    let mut proc = runner(&lab);
    let status = session_.until("the refusal", |status| status["view"]["unknown_count"] == 1);
    assert_eq!(status["view"]["unknown"][0]["what"], "program");
    contains(&session(&lab, &["status", "s"]).expect(0).stdout, "how much was lost is UNKNOWN");
    ask(&mut proc, "burst 10", "done");
    assert_eq!(proc.end(Signal::KILL).code, 137);
    let stopped = session(&lab, &["stop", "s", "-q"]).expect(3);
    contains(&stopped.stderr, "how much was lost is UNKNOWN");
    assert!(!stopped.stderr.contains("clock:"), "{}", stopped.stderr);
}

/// The collector is stopped while programs start: those that end meanwhile are not recorded, one that stays lacks its
/// beginning.
#[test]
fn programs_that_start_while_the_collector_is_stopped() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("unknown_stopped");
        lab.ring(ring);
        lab.env("KYMO_START_WAIT", "200");
        lab.cc("produce.c");
        lab.cc("runner.c");
        let mut recording = lab.record("trace").args(&["--memory", "4G"]).start(&["sh"]);
        recording.proc().say("KYMO_START_WAIT=60000 ./produce 1 100; echo first");
        recording.proc().until("first");
        recording.proc().stop();
        recording.proc().say("./produce 1 200; ./produce 1 300; echo second");
        recording.proc().until("second");
        recording.proc().say("./runner");
        recording.proc().until("ready");
        recording.proc().say("burst 50");
        recording.proc().until("done");
        recording.proc().signal(Signal::CONT);
        recording.proc().say("enabled");
        recording.proc().until("enabled");
        recording.proc().say("burst 10");
        recording.proc().until("done");
        let recorded = recording.wait().expect(3);
        assert_eq!(recorded.records(), 110, "{}", recorded.outcome.stderr);
        admits(&lab, &recorded, "produce", "program", "before the session had answered it");
        admits(&lab, &recorded, "runner", "beginning", "before the session had answered it");
        let of_produce = recorded.summary["unknown"].as_array().unwrap().iter().filter(|of| of["comm"] == "produce");
        let counts = (of_produce.count(), recorded.summary["unknown_count"].as_u64());
        assert_eq!(counts, (2, Some(3)), "{}", recorded.outcome.stderr);
    }
}

/// A program that starts while the collector is stopped, and a child of it that goes on in the same image.
const FAMILY: &str = r#"
#include "common.h"
KYMO_EVENT(family, rec, (u32, n))
int main(void)
{
	pid_t child;
	int status;

	kymo_trace(family, rec, 1);
	child = fork();
	kymo_trace(family, rec, child ? 2 : 3);
	if (!child)
		say("ready");
	while (!kymo_trace_enabled(family, rec))
		usleep(1000);
	kymo_trace(family, rec, child ? 4 : 5);
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	return status;
}
"#;

#[test]
fn children_of_a_program_that_did_not_get_an_answer_lack_their_beginning_too() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("unknown_family");
        lab.ring(ring);
        lab.env("KYMO_START_WAIT", "200");
        lab.cc_text("family", FAMILY);
        let mut recording = lab.record("trace").args(&["--memory", "4G"]).start(&["sh"]);
        recording.proc().say("echo begun");
        recording.proc().until("begun");
        recording.proc().stop();
        recording.proc().say("./family");
        recording.proc().until("ready");
        recording.proc().signal(Signal::CONT);
        let recorded = recording.wait().expect(3);
        let begins = |entry: &&Value| entry["comm"] == "family" && entry["what"] == "beginning";
        let entries = recorded.summary["unknown"].as_array().expect("entries");
        let (said, processes) = (&recorded.outcome.stderr, &recorded.summary["processes"]);
        assert_eq!(entries.iter().filter(begins).count(), 2, "{entries:#?} {processes:#} {said}");
        assert_eq!(recorded.records(), 2, "{}", recorded.outcome.stderr);
    }
}
