// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that come to running programs, one after the other and many at once; and collectors that are killed.

use std::path::{Path, PathBuf};

use kymo_tests::session::{Session, ask, runner};
use kymo_tests::{Lab, Ring, babeltrace, trace};
use rustix::process::Signal;

/// Room for a burst, however late the collector comes.
const ROOM: [&str; 4] = ["--ring-size", "8M", "--memory", "16G"];

#[test]
fn attach_detach_and_attach_again() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("attach_again");
        lab.ring(ring);
        let (mut wanted, mut other) = (runner(&lab), runner(&lab));
        let pid = wanted.pid().to_string();
        ask(&mut wanted, "burst 100", "done");
        for (name, range) in [("first", 100..1100), ("second", 1600..2600)] {
            let recording = lab.record(name).args(&ROOM).args(&["-p", &pid]).attach();
            ask(&mut wanted, "enabled", "enabled");
            ask(&mut other, "burst 100", "done");
            ask(&mut wanted, "burst 1000", "done");
            let recorded = recording.end(Signal::INT).expect(0).lossless();
            assert_eq!(recorded.records(), 1000, "{}", recorded.outcome.stderr);
            let read = recorded.read(&lab);
            assert!(read.numbers("runner:rec", "n").into_iter().eq(range), "{name}");
            assert!(read.records.iter().all(|record| record.pid == u64::from(wanted.pid()) && record.proc == "runner"));
            ask(&mut wanted, "disabled", "disabled");
            ask(&mut wanted, "burst 500", "done");
        }
        assert_eq!(wanted.wait().code, 0);
    }
}

#[test]
fn a_session_without_a_command_records_what_runs_and_what_comes() {
    let lab = Lab::new("attach_all");
    let mut early = [runner(&lab), runner(&lab)];
    let recording = lab.record("trace").args(&ROOM).attach();
    for proc in &mut early {
        ask(proc, "enabled", "enabled");
        ask(proc, "burst 300", "done");
    }
    let mut late = runner(&lab);
    // It waited for the session before main, so nothing of it is missing.
    ask(&mut late, "burst 300", "done");
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    let read = recorded.read(&lab);
    for pid in [early[0].pid(), early[1].pid(), late.pid()] {
        let numbers: Vec<u64> =
            read.records.iter().filter(|r| r.pid == u64::from(pid)).map(|r| r.number("n")).collect();
        trace::assert_counts_up(&numbers, 300);
    }
    assert_eq!(recorded.summary["recorded_count"], 3);
}

/// Each of `count` sessions on the same event gets every record.
fn sessions_at_once(name: &str, count: usize) {
    for ring in Ring::BOTH {
        let mut lab = Lab::new(name);
        lab.ring(ring);
        let mut proc = runner(&lab);
        let pid = proc.pid().to_string();
        let recordings: Vec<_> =
            (0..count).map(|at| lab.record(&format!("trace{at}")).args(&ROOM).args(&["-p", &pid]).attach()).collect();
        // A session is attached when a record is in its trace.
        lab.wait_for("a record in every trace", || {
            ask(&mut proc, "burst 1", "done");
            recordings.iter().all(|recording| recording.has_records()).then_some(())
        });
        let begin: u64 = ask(&mut proc, "burst 0", "done")[5..].parse().unwrap();
        let end: u64 = ask(&mut proc, "burst 10000", "done")[5..].parse().unwrap();
        assert_eq!(end, begin + 10_000);
        for (at, recording) in recordings.into_iter().enumerate() {
            let recorded = recording.end(Signal::TERM).expect(0).lossless();
            let numbers = recorded.read(&lab).numbers("runner:rec", "n");
            assert!(numbers[0] <= begin, "session {at} begins with {}", numbers[0]);
            assert!(
                numbers.iter().copied().eq(numbers[0]..end),
                "session {at}: {} records to {:?}",
                numbers.len(),
                numbers.last()
            );
        }
        ask(&mut proc, "disabled", "disabled");
        assert_eq!(proc.wait().code, 0);
    }
}

#[test]
fn two_sessions_at_once_get_every_record() {
    sessions_at_once("two_sessions", 2);
}

#[test]
fn nine_sessions_at_once_get_every_record() {
    sessions_at_once("nine_sessions", 9);
}

#[test]
fn sessions_with_different_patterns_do_not_mix() {
    let lab = Lab::new("patterns_at_once");
    let program = lab.cc_text(
        "pair",
        "#include \"common.h\"\nKYMO_EVENT(pair, a, (u32, n))\nKYMO_EVENT(pair, b, (u32, n))\n\
        int main(void) { live_shortly(); say(\"ready\"); hear(); until_enabled(pair, a); until_enabled(pair, b);\n\
        for (uint32_t n = 0; n < 1000; n++) { kymo_trace(pair, a, n); kymo_trace(pair, b, n); } return 0; }\n",
    );
    let mut proc = lab.spawn(&program, &[]);
    proc.until("ready");
    let recordings = ["a", "b"].map(|name| lab.record(name).args(&["-u", &format!("pair:{name}")]).attach());
    proc.say("go");
    assert_eq!(proc.wait().code, 0);
    for (recording, name) in recordings.into_iter().zip(["a", "b"]) {
        let read = recording.end(Signal::INT).expect(0).lossless().read(&lab);
        trace::assert_counts_up(&read.numbers(&format!("pair:{name}"), "n"), 1000);
        assert_eq!(read.records.len(), 1000);
    }
}

#[test]
fn a_session_ends_after_its_time() {
    let lab = Lab::new("for_time");
    let mut proc = runner(&lab);
    let recording = lab.record("trace").args(&ROOM).args(&["--for", "6s"]).attach();
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 100", "done");
    let recorded = recording.wait().expect(0).lossless();
    trace::assert_counts_up(&recorded.read(&lab).numbers("runner:rec", "n"), 100);
    ask(&mut proc, "disabled", "disabled");
    assert!(proc.is_running());
}

/// Lets a program run on the first CPU only that this process may use.
fn on_one_cpu(pid: u32) {
    let own = rustix::thread::sched_getaffinity(None).expect("an affinity");
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| own.is_set(*cpu)).expect("a CPU");
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    let pid = rustix::process::Pid::from_raw(pid as i32);
    rustix::thread::sched_setaffinity(pid, &one).expect("to move a child");
}

#[test]
fn a_program_outlives_a_killed_collector() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("killed_collector");
        lab.ring(ring);
        let mut proc = runner(&lab);
        // A collector that is killed has written some rings and not others: all records are in one.
        on_one_cpu(proc.pid());
        let pid = proc.pid().to_string();
        let recording = lab.record("first").args(&ROOM).args(&["-p", &pid]).attach();
        ask(&mut proc, "enabled", "enabled");
        lab.wait_for("a record in the trace", || {
            ask(&mut proc, "burst 100", "done");
            recording.has_records().then_some(())
        });
        let killed = recording.end(Signal::KILL);
        assert_eq!((killed.outcome.code, &killed.summary["complete"]), (137, &false.into()));
        ask(&mut proc, "disabled", "disabled");
        let begin: u64 = ask(&mut proc, "burst 100", "done")[5..].parse().unwrap();
        // What was written before can be read, by both readers.
        let read = lab.read("first");
        let numbers = read.numbers("runner:rec", "n");
        trace::assert_counts_up(&numbers, numbers.len() as u64);
        assert!(!numbers.is_empty());
        // babeltrace2 reads no packet that is not whole.
        if !read.stderr.contains("the packet is unfinished") {
            babeltrace::agrees(&lab, &killed.dir, &read);
        }
        // And the next one records all.
        let recording = lab.record("second").args(&ROOM).args(&["-p", &pid]).attach();
        ask(&mut proc, "enabled", "enabled");
        ask(&mut proc, "burst 1000", "done");
        let read = recording.end(Signal::INT).expect(0).lossless().read(&lab);
        assert!(read.numbers("runner:rec", "n").into_iter().eq(begin..begin + 1000));
        assert_eq!(proc.wait().code, 0);
        let left = lab.sockets("");
        let of_collector = |name: &str| ["s.", "m."].iter().any(|role| name.starts_with(role));
        assert!(left.iter().all(|path| of_collector(&path.file_name().unwrap().to_string_lossy())), "{left:?}");
    }
}

#[test]
fn a_command_outlives_its_killed_collector() {
    let lab = Lab::new("killed_with_command");
    let program = lab.cc("runner.c");
    let mut recording = lab.record("first").args(&ROOM).start(&[program.to_str().unwrap()]);
    recording.proc().until("ready");
    ask(recording.proc(), "burst 1000", "done");
    lab.wait_for("a record in the trace", || recording.has_records().then_some(()));
    recording.proc().signal(Signal::KILL);
    ask(recording.proc(), "disabled", "disabled");
    assert_eq!(ask(recording.proc(), "burst 1000", "done"), "done 2000");
    let numbers = lab.read("first").numbers("runner:rec", "n");
    trace::assert_counts_up(&numbers, numbers.len() as u64);
    let second = lab.record("second").args(&ROOM).attach();
    ask(recording.proc(), "enabled", "enabled");
    ask(recording.proc(), "burst 1000", "done");
    let read = second.end(Signal::INT).expect(0).lossless().read(&lab);
    assert!(read.numbers("runner:rec", "n").into_iter().eq(2000..3000));
    recording.proc().say("exit 0");
    assert_eq!(recording.wait().outcome.code, 137);
}

/// A collector writes a packet piece by piece, and may be killed between two of them: what it had not written yet is no
/// damage. In a session that was cut, that is so of the newest chunk only.
#[test]
fn a_packet_that_a_killed_collector_had_half_written() {
    for is_cut in [false, true] {
        let lab = Lab::new("half_packet");
        let mut proc = runner(&lab);
        let session = Session::start(&lab, "half", &[]);
        ask(&mut proc, "enabled", "enabled");
        ask(&mut proc, "burst 100", "done");
        if is_cut {
            session.ask(&["rotate"]);
            ask(&mut proc, "burst 100", "done");
        }
        let root = lab.path("half");
        let chunks = if is_cut { vec![root.join("chunk-0001"), root.join("chunk-0002")] } else { vec![root.clone()] };
        let newest = chunks.last().expect("one");
        lab.wait_for("records are in the trace", || longest(newest).filter(|(_, bytes)| *bytes > 500));
        session.kill();
        cut(newest);
        let read = lab.read("half");
        assert!(read.stderr.contains("this recording has not ended"), "{}", read.stderr);
        assert!(read.stderr.contains("the packet is unfinished: "), "{}", read.stderr);
        let numbers = read.numbers("runner:rec", "n");
        trace::assert_counts_up(&numbers, numbers.len() as u64);
        assert!(!numbers.is_empty());
        let of_chunk = trace::read(&lab, newest, &[]).whole();
        assert!(of_chunk.stderr.contains("this recording has not ended"), "{}", of_chunk.stderr);
        // What is said of the trace as a whole agrees, whoever reads.
        let count = lab.kymo(&["read", "--count", root.to_str().expect("UTF-8")]).expect(0);
        assert!(count.stderr.contains("unfinished") && !count.stderr.contains("damaged"), "{}", count.stderr);
        if is_cut {
            cut(&chunks[0]);
            let damaged = trace::read(&lab, &root, &[]);
            assert_eq!(damaged.code, 1, "{}", damaged.stderr);
            assert!(damaged.stderr.contains("the file ends inside the packet"), "{}", damaged.stderr);
        }
        proc.wait();
    }
}

/// The longest file of a program's records, and its bytes.
fn longest(dir: &Path) -> Option<(PathBuf, u64)> {
    let files = std::fs::read_dir(dir).ok()?.flatten();
    let users = files.filter(|file| file.file_name().to_string_lossy().starts_with("user_"));
    users.filter_map(|file| Some((file.path(), file.metadata().ok()?.len()))).max_by_key(|(_, bytes)| *bytes)
}

/// Cuts the end of it.
#[track_caller]
fn cut(dir: &Path) {
    let (path, bytes) = longest(dir).expect("a file of records");
    std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(bytes - 3)).expect("to cut it");
}

/// SIGINT and SIGTERM end a recording with a whole trace, and the command with it.
#[test]
fn a_signal_to_kymo_record_gives_a_whole_trace() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let lab = Lab::new("signals");
        let program = lab.cc("runner.c");
        let mut recording = lab.record("trace").args(&ROOM).start(&[program.to_str().unwrap()]);
        recording.proc().until("ready");
        ask(recording.proc(), "burst 5000", "done");
        let recorded = recording.end(signal).expect(128 + number).lossless();
        let read = recorded.read(&lab);
        trace::assert_counts_up(&read.numbers("runner:rec", "n"), 5000);
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
}
