// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that end in every way, beside each other; what they leave, what they remove, and what is not theirs.

use std::path::PathBuf;

use kymo_tests::kernel::{FIRST_NUMBER, NUMBERS, each};
use kymo_tests::{Kernel, Lab, Outcome, Read, Recorded, paths, skip, trace};
use rustix::process::Signal;

/// A session on the scheduler of the whole machine, which records.
fn session(lab: &Lab, kernel: &Kernel, name: &str) -> (kymo_tests::record::Attached, PathBuf) {
    let mut session = lab.record(name).args(&["-k", "sched:sched_switch", "--state", "none"]).attach();
    let mut instances = kernel.instances_of(session.proc().pid());
    assert_eq!(instances.len(), 1, "{instances:?}");
    (session, instances.remove(0))
}

/// Bytes of kernel records in a trace so far.
fn kernel_bytes(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kernel_"));
    files.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}

#[test]
fn ctrl_c_is_a_clean_end() {
    let Some(kernel) = Kernel::find("ctrl_c") else { return };
    let lab = Lab::new("ctrl_c");
    for signal in [Signal::INT, Signal::TERM] {
        let name = format!("trace{}", signal.as_raw());
        let (session, instance) = session(&lab, &kernel, &name);
        let recorded = session.end(signal).expect(0);
        assert!(!instance.exists());
        kernel.assert_clean(recorded.pid);
        assert!(recorded.read(&lab).of("sched_switch").count() > 0);
    }
    // With a command: the signal is the command's, and the session ends with it.
    let mut session =
        lab.record("command").args(&["-k", "sched:sched_switch"]).start(&["sh", "-c", "echo go; sleep 100"]);
    session.proc().until("go");
    let pid = session.proc().pid();
    rustix::process::kill_process_group(rustix::process::Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
    let recorded = session.wait();
    assert_eq!(recorded.outcome.code, 130, "{}", recorded.outcome.stderr);
    kernel.assert_clean(pid);
    assert!(recorded.read(&lab).of("sched_switch").count() > 0);
}

/// What a killed collector left goes at once; what is somebody else's stays, also when the next session looks for
/// leftovers.
#[test]
fn a_killed_collector() {
    let Some(kernel) = Kernel::find("killed") else { return };
    let lab = Lab::new("killed");
    let program = lab.cc("calls.c");
    let place = format!("{}:main", program.display());
    let foreign = ["mine-kymo-test", "kymo-test", "kymo-1-xyz"].map(|name| kernel.root().join("instances").join(name));
    for path in &foreign {
        std::fs::create_dir(path).unwrap();
    }
    let (alive, alive_instance) = session(&lab, &kernel, "alive");
    let mut dead = lab.record("dead").args(&["-k", "sched:sched_switch", "-U", &place, "--state", "none"]).attach();
    let (pid, dir) = (dead.proc().pid(), lab.path("dead"));
    lab.wait_for("records are in the trace", || (kernel_bytes(&dir) > 20_000).then_some(()));
    assert_eq!((kernel.instances_of(pid).len(), kernel.probes_of(pid).len()), (1, 1));
    let killed = dead.end(Signal::KILL);
    assert_eq!(killed.outcome.code, 128 + 9);
    lab.wait_for("the guard removes what was left", || {
        (kernel.instances_of(pid).is_empty() && kernel.probes_of(pid).is_empty()).then_some(())
    });
    let next = lab.record("next").args(&["-k", "sched:sched_switch", "--state", "none"]).run(&["true"]).expect(0);
    kernel.assert_clean(next.pid);
    assert!(alive_instance.exists(), "the instance of a session that lives was removed");
    let of_others: Vec<bool> = foreign.iter().map(|path| path.exists()).collect();
    foreign.iter().for_each(|path| drop(std::fs::remove_dir(path)));
    assert_eq!(of_others, [true; 3], "instances that kymo did not make: {foreign:?}");
    // The trace of the dead is there up to its end, and the one that lives went on.
    let read = trace::read(&lab, &dir, &[]).ordered();
    assert!(read.of("sched_switch").count() > 200, "{} records, {}", read.records.len(), read.stderr);
    let recorded = alive.end(Signal::INT).expect(0);
    kernel.assert_clean(recorded.pid);
    let last = recorded.read(&lab).records.last().unwrap().cycles;
    assert!(last > read.records.last().unwrap().cycles);
}

/// The numbers that each session saw of one program.
fn numbers_of(recorded: &Recorded) -> Vec<u64> {
    let mut numbers = Vec::new();
    each(&recorded.dir, |record| numbers.push(record.number("fd") as u64 - FIRST_NUMBER));
    numbers
}

#[test]
fn eight_sessions_see_the_same() {
    let Some(kernel) = Kernel::find("eight") else { return };
    let lab = Lab::new("eight");
    let mut proc = lab.spawn(lab.cc("calls.c"), &["numbers", "3000"]);
    proc.until("ready");
    let pid = proc.pid().to_string();
    let names = ["--names", "kernel"];
    let sessions: Vec<_> = (0..8)
        .map(|at| {
            let args = ["--only", "-p", &pid, "-k", NUMBERS, "--state", "none", "--kernel-ring", "1M"];
            lab.record(&format!("trace{at}")).args(&args).args(&names[..at % 2 * 2]).attach()
        })
        .collect();
    proc.say("go");
    proc.until("done");
    for session in sessions {
        let recorded = session.end(Signal::INT).expect(0);
        lab.kernel_lossless(&recorded);
        kernel.assert_clean(recorded.pid);
        trace::assert_counts_up(&numbers_of(&recorded), 3000);
    }
}

/// Records on a CPU of the threads that `calls` named. Shells make these calls too.
fn calls_of(read: &Read, outcome: &Outcome, cpu: u64) -> usize {
    let tids: Vec<u64> = outcome.stdout.lines().filter_map(|line| line.strip_prefix("tid=")?.parse().ok()).collect();
    read.records.iter().filter(|record| record.cpu == Some(cpu) && tids.contains(&record.tid)).count()
}

#[test]
fn these_cpus_only() {
    let Some(kernel) = Kernel::find("cpus") else { return };
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        return skip("cpus", "one CPU");
    }
    let lab = Lab::new("cpus");
    let program = lab.cc("calls.c");
    let program = program.to_str().unwrap();
    for (cpu, other) in [(0, 1), (1, 0)] {
        let script = format!("taskset -c {cpu} {program} tree 50; taskset -c {other} {program} tree 50");
        let recorded = lab
            .record(&format!("trace{cpu}"))
            .args(&["--cpus", &cpu.to_string(), "--only", "-k", "syscalls:sys_enter_getppid", "--state", "none"])
            .run(&["sh", "-c", &script])
            .expect(0);
        kernel.assert_clean(recorded.pid);
        let read = recorded.read(&lab);
        assert!(read.records.iter().all(|record| record.cpu == Some(cpu)));
        assert_eq!(calls_of(&read, &recorded.outcome, cpu), 6 * 50, "CPU {cpu}");
    }
    let recorded = lab.record("none").args(&["--cpus", "4000", "-k", "sched"]).run(&["true"]).expect(2);
    super::says(&recorded.outcome.stderr, &["4000"]);
    kernel.assert_clean(recorded.pid);
}

/// Brings a CPU back whatever happens.
struct Online(PathBuf);

impl Online {
    fn set(&self, on: bool) -> std::io::Result<()> {
        std::fs::write(&self.0, if on { "1" } else { "0" })
    }
}

impl Drop for Online {
    fn drop(&mut self) {
        let _ = self.set(true);
    }
}

/// What the CPU had recorded before it went is in the trace, and it records again when it is back.
#[test]
fn a_cpu_that_goes_and_comes_back() {
    let Some(kernel) = Kernel::find("offline") else { return };
    let lab = Lab::alone("offline");
    let cpu = Online(PathBuf::from("/sys/devices/system/cpu/cpu1/online"));
    if cpu.set(false).and_then(|()| cpu.set(true)).is_err() {
        return skip("offline", "CPU 1 cannot be taken offline here");
    }
    let program = lab.cc("calls.c");
    let taskset = |cpus: &str| lab.run("taskset", &["-c", cpus, program.to_str().unwrap(), "tree", "100"]).expect(0);
    for args in [&[][..], &["--kernel-discard"]] {
        let name = format!("trace{}", args.len());
        let session =
            lab.record(&name).args(&["-k", "syscalls:sys_enter_getppid", "--state", "none"]).args(args).attach();
        let before = taskset("1");
        cpu.set(false).unwrap();
        let meanwhile = taskset("0");
        cpu.set(true).unwrap();
        let after = taskset("1");
        let recorded = session.end(Signal::INT).expect(0);
        kernel.assert_clean(recorded.pid);
        lab.kernel_lossless(&recorded);
        let read = recorded.read(&lab);
        let calls = [(&before, 1), (&meanwhile, 0), (&after, 1)].map(|(outcome, cpu)| calls_of(&read, outcome, cpu));
        assert_eq!(calls, [600; 3], "calls before, meanwhile, after\n{}", recorded.outcome.stderr);
    }
    // Offline from before the session to after it, and coming in its midst.
    cpu.set(false).unwrap();
    let session = lab.record("late").args(&["-k", "syscalls:sys_enter_getppid", "--state", "none"]).attach();
    cpu.set(true).unwrap();
    let late = taskset("1");
    let recorded = session.end(Signal::INT).expect(0);
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    assert_eq!(calls_of(&read, &late, 1), 600, "{}", recorded.outcome.stderr);
}

/// A session whose trace is not wanted any more: the command is not there, or the directory is not.
#[test]
fn nothing_is_left_by_what_fails_late() {
    let Some(kernel) = Kernel::find("fails_late") else { return };
    let lab = Lab::new("fails_late");
    for command in ["/no/such/command", "/etc/passwd"] {
        let recorded = lab.record("trace").args(&["-k", "sched", "--only"]).run(&[command]);
        assert!([126, 127].contains(&recorded.outcome.code), "{}", recorded.outcome.stderr);
        assert!(!recorded.dir.exists());
        kernel.assert_clean(recorded.pid);
    }
    let mut command = lab.command(paths::kymo());
    command.args(["record", "-o", "/proc/nowhere/trace", "-k", "sched", "--", "true"]);
    let proc = lab.start(command);
    let pid = proc.pid();
    assert_eq!(proc.wait().code, 2);
    kernel.assert_clean(pid);
}
