// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo functions`: calls of functions as a tree for each thread, as sums, and as a flame graph. The calls are put
//! together by
//! `kymo_analyze::functions`.

mod calls;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_export::export::stacks::is_call;
use kymo_index::{Indexes, range};

use super::analyze::feed::Input;
use crate::verbs::args::{OutputArgs, ThreadArgs, TraceArgs};

/// Call tree of functions: who called whom, how long it took, flame graph
///
/// Needs entries and exits of functions: of programs compiled with -finstrument-functions (kymo record --with
/// functions, or LTTng's lttng-ust-cyg-profile), or of the kernel (an import of function_graph). Times contain what the
/// instrumentation costs. Which code used the CPU, by samples and without instrumentation: kymo record -k
/// sched,perf:cpu-clock, and kymo top --by function; a flame graph of samples: kymo export --format collapsed.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  gcc -finstrument-functions -g prog.c -o prog && kymo record --with functions -o t -- ./prog\n  \
    kymo functions t                         tree and sums of each thread\n  \
    kymo functions t --thread main --svg t.svg\n  \
    kymo functions t --collapsed - | less\n\n\
    Calls that are not whole are marked: c without exit (longjmp, exception), b begun before the trace, o open at its end,\n\
    ~ with lost records in it.\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such records."
)]
pub struct FunctionsArgs {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Leave out of the tree what has less than this share of its thread's time, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    min: f64,
    /// Show only the N functions with most time of their own below each tree
    #[arg(long, alias = "top", value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Write a flame graph of all threads, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write `a;b;c NS` lines, as flame graph tools read them; `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    collapsed: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(args: FunctionsArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces)?;
    let has = |of: fn(&str) -> bool| {
        input.traces.iter().flat_map(|trace| &trace.metadata.events).any(|event| of(&event.name))
    };
    if !has(is_call) {
        let samples = match has(|name| name == kymo_feed::SAMPLE) {
            true => "; it has samples: `kymo top --by function` says which functions used the CPU",
            false => "",
        };
        bail!(
            "the trace has no entries of functions: record a program that was compiled with -finstrument-functions \
             (kymo record --with functions), or import a function_graph (kymo import){samples}"
        );
    }
    let [from, to] = input.common().map_or([None, None], |(from, to)| [Some(from.into()), Some(to.into())]);
    let indexes = if from.is_some() { input.indexes() } else { Indexes::default() };
    let mut reader = range::reader(&input.traces, &indexes, from, to);
    let mut found = calls::read(&input.traces, &mut reader)?;
    let wanted = args.threads.thread.as_ref();
    if !found.calls.trees().iter().any(|tree| found.is_wanted(&tree.thread, wanted)) {
        bail!(
            "no thread {:?} has called a function; `kymo stats --by thread` lists threads",
            wanted.map_or("", |name| name)
        );
    }
    if let Some(path) = &args.svg {
        let text = show::svg(&mut found, wanted);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("kymo: flame graph in {}", path.display());
    }
    let text = match (&args.collapsed, args.output.json()) {
        (Some(path), _) => {
            let text = show::collapsed(&mut found, wanted);
            if path.as_os_str() != "-" {
                std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
                String::new()
            } else {
                text
            }
        }
        (None, true) => show::document(&mut found, wanted) + "\n",
        (None, false) => show::report(&mut found, wanted, args.min, args.limit),
    };
    args.output.print(&text)?;
    found.symbols.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    Ok(super::analyze::damage(&input, &reader))
}
