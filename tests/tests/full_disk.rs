// SPDX-License-Identifier: MIT OR Apache-2.0
//! No room on the disk, for every verb of a session: what is said, what is left, and that nobody else notices.

use std::path::Path;

use kymo_tests::session::{Session, ask, runner, session};
use kymo_tests::{Lab, SmallDisk, trace};
use rustix::process::Signal;

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

const FULL: &str = "No space left on device";

#[test]
fn a_start_without_room_leaves_nothing() {
    let lab = Lab::new("full_start");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    let mut proc = runner(&lab);
    let good = Session::start(&lab, "good", &[]);
    ask(&mut proc, "enabled", "enabled");
    for free in [0, 4096, 8192, 12288, 16384] {
        disk.fill_but(free);
        let outcome = session(&lab, &["start", "bad", "-o", &disk.path("trace")]);
        if outcome.code == 0 {
            assert!(free > 4096, "it started on a full disk");
            session(&lab, &["stop", "bad"]).expect(0);
            trace::read(&lab, Path::new(&disk.path("trace")), &[]).whole();
            std::fs::remove_dir_all(disk.path("trace")).expect("a trace");
            let _ = std::fs::remove_file(disk.path("trace.log"));
            continue;
        }
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        contains(&outcome.stderr, FULL);
        assert!(disk.names().is_empty(), "{free} bytes: {:?}", disk.names());
        let record = lab.kymo(&["record", "--for", "1ms", "-o", &disk.path("trace")]).expect(2);
        contains(&record.stderr, FULL);
        assert!(disk.names().is_empty(), "{free} bytes: {:?}", disk.names());
    }
    assert_eq!(lab.sockets("c.").len(), 1, "only that of `good`");
    ask(&mut proc, "burst 100", "done");
    assert_eq!(good.ask(&["stop"])["records"], 100);
    trace::assert_counts_up(&lab.read("good").numbers("runner:rec", "n"), 100);
}

#[test]
fn a_snapshot_without_room_leaves_nothing_and_the_next_one_has_it_all() {
    let lab = Lab::new("full_snapshot");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    let mut proc = runner(&lab);
    let session_ = Session::start(&lab, "box", &["--flight", "--ring-size", "1M", "-u", "runner:*"]);
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 1000", "done");
    for free in [0, 4096, 8192] {
        disk.fill_but(free);
        let outcome = session(&lab, &["snapshot", "box", "--wait", "-o", &disk.path("snap")]).expect(2);
        contains(&outcome.stderr, FULL);
        assert!(disk.names().is_empty(), "{free} bytes: {:?}", disk.names());
        contains(&session(&lab, &["status", "box"]).expect(0).stdout, "the last snapshot failed");
    }
    disk.make_room();
    let outcome = session(&lab, &["snapshot", "box", "--wait", "-o", &disk.path("snap")]).expect(0);
    contains(&outcome.stderr, "1,000 records");
    let read = trace::read(&lab, Path::new(&disk.path("snap")), &[]).whole();
    trace::assert_counts_up(&read.numbers("runner:rec", "n"), 1000);
    // Options in a file: all or none, and an old one stays.
    disk.fill_but(0);
    contains(&session(&lab, &["save", "box", &disk.path("box.toml")]).expect(2).stderr, FULL);
    assert_eq!(disk.names(), ["snap"]);
    session_.ask(&["stop"]);
}

#[test]
fn a_disk_that_fills_up_ends_the_trace_and_nothing_else() {
    let lab = Lab::new("full_stop");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    let good = Session::start(&lab, "good", &[]);
    session(&lab, &["start", "full", "-o", &disk.path("trace"), "-u", "runner:*"]).expect(0);
    // It waits for both before main.
    let mut proc = runner(&lab);
    // On one CPU: the stream of another one could not even begin on the full disk, nor tell of losses.
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(0);
    let pid = rustix::process::Pid::from_raw(proc.pid() as i32);
    rustix::thread::sched_setaffinity(pid, &cpus).expect("CPU 0");
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 1000", "done");
    lab.wait_for("records on the disk", || {
        let status = session(&lab, &["status", "full", "--json"]).expect(0).stdout;
        status.contains("\"records\": 1000").then_some(())
    });
    disk.fill_but(0);
    ask(&mut proc, "burst 50000", "done");
    lab.wait_for("the end of writing", || {
        let status = session(&lab, &["status", "full"]).expect(0).stdout;
        status.contains("CAN NO LONGER BE WRITTEN").then_some(())
    });
    let stopped = session(&lab, &["stop", "full"]).expect(0).stderr;
    contains(&stopped, "LOST");
    contains(&stopped, FULL);
    contains(&stopped, "writing ended");
    let read = trace::read(&lab, Path::new(&disk.path("trace")), &[]).whole();
    let numbers = read.numbers("runner:rec", "n");
    // The trace itself tells of every record that it lacks, on the full disk too.
    assert_eq!(read.lost(), 51_000 - numbers.len() as u64);
    kymo_tests::babeltrace::agrees(&lab, Path::new(&disk.path("trace")), &read);
    assert!(numbers.len() >= 1000);
    trace::assert_counts_up(&numbers, numbers.len() as u64);
    assert_eq!(kymo_tests::process::count_behind(&stopped, "LOST "), 51_000 - numbers.len() as u64, "{stopped}");
    assert_eq!(good.ask(&["stop"])["records"], 51_000);
    ask(&mut proc, "disabled", "disabled");
}

#[test]
fn a_disk_that_has_room_again_goes_on_with_the_trace_and_tells_of_the_gap() {
    let lab = Lab::new("full_again");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    session(&lab, &["start", "full", "-o", &disk.path("trace"), "-u", "runner:*"]).expect(0);
    let status = || session(&lab, &["status", "full", "--json"]).expect(0).stdout;
    let taken = || {
        let status: serde_json::Value = serde_json::from_str(&status()).expect("a status");
        status["records"].as_u64().expect("a count") + status["lost"].as_u64().expect("a count")
    };
    let mut proc = runner(&lab);
    ask(&mut proc, "enabled", "enabled");
    let mut produced = 0;
    for _ in 0..2 {
        ask(&mut proc, "burst 1000", "done");
        lab.wait_for("what was written so far", || (taken() == produced + 1000).then_some(()));
        disk.fill_but(0);
        ask(&mut proc, "burst 20000", "done");
        produced += 21_000;
        lab.wait_for("the end of writing", || status().contains("\"writing_ended\": true").then_some(()));
        disk.make_room();
        lab.wait_for("writing again", || {
            ask(&mut proc, "burst 1", "done");
            produced += 1;
            status().contains("\"writing_ended\": false").then_some(())
        });
    }
    ask(&mut proc, "burst 500", "done");
    produced += 500;
    let stopped = session(&lab, &["stop", "full", "--json"]).expect(0).stdout;
    let summary: serde_json::Value = serde_json::from_str(&stopped).expect("the summary");
    assert!(summary["write_error"].as_str().is_some_and(|error| error.contains(FULL)), "{stopped}");
    assert_eq!(summary["write_resumed"], true);
    let read = trace::read(&lab, Path::new(&disk.path("trace")), &[]).whole();
    let records = read.of("runner:rec").count() as u64;
    assert_eq!((records + read.lost(), summary["lost"]["not_written"].as_u64()), (produced, Some(read.lost())));
    assert!(records >= 2500 && read.lost() > 10_000, "{records} records, {} lost", read.lost());
    kymo_tests::babeltrace::agrees(&lab, Path::new(&disk.path("trace")), &read);
    // Each gap lies where the numbers jump, and nowhere else.
    let numbers: Vec<(u64, u64)> = read.of("runner:rec").map(|record| (record.time, record.number("n"))).collect();
    for pair in numbers.windows(2).filter(|pair| pair[1].1 != pair[0].1 + 1) {
        let is_told = |loss: &kymo_tests::trace::Loss| loss.from <= pair[1].0 && loss.to >= pair[0].0;
        assert!(read.losses.iter().any(is_told), "{pair:?} is told nowhere: {:?}", read.losses);
    }
    ask(&mut proc, "disabled", "disabled");
}

/// Writes that fail for another reason than a full disk end the trace in the same way: strace(1) lets them.
#[test]
fn a_quota_and_a_broken_disk_end_the_trace_and_are_told() {
    let lab = Lab::new("full_errors");
    if !kymo_tests::has("strace") {
        return kymo_tests::skip(lab.name(), "no strace");
    }
    for (error, said) in [("EDQUOT", "Disk quota exceeded"), ("EIO", "Input/output error")] {
        let mut command = lab.command("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pwritev", "-e"]);
        command.arg(format!("inject=pwritev:error={error}:when=5+")).arg(kymo_tests::paths::kymo());
        command.args(["session", "start", "bad", "--detached", "-u", "runner:*", "-o"]).arg(lab.path(error));
        let collector = lab.start(command);
        collector.until("");
        let mut proc = runner(&lab);
        ask(&mut proc, "enabled", "enabled");
        let mut produced = 0;
        lab.wait_for("the end of writing", || {
            ask(&mut proc, "burst 100", "done");
            produced += 100;
            let status = session(&lab, &["status", "bad"]).expect(0).stdout;
            status.contains("CAN NO LONGER BE WRITTEN").then_some(())
        });
        let stopped = session(&lab, &["stop", "bad"]).expect(0).stderr;
        contains(&stopped, said);
        contains(&stopped, "writing ended");
        let numbers = lab.read(error).numbers("runner:rec", "n");
        let lost = kymo_tests::process::count_behind(&stopped, "LOST ");
        assert_eq!((numbers.is_empty(), numbers.len() as u64 + lost), (false, produced), "{stopped}");
        // strace counts the calls of each thread: one that has not failed yet may write later records, behind a gap.
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        collector.wait();
        assert_eq!(proc.wait().code, 0);
    }
}

/// Removes the directory of a trace. The collector may write its metadata anew meanwhile.
#[track_caller]
fn remove(dir: &Path) {
    while let Err(error) = std::fs::remove_dir_all(dir) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{}: {error}", dir.display());
    }
}

/// What becomes of a trace whose place goes while it is recorded.
#[test]
fn a_trace_that_is_taken_away_is_said_to_be_gone() {
    type Deed = fn(&Path, &Path);
    let deeds: [(&str, Deed); 4] = [
        ("removed", |dir, _| remove(dir)),
        ("removed", |dir, aside| std::fs::rename(dir, aside).expect("it is there")),
        ("replaced", |dir, aside| {
            std::fs::rename(dir, aside).expect("it is there");
            std::fs::create_dir(dir).expect("room");
        }),
        ("removed", |dir, _| {
            remove(dir);
            std::fs::write(dir, "a file").expect("room");
        }),
    ];
    for (number, (word, deed)) in deeds.into_iter().enumerate() {
        let lab = Lab::new(&format!("gone_{number}"));
        let (dir, aside) = (lab.path("full"), lab.path("aside"));
        // Once as a session, once as a recording.
        let session_ = Session::start(&lab, "full", &["-u", "runner:*"]);
        let mut proc = runner(&lab);
        ask(&mut proc, "enabled", "enabled");
        ask(&mut proc, "burst 1000", "done");
        session_.until("records in the trace", |status| status["records"] == 1000);
        deed(&dir, &aside);
        session_.until("the end of writing", |status| status["writing_ended"] == true);
        ask(&mut proc, "burst 500", "done");
        let outcome = session(&lab, &["stop", "full", "--json"]).expect(2);
        check_gone(&outcome.stdout, word);
        contains(&outcome.stderr, "THE TRACE IS GONE");
        // Whatever is in that place now is not ours to touch.
        assert!(!dir.join("metadata").exists());
        ask(&mut proc, "disabled", "disabled");

        let (dir, aside) = (lab.path("trace"), lab.path("aside2"));
        let recording = lab.record("trace").args(&["--json", "-u", "runner:*"]).attach();
        ask(&mut proc, "enabled", "enabled");
        ask(&mut proc, "burst 1000", "done");
        lab.wait_for("records in the trace", || recording.has_records().then_some(()));
        deed(&dir, &aside);
        let outcome = recording.end(Signal::INT).expect(2).outcome;
        check_gone(&outcome.stdout, word);
        contains(&outcome.stderr, "THE TRACE IS GONE");
        assert!(
            !outcome.stderr.contains("nothing was lost") && !outcome.stderr.contains("kymo read"),
            "{}",
            outcome.stderr
        );
    }
}

/// The summary of a trace that is gone: how much it was, and that nobody knows what of it there is.
#[track_caller]
fn check_gone(json: &str, word: &str) {
    let summary: serde_json::Value = serde_json::from_str(json).expect("a summary");
    assert!(summary["trace_error"].as_str().is_some_and(|error| error.contains(word)), "{summary}");
    let count = |value: &serde_json::Value| value.as_u64().expect("a count");
    assert!(count(&summary["records"]) + count(&summary["lost_counted"]["not_written"]) >= 1000, "{summary}");
    assert_eq!(summary["lost"], serde_json::Value::Null);
    assert!(summary["unknown_count"].as_u64() >= Some(1), "{summary}");
}

#[test]
fn a_flight_recorder_whose_directory_goes_says_so() {
    let lab = Lab::new("gone_flight");
    let recording = lab.record("trace").args(&["--flight", "--json", "-u", "runner:*"]).attach();
    let mut proc = runner(&lab);
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 1000", "done");
    remove(&lab.path("trace"));
    let outcome = recording.end(Signal::INT).expect(2).outcome;
    let summary: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("a summary");
    assert!(summary["trace_error"].is_string(), "{summary}");
    contains(&outcome.stderr, "THE TRACE IS GONE");
}

/// A file of the trace, and no more, that somebody removes or cuts short: nobody knows how much was in it.
#[test]
fn a_stream_file_that_goes_is_unknown() {
    for (number, word) in ["removed", "cut short"].into_iter().enumerate() {
        let lab = Lab::new(&format!("gone_file_{number}"));
        let recording = lab.record("trace").args(&["-u", "runner:*"]).attach();
        let mut proc = runner(&lab);
        ask(&mut proc, "enabled", "enabled");
        lab.wait_for("records in the trace", || {
            ask(&mut proc, "burst 100", "done");
            recording.has_records().then_some(())
        });
        let entries = std::fs::read_dir(lab.path("trace")).expect("a directory").flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("user_")) {
            match number {
                0 => std::fs::remove_file(entry.path()).expect("it is there"),
                _ => {
                    let file = std::fs::File::options().write(true).open(entry.path()).expect("it is there");
                    file.set_len(10).expect("it is ours");
                }
            }
        }
        let recorded = recording.end(Signal::INT).expect(3);
        assert!(recorded.summary["unknown"].to_string().contains(word), "{}", recorded.summary["unknown"]);
        contains(&recorded.outcome.stderr, &format!("was {word} while it was written to"));
    }
}

#[test]
fn recovery_without_room_keeps_the_rings() {
    let lab = Lab::new("full_recover");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    let mut proc = runner(&lab);
    let (rings, dir) = (lab.path("rings"), disk.path("trace"));
    let args = ["record", "-o", &dir, "-u", "runner:*", "--poll-us", "1000000", "--ring-size", "256K", "--ring-dir"];
    let collector = lab.spawn(kymo_tests::paths::kymo(), &[&args[..], &[rings.to_str().expect("UTF-8")]].concat());
    collector.until_stderr("Ctrl-C ends it");
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 3000", "done");
    collector.end(Signal::KILL);
    ask(&mut proc, "disabled", "disabled");
    let recover = || lab.kymo(&["recover", rings.to_str().expect("UTF-8"), &dir]);
    let files = || std::fs::read_dir(&rings).expect("a directory").count();
    for free in [0, 16384] {
        disk.fill_but(free);
        let outcome = recover().expect(2);
        contains(&outcome.stderr, "it has room for");
        assert_eq!(files(), 1);
    }
    disk.make_room();
    recover().expect(0);
    assert_eq!(files(), 0);
    let read = trace::read(&lab, Path::new(&dir), &[]).whole();
    trace::assert_counts_up(&read.numbers("runner:rec", "n"), 3000);
}
