// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo top`: who used CPUs, devices and files, and how much; interrupts by number. The sums are
//! `kymo_analyze::usage`'s.

mod functions;
mod json;
mod text;

use std::process::ExitCode;

use anyhow::bail;
use kymo_analyze::usage::{Choice, Told, Usage, UsageScope};
use kymo_analyze::{CallSpan, CpuSpan, Event, Facts, Head, InterruptSpan, Sink, State, Thread, ThreadSpan, Threads};
use kymo_ctf::read::Reader;
use kymo_feed::{Walker, is_by_writer};
use kymo_index::{Indexes, Named, range};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, ReadRange, Seen, Totals, Visit};
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::{NameTable, Times};
use super::symbols::Symbolizer;
use crate::verbs::args::{CpuArgs, FilterArgs, OutputArgs, RangeArgs, ThreadArgs, TraceArgs, ZoneArgs};
use functions::{FunctionUse, SampledFunctions};

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

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// CPUs
    #[value(aliases = ["$cpu", "$cpu_id"])]
    Cpu,
    /// Processes
    #[value(aliases = ["$pid", "$vpid", "$process"])]
    Process,
    /// Threads
    #[value(aliases = ["$tid", "$vtid", "$thread"])]
    Thread,
    /// Interrupts of devices, and of the processor's own
    Irq,
    /// Softirqs
    Softirq,
    /// Block devices
    Device,
    /// Files
    File,
    /// Functions, by samples
    Function,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// CPU time
    Cpu,
    /// Bytes
    Io,
}

impl Part {
    const ALL: [Part; 8] =
        [Part::Cpu, Part::Process, Part::Thread, Part::Function, Part::Irq, Part::Softirq, Part::Device, Part::File];

    fn name(self) -> &'static str {
        match self {
            Part::Cpu => "cpu",
            Part::Process => "process",
            Part::Thread => "thread",
            Part::Irq => "irq",
            Part::Softirq => "softirq",
            Part::Device => "device",
            Part::File => "file",
            Part::Function => "function",
        }
    }

    /// Why the trace says nothing of it, if so.
    fn missing(self, recorded: &RecordedEvents) -> Option<&'static str> {
        let has_io = recorded.has_transfers || recorded.facts.requests;
        let (is_there, why) = match self {
            Part::Cpu => (recorded.facts.switches, NO_SWITCHES),
            Part::Process | Part::Thread => (recorded.facts.switches || has_io, NO_SWITCHES),
            Part::Irq => (recorded.facts.hard_interrupts, "no interrupt events: record with -k irq"),
            Part::Softirq => (recorded.facts.softirqs, "no softirq events: record with -k irq"),
            Part::Device => (recorded.facts.requests, "no block events: record with -k block"),
            Part::Function => (recorded.has_samples, "no samples: record with -k perf:cpu-clock"),
            Part::File => (recorded.has_transfers, "no system calls that read or write: record with -k syscalls"),
        };
        (!is_there).then_some(why)
    }
}

const NO_SWITCHES: &str = "no sched events: record with -k sched";

/// Which events the trace has.
struct RecordedEvents {
    facts: Facts,
    has_transfers: bool,
    has_samples: bool,
    /// Of chosen processes only.
    is_restricted: bool,
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

/// What was found, for those who print it.
struct TopReport<'a> {
    usage: &'a Usage,
    names: NameTable<'a>,
    /// Those with most time of their own first.
    functions: Vec<FunctionUse>,
    samples_left_out: u64,
    recorded: &'a RecordedEvents,
    /// Those that are shown, and that the trace has.
    parts: Vec<Part>,
    /// Those that it does not have, and why.
    missing: Vec<(Part, &'static str)>,
    sort: Sort,
    limit: usize,
    is_everybody: bool,
    totals: Totals,
    clock_backs: u64,
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

/// A part that cannot be shown, and why.
type MissingPart = (Part, &'static str);

/// Parts that are shown, and those that the trace says nothing of.
///
/// # Errors
/// It says nothing of any that is asked for.
fn parts(by: &[Part], recorded: &RecordedEvents) -> anyhow::Result<(Vec<Part>, Vec<MissingPart>)> {
    let is_asked = |part: &Part| by.is_empty() || by.contains(part);
    let asked = || Part::ALL.into_iter().filter(is_asked);
    let missing: Vec<_> = asked().filter_map(|part| Some((part, part.missing(recorded)?))).collect();
    let parts: Vec<Part> = asked().filter(|part| part.missing(recorded).is_none()).collect();
    if parts.is_empty() {
        let mut whys: Vec<&str> = missing.iter().map(|(_, why)| *why).collect();
        whys.dedup();
        bail!("the trace has {}", whys.join("; "));
    }
    Ok((parts, missing))
}

/// Whether only chosen processes were recorded.
pub fn is_restricted(named: &[Named]) -> bool {
    named.iter().flat_map(|named| &named.parts).any(|dir| {
        let text = std::fs::read_to_string(dir.join(".kymo.json")).unwrap_or_default();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        summary["kernel"]["only"] == true
    })
}

/// A file of which the path is not known, or its path.
fn file_label(name: &kymo_analyze::usage::FileName) -> String {
    use kymo_analyze::usage::FileName;
    match name {
        FileName::Path(path) => path.clone(),
        FileName::Descriptor { process, process_name, fd, made_by } => {
            let by = if made_by.is_empty() { String::new() } else { format!(" ({made_by})") };
            format!("descriptor {fd} of {process_name}[{process}]{by}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_not_recorded_are_named() {
        let recorded = |facts: Facts, has_transfers| RecordedEvents {
            facts,
            has_transfers,
            has_samples: false,
            is_restricted: false,
        };
        let nothing = recorded(Facts::default(), false);
        let error = parts(&[Part::Thread, Part::Process, Part::Irq], &nothing).unwrap_err().to_string();
        assert_eq!(
            error,
            "the trace has no sched events: record with -k sched; no interrupt events: record with -k irq"
        );
        let calls = recorded(Facts::default(), true);
        let (there, missing) = parts(&[], &calls).unwrap();
        assert_eq!(there, [Part::Process, Part::Thread, Part::File]);
        let missing: Vec<&str> = missing.iter().map(|(part, _)| part.name()).collect();
        assert_eq!(missing, ["cpu", "function", "irq", "softirq", "device"]);
        let switches = recorded(Facts { switches: true, ..Facts::default() }, false);
        assert_eq!(parts(&[Part::Cpu], &switches).unwrap().0, [Part::Cpu]);
    }
}
