// SPDX-License-Identifier: MIT OR Apache-2.0
//! User and kernel records are on one clock: what a program traces before and after a system call encloses it.

use std::collections::HashMap;

use kymo_tests::kernel::each;
use kymo_tests::{Kernel, Lab};

use super::calls;

/// What a thread's records must be, over and over.
const STEPS: [&str; 4] = ["before", "entry", "exit", "after"];

/// One thread's place in the sequence.
#[derive(Default)]
struct Progress {
    step: usize,
    rounds: u64,
}

/// Which step an event is, by either naming.
fn step_of(event: &str) -> Option<usize> {
    match event {
        "calls:before" => Some(0),
        "syscall_entry_getppid" | "syscalls:sys_enter_getppid" => Some(1),
        "syscall_exit_getppid" | "syscalls:sys_exit_getppid" => Some(2),
        "calls:after" => Some(3),
        _ => None,
    }
}

/// Records `count` calls, and fails unless each lies between its two user records.
fn check(name: &str, args: &[&str]) {
    let Some(kernel) = Kernel::find(name) else { return };
    let lab = Lab::new(name);
    let count = calls(1_000_000, 1_000_000) as u64;
    let program = lab.cc("calls.c");
    let recorded = lab
        .record("trace")
        .args(&["-k", "syscalls:sys_*_getppid", "--kernel-ring", "64M", "--ring-size", "64M", "--state", "none"])
        .args(args)
        .run(&[program.to_str().unwrap(), "between", &count.to_string()])
        .expect(0)
        .lossless();
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    let mut threads: HashMap<i64, Progress> = HashMap::new();
    let mut user = None;
    each(&recorded.dir, |record| {
        let Some(step) = step_of(record.event) else { return };
        let progress = threads.entry(record.tid).or_default();
        if record.event.starts_with("calls:") {
            user = Some(record.tid);
            assert_eq!(record.number("n") as u64, progress.rounds, "{record:?}");
        }
        // Other programs' threads have kernel records only, and may begin with an exit.
        if user == Some(record.tid) {
            // The C library may have called getppid before main; nothing of that is between two user records.
            assert_eq!(STEPS[step], STEPS[progress.step], "in round {}: {record:?}", progress.rounds);
            progress.step = (step + 1) % STEPS.len();
            progress.rounds += u64::from(progress.step == 0);
        }
    });
    let rounds = threads[&user.expect("user records")].rounds;
    assert_eq!(rounds, count, "calls between their records");
}

#[test]
fn calls_lie_between_their_user_records() {
    check("order_all", &[]);
}

#[test]
fn calls_of_the_command_only() {
    check("order_only", &["--only"]);
}

#[test]
fn calls_by_the_kernels_names() {
    check("order_names", &["--only", "--names", "kernel"]);
}
