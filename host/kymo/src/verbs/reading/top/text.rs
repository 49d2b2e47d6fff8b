// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who used what, as text: a table for each part, then what qualifies the numbers.

use std::cmp::Reverse;

use kymo_analyze::usage::{Actor, FileName, FileUse, ThreadUse, Transfers};
use kymo_analyze::{Doubt, Interrupt, Of};

use super::parts::{NO_SWITCHES, Part, Sort};
use super::report::{TopReport, file_label};
use crate::verbs::analyze::show::{Times, duration, size, table};
use kymo_command::terminal::{Style, paint};

/// Unknown time is told from this share of a stretch on: a switch takes its time, too.
const UNKNOWN_MIN: f64 = 1e-4;

/// The whole report.
pub fn report(found: &TopReport<'_>, times: &Times) -> String {
    let Some((from, to)) = found.usage.stretch() else {
        return "the trace has no record of that there\n".to_owned();
    };
    let mut text = format!("{} from {} to {}\n", duration(to.abs_diff(from)), times.text(from), times.text(to));
    for part in &found.parts {
        let lines = match part {
            Part::Cpu => cpus(found),
            Part::Process => processes(found),
            Part::Thread => threads(found),
            Part::Irq => interrupts(found, "irq", is_hard),
            Part::Softirq => interrupts(found, "softirq", |interrupt| !is_hard(interrupt)),
            Part::Device => devices(found),
            Part::File => files(found),
            Part::Function => functions(found),
        };
        text.push('\n');
        text += &match lines.len() {
            1 => format!("{}: none\n", part.name()),
            _ => table(&lines),
        };
    }
    text + &notes(found)
}

pub(super) fn is_hard(interrupt: Interrupt) -> bool {
    interrupt.is_hard()
}

fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// ns as a share of the stretch.
fn share(found: &TopReport<'_>, ns: u64) -> f64 {
    let stretch_ns = found.usage.stretch().map_or(0, |(from, to)| to.abs_diff(from));
    ns as f64 / stretch_ns.max(1) as f64
}

fn percent(found: &TopReport<'_>, ns: u64) -> String {
    format!("{:.1}", share(found, ns) * 100.0)
}

fn cpus(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let mut lines = vec![words(&["cpu", "busy %", "threads", "interrupts", "others", "idle", "unknown", "runs"])];
    for (number, used) in found.usage.cpus() {
        lines.push(vec![
            format!("cpu {number}"),
            percent(found, used.busy_ns()),
            duration(used.thread_ns),
            duration(used.interrupt_ns),
            duration(used.other_ns),
            duration(used.idle_ns),
            duration(used.unknown_ns),
            used.runs.to_string(),
        ]);
    }
    if found.is_everybody {
        lines.iter_mut().for_each(|line| drop(line.remove(4)));
    }
    lines
}

/// What rows of threads and processes are sorted by, the most first.
pub(super) fn rank(sort: Sort, actor: &Actor, used: &ThreadUse) -> (Reverse<u64>, Reverse<u64>, Actor) {
    let io = used.calls.bytes().saturating_add(used.disk.bytes());
    match sort {
        Sort::Cpu => (Reverse(used.cpu.ns), Reverse(io), *actor),
        Sort::Io => (Reverse(io), Reverse(used.cpu.ns), *actor),
    }
}

/// The threads that used something, in the order of the report.
pub(super) fn ranked_threads<'a>(found: &'a TopReport<'_>) -> Vec<(&'a Actor, &'a ThreadUse)> {
    let mut all: Vec<_> = found.usage.threads().collect();
    all.sort_by_key(|(actor, used)| rank(found.sort, actor, used));
    all
}

/// The same of processes.
pub(super) fn ranked_processes(found: &TopReport<'_>) -> Vec<(Actor, ThreadUse, usize)> {
    let mut all = found.usage.processes();
    all.sort_by_key(|(actor, used, _)| rank(found.sort, actor, used));
    all
}

/// Idle, a name and number, or what is known of these.
fn label(actor: &Actor) -> String {
    match (actor.tid, actor.name.is_empty()) {
        (0, _) => "idle".to_owned(),
        (..0, true) => "(unknown)".to_owned(),
        (..0, false) => actor.name.to_string(),
        (tid, true) => format!("[{tid}]"),
        (tid, false) => format!("{}[{tid}]", actor.name),
    }
}

fn head(found: &TopReport<'_>, first: &[&str]) -> Vec<String> {
    let mut cells = words(&first[..1]);
    if found.recorded.facts.switches {
        cells.extend(words(&first[1..]));
        cells.extend(words(&["cpu time", "cpu %", "interrupts", "runs", "longest"]));
    }
    if found.recorded.has_transfers {
        cells.extend(words(&["read", "written", "failed"]));
    }
    if found.recorded.facts.requests {
        cells.extend(words(&["disk read", "disk written"]));
    }
    cells
}

/// The cells of what a thread or process used. `first`: its label, and what stands behind it if CPU time is known.
fn cells(found: &TopReport<'_>, first: Vec<String>, used: &ThreadUse) -> Vec<String> {
    let count = if found.recorded.facts.switches { first.len() } else { 1 };
    let mut cells: Vec<String> = first.into_iter().take(count).collect();
    if found.recorded.facts.switches {
        let time = &used.cpu;
        let mark = if time.doubtful_ns > 0 { "~" } else { "" };
        cells.extend([
            format!("{mark}{}", duration(time.ns)),
            percent(found, time.ns),
            duration(time.interrupted_ns),
            time.runs.to_string(),
            duration(time.longest_ns),
        ]);
    }
    if found.recorded.has_transfers {
        cells.extend(moved(&used.calls));
        cells.push(used.calls.errors.to_string());
    }
    if found.recorded.facts.requests {
        cells.extend(moved(&used.disk));
    }
    cells
}

/// Bytes that were read and written.
fn moved(transfers: &Transfers) -> [String; 2] {
    let mark = if transfers.doubtful > 0 { "~" } else { "" };
    [transfers.read_bytes, transfers.written_bytes].map(|bytes| format!("{mark}{}", size(bytes)))
}

fn processes(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let mut lines = vec![head(found, &["process", "threads"])];
    for (actor, used, threads) in ranked_processes(found).into_iter().take(found.limit) {
        lines.push(cells(found, vec![label(&actor), threads.to_string()], &used));
    }
    lines
}

fn threads(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let mut lines = vec![head(found, &["thread"])];
    for (actor, used) in ranked_threads(found).into_iter().take(found.limit) {
        lines.push(cells(found, vec![label(actor)], used));
    }
    if found.recorded.facts.switches && found.is_everybody {
        let idle_ns = found.usage.cpus().map(|(_, used)| used.idle_ns).fold(0, u64::saturating_add);
        lines.push(vec!["idle".to_owned(), duration(idle_ns), percent(found, idle_ns)]);
    }
    lines
}

fn interrupts(found: &TopReport<'_>, title: &str, is_listed: impl Fn(Interrupt) -> bool) -> Vec<Vec<String>> {
    let mut all: Vec<_> = found.usage.interrupts().filter(|(interrupt, ..)| is_listed(*interrupt)).collect();
    all.sort_by_key(|(interrupt, name, of)| (Reverse(of.total_ns), Reverse(of.count), *interrupt, *name));
    let mut lines = vec![words(&[title, "count", "total", "cpu %", "mean", "longest", "doubtful"])];
    for (interrupt, name, of) in all.into_iter().take(found.limit) {
        let label = found.names.of(Of::Interrupt(interrupt, name));
        lines.push(vec![
            label.trim_start_matches("softirq ").to_owned(),
            of.count.to_string(),
            duration(of.total_ns),
            percent(found, of.total_ns),
            duration(of.mean_ns()),
            duration(of.longest_ns),
            of.doubtful.to_string(),
        ]);
    }
    lines
}

fn devices(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let mut all: Vec<_> = found.usage.devices().collect();
    all.sort_by_key(|(number, device)| (Reverse(device.transfers.bytes()), *number));
    let mut lines = vec![words(&["device", "requests", "read", "written", "others", "mean", "longest"])];
    for (number, device) in all.into_iter().take(found.limit) {
        let [read, written] = moved(&device.transfers);
        let is_timed = device.times.count > 0;
        let time = |ns: u64| if is_timed { duration(ns) } else { "-".to_owned() };
        lines.push(vec![
            found.names.of(Of::Device(number)),
            device.transfers.count().to_string(),
            read,
            written,
            device.transfers.others.to_string(),
            time(device.times.mean_ns()),
            time(device.times.longest_ns),
        ]);
    }
    lines
}

fn functions(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let all_ns: u64 = found.functions.iter().map(|function| function.self_ns).fold(0, u64::saturating_add);
    let share = |ns: u64| format!("{:.1}", ns as f64 * 100.0 / all_ns.max(1) as f64);
    let mut lines = vec![words(&["function", "samples", "self", "self %", "total", "total %"])];
    for function in found.functions.iter().take(found.limit) {
        lines.push(vec![
            function.name.clone(),
            function.samples.to_string(),
            duration(function.self_ns),
            share(function.self_ns),
            duration(function.total_ns),
            share(function.total_ns),
        ]);
    }
    lines
}

/// Files with most bytes first.
pub(super) fn ranked_files(found: &TopReport<'_>) -> Vec<FileUse> {
    let mut all = found.usage.files();
    all.sort_by_key(|file| (Reverse(file.transfers.bytes()), Reverse(file.transfers.count())));
    all
}

fn files(found: &TopReport<'_>) -> Vec<Vec<String>> {
    let mut lines = vec![words(&["file", "read", "written", "reads", "writes", "failed"])];
    for file in ranked_files(found).into_iter().take(found.limit) {
        let [read, written] = moved(&file.transfers);
        let counts =
            [file.transfers.reads, file.transfers.writes, file.transfers.errors].map(|count| count.to_string());
        lines.push([file_label(&file.name), read, written].into_iter().chain(counts).collect());
    }
    lines
}

/// What qualifies the numbers.
fn notes(found: &TopReport<'_>) -> String {
    let mut lines: Vec<String> = found.missing.iter().map(|(part, why)| format!("{}: {why}", part.name())).collect();
    let has_rows = found.parts.iter().any(|part| matches!(part, Part::Process | Part::Thread));
    if has_rows && !found.recorded.facts.switches {
        lines.push(format!("cpu time: {NO_SWITCHES}"));
    }
    if found.recorded.is_restricted {
        lines.push(
            "recorded with --only: only times of the recorded processes are whole; idle, other threads and interrupts \
             were recorded in part"
                .to_owned(),
        );
    }
    if !found.totals.lost.is_none() {
        let lost = paint(Style::Alarm, &found.totals.lost.text());
        lines.push(format!("{lost}: sums of interrupts, requests and system calls are lower bounds"));
    }
    if found.recorded.facts.switches {
        lines.extend(unknown(found));
    }
    lines.extend(doubts(found));
    lines.extend(left_out(found));
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// Time in which it is not known who ran, and what was concluded.
fn unknown(found: &TopReport<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut unknown_ns = 0u64;
    for (number, used) in found.usage.cpus() {
        unknown_ns = unknown_ns.saturating_add(used.unknown_ns);
        match used.has_records {
            false => lines.push(format!("cpu {number} has no records: what it did is not known")),
            true if share(found, used.unknown_ns) >= UNKNOWN_MIN => {
                let (time, percent) = (duration(used.unknown_ns), percent(found, used.unknown_ns));
                lines.push(format!("cpu {number}: who ran is not known for {time} ({percent} %)"));
            }
            true => {}
        }
    }
    if !lines.is_empty() {
        lines.push(format!("cpu times are lower bounds: {} of all CPUs' time is not known", duration(unknown_ns)));
    }
    let inferred_ns = found.usage.cpus().map(|(_, used)| used.inferred_ns).fold(0, u64::saturating_add);
    if inferred_ns > 0 {
        lines.push(format!(
            "{} were before a CPU's first record: whoever that shows has run until then",
            duration(inferred_ns)
        ));
    }
    lines
}

/// Marks of rows.
fn doubts(found: &TopReport<'_>) -> Vec<String> {
    let of_threads = found.usage.threads().map(|(_, used)| used.cpu.doubt | used.calls.doubt | used.disk.doubt);
    let of_files = found.usage.files().into_iter().map(|file| file.transfers.doubt);
    let doubt = of_threads.chain(of_files).fold(Doubt::NONE, |all, doubt| all | doubt);
    let mut lines = Vec::new();
    if !doubt.is_none() {
        lines.push(format!("~ doubtful in part, by mark: {doubt} (kymo-analyze(7), section 4)"));
    }
    if found.clock_backs > 0 {
        lines.push(format!("time went back at {} records: what they touch is marked clock", found.clock_backs));
    }
    lines
}

/// What is not in the tables.
fn left_out(found: &TopReport<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let (open, dropped) = found.usage.open_requests();
    if open > 0 {
        lines.push(format!("{open} block requests were not done at the end"));
    }
    let alone: u64 = found.usage.devices().map(|(_, device)| device.without_issue).sum();
    if alone > 0 {
        lines.push(format!("{alone} block requests were issued before the trace: who did is not known"));
    }
    if found.samples_left_out > 0 {
        lines.push(format!("{} samples have too many different call stacks, and are left out", found.samples_left_out));
    }
    let nameless = found.usage.files().iter().filter(|file| matches!(file.name, FileName::Descriptor { .. })).count();
    if nameless > 0 && found.parts.contains(&Part::File) {
        lines.push(format!(
            "{nameless} rows are descriptors without a path, each perhaps of several files, one after the other: a path is \
             known of files that were open when recording began or ended (kymo record --state-dump full), and where the \
             system call's record has it"
        ));
    }
    let files = found.usage.files_left_out();
    if dropped + files > 0 {
        lines.push(format!("too many at a time: {dropped} block requests, {files} files were left out"));
    }
    lines
}
