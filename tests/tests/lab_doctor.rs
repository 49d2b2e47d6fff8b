// SPDX-License-Identifier: MIT OR Apache-2.0
//! kymo doctor and kymo import as a user meets them. What is right on which machine is tested in kymo-lab, on machines
//! in files.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kymo_tests::{Lab, paths};
use serde_json::Value;

/// One at a time changes a setting of the machine.
static ALONE: Mutex<()> = Mutex::new(());

fn checks(text: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(report["schema"], "kymo-doctor-1");
    report["checks"].as_array().expect("checks").clone()
}

#[test]
fn the_answer_is_whole_and_the_status_follows_from_it() {
    let lab = Lab::new("doctor_whole");
    let outcome = lab.kymo(&["doctor", "--json"]);
    let checks = checks(&outcome.stdout);
    assert!(checks.len() >= 35, "{} checks", checks.len());
    let is_grave =
        |check: &Value| check["state"] == "problem" && ["high", "fatal"].contains(&check["severity"].as_str().unwrap());
    assert_eq!(outcome.code, i32::from(checks.iter().any(is_grave)), "{}", outcome.stdout);
    let rank = |check: &Value| match check["severity"].as_str() {
        Some("fatal") => 3,
        Some("high") => 2,
        Some("medium") => 1,
        _ => 0,
    };
    let problems: Vec<i32> = checks.iter().filter(|check| check["state"] == "problem").map(rank).collect();
    assert!(problems.is_sorted_by(|a, b| a >= b), "{problems:?}");
}

#[test]
fn a_process_and_a_command_have_checks_of_their_own() {
    let lab = Lab::new("doctor_process");
    let sleeper = lab.spawn("sleep", &["60"]);
    let of_process = checks(&lab.kymo(&["doctor", "--json", "--pid", &sleeper.pid().to_string()]).stdout);
    let find = |checks: &[Value], id: &str| checks.iter().find(|check| check["id"] == id).cloned().expect("the check");
    assert_eq!(find(&of_process, "policy")["state"], "problem", "sleep has no real-time thread");
    assert_eq!(find(&of_process, "locked")["state"], "problem");
    let of_command = checks(&lab.kymo(&["doctor", "--json", "--", "sleep", "60"]).stdout);
    assert_eq!(find(&of_command, "policy")["state"], "not_applicable");
    assert!(!checks(&lab.kymo(&["doctor", "--json"]).stdout).iter().any(|check| check["id"] == "policy"));
    sleeper.end(rustix::process::Signal::KILL);
    let gone = lab.kymo(&["doctor", "--pid", "4194305"]).expect(2);
    assert!(gone.stderr.contains("there is no process 4194305"), "{}", gone.stderr);
}

/// Two lines of /sys/kernel/tracing/trace.
const FTRACE: &str = "# tracer: nop\n#\n\
    #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
          <idle>-0       [000] d..2.   100.000001: sched_waking: comm=x pid=7 prio=120 target_cpu=000\n\
          <idle>-0       [000] d..2.   100.000002: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=x next_pid=7 next_prio=120\n";

#[test]
fn a_file_of_another_tool_becomes_a_record() {
    let lab = Lab::new("import");
    let sample = paths::repository().join("host/kymo-lab/tests/import/oslat-2.4.json");
    let sample = sample.to_str().expect("a path");
    let good = lab.kymo(&["import", sample]).expect(0);
    let record: Value = serde_json::from_str(&good.stdout).expect("a record");
    assert_eq!((&record["tool"], &record["source"]["format"]), (&"oslat".into(), &"oslat-json".into()));
    assert!(good.stderr.contains("overflow-hidden"), "{}", good.stderr);
    let bad = lab.write("bad.txt", "nothing of use\n");
    let bad = bad.to_str().expect("a path");
    let out = lab.path("records");
    let both = lab.kymo(&["import", "-o", out.to_str().expect("a path"), bad, sample]).expect(1);
    assert!(
        both.stderr.contains("not a result that kymo can read") && both.stderr.contains("tried: cyclictest"),
        "{}",
        both.stderr
    );
    assert!(out.join("oslat-2.4.json").is_file());
    lab.kymo(&["import", bad]).expect(2);
    // A name of a file is one: the record itself, once, and nothing of another format.
    let file = lab.path("result.json");
    let name = file.to_str().expect("a path");
    lab.kymo(&["import", sample, "-o", name]).expect(0);
    let written: Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("a record");
    assert_eq!(written, record);
    let again = lab.kymo(&["import", sample, "-o", name]).expect(2);
    assert!(again.stderr.contains("an existing file is not replaced"), "{}", again.stderr);
    let several = lab.kymo(&["import", sample, sample, "-o", "both.json"]).expect(2);
    assert!(several.stderr.contains("name a directory"), "{}", several.stderr);
    let other = lab.kymo(&["import", sample, "-o", "result.html"]).expect(2);
    assert!(other.stderr.contains("writes no .html file"), "{}", other.stderr);
    let trace = lab.write("trace.txt", FTRACE);
    let refused = lab.kymo(&["import", trace.to_str().expect("a path"), "-o", "trace.json"]).expect(2);
    assert!(refused.stderr.contains("is a trace, which becomes a directory"), "{}", refused.stderr);
    for name in ["both.json", "result.html", "trace.json"] {
        assert!(!lab.path(name).exists(), "{name}");
    }
}

/// A directory of the kernel's, a control group or a trace instance, that goes with the test.
struct Made(PathBuf);

impl Made {
    fn new(dir: PathBuf) -> Made {
        std::fs::create_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        Made(dir)
    }

    fn write(&self, name: &str, value: &str) {
        let path = self.0.join(name);
        std::fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn find<'a>(checks: &'a [Value], id: &str) -> &'a Value {
    checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no check {id}"))
}

#[test]
fn the_control_group_is_looked_at_and_named_as_the_cause() {
    let root = Path::new("/sys/fs/cgroup/cpu");
    let setting = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    let has_both = ["cpu.cfs_quota_us", "cpu.rt_runtime_us"].iter().all(|name| root.join(name).exists());
    if !has_both || !rustix::process::geteuid().is_root() || setting.trim() == "-1" {
        let why = "needs root, cgroup v1 with CONFIG_RT_GROUP_SCHED, and real-time throttling";
        return kymo_tests::skip("the_control_group_is_looked_at_and_named_as_the_cause", why);
    }
    let lab = Lab::new("doctor_group");
    // A new group has no real-time runtime at all.
    let name = format!("kymo-test-{}", std::process::id());
    let group = Made::new(root.join(&name));
    group.write("cpu.cfs_quota_us", "90000");
    let run = |args: &str| {
        let line = format!("echo $$ > {}/cgroup.procs && exec {} {args}", group.0.display(), paths::kymo().display());
        lab.run("sh", &["-c", &line])
    };
    let inside = run("doctor --json").expect(1);
    let all = checks(&inside.stdout);
    let (quota, runtime) = (find(&all, "cpu-quota"), find(&all, "rt-throttling"));
    let text = |check: &Value| check["current"].as_str().expect("text").to_owned();
    assert_eq!((&quota["state"], &runtime["state"]), (&"problem".into(), &"problem".into()), "{quota:#} {runtime:#}");
    assert!(text(quota).contains(&format!("90000 us of every 100000 us in /{name}")), "{quota:#}");
    assert!(text(runtime).starts_with("0 us of") && runtime["severity"] == "fatal", "{runtime:#}");
    let command = checks(&run("doctor --json -- true").stdout);
    assert!(text(find(&command, "limit-priority")).contains("refuses root, too"), "{command:#?}");
    // From outside, it is one of the groups of the machine.
    let outside = checks(&lab.kymo(&["doctor", "--json"]).stdout);
    assert!(text(find(&outside, "other-quotas")).contains(&name), "{outside:#?}");
    let refused = run("wakeup -c 0 -l 5").expect(2).stderr;
    assert!(refused.contains(&format!("control group /{name} has no real-time runtime")), "{refused}");
    assert!(!refused.contains("ulimit"), "{refused}");
    let marked = run("wakeup -c 0 -l 5 --best-effort --json").expect(0).stdout;
    let record: Value = serde_json::from_str(&marked).expect("a record");
    let caveat = &record["caveats"][0];
    let next = caveat["next"].as_str().expect("text");
    assert!(caveat["id"] == "not-fifo" && next.contains("cpu.rt_runtime_us"), "{caveat:#}");
}

#[test]
fn tracing_in_an_instance_is_seen() {
    let tracefs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new);
    let root = tracefs.into_iter().find(|dir| dir.join("instances").is_dir());
    let Some(root) = root.filter(|_| rustix::process::geteuid().is_root()) else {
        return kymo_tests::skip("tracing_in_an_instance_is_seen", "needs root and tracefs");
    };
    let lab = Lab::new("doctor_tracing");
    let name = format!("of-a-test-{}", std::process::id());
    let instance = Made::new(root.join("instances").join(&name));
    let current = || text_of(&lab.kymo(&["doctor", "--json"]).stdout, "tracing-on");
    assert!(!current().contains(&name), "{}", current());
    instance.write("events/sched/sched_switch/enable", "1");
    assert!(current().contains(&format!("events are on in instance {name}")), "{}", current());
}

fn text_of(doctor: &str, id: &str) -> String {
    find(&checks(doctor), id)["current"].as_str().expect("text").to_owned()
}

#[test]
fn a_killed_proof_is_taken_back() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_killed_proof_is_taken_back", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_proof");
    let sample = paths::repository().join("host/kymo-lab/tests/import/oslat-2.4.json");
    // By the command for it, and by whatever kymo doctor is next.
    for (number, next) in [&["doctor", "--restore"][..], &["doctor", "--json"]].into_iter().enumerate() {
        // Each run tells where it is, and stays until it is told to go on; the second one has the setting flipped.
        let gate = lab.path(&format!("gate-{number}"));
        let measure = format!(
            "if [ $(cat {SETTING}) = 10 ]; then while [ ! -e {} ]; do sleep 0.05; done; fi; cat {}",
            gate.display(),
            sample.display()
        );
        let proof = lab.spawn(paths::kymo(), &["doctor", "--prove", "stat-interval", "--measure", &measure]);
        lab.wait_for("the setting is flipped", || (value() == "10").then_some(()));
        proof.end(rustix::process::Signal::KILL);
        assert_eq!(value(), "10", "nobody was there to put it back");
        std::fs::write(&gate, "").expect("the gate");
        let restored = lab.kymo(next);
        assert!(restored.code < 2 && restored.stderr.contains("took back 1 changes of prove"), "{}", restored.stderr);
        assert_eq!(value(), before);
    }
}

#[test]
fn a_proof_flips_compares_and_puts_back() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_proof_flips_compares_and_puts_back", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_compares");
    // A tool whose samples are many times as long where the setting is flipped; no two runs are the same. The
    // nanoseconds go as text: as a number, those that begin with 08 are octal, and 0.
    let sample = r#"{"cpu": {"0": {"histogram": {"%d": 1000}, "count": 1000, "min": 1, "max": 900, "avg": %d.%s}}}"#;
    let measure = format!("v=$(cat {SETTING}); printf '{sample}' $((v * 20)) $((v * 20)) $(date +%N)");
    let outcome = lab.kymo(&["doctor", "--prove", "stat-interval", "--measure", &measure, "--json"]).expect(1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(
        (&report["comparison"]["outcome"], &report["comparison"]["runs"]),
        (&"worse".into(), &serde_json::json!([5, 5]))
    );
    assert_eq!(value(), before);
    let refused = lab.kymo(&["doctor", "--prove", "guest"]).expect(2);
    assert!(
        refused.stderr.contains("cannot be flipped") && refused.stderr.contains("stat-interval"),
        "{}",
        refused.stderr
    );
}

/// Two threads and a lock that one of them waits for, with inheritance where an argument says so.
const LOCKS: &str = r#"
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock;

static void *wait_for_it(void *unused)
{
	pthread_mutex_lock(&lock);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attr;
	pthread_t thread;

	(void)argv;
	pthread_mutexattr_init(&attr);
	if (argc > 1)
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &attr);
	pthread_mutex_lock(&lock);
	pthread_create(&thread, NULL, wait_for_it, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return 0;
}
"#;

#[test]
fn a_lock_without_inheritance_is_seen_and_the_slack_of_each_thread() {
    let lab = Lab::new("doctor_locks");
    let program = lab.cc_text("locks", LOCKS);
    for (args, state) in [(&[][..], "problem"), (&["inherit"][..], "ok")] {
        let mut proc = lab.spawn(&program, args);
        proc.until("ready");
        let pid = proc.pid().to_string();
        // The waiting thread sleeps in its system call.
        lab.wait_for("the wait", || {
            let of = |tid: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok();
            let tids = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
            let other = tids.map(|tid| tid.file_name().to_string_lossy().into_owned()).find(|tid| *tid != pid)?;
            of(&other)?.split(' ').nth(3).is_some().then_some(())
        });
        let outcome = lab.kymo(&["doctor", "--pid", &pid, "--json"]);
        let all = checks(&outcome.stdout);
        let check = |id: &str| all.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(check("lock-inheritance")["state"], state, "{:#}", check("lock-inheritance"));
        let slack = check("timer-slack")["current"].as_str().expect("text");
        assert!(slack.contains("2 ordinary of 2 in all") || slack.contains("ordinary threads of 2"), "{slack}");
        proc.say("");
        proc.wait().expect(0);
    }
}

#[test]
fn a_proof_with_its_own_measurement() {
    const SETTING: &str = "/proc/sys/vm/stat_interval";
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let value = || std::fs::read_to_string(SETTING).unwrap_or_default().trim().to_owned();
    let before = value();
    if !rustix::process::geteuid().is_root() || before.parse().is_ok_and(|seconds: u32| seconds >= 10) {
        kymo_tests::skip("a_proof_with_its_own_measurement", "needs root, and vm.stat_interval below 10");
        return;
    }
    let lab = Lab::new("doctor_own");
    let outcome = lab.kymo(&["doctor", "--prove", "stat-interval", "--json"]);
    // What it comes to is the machine's; that it was measured is not.
    assert!([0, 1, 3].contains(&outcome.code), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let comparison = &report["comparison"];
    assert_eq!((&comparison["runs"], &comparison["series"][0]["test"]), (&serde_json::json!([5, 5]), &"wakeup".into()));
    assert_eq!(value(), before);
}
