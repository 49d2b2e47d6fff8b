// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder and rings that outlive everybody [spec/flight.md, spec/session.md 6].

use std::time::Duration;

use kymo_tests::session::Session;
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
    for round in 0..times(4, 200) {
        let mut lab = Lab::new(&format!("recover_{round}"));
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

/// A few rare events at the start, and one more half way; then very many others.
const RARE: &str = r#"
#include "common.h"
KYMO_EVENT(start, config, (u32, key), (str, value))
KYMO_EVENT(busy, tick, (u64, n))
int main(int argc, char **argv)
{
	uint64_t count = strtoull(argv[1], NULL, 10);

	live_shortly();
	if (argc > 2)
		say("ready");
	until_enabled(start, config);
	until_enabled(busy, tick);
	for (uint32_t key = 0; key < 20; key++)
		kymo_trace(start, config, key, "early");
	for (uint64_t n = 0; n < count; n++) {
		kymo_trace(busy, tick, n);
		if (n == count / 2)
			kymo_trace(start, config, 20, "late");
	}
	say("done");
	getchar();
	return 0;
}
"#;

#[test]
fn rare_events_are_in_every_snapshot_whatever_others_do() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("flight_rare");
        lab.ring(ring);
        let program = lab.cc_text("rare", RARE);
        // One that runs already, and is visited for both of its rings.
        let early = lab.spawn(&program, &["200000", "say"]);
        early.until("ready");
        let options = ["--flight", "--rare", "start:*", "--ring-size", "64K", "--trigger", "start:config.key == 20"];
        let session = Session::start(&lab, "rare-session", &options);
        early.until("done");
        let mut late = lab.spawn(&program, &["100000"]);
        late.until("done");
        let status = session.ask(&["status"]);
        assert_eq!(
            (&status["view"]["program_count"], &status["recorded_programs"]),
            (&2.into(), &2.into()),
            "{status:#}"
        );
        let pids = [early.pid(), late.pid()];
        let check = |dir: &std::path::Path, keys: u64| {
            let read = trace::read(&lab, dir, &[]).whole();
            for pid in pids {
                let of = read.of("start:config").filter(|record| record.pid == u64::from(pid));
                trace::assert_counts_up(&of.map(|record| record.number("key")).collect::<Vec<_>>(), keys);
            }
            read
        };
        let first = session.ask(&["snapshot", "--wait", "--before", "1ms"]);
        let first = std::path::PathBuf::from(first["dir"].as_str().expect("a directory"));
        let read = check(&first, 21);
        assert!(read.of("busy:tick").count() < 100_000, "busy events were to be overwritten");
        // A killed program's rare events stay, and those of one that ended.
        assert_eq!(early.end(Signal::KILL).code, 128 + 9);
        late.say("");
        assert_eq!(late.wait().code, 0);
        session.until("the ends", |status| status["recorded_programs"] == 0);
        let second = session.ask(&["snapshot", "--wait"]);
        let records = second["records"].as_u64().expect("a number");
        let read = check(second["dir"].as_str().expect("a directory").as_ref(), 21);
        assert_eq!(records, read.records.len() as u64);
        let summary = session.ask(&["stop"]);
        assert_eq!(summary["process_count"], 2, "{:#}", summary["processes"]);
        assert_eq!(summary["records"], 300_000 + 42);
        // The trigger saw a rare event.
        let fired = snapshots(&summary);
        assert!(
            fired.iter().any(|done| done["reason"].as_str().is_some_and(|why| why.contains("key == 20"))),
            "{fired:#?}"
        );
        // The session's directory is a trace of the rare ones.
        let rare = check(&lab.path("rare-session"), 21);
        assert_eq!(rare.records.len(), 42);
    }
}

#[test]
fn rare_events_are_for_flight_recorders() {
    let lab = Lab::new("flight_rare_refused");
    let outcome = lab.kymo(&["record", "--rare", "a:*", "/bin/true"]).expect(2);
    assert!(outcome.stderr.contains("add --flight"), "{}", outcome.stderr);
}

#[test]
fn a_program_asks_by_one_compare() {
    let lab = Lab::new("flight_above");
    let source = "#include \"common.h\"\n#include <kymo/snapshot.h>\n\
        int main(void) { live_shortly(); until_enabled(kymo, snapshot); for (int n = 0; n <= 501; n++) \
        kymo_snapshot_above(n, 500, \"n is too large\"); return 0; }\n";
    let program = lab.cc_text("above", source);
    let recorded = lab.record("trace").args(&["--flight"]).run(&[program.to_str().unwrap()]).expect(0);
    assert_eq!(recorded.records(), 1);
    let reasons: Vec<String> = snapshots(&recorded.summary)
        .iter()
        .map(|done| done["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    // The program ends at once: the last snapshot may be asked for before the collector has seen its record.
    let asked = reasons.iter().filter(|reason| reason.ends_with("asked: n is too large")).count();
    assert!(reasons.len() == 2 && asked == 1, "{reasons:?}");
}
