// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same on Debian's kernels, stock and PREEMPT_RT, in virtual machines: this binary runs itself inside. The
//! machines may be emulated, so that the numbers are smaller there; what must hold is the same.

use kymo_tests::{Build, Kernel, Lab, Outcome, compile, paths, skip, stress};
use std::time::Duration;

/// Said by the test inside, on standard output.
const INSIDE: &str = "inside of";

/// What runs inside: the heart of each theme. The first says where it is.
const TESTS: [&str; 11] = [
    "kernel::machines::where_it_is",
    "kernel::order::calls_of_the_command_only",
    "kernel::only::the_command_its_threads_and_its_descendants",
    "kernel::loss::overwritten_records_are_counted_and_dated",
    "kernel::loss::a_small_ring_that_overwrites",
    "kernel::mapped::overwritten_records_are_counted_and_dated",
    "kernel::mapped::a_small_ring_that_discards",
    "kernel::formats::arguments_and_results_of_system_calls",
    "kernel::formats::values_are_those_of_the_kernels_text",
    "kernel::probes::arguments_of_every_kind",
    "kernel::state::short_and_none",
];

fn is_inside() -> bool {
    std::env::var_os("KYMO_TEST_INSIDE").is_some()
}

/// Which kernel it is, its clock, and what it says of the preempted.
#[test]
#[ignore = "runs inside of the machines"]
fn where_it_is() {
    let kernel = Kernel::find("where_it_is").expect("tracefs is mounted in machines of the lab");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let lab = Lab::new("where_it_is");
    let recorded = lab.record("trace").args(&["-k", "sched:sched_switch"]).run(&[
        "sh",
        "-c",
        "for n in 1 2 3; do (while :; do :; done) & loops=\"$loops $!\"; done; sleep 0.5; kill $loops",
    ]);
    let recorded = recorded.expect(0);
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    // 256 for the preempted where TASK_REPORT_MAX is 0x100, as in these kernels; never anything that is no state.
    let states: std::collections::BTreeSet<u64> = read.numbers("sched_switch", "prev_state").into_iter().collect();
    assert!(states.contains(&256), "three busy loops on {} were never preempted: {states:?}", release.trim());
    assert!(states.iter().all(|state| *state <= 0x1000), "{states:?}");
    // Emulated processors announce no invariant TSC, so that both sides take the monotonic clock there.
    let clock = recorded.kernel()["clock"].as_str().unwrap();
    assert_eq!(clock, if recorded.summary["clock"]["name"] == "tsc" { "x86-tsc" } else { "mono" });
    println!("{INSIDE} {} clock {clock} records {}", release.trim(), read.records.len());
}

/// Runs `tests` of this binary in a machine with `kernel`.
fn inside(lab: &Lab, kernel: &str, tests: &[&str]) -> Outcome {
    let mut command = lab.command(paths::repository().join("lab/vm"));
    command.args(["run", "--kernel", kernel, "--timeout", "600", "--", "env", "KYMO_TEST_INSIDE=1"]);
    command.arg(format!("KYMO_TEST_CALLS={}", if stress() { 20_000 } else { 2_000 }));
    command.arg(format!("KYMO={}", paths::kymo().display())).arg(format!("KYMO_LIB={}", paths::library().display()));
    // An emulated compiler is slow.
    if Build::new(&["calls.c"]).built_once().is_some() {
        command.arg(format!("KYMO_TEST_PROGRAMS={}", compile::programs_dir().display()));
    }
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--include-ignored", "--nocapture", "--test-threads", "2"])
        .args(tests);
    command.current_dir(paths::repository().join("tests"));
    lab.start(command).wait()
}

fn check(kernel: &str, release_ends: &str) {
    if is_inside() {
        return;
    }
    let name = format!("machine_{kernel}");
    let lab = Lab::new(&name).within(Duration::from_secs(1300));
    let listed = lab.run(paths::repository().join("lab/vm"), &["list"]);
    let is_missing = |line: &str| line.split_whitespace().next() == Some(kernel) && line.contains("not cached");
    if listed.code != 0 || listed.stdout.lines().any(is_missing) {
        return skip(
            &name,
            &format!("'lab/vm fetch {kernel}' has not been run here:\n{}{}", listed.stdout, listed.stderr),
        );
    }
    let outcome = inside(&lab, kernel, &TESTS);
    let all = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, 0, "{all}");
    assert!(outcome.stdout.contains(&format!("{} passed", TESTS.len())), "{all}");
    assert!(!all.contains("SKIP "), "nothing is skipped inside:\n{all}");
    let line = outcome.stdout.lines().find_map(|line| line.split_once(INSIDE)).unwrap_or_else(|| panic!("{all}")).1;
    let release = line.split_whitespace().next().unwrap();
    assert!(release.ends_with(release_ends), "{line}");
    eprintln!("{kernel}:{line}");
}

#[test]
fn stock() {
    check("stock", "-amd64");
}

#[test]
fn rt() {
    check("rt", "-rt-amd64");
}
