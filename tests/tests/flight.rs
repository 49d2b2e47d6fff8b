//! The flight recorder and rings that outlive everybody [spec/flight.md, spec/session.md 6].

use std::time::Duration;

use kymo_tests::{Lab, Random, Read, Ring, times, trace};
use rustix::process::Signal;

/// Requests with numbers; some take long. `why`: asks for a snapshot half way.
const REQUESTS: &str = r#"
#include "common.h"
#include <kymo/snapshot.h>
KYMO_EVENT(req, begin, (u32, id))
KYMO_EVENT(req, end, (u32, id), (u64, took))
int main(int argc, char **argv)
{
	unsigned count = (unsigned)atoi(argv[1]), slow = (unsigned)atoi(argv[2]);

	live_shortly();
	until_enabled(req, begin);
	for (unsigned id = 0; id < count; id++) {
		long us = slow && id % slow == slow - 1 ? 6000 : 0;

		kymo_trace(req, begin, id);
		if (us)
			nap_us(us);
		kymo_trace(req, end, id, us * 1000ull);
		if (argc > 3 && id == count / 2)
			kymo_snapshot(argv[3]);
		if (!slow && id % 64 == 0)
			nap_us(1);
	}
	return 0;
}
"#;

/// Counts up for ever.
const COUNTER: &str = r#"
#include "common.h"
KYMO_EVENT(count, up, (u64, n))
int main(void)
{
	live_shortly();
	until_enabled(count, up);
	for (uint64_t n = 0;; n++) {
		kymo_trace(count, up, n);
		for (volatile int i = 0; i < 300; i++)
			;
		if (n == 1000)
			say("go");
	}
}
"#;

fn snapshots(summary: &serde_json::Value) -> Vec<serde_json::Value> {
    summary["flight"]["snapshots"].as_array().expect("a list of snapshots").clone()
}

#[test]
fn the_end_of_a_flight_has_the_newest_records_and_says_how_many_were_overwritten() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("flight_end");
        lab.ring(ring);
        let program = lab.cc_text("requests", REQUESTS);
        let count = 60_000u64;
        let command = [program.to_str().unwrap(), &count.to_string(), "0"];
        let recorded = lab.record("trace").args(&["--flight", "--ring-size", "64K"]).run(&command).expect(0);
        let read = trace::read(&lab, &recorded.dir.join("snapshot-0001"), &[]).whole();
        assert_eq!(recorded.records(), 2 * count);
        assert_eq!(read.records.last().map(|last| last.number("id")), Some(count - 1));
        // On each lane without a gap, up to its end; all lanes together are all that there was.
        assert_eq!(read.records.len() as u64 + read.lost(), 2 * count, "{ring:?}");
        assert!(read.records.len() > 300, "{} records of a 64 KiB ring", read.records.len());
        assert!(read.lost() > count, "the ring was to be overwritten many times");
    }
}

#[test]
fn triggers_fire_at_what_they_name_and_at_nothing_else() {
    let lab = Lab::new("triggers");
    let program = lab.cc_text("requests", REQUESTS);
    let command = [program.to_str().unwrap(), "600", "200", "half way"];
    for condition in ["req:end.took > 5ms", "latency(req:begin, req:end, by=id) > 5ms"] {
        let args = ["--flight", "--trigger", condition, "--trigger-pause", "1us", "--overwrite"];
        let recorded = lab.record("trace").args(&args).run(&command).expect(0);
        let taken = snapshots(&recorded.summary);
        let reasons: Vec<&str> = taken.iter().filter_map(|snapshot| snapshot["reason"].as_str()).collect();
        assert_eq!(reasons.iter().filter(|reason| reason.contains("half way")).count(), 1, "{reasons:?}");
        let slow: Vec<_> = taken.iter().filter(|taken| taken["reason"].as_str().unwrap().contains("> 5ms")).collect();
        assert_eq!(slow.len(), 3, "{condition}: {reasons:?}");
        for snapshot in slow {
            let read = trace::read(&lab, std::path::Path::new(snapshot["dir"].as_str().unwrap()), &[]).whole();
            let record = snapshot["trigger"]["record"].as_u64().unwrap();
            assert!(read.records.iter().any(|seen| seen.cycles == record && seen.event == "req:end"));
            assert!(snapshot["trigger"]["seen"].as_u64().unwrap() >= record);
        }
    }
}

#[test]
fn triggers_stop_run_and_know_their_limits() {
    let lab = Lab::new("trigger_actions");
    let program = lab.cc_text("requests", REQUESTS);
    let out = lab.path("reasons");
    let run = format!("echo \"$KYMO_SNAPSHOT $KYMO_REASON\" >> {}", out.display());
    let args = ["--flight", "--trigger", "req:end.took > 5ms", "--trigger-pause", "1us", "--trigger-limit", "2"];
    let actions = ["--on-trigger", "snapshot", "--on-trigger", run.as_str()];
    let command = [program.to_str().unwrap(), "1000", "200"];
    let recorded = lab.record("limits").args(&args).args(&actions).run(&command).expect(0);
    let lines = std::fs::read_to_string(&out).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.lines().all(|line| line.contains("snapshot-000") && line.contains("req:end")), "{lines}");
    assert_eq!(recorded.summary["flight"]["held_back"], 3);
    // Stop: the recording ends, the program does not.
    let args = ["--flight", "--trigger", "req:end.took > 5ms", "--on-trigger", "stop"];
    let recorded = lab.record("stop").args(&args).run(&[program.to_str().unwrap(), "60000", "200"]).expect(0);
    assert!(recorded.outcome.stderr.contains("a trigger ended the recording"), "{}", recorded.outcome.stderr);
    assert!(recorded.records() < 120_000);
    // What cannot be a trigger.
    let wrong = lab.record("wrong").args(&["--flight", "--trigger", "req:end.took >"]).run(&command).expect(2);
    assert!(wrong.outcome.stderr.contains('^'), "{}", wrong.outcome.stderr);
    let plain = lab.record("plain").args(&["--trigger", "took > 1"]).run(&command).expect(2);
    assert!(plain.outcome.stderr.contains("--flight"), "{}", plain.outcome.stderr);
    let absent = lab.record("absent").args(&["--flight", "--trigger", "req:end.tock > 1"]).run(&command).expect(0);
    assert!(absent.outcome.stderr.contains("did you mean `took`"), "{}", absent.outcome.stderr);
}

/// Numbers of the counter: none twice, none backwards. Records and the newest number.
fn numbers(read: &Read) -> (u64, u64) {
    let numbers = read.numbers("count:up", "n");
    for pair in numbers.windows(2) {
        assert!(pair[0] < pair[1], "{} after {}", pair[1], pair[0]);
    }
    (numbers.len() as u64, numbers.last().copied().unwrap_or(0))
}

#[test]
fn ring_files_give_back_what_collector_and_program_took_to_their_graves() {
    let mut random = Random::new("recover", 20_261_122);
    let mut recovered = 0;
    for round in 0..times(12, 200) {
        let mut lab = Lab::alone(&format!("recover_{round}"));
        lab.ring(Ring::BOTH[round % 2]);
        let program = lab.cc_text("counter", COUNTER);
        let rings = lab.path("rings");
        let args = ["--ring-dir", rings.to_str().unwrap(), "--ring-size", "256K"];
        let mut recording = lab.record("trace").args(&args).attach();
        let victim = lab.spawn(&program, &[]);
        victim.until("go");
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        let dir = lab.path("trace");
        if random.below(2) == 0 {
            recording.proc().signal(Signal::KILL);
            victim.end(Signal::KILL);
        } else {
            victim.end(Signal::KILL);
            recording.proc().signal(Signal::KILL);
        }
        recording.wait();
        let outcome = lab.kymo(&["recover", "--json", rings.to_str().unwrap(), dir.to_str().unwrap()]).expect(0);
        let told: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        recovered += told["records"].as_u64().unwrap();
        assert_eq!(std::fs::read_dir(&rings).unwrap().count(), 0, "ring files are left");
        let read = trace::read(&lab, &dir, &[]).whole();
        let (count, newest) = numbers(&read);
        // What came after the newest record in the trace can only have been lost with a full ring, and is counted.
        assert!(count + read.lost() > newest, "{count} records, {} lost, up to {newest}: {told}", read.lost());
        assert!(!read.losses.is_empty() || count == newest + 1, "a gap without a loss");
    }
    assert!(recovered > 0, "every ring was empty: the test says nothing");
}

#[test]
fn recovery_refuses_what_is_none() {
    let lab = Lab::new("recover_wrong");
    let program = lab.cc_text("requests", REQUESTS);
    let recorded = lab.record("trace").run(&[program.to_str().unwrap(), "10", "0"]).expect(0);
    let rings = lab.path("rings");
    std::fs::create_dir(&rings).unwrap();
    let trace = recorded.dir.to_str().unwrap();
    let none = lab.kymo(&["recover", rings.to_str().unwrap(), trace]).expect(0);
    assert!(none.stderr.contains("0 records"), "{}", none.stderr);
    std::fs::write(rings.join("rings.0000000000000001"), vec![0x5a; 100_000]).unwrap();
    std::fs::write(rings.join("rings.0000000000000002"), "short").unwrap();
    std::fs::write(rings.join("thesis.tex"), "mine").unwrap();
    let bad = lab.kymo(&["recover", rings.to_str().unwrap(), trace]).expect(1);
    assert!(bad.stderr.contains("rings.0000000000000001") && bad.stderr.contains("magic"), "{}", bad.stderr);
    assert!(bad.stderr.contains("too short"), "{}", bad.stderr);
    assert_eq!(std::fs::read_dir(&rings).unwrap().count(), 3, "nothing of it is ours");
    lab.kymo(&["recover", "/nowhere", trace]).expect(2);
}
