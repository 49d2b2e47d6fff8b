// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo session`: verbs x states, starts that fail, starts and ends at the same time, events switched while recording,
//! hostile clients, and what dead collectors leave.

use std::path::PathBuf;

use kymo_tests::session::{Session, ask, contains, runner, session};
use kymo_tests::socket::Packets;
use kymo_tests::{Lab, Outcome, Proc, Read, trace};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

#[test]
fn events_are_switched_exactly_while_recording() {
    let lab = Lab::new("session_switch");
    let mut early = runner(&lab);
    let session_ = Session::start(&lab, "switch", &["-u", "runner:*"]);
    ask(&mut early, "enabled", "enabled");
    ask(&mut early, "burst 100", "done");
    let changed = session_.ask(&["disable", "runner:rec"]);
    assert_eq!((&changed["programs"], &changed["events"][0]), (&1.into(), &"runner:rec".into()));
    ask(&mut early, "disabled", "disabled");
    ask(&mut early, "burst 50", "done");
    // One that comes now is told the same.
    let mut late = runner(&lab);
    ask(&mut late, "burst 7", "done");
    session_.until("two programs", |status| status["view"]["program_count"] == 2);
    let changed = session_.ask(&["enable", "runner"]);
    assert_eq!(changed["programs"], 2);
    for proc in [&mut early, &mut late] {
        ask(proc, "enabled", "enabled");
        ask(proc, "burst 10", "done");
    }
    let status = session_.ask(&["status"]);
    assert_eq!(status["view"]["changes"], serde_json::json!(["-runner:rec", "+runner"]));
    let (early_pid, late_pid) = (u64::from(early.pid()), u64::from(late.pid()));
    let summary = session_.ask(&["stop"]);
    assert_eq!(summary["records"], 120);
    ask(&mut early, "disabled", "disabled");
    let read = lab.read("switch");
    let of = |pid| read.records.iter().filter(|r| r.pid == pid).map(|r| r.number("n")).collect::<Vec<_>>();
    assert_eq!(of(early_pid), (0..100).chain(150..160).collect::<Vec<_>>());
    assert_eq!(of(late_pid), (7..17).collect::<Vec<_>>());
}

/// What every verb says to a session in some state: exit status and a part of what is written.
#[track_caller]
fn table(lab: &Lab, name: &str, rows: &[(&[&str], i32, &str)]) {
    for (words, code, part) in rows {
        let args: Vec<&str> = words.iter().map(|word| if *word == "NAME" { name } else { word }).collect();
        let outcome = session(lab, &args);
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.code, *code, "{args:?}: {text}");
        assert!(text.contains(part), "{args:?} says {text:?}, without {part:?}");
    }
}

const VERBS: [&[&str]; 8] = [
    &["status", "NAME"],
    &["enable", "NAME", "a:*"],
    &["disable", "NAME", "a:*"],
    &["add", "NAME", "--ring-size", "64K"],
    &["snapshot", "NAME"],
    &["rotate", "NAME"],
    &["save", "NAME"],
    &["stop", "NAME"],
];

#[test]
fn every_verb_in_every_state() {
    let lab = Lab::new("session_states");
    let absent = |part: &'static str| VERBS.map(|verb| (verb, 1, part));
    table(&lab, "box", &absent("there is no session box; none is running"));
    table(&lab, "box", &[(&["list"], 1, "no session is running"), (&["list", "--json"], 1, "[]")]);

    let other = Session::start(&lab, "other", &[]);
    table(&lab, "box", &absent("there is no session box; running: other"));
    let running = Session::start(&lab, "box", &[]);
    table(
        &lab,
        "box",
        &[
            (&["list"], 0, "stream"),
            (&["status", "NAME"], 0, "collector: process"),
            (&["enable", "NAME", "a:*"], 0, "no running program has an event that matches"),
            (&["enable", "NAME", "a b"], 2, "pattern"),
            (&["disable", "NAME"], 2, "PATTERN"),
            (&["add", "NAME", "--ring-size", "64K"], 0, "keep theirs"),
            (&["add", "NAME", "--ring-size", "2G"], 2, "between 4K and 1G"),
            (&["snapshot", "NAME"], 2, "--flight"),
            (&["rotate", "NAME"], 0, "chunk 1 is closed"),
            (&["save", "NAME"], 0, "ring-size = \"64K\""),
            (&["start", "NAME"], 2, "runs already (collector: process"),
            (&["stop", "NAME"], 0, "nothing was lost"),
        ],
    );
    table(&lab, "box", &absent("there is no session box; running: other"));
    drop(running);

    // Stopped by a signal as by the verb.
    let running = Session::start(&lab, "term", &[]);
    kill_process(running.pid, Signal::TERM).expect("it runs");
    lab.wait_for("the end", || (session(&lab, &["status", "term"]).code == 1).then_some(()));
    contains(&std::fs::read_to_string(lab.path("term.log")).expect("a log"), "nothing was lost");
    assert_eq!(lab.sockets("c.").len(), 1, "only that of `other`");

    // A dead collector: as if absent, and its leftovers go with the first look.
    let dead = Session::start(&lab, "dead", &[]);
    dead.kill();
    lab.wait_for("its death", || (session(&lab, &["status", "dead"]).code == 1).then_some(()));
    table(&lab, "dead", &absent("there is no session dead; running: other"));
    assert_eq!(lab.sockets("c.").len(), 1, "only that of `other`");

    // One that does not answer is named, and holds up nobody else for long.
    let silent = Session::start(&lab, "silent", &[]);
    kill_process(silent.pid, Signal::STOP).expect("it runs");
    table(&lab, "silent", &[(&["status", "NAME"], 2, "does not answer"), (&["start", "NAME"], 2, "runs already")]);
    let list = session(&lab, &["list"]).expect(0).stdout;
    contains(&list, "does not answer");
    contains(&list, "other");
    kill_process(silent.pid, Signal::CONT).expect("it runs");
    silent.ask(&["stop"]);
    other.ask(&["stop"]);
    assert!(lab.sockets("c.").is_empty());
}

#[test]
fn starts_that_fail_say_so_and_leave_nothing() {
    let lab = Lab::new("session_start_errors");
    let full = lab.path("full");
    std::fs::create_dir(&full).expect("a directory");
    std::fs::write(full.join("thesis.tex"), "").expect("a file");
    let file = lab.write("file", "");
    let (full, file) = (full.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let below = format!("{file}/below");
    let check = |args: &[&str], code: i32, part: &str| {
        let outcome = session(&lab, &[&["start"], args].concat());
        assert_eq!(outcome.code, code, "{args:?}: {}", outcome.stderr);
        contains(&outcome.stderr, part);
        assert!(outcome.stdout.is_empty());
    };
    check(&["a/b"], 2, "letters, digits");
    check(&[&"x".repeat(41)], 2, "1 to 40");
    check(&[], 2, "NAME");
    check(&["a", "-u", "b c"], 2, "pattern");
    check(&["a", "--ring-size", "9G"], 2, "between 4K and 1G");
    check(&["a", "-p", "4194305"], 2, "there is no process 4194305");
    check(&["a", "-o", full], 2, "not empty");
    check(&["a", "-o", &below], 2, "cannot make");
    check(&["a", "--load", "absent.toml"], 2, "absent.toml");
    check(&["a", "-o", "new", "--", "./absent"], 127, "cannot run ./absent");
    check(&["a", "-o", "new", "--", full], 126, "cannot run");
    check(&["a", "-o", "new", "-k", "sched:no_such_event"], 2, "no");
    assert!(!lab.path("new").exists() && !lab.path("new.log").exists(), "a failed start left its directory");
    assert!(lab.sockets("").is_empty(), "a failed start left sockets: {:?}", lab.sockets(""));
    // The name is free again.
    Session::start(&lab, "a", &[]).ask(&["stop"]);
}

#[test]
fn of_starts_at_the_same_time_one_wins() {
    let lab = Lab::new("session_race");
    for round in 0..5 {
        let dirs: Vec<PathBuf> = (0..4).map(|at| lab.path(&format!("race{round}-{at}"))).collect();
        let start = |dir: &PathBuf| {
            let mut command = lab.command(kymo_tests::paths::kymo());
            command.args(["session", "start", "race", "-o"]).arg(dir);
            lab.start(command)
        };
        let starts: Vec<Proc> = dirs.iter().map(start).collect();
        let outcomes: Vec<Outcome> = starts.into_iter().map(Proc::wait).collect();
        let won = outcomes.iter().filter(|outcome| outcome.code == 0).count();
        assert_eq!(won, 1, "{outcomes:?}");
        for outcome in outcomes.iter().filter(|outcome| outcome.code != 0) {
            contains(&outcome.stderr, "runs already");
        }
        assert_eq!(dirs.iter().filter(|dir| dir.exists()).count(), 1, "who lost left a directory");
        session(&lab, &["stop", "race"]).expect(0);
    }
}

#[test]
fn nine_sessions_on_one_event_each_have_their_own() {
    let lab = Lab::new("session_nine");
    let mut proc = runner(&lab);
    let names: Vec<String> = (0..9).map(|at| format!("s{at}")).collect();
    let sessions: Vec<Session> = names
        .iter()
        .enumerate()
        .map(|(at, name)| match at {
            8 => Session::start(&lab, name, &["--flight", "--ring-size", "64K"]),
            7 => Session::start(&lab, name, &["-u", "nobody:*"]),
            _ => Session::start(&lab, name, &["--ring-size", if at % 2 == 0 { "1M" } else { "2M" }]),
        })
        .collect();
    for (at, session_) in sessions.iter().enumerate() {
        let attached = u64::from(at != 7);
        session_.until("it is attached", |status| status["recorded_programs"] == attached);
    }
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 1000", "done");
    // The collector and the program both have obeyed when the event is off for this session: seen by another one's
    // record.
    sessions[0].ask(&["disable", "*"]);
    let ring_bytes = |at: usize| sessions[at].ask(&["status"])["view"]["programs"][0]["ring_bytes"].clone();
    assert_eq!((ring_bytes(1), ring_bytes(2), ring_bytes(8)), ((2 << 20).into(), (1 << 20).into(), (64 << 10).into()));
    let rings = sessions[8].ask(&["status"])["view"]["programs"][0]["rings"].clone();
    let written = |ring: &Value| ring["records"].as_u64().expect("a count");
    let all = lab.wait_for("the rings are looked at", || {
        let rings = sessions[8].ask(&["status"])["view"]["programs"][0]["rings"].as_array()?.clone();
        (rings.iter().map(written).sum::<u64>() == 1000).then_some(rings)
    });
    assert!(
        all.iter().all(|ring| ring["ring_bytes"] == 64 << 10 && ring["bytes"].as_u64() >= Some(written(ring) * 24)),
        "{rings}"
    );
    let taken = sessions[8].ask(&["snapshot", "--wait", "--reason", "test"]);
    assert_eq!(taken["reason"], "test");
    // What the ring no longer has, or cannot tell where it begins, is counted: a 32nd of it at most.
    let overwritten = taken["overwritten"].as_u64().expect("a count");
    assert!(overwritten <= (64 << 10) / 32 / 24, "{taken:#}");
    let snapshot = PathBuf::from(taken["dir"].as_str().expect("a directory"));
    let numbers = trace::read(&lab, &snapshot, &[]).whole().numbers("runner:rec", "n");
    assert!(numbers.iter().copied().eq(overwritten..1000), "{} records, {taken:#}", numbers.len());
    for (at, session_) in sessions.iter().enumerate() {
        let summary = session_.ask(&["stop"]);
        match at {
            8 => {}
            7 => assert_eq!(summary["records"], 0),
            _ => trace::assert_counts_up(&lab.read(&names[at]).numbers("runner:rec", "n"), 1000),
        }
    }
    ask(&mut proc, "disabled", "disabled");
}

#[test]
fn a_session_ends_while_a_program_attaches() {
    let lab = Lab::new("session_stop_attach");
    runner(&lab);
    for round in 0..15 {
        let name = format!("r{round}");
        let session_ = Session::start(&lab, &name, &[]);
        let programs: Vec<Proc> = (0..3).map(|_| lab.spawn(lab.path("runner"), &[])).collect();
        let summary = session_.ask(&["stop"]);
        assert_eq!(summary["complete"], true);
        for mut proc in programs {
            proc.until("ready");
            ask(&mut proc, "disabled", "disabled");
            ask(&mut proc, "burst 10", "done");
            assert_eq!(proc.wait().code, 0);
        }
        trace::read(&lab, &lab.path(&name), &[]).whole();
    }
}

#[test]
fn a_command_of_a_session() {
    let lab = Lab::new("session_command");
    runner(&lab);
    // It ends by itself: the session with it.
    let _short = Session::start(&lab, "short", &["--", "/bin/sh", "-c", "echo said; ./runner < /dev/null"]);
    lab.wait_for("the end", || (session(&lab, &["status", "short"]).code == 1).then_some(()));
    let log = std::fs::read_to_string(lab.path("short.log")).expect("a log");
    contains(&log, "said");
    contains(&log, "1 program recorded");
    // It is told to end, and recorded until it does.
    let long =
        Session::start(&lab, "long", &["--", "/bin/sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.01; done"]);
    assert_eq!(long.ask(&["stop"])["complete"], true);
    let _timed = Session::start(&lab, "timed", &["--for", "50ms"]);
    lab.wait_for("the end", || (session(&lab, &["status", "timed"]).code == 1).then_some(()));
}

#[test]
fn options_are_saved_and_loaded() {
    let lab = Lab::new("session_save");
    let first = Session::start(&lab, "first", &["-u", "runner:*", "--ring-size", "1M", "--flight"]);
    first.ask(&["disable", "runner:rec"]);
    first.ask(&["add", "--ring-size", "128K"]);
    let file = lab.path("s.toml");
    session(&lab, &["save", "first", file.to_str().expect("UTF-8")]).expect(0);
    first.ask(&["stop"]);
    let text = std::fs::read_to_string(&file).expect("a file");
    for part in ["name = \"first\"", "flight = true", "ring-size = \"128K\"", "user = [\"runner:*\"]", "-runner:rec"] {
        contains(&text, part);
    }
    // What is said on the command line comes before what is in the file.
    let file = file.to_str().expect("UTF-8");
    let second = Session::start(&lab, "second", &["--load", file, "--memory", "64M"]);
    let status = second.ask(&["status"]);
    assert_eq!((&status["mode"], &status["view"]["ring_bytes"]), (&"flight".into(), &(128 << 10).into()));
    assert_eq!(status["view"]["memory_bytes_max"], 64 << 20);
    let mut proc = runner(&lab);
    ask(&mut proc, "disabled", "disabled");
    second.ask(&["enable", "runner:rec"]);
    ask(&mut proc, "enabled", "enabled");
    second.ask(&["stop"]);
}

#[test]
fn hostile_clients_cannot_hurt() {
    let lab = Lab::new("session_hostile");
    let session_ = Session::start(&lab, "h", &[]);
    let path = lab.sockets("c.").pop().expect("a socket");
    // Silent ones, more than there are places: those who ask are served all the same.
    let silent: Vec<Packets> = (0..200).map(|_| Packets::connect(&path).expect("a connection")).collect();
    session_.ask(&["status"]);
    let garbage: [&[u8]; 6] = [b"\0", b"{}", b"[[[[", b"{\"request\":\"stop\"", &[0xff; 4000], &[b'['; 60_000]];
    for packet in garbage {
        let client = Packets::connect(&path).expect("a connection");
        client.send(packet, None).expect("it is taken");
        let answer = client.receive().expect("an answer");
        contains(&String::from_utf8_lossy(&answer), "error");
        assert!(client.receive().expect("the end").is_empty());
    }
    // Who asks and goes, who asks twice, who never reads.
    let mut deaf = Vec::new();
    for round in 0..300 {
        let client = Packets::connect(&path).expect("a connection");
        let _ = client.send(b"{\"request\":\"status\"}", None);
        let _ = client.send(b"{\"request\":\"stop\"}", None);
        if round % 3 == 0 {
            deaf.push(client);
        }
    }
    assert_eq!(session_.ask(&["status"])["name"], "h");
    drop((silent, deaf));
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", session_.pid.as_raw_nonzero())).map_or(0, Iterator::count);
    lab.wait_for("connections are closed", || (descriptors() < 64).then_some(()));
    session_.ask(&["stop"]);
}

#[test]
fn only_leftovers_of_the_dead_are_removed() {
    let lab = Lab::new("session_leftovers");
    let (dead, alive) = (Session::start(&lab, "dead", &[]), Session::start(&lab, "alive", &[]));
    dead.kill();
    lab.wait_for("its death", || {
        (!std::path::Path::new(&format!("/proc/{}", dead.pid.as_raw_nonzero())).exists()).then_some(())
    });
    std::fs::write(lab.runtime_dir().join("c.1.00000000.file"), "").expect("a file");
    std::fs::write(lab.runtime_dir().join("c.notes"), "").expect("a file");
    // The name can be taken at once.
    let again = Session::start(&lab, "dead2", &[]);
    let list = session(&lab, &["list", "--json"]).expect(0).stdout;
    let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
    let names: Vec<&str> = list.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(names, ["alive", "dead2"]);
    let left: Vec<String> =
        lab.sockets("c.").iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| !name.ends_with(".dead")), "{left:?}");
    assert!(
        left.iter().any(|name| name == "c.1.00000000.file") && left.iter().any(|name| name == "c.notes"),
        "{left:?}"
    );
    again.ask(&["stop"]);
    alive.ask(&["stop"]);
    // What it had written is a trace.
    trace::read(&lab, &lab.path("dead"), &[]);
}

/// `kymo read --follow` of a session or directory.
fn follow(lab: &Lab, what: &str) -> Proc {
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["read", "--json", "--follow", what]);
    lab.start(command)
}

#[test]
fn a_session_is_followed_while_it_records() {
    let lab = Lab::new("session_follow");
    let mut procs = [runner(&lab), runner(&lab)];
    let session_ = Session::start(&lab, "live", &["-u", "runner:*"]);
    let reader = follow(&lab, "live");
    for proc in &mut procs {
        ask(proc, "enabled", "enabled");
    }
    for round in 1..=5 {
        for proc in &mut procs {
            ask(proc, "burst 1000", "done");
        }
        // Seen while the session goes on.
        reader.until("{\"time\":");
        session_.until("records", |status| status["records"].as_u64() >= Some(round * 1000));
    }
    let directory = follow(&lab, lab.path("live").to_str().expect("UTF-8"));
    assert_eq!(session_.ask(&["stop"])["records"], 10_000);
    for outcome in [reader.wait(), directory.wait()] {
        let followed = trace::parse(outcome.code, &outcome.stdout, outcome.stderr).whole();
        // The clock's rate was known less well while it was followed: nanoseconds differ by a few, cycles do not.
        let all = |read: Read| read.records.into_iter().map(|r| (r.cycles, r.pid, r.fields)).collect::<Vec<_>>();
        assert_eq!(all(followed), all(lab.read("live")));
    }
}

#[test]
fn following_what_cannot_be_followed() {
    let lab = Lab::new("session_follow_errors");
    let flight = Session::start(&lab, "box", &["--flight"]);
    let outcome = follow(&lab, "box").wait().expect(2);
    contains(&outcome.stderr, "flight recorder");
    contains(&follow(&lab, "nobody").wait().expect(1).stderr, "no session nobody; running: box");
    contains(&follow(&lab, "./no/where").wait().expect(2).stderr, "is no trace");
    flight.ask(&["stop"]);
    // The collector dies: what it had written comes, and the end.
    let mut proc = runner(&lab);
    let dies = Session::start(&lab, "dies", &[]);
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 100", "done");
    let reader = follow(&lab, "dies");
    reader.until("{\"time\":");
    dies.kill();
    let outcome = reader.wait().expect(0);
    trace::assert_counts_up(&trace::parse(0, &outcome.stdout, outcome.stderr).numbers("runner:rec", "n"), 100);
}
