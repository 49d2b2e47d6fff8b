// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs and collectors in namespaces of their own [docs/containers.md]: who is found, by which number, and what is
//! said where nothing can be.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kymo_tests::container::{Container, innermost};
use kymo_tests::session::{Session, ask, runner};
use kymo_tests::{Lab, Outcome, Proc, Recorded, paths, skip};
use rustix::process::Signal;
use serde_json::Value;

/// Room for a burst, however late the collector comes.
const ROOM: [&str; 4] = ["--ring-size", "1M", "--memory", "4G"];

/// A runner in a container, ready, and its process id as the test sees it.
#[track_caller]
fn runner_in(container: &Container<'_>, program: &Path) -> (Proc, u32) {
    let proc = container.start(program, &[]);
    proc.until("ready");
    let pid = innermost(&proc);
    (proc, pid)
}

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

/// Records of the attached process that the collector sees as `pid`, and the number by which it sees itself.
#[track_caller]
fn of_process(recorded: &Recorded, pid: u32) -> (u64, u64) {
    let list = recorded.summary["processes"].as_array().expect("a list of processes");
    let of_it = |process: &&Value| process["pid"] == pid && process["outcome"] == "attached";
    let process = list.iter().find(of_it).unwrap_or_else(|| panic!("process {pid} is not in {list:#?}"));
    (process["records"].as_u64().expect("a count"), process["vpid"].as_u64().expect("a number"))
}

#[track_caller]
fn burst(proc: &mut Proc, records: u64) {
    ask(proc, "enabled", "enabled");
    ask(proc, &format!("burst {records}"), "done");
}

#[test]
fn programs_in_pid_namespaces_are_recorded_whoever_comes_first() {
    let lab = Lab::new("pid_namespaces");
    let Some(container) = Container::of_processes(&lab) else { return };
    let mut outside = runner(&lab);
    let program = lab.path("runner");
    // Two programs that are process 1 of their namespaces, before the session; one after.
    let (mut one, one_pid) = runner_in(&container, &program);
    let (mut two, two_pid) = runner_in(&container, &program);
    let recording = lab.record("trace").args(&ROOM).attach();
    burst(&mut outside, 50);
    burst(&mut one, 100);
    burst(&mut two, 200);
    let (mut late, late_pid) = runner_in(&container, &program);
    burst(&mut late, 400);
    let list = lab.kymo(&["list", "--json"]).expect(0).stdout;
    let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
    let listed = |pid: u32| list.iter().find(|entry| entry["pid"] == pid).map(|entry| entry["vpid"].as_u64());
    assert_eq!(listed(one_pid), Some(Some(1)), "{list:#?}");
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    assert_eq!(of_process(&recorded, outside.pid()), (50, u64::from(outside.pid())));
    assert_eq!(of_process(&recorded, one_pid), (100, 1));
    assert_eq!(of_process(&recorded, two_pid), (200, 1));
    assert_eq!(of_process(&recorded, late_pid), (400, 1));
    assert_eq!(recorded.summary["processes"].as_array().map(Vec::len), Some(4), "{:#}", recorded.summary["processes"]);
    let read = recorded.read(&lab);
    assert_eq!(read.records.len(), 750);
    // The numbers in the trace are those by which the programs know themselves.
    assert_eq!(read.records.iter().filter(|record| (record.pid, record.tid) == (1, 1)).count(), 700);
    for proc in [outside, one, two, late] {
        assert_eq!(proc.wait().code, 0);
    }
}

#[test]
fn a_number_that_two_processes_have_does_not_hide_one_of_them() {
    let lab = Lab::new("same_pid");
    let Some(container) = Container::of_processes(&lab) else { return };
    let mut outside = runner(&lab);
    let program = lab.path("runner");
    let number = outside.pid();
    let mut inside = container.start_as(number, &program, &[]);
    inside.until("ready");
    let inside_pid = innermost(&inside);
    assert_ne!(inside_pid, number);
    for round in 0..5 {
        let recording = lab.record(&format!("trace{round}")).args(&ROOM).attach();
        burst(&mut outside, 10);
        burst(&mut inside, 20);
        let recorded = recording.end(Signal::INT).expect(0).lossless();
        assert_eq!(of_process(&recorded, number), (10, number.into()));
        assert_eq!(of_process(&recorded, inside_pid), (20, number.into()));
        for proc in [&mut outside, &mut inside] {
            ask(proc, "disabled", "disabled");
        }
    }
}

#[test]
fn a_program_in_a_container_is_chosen_by_the_number_that_the_collector_sees() {
    let lab = Lab::new("container_by_pid");
    let Some(container) = Container::of_processes(&lab) else { return };
    let program = lab.cc("runner.c");
    let (mut wanted, wanted_pid) = runner_in(&container, &program);
    let (mut other, _) = runner_in(&container, &program);
    let recording = lab.record("trace").args(&ROOM).args(&["-p", &wanted_pid.to_string()]).attach();
    burst(&mut wanted, 100);
    ask(&mut other, "burst 100", "done");
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    assert_eq!((recorded.records(), of_process(&recorded, wanted_pid)), (100, (100, 1)));
    // By name, over control: both numbers are shown.
    let session = Session::start(&lab, "one", &["-p", &wanted_pid.to_string()]);
    ask(&mut wanted, "enabled", "enabled");
    let status = session.ask(&["status"]);
    let programs = status["view"]["programs"].as_array().expect("programs").clone();
    assert_eq!(programs.len(), 1, "{programs:#?}");
    assert_eq!((&programs[0]["pid"], &programs[0]["vpid"]), (&wanted_pid.into(), &1.into()));
    let shown = lab.kymo(&["session", "status", "one"]).expect(0).stdout;
    contains(&shown, &format!("runner[{wanted_pid}, 1 inside]"));
    session.ask(&["stop"]);
}

#[test]
fn a_command_that_makes_its_own_container_is_recorded() {
    let lab = Lab::new("container_tree");
    if Container::of_processes(&lab).is_none() {
        return;
    }
    let program = lab.cc("produce.c");
    let command = ["unshare", "--pid", "--fork", "--mount-proc", program.to_str().expect("UTF-8"), "2", "1000"];
    let recorded = lab.record("trace").args(&ROOM).run(&command).expect(0).lossless();
    assert_eq!(recorded.read(&lab).of("produce:rec").filter(|record| record.pid == 1).count(), 2000);
}

#[test]
fn a_collector_in_a_container_records_programs_that_it_cannot_see() {
    let lab = Lab::new("collector_inside");
    let Some(container) = Container::of_processes(&lab) else { return };
    let mut outside = runner(&lab);
    let (mut other, _) = runner_in(&container, &lab.path("runner"));
    let dir = lab.path("trace");
    let args = [&["record", "-o", dir.to_str().expect("UTF-8")], &ROOM[..]].concat();
    let collector = container.start(paths::kymo(), &args);
    collector.until_stderr("Ctrl-C ends it");
    burst(&mut outside, 100);
    burst(&mut other, 200);
    let mut late = runner(&lab);
    burst(&mut late, 400);
    // Process 1 of a namespace takes a signal that it waits for.
    kill(innermost(&collector), Signal::INT);
    assert_eq!(collector.wait().code, 0);
    let read = lab.read("trace");
    assert_eq!(read.records.len(), 700);
    assert_eq!(read.records.iter().filter(|record| record.pid == u64::from(late.pid())).count(), 400);
    let summary: Value = serde_json::from_str(&kymo_tests::process::text_of(&dir.join(".kymo.json"))).expect("JSON");
    let processes = summary["processes"].as_array().expect("a list");
    let attached = processes.iter().filter(|process| process["outcome"] == "attached");
    assert!(attached.clone().all(|process| process["pid"] == 0), "{processes:#?}");
    assert_eq!(attached.count(), 3, "{processes:#?}");
}

fn kill(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn what_the_dead_of_a_container_leave_is_removed() {
    let lab = Lab::new("container_leftovers");
    let Some(container) = Container::of_processes(&lab) else { return };
    let program = lab.cc("runner.c");
    let (proc, _) = runner_in(&container, &program);
    let dir = lab.path("trace");
    let collector = container.start(paths::kymo(), &["record", "-o", dir.to_str().expect("UTF-8")]);
    collector.until_stderr("Ctrl-C ends it");
    lab.wait_for("its sockets", || (lab.sockets("").len() == 3).then_some(()));
    assert_eq!(collector.end(Signal::KILL).code, 137);
    assert_eq!(proc.end(Signal::KILL).code, 137);
    // Their process number, 1, is that of a process which runs outside.
    lab.wait_for("their sockets are old enough, and removed", || {
        lab.kymo(&["list"]);
        lab.sockets("").is_empty().then_some(())
    });
    lab.kymo(&["list"]).expect(1);
}

/// `kymo record -p PID` of a program that cannot be found.
fn refused(lab: &Lab, pid: u32) -> Outcome {
    let dir = lab.path("refused");
    let _ = std::fs::remove_dir_all(&dir);
    lab.kymo(&["record", "-o", dir.to_str().expect("UTF-8"), "--for", "300ms", "-p", &pid.to_string()])
}

#[test]
fn a_container_that_does_not_share_the_directory_is_told_of() {
    let lab = Lab::new("container_unshared");
    let Some(container) = Container::new(&lab, &["--mount", "--pid", "--mount-proc"]) else { return };
    let program = lab.cc("runner.c");
    std::fs::create_dir(lab.runtime_dir()).expect("a directory");
    let hide = format!("mount -t tmpfs -o mode=700 none {}", lab.runtime_dir().display());
    let (mut proc, pid) = runner_in(&container.setup(&hide), &program);
    let outcome = refused(&lab, pid).expect(1);
    contains(&outcome.stderr, &format!("process {pid} is in a mount namespace where"));
    contains(&outcome.stderr, lab.runtime_dir().to_str().expect("UTF-8"));
    contains(&outcome.stderr, "mount");
    // A program of another container that shares the directory is recorded all the same.
    // `list` names a few that are not found, and tests beside this one have such programs, too.
    lab.wait_for("`list` names one", || lab.kymo(&["list"]).expect(1).stderr.contains("container").then_some(()));
    ask(&mut proc, "burst 10", "done");
    assert_eq!(proc.wait().code, 0);

    // Another directory, by its environment.
    let mut command = lab.command(&program);
    command.env("KYMO_RUNTIME_DIR", lab.path("elsewhere"));
    let proc = lab.start(command);
    proc.until("ready");
    let outcome = refused(&lab, proc.pid()).expect(1);
    contains(&outcome.stderr, &format!("process {} looks in {}", proc.pid(), lab.path("elsewhere").display()));
}

#[test]
fn a_network_namespace_changes_nothing() {
    let lab = Lab::new("container_network");
    let Some(container) = Container::new(&lab, &["--net", "--uts", "--ipc", "--cgroup"]) else { return };
    let program = lab.cc("runner.c");
    let (mut proc, pid) = runner_in(&container, &program);
    let recording = lab.record("trace").args(&ROOM).args(&["-p", &pid.to_string()]).attach();
    burst(&mut proc, 100);
    assert_eq!(recording.end(Signal::INT).expect(0).lossless().records(), 100);
}

/// Shell commands that make the machine's root, read-only and without /proc and /sys, that of what follows. `mode`: of
/// the mount of the runtime directory in it.
fn bare_root(lab: &Lab, mode: &str) -> String {
    let dir = lab.runtime_dir();
    let dir = dir.display();
    format!(
        "mount --bind / /mnt; mount -o remount,bind,ro /mnt; mount --bind {dir} /mnt{dir}
        mount -o remount,bind,{mode} /mnt{dir}; mount -t tmpfs none /mnt/proc; mount -t tmpfs none /mnt/sys"
    )
}

#[test]
fn neither_proc_nor_sys_nor_a_place_to_write_is_needed_by_a_program() {
    let lab = Lab::new("container_bare");
    let Some(container) = Container::new(&lab, &["--mount"]) else { return };
    let program = lab.cc("runner.c");
    std::fs::create_dir(lab.runtime_dir()).expect("a directory");
    std::fs::set_permissions(lab.runtime_dir(), PermissionsExt::from_mode(0o700)).expect("it is ours");
    // One CPU of several: the number of lanes must not come from what it may run on.
    let command = ["/mnt", "taskset", "-c", "1", program.to_str().expect("UTF-8")];
    let container = container.setup(&bare_root(&lab, "rw"));
    let mut early = container.start("chroot", &command);
    early.until("ready");
    let recording = lab.record("trace").args(&ROOM).attach();
    // Where it cannot make a socket of its own, it finds sessions at its start all the same.
    let mut late = container.setup(&bare_root(&lab, "ro")).start("chroot", &command);
    late.until("ready");
    for proc in [&mut early, &mut late] {
        burst(proc, 100);
    }
    assert_eq!(lab.sockets("p.").len(), 1);
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    let read = recorded.read(&lab);
    assert_eq!(read.records.len(), 200);
    let is_right = |record: &kymo_tests::Record| record.cpu == Some(1) && record.proc == "runner";
    assert!(read.records.iter().all(is_right), "{:?}", read.records.first());
    for proc in [early, late] {
        assert_eq!(proc.wait().code, 0);
    }
}

/// A memory cgroup of the test's own; none where there cannot be one.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(name: &str) -> Option<MemoryGroup> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let root = if v1.join("memory.usage_in_bytes").exists() { v1 } else { Path::new("/sys/fs/cgroup") };
        let dir = root.join(format!("kymo-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).ok()?;
        let group = MemoryGroup(dir);
        group.bytes().is_some().then_some(group)
    }

    /// Bytes that are charged to it.
    fn bytes(&self) -> Option<u64> {
        let names = ["memory.usage_in_bytes", "memory.current"];
        names.iter().find_map(|name| std::fs::read_to_string(self.0.join(name)).ok()?.trim().parse().ok())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn ring_memory_is_charged_to_the_program() {
    let lab = Lab::new("container_memory");
    let Some(group) = MemoryGroup::new("charge") else {
        return skip("container_memory", "no memory cgroup can be made here");
    };
    let program = lab.cc("runner.c");
    let script = format!("echo $$ > {}/cgroup.procs; exec {}", group.0.display(), program.display());
    let mut proc = lab.spawn("sh", &["-c", &script]);
    proc.until("ready");
    let before = group.bytes().expect("a count");
    let recording = lab.record("trace").args(&["--ring-size", "8M", "--memory", "4G"]).attach();
    burst(&mut proc, 1);
    let cpus = std::thread::available_parallelism().expect("a count").get() as u64;
    let grown = group.bytes().expect("a count") - before;
    // The kernel charges some pages in advance: the count before may have them already.
    assert_eq!((grown + (2 << 20)) / (8 << 20), cpus, "{grown} bytes for {cpus} rings of 8 MiB");
    recording.end(Signal::INT).expect(0);
    ask(&mut proc, "disabled", "disabled");
    let left = || group.bytes().expect("a count").saturating_sub(before);
    lab.wait_for("it is given back", || (left() < 8 << 20).then_some(()));
    assert_eq!(proc.wait().code, 0);
}

#[test]
fn a_user_namespace_of_the_same_user_is_recorded() {
    let lab = Lab::new("container_user");
    let Some(container) = Container::new(&lab, &["--user", "--map-root-user", "--pid", "--mount-proc"]) else { return };
    let program = lab.cc("runner.c");
    let (mut proc, pid) = runner_in(&container, &program);
    let recording = lab.record("trace").args(&ROOM).args(&["-p", &pid.to_string()]).attach();
    burst(&mut proc, 100);
    assert_eq!(recording.end(Signal::INT).expect(0).lossless().records(), 100);
}
