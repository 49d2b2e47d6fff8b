// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo record --filter`: records are selected inside of the program, exactly.

use kymo_tests::{Lab, Proc, Recorded, Ring};
use rustix::process::{Pid, Signal, kill_process};

/// Each value of `n` comes once: 4 axes, 8 positions, 3 states, either bool.
const PROGRAM: &str = r#"
#include "common.h"
KYMO_ENUM(f, state, u8, (idle, 0), (moving, 1), (fault, 9))
KYMO_EVENT(f, step, (u32, axis), (f64, position), (enum(f, state), state), (bool, ok), (i16, delta), (u64, n))
KYMO_EVENT(f, note, (u32, axis), (str, text), (seq(u16), list), (f32, gain), (u64, n))
KYMO_EVENT(f, array, (array(i16, 3), vec), (str, text), (bytes, raw), (u64, n))
KYMO_EVENT(f, plain, (u64, n))
static void all(void)
{
	static const uint8_t states[] = { 0, 1, 9 };
	static const char *const texts[] = { "alpha", "beta", "", "alpine", "gamma_a", "a" };
	static const uint16_t list[4] = { 1, 2, 3, 4 };

	for (uint64_t n = 0; n < 192; n++) {
		int16_t vec[3] = { (int16_t)(n - 96), (int16_t)n, 300 };

		kymo_trace(f, step, n % 4, (double)(n / 4 % 8) * 0.25 - 0.5, states[n % 3], n % 2, (int16_t)(n - 96), n);
		kymo_trace(f, note, n % 4, texts[n % 6], list, n % 5, (float)n / 8, n);
		kymo_trace(f, array, vec, texts[n % 6], texts[n % 6], strlen(texts[n % 6]), n);
		kymo_trace(f, plain, n);
	}
}
int main(int argc, char **argv)
{
	live_shortly();
	if (argc == 1) {
		all();
		return 0;
	}
	say("ready");
	for (;;) {
		char line[80];

		if (!fgets(line, sizeof(line), stdin))
			return 0;
		all();
		say("done");
	}
	(void)argv;
}
"#;

const ROOM: [&str; 4] = ["--ring-size", "1M", "--memory", "16G"];

fn n_where(holds: impl Fn(u64) -> bool) -> Vec<u64> {
    (0..192).filter(|&n| holds(n)).collect()
}

fn position(n: u64) -> f64 {
    (n / 4 % 8) as f64 * 0.25 - 0.5
}

fn text(n: u64) -> &'static str {
    ["alpha", "beta", "", "alpine", "gamma_a", "a"][(n % 6) as usize]
}

#[track_caller]
fn check(lab: &Lab, recorded: &Recorded, event: &str, expect: &[u64], what: &str) {
    assert_eq!(recorded.read(lab).numbers(event, "n"), expect, "{what}\n{}", recorded.outcome.stderr);
}

type Case<'a> = (&'a [&'a str], &'a str, Box<dyn Fn(u64) -> bool>);

fn cases() -> Vec<Case<'static>> {
    vec![
        (&["f:step: axis == 2 && position > 0.5"], "f:step", Box::new(|n| n % 4 == 2 && position(n) > 0.5)),
        (&["f:step: axis == 2 || position <= -0.25"], "f:step", Box::new(|n| n % 4 == 2 || position(n) <= -0.25)),
        (&["f:step: position < 0"], "f:step", Box::new(|n| position(n) < 0.0)),
        (&["f:step: state == moving"], "f:step", Box::new(|n| n % 3 == 1)),
        (&["f:step: state in (idle, fault) && !ok"], "f:step", Box::new(|n| n % 3 != 1 && n % 2 == 0)),
        (&["f:step: ok", "f:s*: axis != 3"], "f:step", Box::new(|n| n % 2 == 1 && n % 4 != 3)),
        (&["f:step: delta >= -3 && delta < 5"], "f:step", Box::new(|n| (93..101).contains(&n))),
        (&["f:step: delta & 0xfff0 == 0xffa0"], "f:step", Box::new(|n| n < 16)),
        (&["f:step: n & 7 == 5"], "f:step", Box::new(|n| n & 7 == 5)),
        (&["f:note: text == \"alpha\""], "f:note", Box::new(|n| text(n) == "alpha")),
        (&["f:note: text ~ \"al*\""], "f:note", Box::new(|n| text(n).starts_with("al"))),
        (&["f:note: text ~ \"a*a\""], "f:note", Box::new(|n| text(n) == "alpha")),
        (&["f:note: axis == 1 && text !~ \"*a\""], "f:note", Box::new(|n| n % 4 == 1 && !text(n).ends_with('a'))),
        (&["f:note: text == \"\""], "f:note", Box::new(|n| text(n).is_empty())),
        (&["f:note: len(list) == 3 && gain > 4"], "f:note", Box::new(|n| n % 5 == 3 && n as f64 / 8.0 > 4.0)),
        (&["f:note: gain <= 0.125"], "f:note", Box::new(|n| n <= 1)),
        (&["f:note: n == 77"], "f:note", Box::new(|n| n == 77)),
        (&["f:array: vec[0] < -90 && n != 3"], "f:array", Box::new(|n| n < 6 && n != 3)),
        (
            &["f:array: len(raw) == 5 && n > 100 && text ~ \"al*\""],
            "f:array",
            Box::new(|n| text(n) == "alpha" && n > 100),
        ),
        (&["f:step: axis > 9"], "f:step", Box::new(|_| false)),
    ]
}

#[test]
fn records_are_selected_exactly() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("filter_exactly");
        lab.ring(ring);
        let program = lab.cc_text("program", PROGRAM);
        for (number, (texts, event, holds)) in cases().into_iter().enumerate() {
            let mut args = ROOM.to_vec();
            texts.iter().for_each(|text| args.extend(["--filter", text]));
            let recorded = lab.record(&format!("trace{number}")).args(&args).run(&[program.to_str().unwrap()]);
            let recorded = recorded.expect(0).lossless();
            check(&lab, &recorded, event, &n_where(holds), texts[0]);
            // Other events are not touched, and what was rejected is not a loss.
            for other in ["f:step", "f:note", "f:array", "f:plain"].into_iter().filter(|other| *other != event) {
                check(&lab, &recorded, other, &n_where(|_| true), texts[0]);
            }
            assert_eq!(recorded.summary["caveats"], serde_json::json!([]), "{}", texts[0]);
        }
    }
}

#[test]
fn without_a_selector_events_without_the_field_have_no_records() {
    let lab = Lab::new("filter_all");
    let program = lab.cc_text("program", PROGRAM);
    let recorded = lab.record("trace").args(&ROOM).args(&["--filter", "axis == 2 || has(vec)"]);
    let recorded = recorded.run(&[program.to_str().unwrap()]).expect(0).lossless();
    check(&lab, &recorded, "f:step", &n_where(|n| n % 4 == 2), "axis");
    check(&lab, &recorded, "f:note", &n_where(|n| n % 4 == 2), "axis");
    check(&lab, &recorded, "f:array", &n_where(|_| true), "has(vec)");
    check(&lab, &recorded, "f:plain", &[], "neither");
}

/// Says a line and waits for the answer.
fn ask(proc: &mut Proc) {
    proc.say("all");
    proc.until("done");
}

#[test]
fn each_session_has_its_own_filter() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("filter_sessions");
        lab.ring(ring);
        let program = lab.cc_text("program", PROGRAM);
        let mut proc = lab.spawn(program, &["on"]);
        proc.until("ready");
        let pid = proc.pid().to_string();
        let mut begin = |name: &str, filter: &[&str]| {
            let recording = lab.record(name).args(&ROOM).args(&["-p", &pid, "-u", "f:step"]).args(filter).attach();
            lab.wait_for("records in the session", || {
                ask(&mut proc);
                recording.has_records().then_some(())
            });
            recording
        };
        let one = begin("one", &["--filter", "axis == 1"]);
        let two = begin("two", &["--filter", "axis == 2 && position > 0"]);
        let three = begin("three", &[]);
        let end = |recording: kymo_tests::record::Attached| recording.end(Signal::INT).expect(0).lossless();
        ask(&mut proc);
        let (one, two, three) = (end(one), end(two), end(three));
        for (recorded, expect) in [
            (one, n_where(|n| n % 4 == 1)),
            (two, n_where(|n| n % 4 == 2 && position(n) > 0.0)),
            (three, n_where(|_| true)),
        ] {
            let numbers = recorded.read(&lab).numbers("f:step", "n");
            // Rounds that were whole; the first one may have begun before the session was there.
            assert!(numbers.ends_with(&expect) && numbers.len() >= expect.len(), "{numbers:?}");
            assert!(numbers.iter().all(|n| expect.contains(n)), "{numbers:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let lab = Lab::new("filter_refused");
    let cases = [
        ("axis = 2", "axis = 2\n     ^ "),
        ("axis == 2 && $tid == 7", "axis == 2 && $tid == 7\n             ^^^^ a traced program"),
        ("latency(a:b, c:d) > 5ms", "latency(a:b, c:d) > 5ms\n^^^^^^^^^^^^^^^^^ a traced program"),
        ("note ~ \"a*b*c\"", "note ~ \"a*b*c\"\n       ^^^^^^^ a traced program"),
    ];
    for (filter, expect) in cases {
        let recorded = lab.record("trace").args(&["--filter", filter]).run(&["/bin/true"]).expect(2);
        let stderr = &recorded.outcome.stderr;
        assert!(stderr.contains(expect) && stderr.contains("\nhelp: "), "{filter}:\n{stderr}");
        assert!(!recorded.dir.exists(), "{filter}");
    }
}

#[test]
fn what_fits_no_event_is_said_at_the_end() {
    let lab = Lab::new("filter_unfit");
    let program = lab.cc_text("program", PROGRAM);
    let run = |name: &str, filter: &str| {
        lab.record(name).args(&ROOM).args(&["--filter", filter]).run(&[program.to_str().unwrap()]).expect(0).lossless()
    };
    let typo = run("typo", "axs == 2");
    let caveats = typo.summary["caveats"].to_string();
    assert!(caveats.contains("no event has a field `axs`; did you mean `axis`?"), "{caveats}");
    assert_eq!(typo.records(), 0);
    // A part that shows only beside the description: the event is recorded without the filter.
    let part = run("part", "f:step: axis + 1 == 3");
    let caveats = part.summary["caveats"].to_string();
    assert!(caveats.contains("f:step is recorded without it"), "{caveats}");
    check(&lab, &part, "f:step", &n_where(|_| true), "unfiltered");
}

/// Ends a collector that a failed test leaves behind.
struct Collector(Option<Pid>);

impl Collector {
    /// Of what `session start --json` said.
    fn of(ready: &str) -> Collector {
        let ready: serde_json::Value = serde_json::from_str(ready).unwrap();
        Collector(Pid::from_raw(ready["pid"].as_i64().unwrap() as i32))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(pid) = self.0.filter(|_| std::thread::panicking()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// More distinct filters than a program has memory for, in three sessions one after the other: what is refused is
/// recorded whole, and told by the summary and the status.
#[test]
fn filters_beyond_the_programs_memory_are_told() {
    const EVENTS: usize = 400;
    let lab = Lab::new("filter_memory");
    let mut source = "#include \"common.h\"\n".to_owned();
    let (mut all, mut enabled) = (String::new(), String::new());
    for event in 0..EVENTS {
        source += &format!("KYMO_EVENT(many, e{event}, (u64, n))\n");
        // They are switched on one after the other.
        enabled += &format!("\t\tuntil_enabled(many, e{event});\n");
        all += &format!("\t\tfor (uint64_t n = 0; n < 4; n++) kymo_trace(many, e{event}, 10000 * n + {event});\n");
    }
    let last = EVENTS - 1;
    source += &format!(
        "int main(void)\n{{\n\tlive_shortly();\n\tfor (;;) {{\n{enabled}{all}\t\tsay(\"ready\");\n\
         \t\tuntil_disabled(many, e{last});\n\t}}\n}}\n"
    );
    let proc = lab.spawn(lab.cc_text("many", &source), &[]);
    // 245 instructions of 32 bytes in the program, no two filters alike.
    let others: String = (0..244).map(|number| format!(",{}", 1_000_000 + 2 * number)).collect();
    let mut refused = Vec::new();
    for round in 1..4 {
        let filter = |event| format!("\"many:e{event}: n in ({}{others})\"", 10_000 * round + event);
        let list: Vec<String> = (0..EVENTS).map(filter).collect();
        let file = lab.write("many.toml", &format!("filter = [{}]\n", list.join(", ")));
        let name = format!("many{round}");
        let dir = lab.path(&name);
        let start = ["session", "start", &name, "--load", file.to_str().unwrap(), "-o", dir.to_str().unwrap()];
        let started = lab.kymo(&[&start[..], &["--json", "--ring-size", "1M", "--memory", "8G"]].concat()).expect(0);
        let _collector = Collector::of(&started.stdout);
        proc.until("ready");
        let status = lab.kymo(&["session", "status", &name]).expect(0).stdout;
        let outcome = lab.kymo(&["session", "stop", &name, "--json"]).expect(0);
        let summary: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let count = summary["unfiltered_count"].as_u64().unwrap();
        let list = summary["unfiltered"].as_array().unwrap();
        assert_eq!(list.len() as u64, count.min(100));
        let why = "the program's memory for filters (8 MiB) is used up";
        assert!(list.iter().all(|entry| entry["why"] == why), "{list:?}");
        assert_eq!(outcome.stderr.contains(&format!("WITHOUT its filter: {why}")), count > 0, "{}", outcome.stderr);
        assert_eq!(status.contains(&format!("is recorded WITHOUT its filter: {why}")), count > 0, "{status}");
        // One record of four passes a filter.
        let read = lab.read(&name);
        assert_eq!(read.records.len() as u64, EVENTS as u64 + 3 * count);
        for entry in list {
            assert_eq!(read.of(entry["event"].as_str().unwrap()).count(), 4);
        }
        refused.push(count);
    }
    assert!(refused[..2] == [0, 0] && (20..300).contains(&refused[2]), "{refused:?}");
    assert_eq!(proc.end(Signal::TERM).code, 128 + 15);
}
