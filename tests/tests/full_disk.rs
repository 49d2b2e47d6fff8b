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
    let read = trace::read(&lab, Path::new(&disk.path("trace")), &[]).whole();
    let numbers = read.numbers("runner:rec", "n");
    assert!(numbers.len() >= 1000);
    trace::assert_counts_up(&numbers, numbers.len() as u64);
    assert_eq!(kymo_tests::process::count_behind(&stopped, "LOST "), 51_000 - numbers.len() as u64, "{stopped}");
    assert_eq!(good.ask(&["stop"])["records"], 51_000);
    ask(&mut proc, "disabled", "disabled");
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
