// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--only`: the kernel's records of the command, whatever it starts, and of nobody else.

use std::collections::{BTreeMap, BTreeSet};

use kymo_tests::kernel::each;
use kymo_tests::{Kernel, Lab, Outcome, Recorded};
use rustix::process::Signal;

/// Threads that `calls tree` runs in.
const THREADS: usize = 6;
const CALLS: u64 = 500;

/// The threads that the program named.
fn tids(stdout: &str) -> Vec<i64> {
    stdout.lines().filter_map(|line| line.strip_prefix("tid=")).map(|tid| tid.parse().unwrap()).collect()
}

/// Fails unless the records of getppid are those of `stdout`'s threads: all, and no others'.
#[track_caller]
fn check_calls(recorded: &Recorded, stdout: &str) {
    let tids = tids(stdout);
    assert_eq!(tids.len(), THREADS, "{stdout}");
    let mut found: BTreeMap<(i64, String), u64> = BTreeMap::new();
    each(&recorded.dir, |record| *found.entry((record.tid, record.event.to_owned())).or_default() += 1);
    let expect =
        tids.iter().flat_map(|tid| ["entry", "exit"].map(|side| ((*tid, format!("syscall_{side}_getppid")), CALLS)));
    assert_eq!(found, expect.collect(), "records by thread and event");
}

#[test]
fn the_command_its_threads_and_its_descendants() {
    let Some(kernel) = Kernel::find("only_tree") else { return };
    let lab = Lab::new("only_tree");
    let program = lab.cc("calls.c");
    // Another that does the same at the same time must not show.
    let mut other = lab.spawn(&program, &["attached", "500"]);
    other.until("ready");
    let program = program.to_str().unwrap();
    let script = format!("echo >fifo; {program} tree {CALLS}; read x <back");
    lab.run("mkfifo", &["fifo", "back"]).expect(0);
    let recording = lab
        .record("trace")
        .args(&["--only", "-k", "syscalls:sys_*_getppid", "--state", "none"])
        .start(&["sh", "-c", &script]);
    lab.run("sh", &["-c", "read x <fifo"]).expect(0);
    other.say("go");
    other.until("done");
    lab.run("sh", &["-c", "echo >back"]).expect(0);
    let recorded = recording.wait().expect(0);
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    // The shell itself calls getppid once when it starts.
    let shell = shell_calls(&recorded);
    let own: Vec<i64> = tids(&recorded.outcome.stdout);
    assert_eq!(shell.keys().filter(|tid| own.contains(tid)).count(), THREADS, "{shell:?}");
    for tid in &own {
        assert_eq!(shell[tid], (CALLS, CALLS), "entries and exits of thread {tid}");
    }
    let others: Vec<_> = shell.iter().filter(|(tid, _)| !own.contains(tid)).collect();
    assert!(others.len() <= 1 && others.iter().all(|(_, calls)| **calls == (1, 1)), "{others:?}");
    // The other program's threads, and nobody's either.
    let foreign = tids(&other.wait().expect(0).stdout);
    assert_eq!(foreign.len(), THREADS);
    assert!(foreign.iter().all(|tid| !shell.contains_key(tid)), "{foreign:?} in {shell:?}");
}

/// Entries and exits of getppid by thread.
fn shell_calls(recorded: &Recorded) -> BTreeMap<i64, (u64, u64)> {
    let mut found: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    each(&recorded.dir, |record| {
        let (entries, exits) = found.entry(record.tid).or_default();
        match record.event {
            "syscall_entry_getppid" => *entries += 1,
            "syscall_exit_getppid" => *exits += 1,
            other => panic!("{other} was not asked for"),
        }
    });
    found
}

#[test]
fn a_running_process_and_what_it_starts() {
    let Some(kernel) = Kernel::find("only_attach") else { return };
    let lab = Lab::new("only_attach");
    let program = lab.cc("calls.c");
    let mut procs = [(); 2].map(|()| lab.spawn(&program, &["attached", &CALLS.to_string()]));
    procs.iter().for_each(|proc| drop(proc.until("ready")));
    let pid = procs[0].pid().to_string();
    let recording =
        lab.record("trace").args(&["--only", "-p", &pid, "-k", "syscalls:sys_*_getppid", "--state", "none"]).attach();
    for proc in &mut procs {
        proc.say("go");
        proc.until("done");
    }
    let recorded = recording.end(Signal::INT).expect(0);
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    let [wanted, _other] = procs.map(|proc| -> Outcome { proc.wait().expect(0) });
    check_calls(&recorded, &wanted.stdout);
}

#[test]
fn threads_that_run_when_the_session_comes() {
    let Some(_kernel) = Kernel::find("only_threads") else { return };
    let lab = Lab::new("only_threads");
    let program = lab.cc_text(
        "waiting",
        "#include \"common.h\"\n\
        static pthread_barrier_t barrier;\n\
        static void *work(void *unused)\n{\n(void)unused;\npthread_barrier_wait(&barrier);\n\
        for (int n = 0; n < 500; n++) syscall(SYS_getppid);\nprintf(\"tid=%u\\n\", tid());\nreturn NULL;\n}\n\
        int main(void)\n{\npthread_t threads[5];\nlive_shortly();\npthread_barrier_init(&barrier, NULL, 6);\n\
        for (int n = 0; n < 5; n++) pthread_create(&threads[n], NULL, work, NULL);\n\
        say(\"ready\");\nhear();\nwork(NULL);\nfor (int n = 0; n < 5; n++) pthread_join(threads[n], NULL);\n\
        say(\"done\");\nhear();\nreturn 0;\n}\n",
    );
    let mut proc = lab.spawn(&program, &[]);
    proc.until("ready");
    let pid = proc.pid().to_string();
    let recording =
        lab.record("trace").args(&["--only", "-p", &pid, "-k", "syscalls:sys_*_getppid", "--state", "none"]).attach();
    proc.say("go");
    proc.until("done");
    let recorded = recording.end(Signal::INT).expect(0);
    check_calls(&recorded, &proc.wait().expect(0).stdout);
}

#[test]
fn scheduling_that_concerns_the_command() {
    let Some(kernel) = Kernel::find("only_sched") else { return };
    let lab = Lab::new("only_sched");
    let program = lab.cc("calls.c");
    let recorded = lab
        .record("trace")
        .args(&[
            "--only",
            "-k",
            "sched:sched_switch,sched:sched_process_exit,sched:sched_process_fork",
            "--state",
            "none",
        ])
        .run(&[program.to_str().unwrap(), "tree", "1"])
        .expect(0);
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    // Besides the threads that the program names, each of its processes has one of libkymo.
    let own = tids(&recorded.outcome.stdout);
    let (mut family, mut exits) = (BTreeSet::from([own[0]]), Vec::new());
    each(&recorded.dir, |record| {
        if record.event == "sched_process_fork" {
            let (parent, child) = (record.number("parent_tid"), record.number("child_tid"));
            assert!(family.contains(&parent), "{record:?} is of none of {family:?}");
            family.insert(child);
        }
    });
    assert!(own.iter().all(|tid| family.contains(tid)), "{own:?} in {family:?}");
    // A switch concerns two threads: the kernel records it where either is the command's.
    each(&recorded.dir, |record| match record.event {
        "sched_switch" => {
            let both = [record.number("prev_tid"), record.number("next_tid")];
            assert!(both.iter().any(|tid| family.contains(tid)), "{record:?} is of none of {family:?}");
        }
        "sched_process_exit" => exits.push(record.number("tid")),
        _ => {}
    });
    exits.sort_unstable();
    assert_eq!(exits, Vec::from_iter(family), "each ended once");
}

/// Without events of interrupts the flags of the wake-up's record tell that an interrupt wrote it, and not the thread
/// that it interrupted.
#[test]
fn a_wakeup_without_events_of_interrupts_is_by_an_interrupt() {
    let Some(kernel) = Kernel::find("only_wakeup") else { return };
    let lab = Lab::alone("only_wakeup");
    let program = lab.cc("delay.c");
    let recorded = lab.record("trace").args(&["--only", "-k", "sched"]).run(&[program.to_str().unwrap()]);
    if recorded.outcome.stderr.contains("is not allowed") {
        kymo_tests::skip(lab.name(), "FIFO priorities are not allowed here");
        return;
    }
    let recorded = recorded.expect(0);
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    let answer = lab.kymo(&["explain", recorded.dir.to_str().unwrap(), "--json"]).expect(0).stdout;
    let story: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(story["name"], "victim", "{story}");
    let headline = story["headline"].as_str().unwrap();
    assert!(headline.contains(" after it was woken by an interrupt: hog["), "{headline}");
    // Nobody was waited for: the hog, which the timer interrupted, did not wake it.
    assert_eq!(story["chain"].as_array().map(Vec::len), Some(0), "{story}");
    let missing = story["missing_events"].to_string();
    assert!(missing.contains("no interrupts in the trace") && missing.contains("record with -k timer"), "{missing}");
}
