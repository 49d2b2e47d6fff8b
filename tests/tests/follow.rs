// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read --follow` of the kernel's records: it knows their threads as `kymo read` does.

use kymo_tests::{Kernel, Lab};

#[test]
fn threads_of_kernel_records_have_names() {
    if Kernel::find("threads_of_kernel_records_have_names").is_none() {
        return;
    }
    let lab = Lab::alone("follow");
    let program = lab.cc("pattern.c");
    lab.record("trace").args(&["-k", "sched", "--kernel-ring", "16M"]).run(&[program.to_str().unwrap()]).expect(0);
    let trace = lab.path("trace");
    let trace = trace.to_str().unwrap();
    // The session has ended, so that following comes to an end too, and both see the same.
    let lines =
        |args: &[&str]| lab.kymo(&[&["read", "--json", "--event", "sched_switch"], args, &[trace]].concat()).expect(0);
    let (followed, read) = (lines(&["--follow"]).stdout, lines(&[]).stdout);
    assert!(read.contains("\"proc\":\"sleeper\""), "{read:.2000}");
    assert!(followed == read, "followed:\n{followed:.2000}\nread:\n{read:.2000}");
}
