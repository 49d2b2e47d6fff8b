// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo top`, held against what the kernel itself counts of a thread, and against bytes that a program is known to
//! move.

use kymo_tests::{Kernel, Lab};
use serde_json::Value;

#[track_caller]
fn ask(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.kymo(args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

#[track_caller]
fn rows<'v>(found: &'v Value, part: &str) -> &'v [Value] {
    found[part].as_array().unwrap_or_else(|| panic!("no {part} in {found}"))
}

/// The sum of a member over the rows of a thread, which has several if it took another name.
fn of_thread(found: &Value, tid: u64, group: &str, member: &str) -> u64 {
    let rows = rows(found, "threads").iter().filter(|row| row["tid"] == tid);
    rows.map(|row| row[group][member].as_u64().expect("a number")).sum()
}

const NS: u64 = 1_000_000_000;

#[test]
fn usage_is_what_the_kernel_counts() {
    let Some(kernel) = Kernel::find("usage_is_what_the_kernel_counts") else { return };
    let lab = Lab::alone("top");
    let program = lab.cc("busy.c");
    let file = lab.path("data");
    let recording = lab.record("trace").args(&["-k", "sched,irq,syscalls", "--kernel-ring", "64M"]);
    let recorded = recording.run(&[program.to_str().unwrap(), file.to_str().unwrap()]).expect(0);
    lab.kernel_lossless(&recorded);
    let told = |name: &str| kymo_tests::process::number(&recorded.outcome.stdout, name);
    let (tid, tick_ns) = (told("tid"), NS / told("hz"));
    let trace = recorded.dir.to_str().unwrap();
    let found = ask(&lab, &["top", trace, "--json"]);

    // Its CPU time, as /proc/PID/task/TID/stat has it. The kernel may leave out interrupts and what a hypervisor took.
    let ns = of_thread(&found, tid, "cpu", "ns");
    let (counted_ns, stolen_ns) = (told("ticks") * tick_ns, told("stolen") * tick_ns);
    let interrupted_ns = of_thread(&found, tid, "cpu", "interrupted_ns");
    let tolerance_ns = 3 * tick_ns + ns / 50;
    assert!(counted_ns <= ns + tolerance_ns, "{counted_ns} ns counted, {ns} ns found");
    assert!(
        counted_ns + interrupted_ns + stolen_ns + tolerance_ns >= ns,
        "{counted_ns} ns counted, {ns} ns found, {interrupted_ns} in interrupts, {stolen_ns} stolen"
    );
    let spinner = rows(&found, "threads").iter().find(|row| row["name"] == "spinner").expect("a row of spinner");
    assert_eq!(spinner["process_name"], "busy", "{spinner}");

    every_cpu_sums_up(&found);
    let cpu = &rows(&found, "cpus")[0];
    assert_eq!(cpu["cpu"], 0);
    let busy_ns = cpu["thread_ns"].as_u64().unwrap() + cpu["interrupt_ns"].as_u64().unwrap();
    assert!(busy_ns >= ns, "{cpu}");
    let alone = ask(&lab, &["top", trace, "--json", "--thread", &tid.to_string(), "--by", "cpu,thread"]);
    every_cpu_sums_up(&alone);
    assert_eq!(of_thread(&alone, tid, "cpu", "ns"), ns);
    assert!(rows(&alone, "threads").iter().all(|row| row["tid"] == tid), "{alone}");

    bytes_are_those_of_the_program(&found, &alone, &recorded.outcome.stdout);
    if kernel.has("irq_vectors:local_timer_entry") {
        let timer = rows(&found, "irqs").iter().find(|row| row["what"] == "local_timer").expect("timer interrupts");
        assert!(timer["count"].as_u64() > Some(0) && timer["total_ns"].as_u64() > Some(0), "{timer}");
    }
    // By a condition on the record that ends it: calls that failed moved nothing; of the other CPUs nothing is left.
    let failed = ask(&lab, &["top", trace, "--by", "file", "--filter", "ret < 0", "--json"]);
    let moved = |row: &Value| row["read_bytes"].as_u64().unwrap() + row["written_bytes"].as_u64().unwrap();
    assert!(rows(&failed, "files").iter().all(|row| moved(row) == 0 && row["failed"].as_u64() > Some(0)), "{failed}");
    assert!(rows(&found, "files").iter().any(|row| moved(row) > 0), "{found}");
    let of_cpu = ask(&lab, &["top", trace, "--filter", "$cpu == 0", "--json"]);
    every_cpu_sums_up(&of_cpu);
    let threads_of = |found: &Value, number: u64| {
        let cpu = rows(found, "cpus").iter().find(|cpu| cpu["cpu"] == number).map(|cpu| cpu["thread_ns"].as_u64());
        cpu.flatten().unwrap_or_default()
    };
    assert!(threads_of(&of_cpu, 0) > 0 && threads_of(&of_cpu, 1) == 0, "{of_cpu}");
    let text = lab.kymo(&["top", trace, "--by", "cpu,thread,device"]).expect(0).stdout;
    assert!(text.contains("spinner[") && text.contains("\ndevice: no block events: record with -k block\n"), "{text}");
    let refused = lab.kymo(&["top", trace, "--by", "device"]).expect(2).stderr;
    assert!(refused.contains("no block events: record with -k block"), "{refused}");
}

/// What a CPU did is all of the stretch.
#[track_caller]
fn every_cpu_sums_up(found: &Value) {
    let parts = ["thread_ns", "interrupt_ns", "other_ns", "idle_ns", "unknown_ns"];
    for cpu in rows(found, "cpus") {
        let sum: u64 = parts.iter().map(|part| cpu[*part].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), found["duration_ns"].as_u64(), "{cpu}");
    }
}

#[track_caller]
fn bytes_are_those_of_the_program(found: &Value, alone: &Value, stdout: &str) {
    let told = |name: &str| kymo_tests::process::number(stdout, name);
    let (fd, written, read) = (told("fd"), told("written"), told("read"));
    // A descriptor without a path may have been another file's, too: the program reads files of /proc.
    let is_it = |row: &&Value| row["written_bytes"] == written && row["read_bytes"].as_u64() >= Some(read);
    let file = rows(found, "files").iter().find(is_it).unwrap_or_else(|| panic!("no such file in {}", found["files"]));
    // Some kernels' records have the path; else the descriptor says what is known.
    match file["path"].as_str() {
        Some(path) => assert!(path.ends_with("/data"), "{file}"),
        None => assert_eq!((&file["fd"], &file["made_by"]), (&fd.into(), &"openat".into()), "{file}"),
    }
    assert_eq!((&file["writes"], &file["failed"]), (&10.into(), &0.into()), "{file}");
    assert!(file["reads"].as_u64() >= Some(5), "{file}");
    let of_thread = |name| of_thread(alone, told("tid"), "calls", name);
    assert!(of_thread("written_bytes") >= written && of_thread("read_bytes") >= read, "{alone}");
    assert!(of_thread("failed") >= 1, "{alone}");
}

#[test]
fn what_was_not_recorded_is_named() {
    if Kernel::find("what_was_not_recorded_is_named").is_none() {
        return;
    }
    let lab = Lab::new("top-missing");
    let recorded = lab.record("trace").args(&["-k", "irq", "--only"]).run(&["true"]).expect(0);
    let trace = recorded.dir.to_str().unwrap();
    let refused = lab.kymo(&["top", trace, "--by", "thread,cpu,file"]).expect(2).stderr;
    for part in ["no sched events: record with -k sched", "no system calls that read or write: record with -k syscalls"]
    {
        assert!(refused.contains(part), "{refused}");
    }
    let found = ask(&lab, &["top", trace, "--json"]);
    assert_eq!((&found["only"], &found["cpus"], &found["idle_ns"]), (&true.into(), &Value::Null, &Value::Null));
    assert_eq!(found["missing"][0]["part"], "cpu", "{found}");
}

#[test]
fn samples_say_which_function_used_the_cpu() {
    if Kernel::find("samples_say_which_function_used_the_cpu").is_none() {
        return;
    }
    let lab = Lab::alone("top-functions");
    let program = lab.cc("busy.c");
    let recording = lab.record("trace").args(&["-k", "sched,perf:cpu-clock@997", "--kernel-ring", "32M"]);
    let recorded = recording.run(&[program.to_str().unwrap(), lab.path("data").to_str().unwrap()]).expect(0);
    lab.kernel_lossless(&recorded);
    let samples = &recorded.kernel()["samples"];
    assert_eq!((&samples["frequency"], &samples["lost"]), (&997.into(), &0.into()), "{samples}");
    let trace = recorded.dir.to_str().unwrap();
    let tid = kymo_tests::process::number(&recorded.outcome.stdout, "tid");
    let found = ask(&lab, &["top", trace, "--json", "--thread", &tid.to_string()]);
    let functions = rows(&found, "functions");
    let sum = |member: &str| functions.iter().map(|row| row[member].as_u64().unwrap()).sum::<u64>();
    let burn = functions.iter().find(|row| row["function"] == "burn").unwrap_or_else(|| panic!("no burn in {found}"));
    let (own, all) = (burn["self_ns"].as_u64().unwrap(), sum("self_ns"));
    assert!(own * 10 >= all * 8, "{functions:#?}");
    // Samples and switches measure one time, apart from what a hypervisor took.
    let ns = of_thread(&found, tid, "cpu", "ns");
    let told = |name: &str| kymo_tests::process::number(&recorded.outcome.stdout, name);
    let stolen = told("stolen") * 1_000_000_000 / told("hz");
    let text = format!("{all} ns by samples, {ns} ns by switches, {stolen} ns stolen");
    assert!(all <= ns + ns / 10 && all + stolen + ns / 4 >= ns, "{text}");
    let refused = lab.kymo(&["functions", trace]).expect(2).stderr;
    assert!(refused.contains("`kymo top --by function` says which functions used the CPU"), "{refused}");
    // The same stacks for flame graphs.
    let collapsed = lab.path("collapsed");
    lab.kymo(&["export", trace, "--format", "collapsed", "-o", collapsed.to_str().unwrap()]).expect(0);
    let text = std::fs::read_to_string(collapsed).unwrap();
    assert!(text.lines().any(|line| line.contains("burn")), "{text}");
    for (what, why) in [("--only", "record without --only"), ("--flight", "a flight recorder takes no samples")] {
        let refused = lab.record(what).args(&["-k", "perf:cpu-clock", what]).run(&["true"]).expect(2);
        assert!(refused.outcome.stderr.contains(why), "{}", refused.outcome.stderr);
    }
}
