// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the latency histograms that PREEMPT_RT kernels once had (/proc/latency_hist, later in debugfs): one CPU
//! each.

use crate::Record;

use super::build::{Draft, finish, interrupted};
use super::format::Fault;
use super::text::{Lines, after, first, numbers};

const US: u64 = 1_000;

pub(super) fn is_mark(line: &str) -> bool {
    line.starts_with("#Minimum latency:") || line.starts_with("#usecs")
}

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let mut record = Record::new("latency_hist", "latency-hist");
    record.method = "the kernel takes the latency of every wake-up, or of every part with interrupts or preemption off; whole microseconds".to_owned();
    let mut draft = Draft::new("latency", US);
    let (mut lines, mut below) = (0, 0u64);
    for (number, line) in Lines::new(bytes) {
        lines = number;
        match line.strip_prefix('#') {
            Some(head) => below = below.saturating_add(head_line(&mut draft, head)),
            None if line.trim().is_empty() => (),
            None => row(&mut draft, number, &line)?,
        }
    }
    // Samples below the first bucket are of no latency: the clock of another CPU was behind.
    draft.bucket(0, below);
    let sum = draft.series.histogram.count().saturating_add(draft.overflow.unwrap_or(0));
    if Lines::are_cut(bytes) || draft.taken.is_some_and(|taken| taken > sum) {
        interrupted(&mut record, lines, "all rows of the histogram");
    }
    finish(record, vec![draft], lines)
}

/// Takes a line of the head; returns the samples below the first bucket, which one of them has.
fn head_line(draft: &mut Draft, head: &str) -> u64 {
    let us = |mark: &str| after(head, mark).and_then(first::<u64>).map(|us| us.saturating_mul(US));
    let series = &mut draft.series;
    series.min = us("Minimum latency:").or(series.min);
    series.max = us("Maximum latency:").or(series.max);
    series.mean = us("Average latency:").map(|mean| mean as f64).or(series.mean);
    draft.taken = after(head, "Total samples:").and_then(first).or(draft.taken);
    let count = after(head, "There are").or_else(|| after(head, "There is")).and_then(first::<u64>);
    if let Some(limit) = us("greater or equal than") {
        draft.overflow = count;
        draft.beyond_ns = limit;
    }
    if head.contains("lower than") { count.unwrap_or(0) } else { 0 }
}

fn row(draft: &mut Draft, number: usize, line: &str) -> Result<(), Fault> {
    match numbers(line).as_deref() {
        Some([Some(us), Some(count)]) => draft.bucket(us.saturating_mul(US), *count),
        _ => return Err(Fault::new(number, "a row has microseconds and a number of samples")),
    }
    Ok(())
}
