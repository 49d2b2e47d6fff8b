// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap as text.

use kymo_analyze::heap::{Amount, ProcessSums};

use super::args::Bytes;
use super::found::{HeapReport, number};
use super::pass::ProgramOf;
use crate::verbs::analyze::show::{signed_duration, size, table};
use crate::verbs::symbols::AddressPlace;
use kymo_command::terminal::{Style, paint};

/// The whole report.
pub fn report(found: &mut HeapReport<'_>) -> String {
    let mut text = sums(found);
    text += &processes(found);
    text += &growth(found);
    text += &stacks(found);
    for caveat in &found.caveats {
        text += &paint(Style::Alarm, &format!("not exact: {caveat}"));
        text.push('\n');
    }
    text
}

fn sums(found: &HeapReport<'_>) -> String {
    let total = found.pass.heap.total();
    let seconds = found.range.1.abs_diff(found.range.0) as f64 / 1e9;
    let row = |name: String, amount: Amount| {
        vec![name, amount.bytes.to_string(), size(amount.bytes), amount.blocks.to_string()]
    };
    let mut lines = vec![[&format!("in {seconds:.3} s"), "bytes", "", "blocks"].map(str::to_owned).to_vec()];
    lines.push(row("allocated".into(), total.allocated));
    lines.push(row("freed".into(), total.freed));
    lines.push(row(format!("peak, at {}", offset(found, total.peak_time)), total.peak));
    lines.push(row("live at the end".into(), total.live));
    lines.push(row("leaked".into(), total.leaked));
    if total.at_exec.blocks > 0 {
        lines.push(row("gone with exec".into(), total.at_exec));
    }
    let mut text = table(&lines);
    if total.unknown_frees > 0 {
        text += &format!("{} frees of blocks from before the recording\n", total.unknown_frees);
    }
    if total.failed > 0 {
        text += &format!("{} calls returned no memory\n", total.failed);
    }
    text
}

/// Time from the begin of the range.
fn offset(found: &HeapReport<'_>, time: i64) -> String {
    signed_duration(time.saturating_sub(found.range.0) as f64)
}

fn processes(found: &HeapReport<'_>) -> String {
    let programs = found.pass.programs.iter().zip(found.pass.heap.processes());
    let mut programs: Vec<(&ProgramOf, &ProcessSums)> =
        programs.filter(|(_, sums)| **sums != Default::default()).collect();
    if programs.len() < 2 {
        return String::new();
    }
    programs.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.peak.bytes));
    let beyond = programs.len().saturating_sub(found.args.limit);
    programs.truncate(found.args.limit);
    let head = ["process", "allocated", "blocks", "peak", "live", "leaked", "at exec", "inherited", "unknown frees"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (program, sums) in programs {
        lines.push(vec![
            format!("{}[{}]", program.name, program.pid),
            size(sums.allocated.bytes),
            sums.allocated.blocks.to_string(),
            size(sums.peak.bytes),
            size(sums.live.bytes),
            size(sums.leaked.bytes),
            size(sums.at_exec.bytes),
            size(sums.inherited.bytes),
            sums.unknown_frees.to_string(),
        ]);
    }
    let beyond = if beyond > 0 { format!("{beyond} more programs (--limit)\n") } else { String::new() };
    format!("\n{}{beyond}", table(&lines))
}

fn growth(found: &HeapReport<'_>) -> String {
    let head = ["until", "live", "blocks", "peak", "allocations", "frees"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for step in found.pass.heap.steps() {
        lines.push(vec![
            offset(found, step.end),
            size(step.live.bytes),
            step.live.blocks.to_string(),
            size(step.peak_bytes),
            step.allocations.to_string(),
            step.frees.to_string(),
        ]);
    }
    format!("\n{}", table(&lines))
}

fn stacks(found: &mut HeapReport<'_>) -> String {
    let all = found.stacks();
    let (whole, what) = (found.whole().bytes.max(1), found.args.what);
    let title = match what {
        Bytes::Peak => "by stack, when the heap was largest",
        Bytes::Live => "by stack, live at the end",
        Bytes::Leaked => "by stack, leaked",
        Bytes::Allocated => "by stack, allocated",
    };
    let mut text = format!("\n{}\n", paint(Style::Heading, title));
    for (stack, amount) in all.iter().take(found.args.limit) {
        let sums = found.pass.heap.stacks()[*stack as usize];
        let share = 100.0 * amount.bytes as f64 / whole as f64;
        text += &format!("{} ({share:.1} %) in {} blocks", size(amount.bytes), amount.blocks);
        let others = [
            (Bytes::Peak, "peak", sums.peak),
            (Bytes::Live, "live", sums.live),
            (Bytes::Leaked, "leaked", sums.leaked),
            (Bytes::Allocated, "allocated", sums.allocated),
        ];
        for (_, name, amount) in others.iter().filter(|(other, ..)| *other != what) {
            text += &format!(", {name} {}/{}", size(amount.bytes), amount.blocks);
        }
        text.push('\n');
        text += &frames(found, *stack);
    }
    let beyond = all.len().saturating_sub(found.args.limit);
    if beyond > 0 {
        text += &format!("{beyond} more stacks (--limit)\n");
    }
    if !found.pass.stacks.are_whole && !all.is_empty() {
        text += "stacks are the callers of the allocator only: record with --context callstack for more\n";
    }
    text
}

fn frames(found: &mut HeapReport<'_>, stack: u32) -> String {
    let frames = found.pass.stacks.frames(stack).to_vec();
    if frames.is_empty() {
        return format!("    {}\n", HeapReport::nameless(stack));
    }
    let line = |(position, place): (usize, AddressPlace)| {
        let name = found.name(place).unwrap_or_else(|| number(place));
        format!("    #{position} {name}\n")
    };
    frames.into_iter().enumerate().map(line).collect()
}
