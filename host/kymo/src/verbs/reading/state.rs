// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo state`: what a machine did at one moment of a trace.

mod moment;
mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_analyze::{Cpu, Doing, State, Thread};
use kymo_feed::Classes;
use kymo_index::range;

use super::analyze::feed::Input;
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::Times;
use super::analyze::when::{self, When};
use crate::verbs::args::{CpuArgs, OutputArgs, ThreadArgs, TraceArgs, ZoneArgs};
use moment::MachineMoment;

/// State at one moment: who ran on each CPU, and what each thread waited for
///
/// All records up to that time are taken into account, the one of that time too. What is doubtful is marked, as in
/// kymo-analyze(7), section 4. Needs the scheduler's events; with interrupts and system calls it tells more: kymo
/// record -k sched,irq,syscalls. With an index (kymo index) any moment of a large trace is there at once.
#[derive(clap::Args)]
#[command(mut_arg("cpu", |arg| arg.help("Only these CPUs, as 0-3,6, and the threads that run on them or wait for them")))]
#[command(mut_arg("thread", |arg| arg.help("Only threads with this number, or this name")))]
#[command(after_help = "Examples:\n  kymo state t --at +1.5s              the whole machine\n  \
    kymo state t --at +1.5s --cpu 1      one CPU, and the threads that wait for it\n  \
    kymo state t --at -0 --thread audio  a thread at the end of the trace\n\n\
    Exit status: 0 fine, 2 the trace cannot be opened, or has no such CPU or thread then.")]
pub struct StateArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// The moment: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 as --json prints them
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    at: When,
    #[command(flatten)]
    cpus: CpuArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

/// Runs the verb.
pub fn run(args: StateArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces)?;
    let classes = Classes::new(&input.traces);
    super::analyze::need_switches(&classes)?;
    let indexes = input.indexes();
    let (first, last) = input.bounds(&indexes).context("the trace has no records")?;
    let at = args.at.within("--at", first, last)?;
    let walker = range::state_before(&input.traces, &classes, &indexes, at.saturating_add(1));
    let state = &walker.state;
    if state.now().is_none() {
        bail!("the trace has no record of a kernel up to {at}: its first is later");
    }
    let found = MachineMoment {
        at,
        state,
        classes: &classes,
        functions: KernelFunctions::of(None, &input.traces),
        cpus: cpus(state, &args)?,
        threads: threads(state, &args)?,
    };
    let text = match args.output.json() {
        true => text::document(&found) + "\n",
        false => text::report(&found, &Times::new(&input.traces, args.zone.utc)),
    };
    args.output.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn cpus<'s>(state: &'s State, args: &StateArgs) -> anyhow::Result<Vec<&'s Cpu>> {
    let is_wanted = |cpu: &&Cpu| match args.cpus.list() {
        None => args.threads.thread.is_none(),
        Some(_) => args.cpus.has(cpu.number),
    };
    let cpus: Vec<&Cpu> = state.cpus().filter(is_wanted).collect();
    let missing =
        args.cpus.list().and_then(|list| list.iter().find(|number| !cpus.iter().any(|cpu| cpu.number == **number)));
    match missing {
        Some(number) => {
            let known: Vec<String> = state.cpus().map(|cpu| cpu.number.to_string()).collect();
            bail!("CPU {number} has written no record up to then; there are: {}", known.join(", "))
        }
        None => Ok(cpus),
    }
}

fn threads<'s>(state: &'s State, args: &StateArgs) -> anyhow::Result<Vec<&'s Thread>> {
    let has_name = |thread: &Thread| {
        let is_it = |wanted: &String| wanted.parse() == Ok(thread.tid) || thread.name.as_str() == wanted;
        args.threads.thread.as_ref().is_none_or(is_it)
    };
    let is_there = |thread: &Thread| match (args.cpus.list(), thread.doing) {
        (None, doing) => args.threads.thread.is_some() || doing != Doing::Ended,
        (Some(wanted), Doing::Running { cpu } | Doing::Runnable { cpu: Some(cpu), .. }) => wanted.contains(&cpu),
        (Some(_), _) => false,
    };
    let mut threads: Vec<&Thread> = state.threads().filter(|thread| has_name(thread) && is_there(thread)).collect();
    threads.sort_unstable_by_key(|thread| thread.tid);
    match &args.threads.thread {
        Some(name) if threads.is_empty() && args.cpus.list().is_none() => {
            bail!("no thread {name:?} is known then; `kymo stats --by thread` lists those of the trace")
        }
        _ => Ok(threads),
    }
}
