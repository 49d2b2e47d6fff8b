// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that comes to another CPU later meets no page fault in its ring there [spec/session.md 6]: the rings of
//! CPUs that it could be moved to are made ready after the start, others when a first record was seen on them.

use std::path::{Path, PathBuf};

use kymo_tests::session::Session;
use kymo_tests::{Lab, Proc, skip, trace};

const RING_BYTES: u64 = 4 << 20;
const RECORDS: u64 = 100_000;

fn args(when: &str) -> [String; 3] {
    [when.to_owned(), RECORDS.to_string(), RING_BYTES.to_string()]
}

/// Lets a program that is ready go to CPU 1, and checks what it met there. A machine short of memory may take pages of
/// code away.
fn check(lab: &Lab, session: &Session<'_>, mut program: Proc, name: &str) {
    program.say("go");
    let line = program.until("produced=");
    let minor = kymo_tests::process::number(&line, "minor");
    assert!(minor <= 1, "{name}: {line}: page faults over {RECORDS} records");
    program.say("end");
    program.wait().expect(0);
    let summary = session.ask(&["stop"]);
    assert_eq!(summary["records"], RECORDS);
    trace::assert_counts_up(&lab.read(name).numbers("late:rec", "n"), RECORDS);
}

fn session<'a>(lab: &'a Lab, name: &str, more: &[&str]) -> Session<'a> {
    Session::start(lab, name, &[&["-u", "late:*", "--ring-size", "4M"], more].concat())
}

#[test]
fn a_program_that_was_started_on_one_cpu_and_binds_itself_to_another() {
    let lab = Lab::new("late_affinity");
    let program = lab.cc("late.c");
    for (when, more) in [("before", &[][..]), ("first", &["--memory", "8M"][..])] {
        let session = session(&lab, when, more);
        let [when, records, ring_bytes] = args(when);
        let proc = lab.spawn("taskset", &["-c", "0", program.to_str().unwrap(), &when, &records, &ring_bytes]);
        proc.until("ready");
        check(&lab, &session, proc, &when);
    }
}

/// A group of CPUs that is removed whatever happens.
struct Cpuset(PathBuf);

impl Cpuset {
    fn new(name: &str) -> Option<Cpuset> {
        let root = Path::new("/sys/fs/cgroup/cpuset");
        let group = Cpuset(root.join(format!("kymo-test-{}", std::process::id())));
        let made = std::fs::create_dir(&group.0).and_then(|()| group.write("cpuset.mems", "0"));
        if let Err(error) = made.and_then(|()| group.write("cpuset.cpus", "0")) {
            skip(name, &format!("no cpuset of version 1 can be made: {error}"));
            return None;
        }
        Some(group)
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(self.0.join(file), text)
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_program_whose_cpuset_grows() {
    let lab = Lab::new("late_cpuset");
    let Some(group) = Cpuset::new("late_cpuset") else { return };
    let program = lab.cc("late.c");
    let session = session(&lab, "first", &[]);
    let [when, records, ring_bytes] = args("first");
    let line =
        format!("echo $$ > {}/tasks; exec {} {when} {records} {ring_bytes}", group.0.display(), program.display());
    let proc = lab.spawn("/bin/sh", &["-c", &line]);
    proc.until("ready");
    group.write("cpuset.cpus", "0-1").expect("it grows");
    check(&lab, &session, proc, "first");
}

/// CPU 1, which comes back whatever happens.
struct Offline;

impl Offline {
    const FILE: &'static str = "/sys/devices/system/cpu/cpu1/online";

    fn new(name: &str) -> Option<Offline> {
        if let Err(error) = std::fs::write(Self::FILE, "0") {
            skip(name, &format!("CPU 1 cannot be taken offline here: {error}"));
            return None;
        }
        Some(Offline)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::FILE, "1");
    }
}

#[test]
fn a_cpu_that_comes_online() {
    let lab = Lab::alone("late_online");
    let program = lab.cc("late.c");
    let Some(offline) = Offline::new("late_online") else { return };
    let session = session(&lab, "first", &[]);
    let [when, records, ring_bytes] = args("first");
    let proc = lab.spawn(&program, &[&when, &records, &ring_bytes]);
    proc.until("ready");
    drop(offline);
    check(&lab, &session, proc, "first");
}
