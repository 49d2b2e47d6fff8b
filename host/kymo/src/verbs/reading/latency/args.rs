// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo latency`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use kymo_analyze::{Key, What};

use crate::verbs::args::{OutputArgs, RangeArgs, ScopeArgs, TraceArgs, ZoneArgs};
use crate::verbs::hosts::HostArgs;

/// Latencies in a trace: how many, quantiles, histogram, and the worst of each kind
///
/// Wake-ups, run-queue waits, interrupts, softirqs, timers, interrupts or preemption off, system calls, futexes with
/// owner, block and network requests come from the kernel's events (kymo record -k sched,irq,syscalls,timer,block,net);
/// spans from any events that the user names. Results that lost records, a clock that went back, or a missing event
/// have touched are counted as doubtful, and the worst are marked. What is measured from where to where:
/// kymo-analyze(7), section 5.
#[derive(clap::Args)]
#[command(mut_arg("filter", |arg| arg.help("Only latencies that end with a record for which the condition is true, such as `$cpu == 1`, \
    `ret < 0`, `req:end.id > 100` (repeatable: all must be true); the language is in kymo-filter(7)")))]
#[command(mut_arg("cpu", |arg| arg.help("Only latencies that end on these CPUs, as 0-3,6")))]
#[command(mut_arg("thread", |arg| arg.help("Only latencies of this thread: its number, or its name at that moment. Of interrupts, softirqs \
    and timers, those that came while it was current")))]
#[command(mut_arg("process", |arg| arg.help("Only latencies of the threads of this process: its number, or the name of its first thread")))]
#[command(mut_arg("from", |arg| arg.help("Only what ended from this time on: +1.5s from the begin of the trace, -1s from its end, or ns since \
    1970. Wake-ups, interrupts and calls have their whole length; requests, timers and spans must begin there too")))]
#[command(mut_arg("to", |arg| arg.help("Only what ended before this time [default: the end]")))]
#[command(after_help = "Examples:\n  kymo record -k sched,irq,syscalls -o t -- ./program; kymo latency t\n  \
    kymo latency t --what wakeup --by prio,cpu --limit 20\n  \
    kymo latency t --what syscall,futex --by thread\n  \
    kymo latency t --what wakeup --explain              the worst, and what their time went to\n  \
    kymo latency t --span 'req:begin, req:end'          begin and end in one thread\n  \
    kymo latency t --span 'req:begin, req:end, by=id'   in any threads, with the same id\n  \
    kymo latency t --span 'work, work_return' --by process   entry and return of a probed function\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such events.")]
pub struct LatencyArgs {
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Which: wakeup, runqueue, preempted, irq, vector, softirq-raise, softirq, timer, irqs-off, preempt-off, syscall,
    /// futex, block, net [default: all that the trace has]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = what)]
    pub(super) what: Vec<What>,
    /// From a record of event A to the next of event B of the same thread; with by=K of the same values of K instead,
    /// of any thread: fields, and contexts such as $pid, $cpu; by=*: of any thread (may be given several times). They
    /// nest: an end belongs to the newest begin. Alone, only spans are shown
    #[arg(long, value_name = "A,B[,by=K]")]
    pub(super) span: Vec<String>,
    /// Group by process, thread, prio, cpu or key; the key is the values of a span's fields. Addresses in keys are
    /// shown as functions, threads with their names. $pid, $tid, $prio, $cpu are the same
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = grouping())]
    pub(super) by: Vec<String>,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Show the N worst of each kind (of system calls only with --what syscall)
    #[arg(long, alias = "worst", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(super) limit: u16,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Also name the causes of the worst that are shown, as kymo explain does (of the 32 longest). Reads the trace
    /// again
    #[arg(long)]
    pub(super) explain: bool,
    /// Functions of the kernel: its System.map, or a copy of /proc/kallsyms [default: of this machine, where it is the
    /// same boot]
    #[arg(long, value_name = "FILE")]
    pub(super) symbols: Option<PathBuf>,
    /// Also show the histogram, where it is not empty
    #[arg(long)]
    pub(super) histogram: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) zone: ZoneArgs,
    #[command(flatten)]
    pub(super) hosts: HostArgs,
}

/// How filters write what latencies are grouped by.
pub(super) const CONTEXTS: [(&str, &str); 9] = [
    ("$pid", "process"),
    ("$vpid", "process"),
    ("$process", "process"),
    ("$tid", "thread"),
    ("$vtid", "thread"),
    ("$thread", "thread"),
    ("$prio", "prio"),
    ("$cpu", "cpu"),
    ("$cpu_id", "cpu"),
];

/// The words of --by.
pub(super) fn grouping() -> PossibleValuesParser {
    let words = ["process", "thread", "prio", "cpu", "key"].into_iter();
    let word = |word: &'static str| {
        let context = CONTEXTS.into_iter().filter(move |(_, known)| *known == word).map(|(context, _)| context);
        PossibleValue::new(word).aliases(context)
    };
    PossibleValuesParser::new(words.map(word))
}

pub(super) fn what(text: &str) -> Result<What, String> {
    let names =
        || What::ALL.iter().map(|(_, name)| *name).filter(|name| *name != "span").collect::<Vec<_>>().join(", ");
    let found = What::ALL.iter().find(|(what, name)| *name == text && *what != What::Span);
    found.map(|(what, _)| *what).ok_or_else(|| format!("there is {}; for spans of your own: --span", names()))
}

/// Whether the worst of a row are shown: there may be a hundred system calls; whoever wants their worst asks for them.
pub(super) fn shows_worst(key: &Key, args: &LatencyArgs) -> bool {
    key.what != What::Syscall || !args.what.is_empty()
}
