// SPDX-License-Identifier: MIT OR Apache-2.0
//! `? usage [from=NS] [to=NS] [cpu=N] [thread=TID|NAME] [process=PID|NAME]`: who used what, as text.

use std::fmt::Write as _;

use kymo_analyze::State;
use kymo_analyze::usage::{Actor, Choice, CpuUse, FileName, Told, Transfers, Usage, UsageScope};

use super::{Item, Trace};

/// All that was used in a trace.
pub fn text(trace: &Trace, words: &[&str]) -> String {
    let usage = of(trace, scope(words));
    let mut out = String::new();
    let Some((from, to)) = usage.stretch() else { return "nothing\n".to_owned() };
    let stretch_ns = to.abs_diff(from);
    writeln!(out, "{from}..{to}").unwrap();
    for (number, used) in usage.cpus() {
        writeln!(out, "cpu {number}: {}", cpu(used)).unwrap();
        let parts = [used.thread_ns, used.interrupt_ns, used.other_ns, used.idle_ns, used.unknown_ns];
        assert_eq!(parts.iter().sum::<u64>(), stretch_ns, "the parts of cpu {number} sum up to the stretch");
    }
    let mut threads: Vec<_> = usage.threads().collect();
    threads.sort_by_key(|(actor, _)| **actor);
    for (actor, used) in threads {
        let time = used.cpu;
        let marks: Vec<&str> = time.doubt.names().collect();
        let marks =
            if marks.is_empty() { String::new() } else { format!(", {} [{}]", time.doubtful_ns, marks.join(",")) };
        let (ns, interrupted) = (time.ns, time.interrupted_ns);
        let who = who(actor);
        writeln!(
            out,
            "{who}: {ns} ns, {interrupted} in interrupts, {} runs, longest {}{marks}{}{}",
            time.runs,
            time.longest_ns,
            transfers(", calls", &used.calls),
            transfers(", disk", &used.disk)
        )
        .unwrap();
    }
    for (process, used, threads) in usage.processes() {
        writeln!(out, "process {}[{}]: {} ns, {threads} threads", process.name, process.tid, used.cpu.ns).unwrap();
    }
    out + &devices(&usage)
}

fn devices(usage: &Usage) -> String {
    let mut out = String::new();
    for (interrupt, name, of) in usage.interrupts() {
        let doubt = if of.doubtful > 0 { format!(", {} doubtful", of.doubtful) } else { String::new() };
        let (count, total, mean, longest) = (of.count, of.total_ns, of.mean_ns(), of.longest_ns);
        writeln!(out, "{interrupt} {name}: {count}, total {total}, mean {mean}, longest {longest}{doubt}").unwrap();
    }
    for (number, device) in usage.devices() {
        let (times, alone) = (device.times, device.without_issue);
        let (mean, longest) = (times.mean_ns(), times.longest_ns);
        let transfers = transfers("", &device.transfers);
        writeln!(out, "device {number}:{transfers}, mean {mean}, longest {longest}, {alone} without issue").unwrap();
    }
    for file in usage.files() {
        let name = match file.name {
            FileName::Path(path) => path,
            FileName::Descriptor { process, process_name, fd, made_by } => {
                format!("fd {fd} of {process_name}[{process}] {made_by}").trim_end().to_owned()
            }
        };
        writeln!(out, "file {name}:{}", transfers("", &file.transfers)).unwrap();
    }
    let (open, lost) = (usage.open_requests().0, usage.lost_places());
    if open + lost > 0 {
        writeln!(out, "{open} open requests, lost in {lost} places").unwrap();
    }
    out
}

fn cpu(used: &CpuUse) -> String {
    let CpuUse { thread_ns, interrupt_ns, other_ns, idle_ns, unknown_ns, inferred_ns, runs, has_records } = *used;
    let none = if has_records { "" } else { ", no records" };
    format!(
        "threads {thread_ns}, interrupts {interrupt_ns}, others {other_ns}, idle {idle_ns}, unknown {unknown_ns}, \
         inferred {inferred_ns}, {runs} runs{none}"
    )
}

fn who(actor: &Actor) -> String {
    let process = actor.process.map_or("?".to_owned(), |process| process.to_string());
    format!("{}[{}] of {}[{process}]", actor.name, actor.tid, actor.process_name)
}

fn transfers(title: &str, of: &Transfers) -> String {
    if of.count() == 0 {
        return String::new();
    }
    let others = if of.others > 0 { format!(", {} others", of.others) } else { String::new() };
    let errors = if of.errors > 0 { format!(", {} failed", of.errors) } else { String::new() };
    let doubt = if of.doubtful > 0 { format!(", {} doubtful", of.doubtful) } else { String::new() };
    format!(
        "{title} read {} in {}, written {} in {}{others}{errors}{doubt}",
        of.read_bytes, of.reads, of.written_bytes, of.writes
    )
}

fn scope(words: &[&str]) -> UsageScope {
    let mut scope = UsageScope::default();
    for (name, value) in words.iter().map(|word| word.split_once('=').expect("NAME=VALUE")) {
        match name {
            "from" => scope.from = value.parse().unwrap(),
            "to" => scope.to = value.parse().unwrap(),
            "cpu" => scope.cpus = Some(vec![value.parse().unwrap()]),
            "thread" => scope.thread = Some(Choice::parse(value)),
            "process" => scope.process = Some(Choice::parse(value)),
            other => panic!("no such part of a scope: {other}"),
        }
    }
    scope
}

fn of(trace: &Trace, scope: UsageScope) -> Usage {
    let to = scope.to;
    let mut usage = Usage::new(scope, &trace.vocabulary);
    let mut told = Told::new(&trace.classes);
    let mut state = State::new(&trace.vocabulary);
    for (index, item) in trace.items.iter().enumerate() {
        if let Item::Record(line) = item {
            if line.head.time >= to {
                break;
            }
            told.record(line.class, &line.head, line, &state, &mut usage);
            usage.check(&line.head, &state);
        }
        trace.play(&mut state, index..index + 1, &mut usage);
    }
    state.finish(Some(to).filter(|to| *to < i64::MAX), &mut usage);
    usage.finish(&state);
    usage
}
