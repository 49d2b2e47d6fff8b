// SPDX-License-Identifier: MIT OR Apache-2.0
//! A collector that dies at any of its system calls, from its first to its last: strace(1) kills it there. Programs go
//! on and end well, the name is free, nothing stays behind, and what was written is a trace, or plainly none.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use kymo_tests::session::{Session, ask, runner, session};
use kymo_tests::{Lab, Proc, Random, paths, skip, stress, times, trace};
use serde_json::Value;

/// System calls that change nothing that anybody else sees; a death there is one at the next that does.
const SILENT: [&str; 24] = [
    "brk",
    "mprotect",
    "madvise",
    "futex",
    "rt_sigaction",
    "rt_sigprocmask",
    "clock_nanosleep",
    "sched_yield",
    "getrandom",
    "rseq",
    "set_robust_list",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "geteuid",
    "sigaltstack",
    "prlimit64",
    "uname",
    "arch_prctl",
    "set_tid_address",
    "pread64",
    "poll",
    "prctl",
    "lseek",
];

/// A death: the `when`-th call of a name in one thread.
#[derive(Clone, Debug)]
struct Step {
    call: String,
    when: u32,
}

/// The collector of a session `dies`, under strace with these options.
fn collector(lab: &Lab, options: &[&str], args: &[&str]) -> Proc {
    let mut command = lab.command("strace");
    command.args(["-f", "-qq"]).args(options).arg(paths::kymo());
    command.args(["session", "start", "dies", "--detached", "-o"]).arg(lab.path("trace")).args(args);
    lab.start(command)
}

/// What a test does with a session: programs before and after its start, records, a change, a second directory, the
/// end.
struct Course {
    early: Proc,
    late: Option<Proc>,
}

fn course(lab: &Lab, collector: &Proc, args: &[&str]) -> Course {
    let mut early = runner(lab);
    // The line that says that it is ready, or the end.
    let is_ready = collector.line_or_end().is_some_and(|line| line.contains("\"pid\""));
    ask(&mut early, "burst 300", "done");
    if !is_ready {
        return Course { early, late: None };
    }
    let mut late = runner(lab);
    ask(&mut late, "burst 300", "done");
    session(lab, &["disable", "dies", "nobody:*"]);
    let verb: &[&str] = if args.contains(&"--flight") { &["snapshot", "dies", "--wait"] } else { &["rotate", "dies"] };
    session(lab, verb);
    ask(&mut early, "burst 300", "done");
    session(lab, &["stop", "dies"]);
    Course { early, late: Some(late) }
}

/// The steps of a course that nobody disturbs: per system call, as many as the thread has that calls it most often.
fn steps(lab: &Lab, args: &[&str]) -> Vec<Step> {
    let log = lab.path("strace.log");
    let collector = collector(lab, &["-o", log.to_str().expect("UTF-8")], args);
    let course = course(lab, &collector, args);
    assert!(course.late.is_some(), "the session did not start");
    assert_eq!(collector.wait().code, 0);
    let text = std::fs::read_to_string(&log).expect("a log");
    let mut counts: HashMap<(String, String), u32> = HashMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !SILENT.contains(&call) {
            *counts.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut most: BTreeMap<String, u32> = BTreeMap::new();
    for ((call, _), count) in counts {
        let of_call = most.entry(call).or_default();
        *of_call = count.max(*of_call);
    }
    std::fs::remove_dir_all(lab.path("trace")).expect("a trace");
    // Waiting is done very often, and always the same.
    let bound = |call: &str| if ["epoll_wait", "epoll_pwait", "read", "recvfrom"].contains(&call) { 12 } else { 400 };
    let of_call =
        |(call, count): (String, u32)| (1..=count.min(bound(&call))).map(move |when| Step { call: call.clone(), when });
    most.into_iter().flat_map(of_call).collect()
}

/// `kymo recover`, where there are ring files; they are gone then.
fn recover(lab: &Lab, rings: &Path, dir: &Path, step: &Step) {
    let count = || std::fs::read_dir(rings).map_or(0, Iterator::count);
    if count() == 0 {
        return;
    }
    let outcome = lab.kymo(&["recover", rings.to_str().expect("UTF-8"), dir.to_str().expect("UTF-8")]);
    assert!([0, 1].contains(&outcome.code), "{step:?}: {}", outcome.stderr);
    assert_eq!(count(), 0, "{step:?}: ring files are left: {}", outcome.stderr);
}

/// Chunks and snapshots are traces of their own.
fn traces(dir: &Path) -> Vec<std::path::PathBuf> {
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<_> = below.filter(|path| path.is_dir()).collect();
    if dir.join("metadata").exists() {
        all.push(dir.to_owned());
    }
    all
}

fn dies_at(lab: &Lab, step: &Step, args: &[&str]) -> bool {
    let inject = format!("inject={}:signal=SIGKILL:when={}", step.call, step.when);
    let quiet = format!("trace={}", step.call);
    let collector = collector(lab, &["-o", "/dev/null", "-e", &quiet, "-e", &inject], args);
    let Course { mut early, late } = course(lab, &collector, args);
    let died = collector.wait().code == 137;
    // Programs see the end, go on, and end.
    ask(&mut early, "disabled", "disabled");
    if let Some(mut late) = late {
        ask(&mut late, "disabled", "disabled");
        ask(&mut late, "burst 10", "done");
        assert_eq!(late.wait().expect(0).stderr, "", "{step:?}");
    }
    assert_eq!(session(lab, &["list"]).code, 1, "{step:?}: a dead session is listed");
    // What is there is a trace, or says that it is none.
    let (dir, rings) = (lab.path("trace"), lab.path("rings"));
    for dir in traces(&dir) {
        let read = trace::read(lab, &dir, &[]);
        let is_none = !dir.join("metadata").exists() && read.code == 2 && read.stderr.contains("metadata");
        // Another thread may have been inside of a write.
        let is_torn = read.code == 1 && read.stderr.contains("the file ends inside the packet");
        let is_trace = read.code == 0 || is_torn;
        assert!(is_trace || is_none, "{step:?}: {}: {} {}", dir.display(), read.code, read.stderr);
    }
    if !traces(&dir).is_empty() {
        recover(lab, &rings, &dir, step);
    }
    for dir in traces(&dir).iter().filter(|dir| dir.join("metadata").exists()) {
        trace::read(lab, dir, &[]).whole();
    }
    // The name is free, and the next session records.
    let next = Session::start(lab, "dies", &[]);
    ask(&mut early, "enabled", "enabled");
    ask(&mut early, "burst 50", "done");
    let summary: Value = next.ask(&["stop"]);
    assert_eq!(summary["records"], 50, "{step:?}");
    assert_eq!(early.wait().expect(0).stderr, "", "{step:?}");
    for place in [lab.path("dies"), dir, rings] {
        let _ = std::fs::remove_dir_all(place);
    }
    died
}

fn deaths(name: &str, args: &[&str]) {
    let lab = Lab::new(name).within(std::time::Duration::from_secs(if stress() { 6000 } else { 1500 }));
    if !kymo_tests::has("strace") {
        return skip(name, "no strace");
    }
    let rings = lab.path("rings");
    let args = &[&["--ring-dir", rings.to_str().expect("UTF-8"), "--ring-size", "64K"], args].concat()[..];
    let all = steps(&lab, args);
    assert!(all.len() > 100, "{} steps: strace saw little", all.len());
    let mut random = Random::new(name, 20_261_123);
    let count = times(20, all.len());
    let mut died = 0;
    for at in 0..count {
        // One of each part, so that all of the course is covered.
        let (from, to) = (at * all.len() / count, (at + 1) * all.len() / count);
        let step = &all[from + random.below((to - from) as u64) as usize];
        died += usize::from(dies_at(&lab, step, args));
    }
    println!("{name}: {died} deaths at {count} of {} steps", all.len());
    assert!(died * 2 > count, "{died} of {count}: the collector hardly ever died");
    // What they left in the runtime directory goes once it is old.
    lab.wait_for("leftovers to go", || {
        session(&lab, &["list"]);
        lab.kymo(&["list"]);
        let left = std::fs::read_dir(lab.runtime_dir()).map_or(0, Iterator::count);
        (left == 0).then_some(())
    });
}

#[test]
fn a_recording_session_may_die_at_any_step() {
    deaths("deaths_stream", &[]);
}

#[test]
fn a_flight_recorder_may_die_at_any_step() {
    deaths("deaths_flight", &["--flight"]);
}
