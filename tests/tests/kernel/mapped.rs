// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that are read where they are mapped [spec/kernel.md 4.1] give the same as copied ones: produced = recorded +
//! lost, in order, dated. Kernels before 6.10 refuse to map. Then the rings are copied, and the summary says so.

use kymo_tests::{Kernel, Lab};

use super::loss::{check, check_load};
use super::says;

#[test]
fn overwritten_records_are_counted_and_dated() {
    check("mapped_overwritten", "mapped", &[], "overwritten");
}

#[test]
fn dropped_records_are_counted_and_dated() {
    check("mapped_dropped", "mapped", &["--kernel-discard"], "dropped");
}

#[test]
fn a_small_ring_that_overwrites() {
    check_load("mapped_load_overwrite", "mapped", "16K", &[]);
}

#[test]
fn a_small_ring_that_discards() {
    check_load("mapped_load_discard", "mapped", "16K", &["--kernel-discard"]);
}

/// With sub-buffers of 16 KiB, each of which is read many times while the kernel fills it.
#[test]
fn a_ring_of_the_usual_size() {
    check_load("mapped_load_usual", "mapped", "8M", &[]);
}

#[test]
fn other_ways_are_refused() {
    let Some(kernel) = Kernel::find("mapped_refused") else { return };
    let mut lab = Lab::new("mapped_refused");
    lab.env("KYMO_KERNEL_RINGS", "borrowed");
    let recorded = lab.record("trace").args(&["-k", "sched:sched_process_exec"]).run(&["true"]).expect(2);
    says(&recorded.outcome.stderr, &["KYMO_KERNEL_RINGS", "borrowed", "copied or mapped"]);
    kernel.assert_clean(recorded.pid);
}
