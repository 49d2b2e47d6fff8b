// SPDX-License-Identifier: MIT OR Apache-2.0
//! kymo load: it does something, on the CPUs that were said, and nothing of it is left, whoever is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use kymo_tests::session::contains;
use kymo_tests::{Lab, Proc, paths, skip};
use rustix::process::Signal;
use serde_json::Value;

/// Processes that were told of the directory of the test's loads, by their command line or their environment.
fn of_loads(lab: &Lab) -> Vec<String> {
    let dir = lab.path("tmp");
    let dir = dir.to_str().expect("UTF-8").to_owned();
    let told = |entry: std::fs::DirEntry| {
        let text =
            |file: &str| std::fs::read(entry.path().join(file)).map(|text| String::from_utf8_lossy(&text).into_owned());
        let (line, environment) = (text("cmdline").ok()?.replace('\0', " "), text("environ").unwrap_or_default());
        // kymo itself waits for them.
        (!line.contains(" load ") && (line.contains(&dir) || environment.contains(&dir))).then_some(line)
    };
    std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(told).filter(|line| !line.is_empty()).collect()
}

fn files(lab: &Lab) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(lab.path("tmp")).expect("a directory").flatten().map(|entry| entry.path()).collect()
}

/// Starts a load whose files are in the test's directory, and comes back when it runs.
fn start(lab: &Lab, args: &[&str]) -> Proc {
    std::fs::create_dir_all(lab.path("tmp")).expect("a directory");
    let mut command = lab.command(paths::kymo());
    command.env("TMPDIR", lab.path("tmp")).arg("load").args(args);
    let proc = lab.start(command);
    // A guard, and processes that it made.
    lab.wait_for("the load runs", || (of_loads(lab).len() > 1).then_some(()));
    proc
}

/// Waits until nothing is left; what there still is at the deadline is said.
fn gone(lab: &Lab, when: &str) {
    loop {
        let left = (of_loads(lab), files(lab));
        if left == (vec![], vec![]) {
            return;
        }
        assert!(Instant::now() < lab.deadline(), "{when}: left are processes {:?}, files {:?}", left.0, left.1);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn done(text: &str) -> Value {
    let report: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(report["schema"], "kymo-load-1");
    report
}

fn has_stress_ng(name: &str) -> bool {
    let has = Path::new("/usr/bin/stress-ng").exists();
    if !has {
        skip(name, "stress-ng is not installed");
    }
    has
}

#[test]
fn each_load_says_what_it_did() {
    let lab = Lab::new("load_done");
    let report = done(&lab.kymo(&["load", "hackbench+net", "-c", "0", "-d", "1s", "--json"]).expect(0).stdout);
    assert_eq!((&report["ended"], &report["cpus"]), (&"time".into(), &"0".into()));
    for (load, name) in report["loads"].as_array().expect("loads").iter().zip(["hackbench", "net"]) {
        assert_eq!((&load["load"], &load["workers"], &load["unit"]), (&name.into(), &1.into(), &"messages".into()));
        assert!(load["operations"].as_u64() > Some(0), "{load:#}");
    }
    let none = done(&lab.kymo(&["load", "none", "-d", "100ms", "--json"]).expect(0).stdout);
    assert_eq!((&none["loads"], &none["ended"]), (&serde_json::json!([]), &"time".into()));
    if has_stress_ng("each_load_says_what_it_did") {
        let report = done(&lab.kymo(&["load", "timer", "-c", "0", "-d", "2s", "--json"]).expect(0).stdout);
        let load = &report["loads"][0];
        assert_eq!(load["stressors"], serde_json::json!(["timer", "timerfd"]));
        assert!(load["operations"].as_u64() > Some(0) && load["by"].as_str().expect("text").starts_with("stress-ng "));
    }
}

#[test]
fn nothing_of_a_load_is_left() {
    let mut kinds = vec!["hackbench", "compile+net"];
    if has_stress_ng("nothing_of_a_load_is_left") {
        kinds.push("io");
    }
    for kind in kinds {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            let lab = Lab::new("load_left");
            let outcome = start(&lab, &[kind, "--json"]).end(signal);
            if signal != Signal::KILL {
                assert_eq!(done(&outcome.expect(0).stdout)["ended"], "signal");
                assert_eq!((of_loads(&lab), files(&lab)), (vec![], vec![]), "{kind}, {signal:?}");
            }
            // The guards go on for a moment when kymo was killed.
            gone(&lab, &format!("{kind}, {signal:?}"));
        }
    }
}

/// Killed at any moment of its start: before a guard is there, before it is ready, and when all run.
#[test]
fn a_kymo_that_is_killed_while_it_starts_leaves_nothing() {
    for kind in ["hackbench", "compile+net"] {
        for after in (0..48).step_by(3).map(Duration::from_millis) {
            let lab = Lab::new("load_starts");
            std::fs::create_dir_all(lab.path("tmp")).expect("a directory");
            let mut command = lab.command(paths::kymo());
            command.env("TMPDIR", lab.path("tmp")).args(["load", kind]);
            let proc = lab.start(command);
            std::thread::sleep(after);
            proc.end(Signal::KILL);
            gone(&lab, &format!("{kind}, killed after {after:?}"));
        }
    }
}

#[test]
fn a_load_whose_guard_is_killed_is_told() {
    for kind in ["hackbench", "compile"] {
        let lab = Lab::new("load_guard");
        let proc = start(&lab, &[kind]);
        let guard = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", proc.pid())).expect("its children");
        let guard: i32 = guard.trim().parse().expect("one child");
        rustix::process::kill_process(rustix::process::Pid::from_raw(guard).expect("a process"), Signal::KILL)
            .expect("it can be killed");
        let outcome = proc.wait();
        // 2: before all was ready.
        assert!(outcome.code == 1 || outcome.code == 2, "{outcome:?}");
        contains(&outcome.stderr, &format!("load {kind}"));
        assert_eq!((of_loads(&lab), files(&lab)), (vec![], vec![]), "{kind}");
    }
}

/// Nobody is there to remove the directory of a load whose kymo and guard are killed at once: the next load does.
#[test]
fn what_two_killed_ones_left_is_removed_by_the_next_load() {
    let lab = Lab::new("load_swept");
    let proc = start(&lab, &["hackbench"]);
    let kill = |pid: u32, signal| {
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it can be killed");
    };
    let guard = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", proc.pid())).expect("its children");
    let [left] = &files(&lab)[..] else { panic!("one directory: {:?}", files(&lab)) };
    kill(proc.pid(), Signal::STOP);
    kill(guard.trim().parse().expect("one child"), Signal::KILL);
    let number = proc.pid();
    proc.end(Signal::KILL);
    lab.wait_for("its processes end", || of_loads(&lab).is_empty().then_some(()));
    // Beside it: one that lives by its lock, one whose kymo lives, one that is not ours by its name.
    let dir = |name: &str| {
        let path = lab.path("tmp").join(name);
        std::fs::create_dir(&path).expect("a new name");
        path
    };
    let kept = [dir(&format!("kymo-load-net-{number}-1")), dir("kymo-load-net-1-1"), dir("kymo-load-x"), dir("load")];
    let held = std::fs::File::open(&kept[0]).expect("a directory");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).expect("a lock");
    let next = || {
        let mut command = lab.command(paths::kymo());
        command.env("TMPDIR", lab.path("tmp")).args(["load", "none", "-d", "1ms"]);
        lab.start(command).wait().expect(0).stderr
    };
    assert!(!next().contains("removed") && left.exists(), "it is too new");
    for path in kept.iter().chain([left]) {
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        std::fs::File::open(path).expect("a directory").set_modified(old).expect("its time");
    }
    contains(&next(), &format!("{} is of a load that was killed: removed", left.display()));
    let mut now = files(&lab);
    now.sort();
    let mut kept = kept.to_vec();
    kept.sort();
    assert_eq!(now, kept);
    drop(held);
}

#[test]
fn what_cannot_be_had_is_said() {
    let lab = Lab::new("load_errors");
    contains(&lab.kymo(&["load", "hackbench+x"]).expect(2).stderr, "no load \"x\"; there are hackbench, compile");
    contains(&lab.kymo(&["load", "net+net"]).expect(2).stderr, "is there twice");
    contains(&lab.kymo(&["load", "net", "-c", "4000"]).expect(2).stderr, "does not exist or is offline; online:");
    for (load, wanted) in [("io", "apt-get install stress-ng"), ("compile", "apt-get install gcc")] {
        let mut command = lab.command(paths::kymo());
        command.env("PATH", lab.path("")).args(["load", load]);
        contains(&lab.start(command).wait().expect(2).stderr, wanted);
    }
}
