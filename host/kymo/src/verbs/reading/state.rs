// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo state`: what a machine did at one moment of a trace.

mod text;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_analyze::{Cpu, Doing, State, Thread};
use kymo_feed::Classes;
use kymo_index::range;

use super::analyze::feed::Input;
use super::analyze::show::Times;
use super::analyze::when::{self, When};

/// Show who ran on each CPU at one moment of a trace, and what each thread waited for
///
/// All records up to that time are taken into account, the one of that time too. What is doubtful is marked, as in
/// spec/analyze.md, section 4. Needs the scheduler's events; with interrupts and system calls it tells more: kymo
/// record -k sched,irq,syscalls. With an index (kymo index) any moment of a large trace is there at once.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo state t --at +1.5s              the whole machine\n  \
    kymo state t --at +1.5s --cpu 1      one CPU, and the threads that wait for it\n  \
    kymo state t --at -0 --thread audio  a thread at the end of the trace\n\n\
    Exit status: 0 fine, 2 the trace cannot be opened, or has no such CPU or thread then.")]
pub struct Args {
    /// Trace directories; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// When: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 as --json tells them
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    at: When,
    /// Only this CPU, and the threads that run on it or wait for it
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Only threads with this number, or this name
    #[arg(long, value_name = "TID|NAME")]
    thread: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// Times of day in UTC; otherwise in the local time zone
    #[arg(long)]
    utc: bool,
}

/// What is shown.
struct Found<'a> {
    at: i64,
    state: &'a State,
    classes: &'a Classes,
    cpus: Vec<&'a Cpu>,
    /// By number.
    threads: Vec<&'a Thread>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let input = Input::open(&args.dirs)?;
    let classes = Classes::new(&input.traces);
    super::analyze::need_switches(&classes)?;
    let indexes = input.indexes();
    let at = match args.at {
        When::At(ns) => ns,
        when => {
            let (first, last) = range::bounds(&input.traces, &indexes).context("the trace has no records")?;
            when.at(first, last)
        }
    };
    let walker = range::state_before(&input.traces, &classes, &indexes, at.saturating_add(1));
    let state = &walker.state;
    if state.now().is_none() {
        bail!("the trace has no record of a kernel up to {at}: its first is later");
    }
    let found = Found { at, state, classes: &classes, cpus: cpus(state, &args)?, threads: threads(state, &args)? };
    let text = match args.json {
        true => text::document(&found) + "\n",
        false => text::report(&found, &Times::new(&input.traces, args.utc)),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn cpus<'s>(state: &'s State, args: &Args) -> anyhow::Result<Vec<&'s Cpu>> {
    let is_wanted = |cpu: &&Cpu| args.cpu.map_or(args.thread.is_none(), |number| cpu.number == number);
    let cpus: Vec<&Cpu> = state.cpus().filter(is_wanted).collect();
    match args.cpu {
        Some(number) if cpus.is_empty() => {
            let known: Vec<String> = state.cpus().map(|cpu| cpu.number.to_string()).collect();
            bail!("CPU {number} has written no record up to then; there are: {}", known.join(", "))
        }
        _ => Ok(cpus),
    }
}

fn threads<'s>(state: &'s State, args: &Args) -> anyhow::Result<Vec<&'s Thread>> {
    let has_name = |thread: &Thread| {
        let is_it = |wanted: &String| wanted.parse() == Ok(thread.tid) || thread.name.as_str() == wanted;
        args.thread.as_ref().is_none_or(is_it)
    };
    let is_there = |thread: &Thread| match (args.cpu, thread.doing) {
        (None, doing) => args.thread.is_some() || doing != Doing::Ended,
        (Some(wanted), Doing::Running { cpu } | Doing::Runnable { cpu: Some(cpu), .. }) => cpu == wanted,
        (Some(_), _) => false,
    };
    let mut threads: Vec<&Thread> = state.threads().filter(|thread| has_name(thread) && is_there(thread)).collect();
    threads.sort_unstable_by_key(|thread| thread.tid);
    match &args.thread {
        Some(name) if threads.is_empty() && args.cpu.is_none() => {
            bail!("no thread {name:?} is known then; `kymo stats --by thread` lists those of the trace")
        }
        _ => Ok(threads),
    }
}
