// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo top`: who used CPUs, devices and files, and how much; interrupts by number. The sums are
//! `kymo_analyze::usage`'s.

mod functions;
mod json;
mod parts;
mod report;
mod text;

use std::process::ExitCode;

use kymo_analyze::usage::{Choice, Told, Usage, UsageScope};
use kymo_analyze::{CallSpan, CpuSpan, Event, Head, InterruptSpan, Sink, State, Thread, ThreadSpan, Threads};
use kymo_ctf::read::Reader;
use kymo_feed::{Choose as _, Walker, is_by_writer};
use kymo_index::{Indexes, Named, range};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, ReadRange, Seen, Totals, Visit};
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::{NameTable, Times};
use super::symbols::Symbolizer;
use crate::verbs::args::{CpuArgs, FilterArgs, OutputArgs, RangeArgs, ThreadArgs, TraceArgs, ZoneArgs};
use functions::{FunctionUse, SampledFunctions};
use parts::{Part, RecordedEvents, Sort, parts};
use report::TopReport;

/// Usage: CPU time by thread, process and function; interrupts; I/O by device and file
///
/// CPU time and interrupts come from the kernel's events, I/O from block requests and system calls, functions from
/// samples: kymo record -k sched,irq,block,syscalls,perf:cpu-clock. Percent are of one CPU. What ran over the begin or
/// end of the stretch is cut to it. Time in which it is not known who ran is unknown, and belongs to nobody: times of
/// threads are then lower bounds. Threads and processes have the name that they had at that time: one that changes its
/// name has several rows. What is counted how: kymo-analyze(7), section 14.
#[derive(clap::Args)]
#[command(mut_arg("filter", |arg| arg.help("Only what ends with a record for which the condition is true: runs of threads with the switch behind them, \
    interrupts, requests and system calls with the record of their end, samples (`ret > 4096`, `$prio < 100`; repeatable: all must be true); \
    the language is in kymo-filter(7)")))]
#[command(mut_arg("cpu", |arg| arg.help("Only what these CPUs did, as 0-3,6. A block request belongs to the CPU that issued it")))]
#[command(mut_arg("thread", |arg| arg.help("Only what this thread used: its number, or its name")))]
#[command(mut_arg("from", |arg| arg.help("Only from this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 as --json prints \
    them [default: the begin]. Requests and system calls count if they end in the stretch")))]
#[command(after_help = "Examples:\n  kymo record -k sched,irq,block,syscalls -o t -- ./program; kymo top t\n  \
    kymo top t --by thread --limit 20             the 20 threads with most CPU time\n  \
    kymo top t --by thread,file --sort io         who read and wrote most, and which files\n  \
    kymo top t --by thread,file --filter 'ret > 65536'   by large reads and writes alone\n  \
    kymo top t --by cpu,irq --from +1s --to +2s   one second of it\n  \
    kymo record -k sched,perf:cpu-clock -o t -- ./program; kymo top t --by function\n  \
    kymo top t --by function --process postgres --json\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such events.")]
pub struct TopArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Show only these parts: cpu, process, thread, function, irq, softirq, device, file [default: all that the trace
    /// has]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, hide_possible_values = true)]
    by: Vec<Part>,
    /// Sort processes and threads by CPU time (cpu), or by bytes that they read and wrote (io) [default: cpu, or io if
    /// the trace has no CPU time]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    sort: Option<Sort>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    cpus: CpuArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Only what this process used: its number, or its name
    #[arg(long, value_name = "PID|NAME")]
    process: Option<String>,
    /// Show the N with most of each part [default: 10; all with --json]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

/// All that is asked of one pass over the records.
struct TopPass {
    usage: Usage,
    told: Told,
    functions: SampledFunctions,
}

impl Visit for TopPass {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.usage.take(seen.is_selected);
        self.told.record(seen.class, &seen.head, &Payload(seen.record.payload), state, &mut self.usage);
        if is_by_writer(seen.record.stream) {
            self.usage.check(&seen.head, state);
        }
        self.functions.record(seen, state, &self.usage);
    }
}

impl Sink for TopPass {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.usage.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.usage.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.usage.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.usage.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.usage.call(span, thread);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.usage.lost(cpu, from, to);
    }
}

/// Runs the verb.
pub fn run(args: TopArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces)?;
    let classes = Classes::new(&input.traces);
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, args.range.from, args.range.to)?;
    let scope = scope(&args, stretch);
    let mut chosen = Chosen::new(&input.traces, &args.filters.filter)?;
    let is_everybody = scope.is_everybody() && chosen.is_all();
    let usage = Usage::new(scope, &classes.vocabulary);
    let recorded = RecordedEvents {
        facts: classes.vocabulary.facts(),
        has_transfers: usage.has_transfers(),
        has_samples: classes.list.iter().any(|class| class.name == kymo_feed::SAMPLE),
        is_restricted: is_restricted(&input.named),
    };
    let (parts, missing) = parts(&args.by, &recorded)?;
    let usage = if recorded.is_restricted { usage.without_begin() } else { usage };
    let mut pass = TopPass { usage, told: Told::new(&classes.list), functions: SampledFunctions::default() };
    let (state, totals, reader) = walk((&input, &classes, &indexes), stretch, &mut chosen, &mut pass);
    let default_sort = if recorded.facts.switches { Sort::Cpu } else { Sort::Io };
    let devices = pass.told.devices().clone();
    let functions = match parts.contains(&Part::Function) {
        true => functions_of(&pass.functions, &input)?,
        false => Vec::new(),
    };
    let kernel = KernelFunctions::of(None, &input.traces);
    let found = TopReport {
        usage: &pass.usage,
        names: NameTable { vocabulary: &classes.vocabulary, devices, spans: &[], keys: &[], functions: &kernel },
        functions,
        samples_left_out: pass.functions.left_out(),
        recorded: &recorded,
        parts,
        missing,
        sort: args.sort.unwrap_or(default_sort),
        limit: args.limit.unwrap_or(if args.output.json() { usize::MAX } else { 10 }),
        is_everybody,
        totals,
        clock_backs: state.clock_backs(),
    };
    let text = match args.output.json() {
        true => json::document(&found) + "\n",
        false => text::report(&found, &Times::new(&input.traces, args.zone.utc)),
    };
    args.output.print(&text)?;
    Ok(super::analyze::damage(&input, &reader))
}

/// Goes through the records up to the end of the stretch. Totals are those of the stretch.
fn walk<'t>(
    (input, classes, indexes): (&'t Input, &Classes, &Indexes),
    stretch: Option<ReadRange>,
    chosen: &mut Chosen,
    pass: &mut TopPass,
) -> (State, Totals, Reader<'t>) {
    let mut walker = Walker::new(classes);
    if let Some(stretch) = stretch {
        // Which files are open is known only from the begin on.
        let mut before = range::reader(&input.traces, indexes, None, Some(stretch.from.into()));
        walker.go(&mut before, chosen, pass);
        walker.begin_range(stretch.from);
    }
    let (from, to) = (stretch.map(|stretch| stretch.from.into()), stretch.map(|stretch| stretch.to.into()));
    let mut reader = range::reader(&input.traces, indexes, from, to);
    walker.go(&mut reader, chosen, pass);
    chosen.conclude();
    // What ends with the stretch ends with no record.
    pass.usage.take(chosen.is_all());
    let (mut state, totals) = (walker.state, walker.totals);
    state.finish(stretch.and_then(|stretch| stretch.end()), pass);
    pass.usage.finish(&state);
    (state, totals, reader)
}

/// What samples were of; says on standard error why some functions have no name.
fn functions_of(sampled: &SampledFunctions, input: &Input) -> anyhow::Result<Vec<FunctionUse>> {
    let mut symbols = Symbolizer::new(None, &input.traces)?;
    symbols.learn_all(&input.traces)?;
    let functions = sampled.named(&mut symbols);
    symbols.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    Ok(functions)
}

fn scope(args: &TopArgs, stretch: Option<ReadRange>) -> UsageScope {
    let choice = |text: &Option<String>| text.as_deref().map(Choice::parse);
    UsageScope {
        from: stretch.map_or(i64::MIN, |stretch| stretch.from),
        to: stretch.map_or(i64::MAX, |stretch| stretch.to),
        cpus: args.cpus.list().map(<[u32]>::to_vec),
        thread: choice(&args.threads.thread),
        process: choice(&args.process),
    }
}

/// Whether only chosen processes were recorded.
pub fn is_restricted(named: &[Named]) -> bool {
    named.iter().flat_map(|named| &named.parts).any(|dir| {
        let text = std::fs::read_to_string(dir.join(".kymo.json")).unwrap_or_default();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        summary["kernel"]["only"] == true
    })
}
