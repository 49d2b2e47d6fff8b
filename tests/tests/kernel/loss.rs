// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's rings lost is counted as the kernel counts it, and dated: produced = recorded + lost.

use kymo_tests::kernel::{FIRST_NUMBER, NUMBERS, check_rings, each};
use kymo_tests::{Kernel, Lab, Proc, Recorded, babeltrace, process, trace};
use rustix::process::Signal;

use super::calls;

/// A program that makes numbered calls, ready to.
fn numbers(lab: &Lab, count: u64) -> Proc {
    let proc = lab.spawn(lab.cc("calls.c"), &["numbers", &count.to_string()]);
    proc.until("ready");
    proc
}

/// `overrun` and `dropped events` of an instance, all CPUs together.
fn counts(instance: &std::path::Path) -> [u64; 2] {
    let mut sums = [0; 2];
    for cpu in std::fs::read_dir(instance.join("per_cpu")).unwrap().flatten() {
        let text = std::fs::read_to_string(cpu.path().join("stats")).unwrap();
        let count = |name: &str| -> u64 {
            text.lines().find_map(|line| line.strip_prefix(name)).map_or(0, |rest| rest.trim().parse().unwrap())
        };
        sums[0] += count("overrun:");
        sums[1] += count("dropped events:");
    }
    sums
}

/// A gap in the numbers must lie within the losses that the trace dates; each number is seen once, in order.
fn check_gaps(trace: &std::path::Path, produced: u64) -> (u64, u64) {
    // Clock values of the records around a gap, and the count of what is missing.
    let mut gaps = Vec::new();
    let (mut next, mut newest, mut seen) = (0, 0, 0);
    let losses = each(trace, |record| {
        let n = record.number("fd") as u64 - FIRST_NUMBER;
        assert!(n >= next, "{n} comes after {next}");
        if n > next {
            gaps.push((newest, record.cycles, n - next));
        }
        (next, newest, seen) = (n + 1, record.cycles, seen + 1);
    });
    if next < produced {
        gaps.push((newest, u64::MAX, produced - next));
    }
    let lost: u64 = losses.iter().map(|(_, records, ..)| records).sum();
    for (from, to, missing) in &gaps {
        // The thread may move between CPUs, so that a gap is cut into parts: what is dated to overlap it must account
        // for it.
        let overlap = losses.iter().filter(|(_, _, begin, end)| begin <= to && end >= from);
        let dated: u64 = overlap.map(|(_, records, ..)| records).sum();
        assert!(dated >= *missing, "{missing} numbers are missing from {from} to {to}; dated there: {losses:?}");
    }
    assert_eq!(gaps.iter().map(|gap| gap.2).sum::<u64>(), lost, "numbers missing, and records lost");
    (seen, lost)
}

/// What was overwritten is dated exactly: from the last record before it to the first one after.
fn check_ends(recorded: &Recorded) {
    let mut times = Vec::new();
    let losses = each(&recorded.dir, |record| times.push((record.stream.to_owned(), record.cycles)));
    for (stream, records, from, to) in &losses {
        let within = times.iter().find(|(of, time)| of == stream && from < time && time < to);
        assert!(within.is_none(), "{within:?} is within the loss of {records} records from {from} to {to}");
    }
}

/// A collector that is stopped while the program runs cannot empty its ring. `rings`: $KYMO_KERNEL_RINGS.
pub(super) fn check(name: &str, rings: &str, args: &[&str], cause: &str) {
    let Some(kernel) = Kernel::find(name) else { return };
    let mut lab = Lab::new(name);
    lab.env("KYMO_KERNEL_RINGS", rings);
    let produced = calls(200_000, 2_000_000) as u64;
    let mut proc = numbers(&lab, produced);
    let mut recording = lab
        .record("trace")
        .args(&["--only", "-p", &proc.pid().to_string(), "-k", NUMBERS, "--kernel-ring", "16K", "--state", "none"])
        .args(args)
        .attach();
    let pid = recording.proc().pid();
    recording.proc().stop();
    lab.wait_for("the collector stops", || is_stopped(pid).then_some(()));
    proc.say("go");
    proc.until("done");
    let instance = kernel.instances_of(pid).pop().expect("the session's instance");
    let [overrun, dropped] = counts(&instance);
    recording.proc().signal(Signal::CONT);
    let recorded = recording.end(Signal::INT).expect(0);
    kernel.assert_clean(pid);
    check_rings(&recorded, rings);
    let lost = recorded.kernel()["lost"][cause].as_u64().unwrap();
    // Nobody else writes into this ring, so these are the kernel's last words; the summary has no other losses.
    assert_eq!(lost, overrun + dropped, "by the summary, and by the kernel (overrun {overrun}, dropped {dropped})");
    let (seen, told) = check_gaps(&recorded.dir, produced);
    assert_eq!((seen + told, told), (produced, lost), "seen and lost");
    if cause == "overwritten" {
        check_ends(&recorded);
    }
    // Two CPUs have room for two rings' worth.
    assert!(lost > produced / 5, "the test must fill the ring: {lost} lost");
    super::says(&recorded.outcome.stderr, &["kernel: LOST", "ring full"]);
    let read = trace::read(&lab, &recorded.dir, &[]).whole();
    assert_eq!((read.records.len() as u64, read.lost()), (seen, lost));
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

fn is_stopped(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap_or_default();
    text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

#[test]
fn overwritten_records_are_counted_and_dated() {
    check("loss_overwritten", "", &[], "overwritten");
}

#[test]
fn dropped_records_are_counted_and_dated() {
    check("loss_dropped", "", &["--kernel-discard"], "dropped");
}

/// The collector runs, and comes too late again and again where the ring is small.
pub(super) fn check_load(name: &str, rings: &str, ring: &str, args: &[&str]) {
    let Some(kernel) = Kernel::find(name) else { return };
    let mut lab = Lab::new(name);
    lab.env("KYMO_KERNEL_RINGS", rings);
    let produced = calls(500_000, 5_000_000) as u64;
    let mut proc = numbers(&lab, produced);
    let pid = proc.pid().to_string();
    let recording = lab
        .record("trace")
        .args(&["--only", "-p", &pid, "-k", NUMBERS, "--kernel-ring", ring, "--state", "none"])
        .args(args)
        .attach();
    proc.say("go");
    proc.until("done");
    let recorded = recording.end(Signal::INT).expect(0);
    kernel.assert_clean(recorded.pid);
    check_rings(&recorded, rings);
    let (seen, lost) = check_gaps(&recorded.dir, produced);
    assert_eq!(seen + lost, produced, "seen and lost");
    let causes = recorded.kernel()["lost"].as_object().unwrap();
    let told: u64 = causes.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((told, recorded.kernel()["records"].as_u64().unwrap()), (lost, seen), "{causes:?}");
}

#[test]
fn a_small_ring_that_overwrites() {
    check_load("loss_load_overwrite", "copied", "16K", &[]);
}

#[test]
fn a_small_ring_that_discards() {
    check_load("loss_load_discard", "", "16K", &["--kernel-discard"]);
}

/// What a full disk kept out of the trace is counted and dated, also where a later packet found room again.
#[test]
fn no_space_left() {
    let Some(kernel) = Kernel::find("kernel_no_space") else { return };
    let lab = Lab::new("kernel_no_space");
    let program = lab.cc("calls.c");
    let small = lab.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}", small.display());
    let produced = 100_000u64;
    let kymo = kymo_tests::paths::kymo().display();
    let script = format!(
        "{mount} || exit; {kymo} record -o small/trace --only -k '{NUMBERS}' --kernel-ring 64M --state none -- \
         sh -c '{} numbers {produced} <input' & session=$!; wait $session; code=$?; echo pid=$session; \
         cp -r small/trace copy; exit $code",
        program.display()
    );
    lab.write("input", "go\nend\n");
    let outcome = lab.run("unshare", &["-m", "sh", "-c", &script]);
    if outcome.stderr.contains("unshare") || outcome.stderr.contains("mount:") {
        return kymo_tests::skip("kernel_no_space", "cannot mount in a namespace of its own");
    }
    let outcome = outcome.expect(0);
    super::says(&outcome.stderr, &["LOST", "not written"]);
    let read = trace::read(&lab, &lab.path("copy"), &[]).whole();
    let (seen, told) = check_gaps(&lab.path("copy"), produced);
    assert!(seen > 0 && seen < produced, "{seen} in the trace\n{}", outcome.stderr);
    let lost = process::count_behind(&outcome.stderr, "kernel: LOST ");
    assert_eq!((read.records.len() as u64, told), (seen, lost), "{}", outcome.stderr);
    assert_eq!(seen + lost, produced, "{}", outcome.stderr);
    kernel.assert_clean(outcome.number("pid") as u32);
}
