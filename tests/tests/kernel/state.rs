// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state dump: a trace can be understood from its first record on.

use kymo_tests::{Kernel, Lab, Read, Record, babeltrace, trace};
use rustix::process::Signal;
use serde_json::Value;

const PROCESS: &str = "lttng_statedump_process_state";
const FILE: &str = "lttng_statedump_file_descriptor";
const MAP: &str = "lttng_statedump_vm_map";

/// A program with a real-time thread, an open file and an affinity of its own.
const HELPER: &str = r#"
#include "common.h"
#include <sys/prctl.h>
static void *work(void *unused)
{
	struct sched_param param = { .sched_priority = 42 };
	cpu_set_t first;

	(void)unused;
	prctl(PR_SET_NAME, "state-fifo");
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first) || sched_setscheduler(0, SCHED_FIFO, &param))
		die("policy");
	printf("tid=%u\n", tid());
	say("ready");
	pause();
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	int fd = open(argv[argc - 1], O_RDWR);

	live_shortly();
	if (fd < 0 || nice(7) != 7 || lseek(fd, 3, SEEK_SET) != 3)
		die("setup");
	printf("fd=%d\n", fd);
	pthread_create(&thread, NULL, work, NULL);
	hear();
	return 0;
}
"#;

fn dumped(lab: &Lab, dir: &std::path::Path) -> Read {
    trace::read(lab, dir, &["--state"]).whole()
}

fn text<'a>(record: &'a Record, field: &str) -> &'a str {
    record.fields[field].as_str().unwrap_or_else(|| panic!("no text {field} in {record:?}"))
}

#[test]
fn threads_files_and_maps_of_a_program() {
    let Some(kernel) = Kernel::find("state_program") else { return };
    let lab = Lab::new("state_program");
    let program = lab.cc_text("helper", HELPER);
    let file = lab.write("open me", "content");
    let proc = lab.spawn(&program, &[file.to_str().unwrap()]);
    let fd: u64 = proc.until("fd=")[3..].parse().unwrap();
    let tid: u64 = proc.until("tid=")[4..].parse().unwrap();
    proc.until("ready");
    let pid = u64::from(proc.pid());
    let recorded = lab.record("trace").args(&["-k", "sched:sched_process_exit"]).run(&["true"]).expect(0);
    kernel.assert_clean(recorded.pid);
    let read = dumped(&lab, &recorded.dir);
    babeltrace::agrees(&lab, &recorded.dir, &read);
    assert_eq!(recorded.kernel()["state"]["dumps"], 2);
    assert_eq!((read.of("lttng_statedump_start").count(), read.of("lttng_statedump_end").count()), (2, 2));
    // In each of the two dumps.
    let threads: Vec<_> = read.of(PROCESS).filter(|record| record.number("tid") == tid).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for thread in threads {
        let fields = &thread.fields;
        assert_eq!((text(thread, "name"), &fields["pid"]), ("state-fifo", &Value::from(pid)), "{thread:?}");
        assert_eq!(
            (&fields["policy"]["label"], &fields["rt_priority"], text(thread, "affinity")),
            (&"fifo".into(), &42.into(), "0")
        );
    }
    let main = read.of(PROCESS).find(|record| record.number("tid") == pid).expect("the main thread");
    assert_eq!(
        (text(main, "name"), &main.fields["nice"], &main.fields["policy"]["label"]),
        ("helper", &7.into(), &"other".into())
    );
    assert_eq!(main.number("ppid"), u64::from(std::process::id()));
    let of_it = |record: &&Record| record.number("pid") == pid;
    let opened: Vec<_> = read.of(FILE).filter(of_it).filter(|record| record.number("fd") == fd).collect();
    assert_eq!(opened.len(), 2);
    assert_eq!((text(opened[0], "filename"), opened[0].number("pos")), (file.to_str().unwrap(), 3));
    let maps: Vec<_> =
        read.of(MAP).filter(of_it).filter(|record| text(record, "path") == program.to_str().unwrap()).collect();
    assert!(maps.len() >= 2, "{maps:?}");
    assert_eq!(text(maps[0], "build_id"), build_id(&lab, program.to_str().unwrap()));
    drop(proc);
}

/// By binutils.
fn build_id(lab: &Lab, program: &str) -> String {
    let said = lab.run("readelf", &["-n", program]).expect(0).stdout;
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    line.trim().to_owned()
}

/// Every record of a thread that is there at the start has its process.
#[test]
fn threads_are_known_from_the_first_record() {
    let Some(_kernel) = Kernel::find("state_first") else { return };
    let lab = Lab::new("state_first");
    let program = lab.cc("calls.c");
    let mut proc = lab.spawn(&program, &["attached", "50"]);
    proc.until("ready");
    let pid = proc.pid();
    let recording =
        lab.record("trace").args(&["-k", "syscalls:sys_*_getppid,sched", "-p", &pid.to_string(), "--only"]).attach();
    proc.say("go");
    proc.until("done");
    let recorded = recording.end(Signal::INT).expect(0);
    let read = recorded.read(&lab);
    let outcome = proc.wait().expect(0);
    let mut calls = 0;
    for record in read.records.iter().filter(|record| record.event.contains("getppid")) {
        assert!(record.pid != trace::NOT_KNOWN && record.proc == "calls", "{record:?}");
        calls += 1;
    }
    assert_eq!(calls, outcome.stdout.matches("tid=").count() * 100);
    let first = read.records.iter().find(|record| record.event.contains("getppid")).unwrap();
    assert_eq!((first.pid, first.tid), (u64::from(pid), u64::from(pid)));
}

/// The command of `--only` begins after the dump: its records still have a process.
#[test]
fn the_command_is_known_from_its_first_record() {
    let Some(_kernel) = Kernel::find("state_command") else { return };
    let lab = Lab::new("state_command");
    let program = lab.cc("calls.c");
    for args in [&["--only"][..], &[]] {
        let name = format!("trace{}", args.len());
        let recorded = lab
            .record(&name)
            .args(&["-k", "syscalls:sys_*_getppid,sched:sched_process_*,task"])
            .args(args)
            .run(&[program.to_str().unwrap(), "tree", "20"])
            .expect(0);
        let read = recorded.read(&lab);
        let own: Vec<u64> =
            recorded.outcome.stdout.lines().filter_map(|line| line.strip_prefix("tid=")?.parse().ok()).collect();
        let unknown = read
            .of("syscall_entry_getppid")
            .filter(|r| own.contains(&r.tid))
            .find(|r| r.pid == trace::NOT_KNOWN || r.proc != "calls");
        assert!(unknown.is_none(), "{args:?}: {unknown:?}");
    }
}

#[test]
fn short_and_none() {
    let Some(_kernel) = Kernel::find("state_short") else { return };
    let lab = Lab::new("state_short");
    for (state, processes, details) in [("full", true, true), ("short", true, false), ("none", false, false)] {
        let recorded =
            lab.record(state).args(&["-k", "sched:sched_process_exit", "--state", state]).run(&["true"]).expect(0);
        let read = dumped(&lab, &recorded.dir);
        assert_eq!(read.of(PROCESS).count() > 0, processes, "{state}");
        assert_eq!(read.of(FILE).count() > 0, details, "{state}");
        assert_eq!(read.of(MAP).count() > 0, details, "{state}");
        assert_eq!(read.of("lttng_statedump_cpu_topology").count() > 0, processes, "{state}");
        assert_eq!(recorded.dir.join("state_0").exists(), processes, "{state}");
        assert!(read.of("sched_process_exit").count() > 0);
    }
}
