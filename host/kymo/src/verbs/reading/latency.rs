// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo latency`: opens traces, lets kymo-analyze find latencies, and prints them.

mod causes;
mod json;
mod keys;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use kymo_analyze::{By, CallSpan, CpuSpan, Event, Head, InterruptSpan, Key, Latency, OffSpan, Options, Sink, State};
use kymo_analyze::{Thread, ThreadSpan, Threads, Unmatched, What};
use kymo_ctf::read::{Loss, Reader, Value};
use kymo_feed::clamp;

use kymo_index::range;
use kymo_query::{SpanCounts, Spans};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Seen, Totals, Visit, absolute, each};
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::{NameTable, Times};
use super::analyze::when::When;
use super::hosts::{ClockAlignment, HostArgs};
use crate::verbs::args::{OutputArgs, RangeArgs, ScopeArgs, TraceArgs, ZoneArgs};
use causes::Causes;
use keys::KeyNames;

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
#[command(mut_arg("thread", |arg| arg.help("Only latencies that end with a record of this thread: its number, or its name. Those of wake-ups and \
    of the run queue end with a record of the thread that leaves: use kymo explain --thread, or tid in the table latencies of kymo sql")))]
#[command(mut_arg("process", |arg| arg.help("Only latencies that end with a record of this process: its number, or its name; see --thread")))]
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
    traces: TraceArgs,
    /// Which: wakeup, runqueue, preempted, irq, vector, softirq-raise, softirq, timer, irqs-off, preempt-off, syscall,
    /// futex, block, net [default: all that the trace has]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = what)]
    what: Vec<What>,
    /// From a record of event A to the next of event B of the same thread; with by=K of the same values of K instead,
    /// of any thread: fields, and contexts such as $pid, $cpu; by=*: of any thread (may be given several times). They
    /// nest: an end belongs to the newest begin. Alone, only spans are shown
    #[arg(long, value_name = "A,B[,by=K]")]
    span: Vec<String>,
    /// Group by process, thread, prio, cpu or key; the key is the values of a span's fields. Addresses in keys are
    /// shown as functions, threads with their names. $pid, $tid, $prio, $cpu are the same
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = grouping())]
    by: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Show the N worst of each kind (of system calls only with --what syscall)
    #[arg(long, alias = "worst", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    limit: u16,
    #[command(flatten)]
    range: RangeArgs,
    /// Also name the causes of the worst that are shown, as kymo explain does (of the 32 longest). Reads the trace
    /// again
    #[arg(long)]
    explain: bool,
    /// Functions of the kernel: its System.map, or a copy of /proc/kallsyms [default: of this machine, where it is the
    /// same boot]
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    /// Also show the histogram, where it is not empty
    #[arg(long)]
    histogram: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    hosts: HostArgs,
}

/// How filters write what latencies are grouped by.
const CONTEXTS: [(&str, &str); 9] = [
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
fn grouping() -> PossibleValuesParser {
    let words = ["process", "thread", "prio", "cpu", "key"].into_iter();
    let word = |word: &'static str| {
        let context = CONTEXTS.into_iter().filter(move |(_, known)| *known == word).map(|(context, _)| context);
        PossibleValue::new(word).aliases(context)
    };
    PossibleValuesParser::new(words.map(word))
}

fn what(text: &str) -> Result<What, String> {
    let names =
        || What::ALL.iter().map(|(_, name)| *name).filter(|name| *name != "span").collect::<Vec<_>>().join(", ");
    let found = What::ALL.iter().find(|(what, name)| *name == text && *what != What::Span);
    found.map(|(what, _)| *what).ok_or_else(|| format!("there is {}; for spans of your own: --span", names()))
}

/// All that is asked of one pass over the records.
struct LatencyPass<'v> {
    latency: Latency,
    spans: Spans<'v>,
    /// Names of block devices, from the state dump.
    devices: BTreeMap<u64, String>,
    device_class: Option<usize>,
}

impl Visit for LatencyPass<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let latency = &mut self.latency;
        latency.take(seen.is_selected);
        self.spans.record(seen, state, &mut |number, key, sample| latency.span(number, key, sample));
        if self.device_class == Some(seen.class) {
            self.learn_device(seen);
        }
    }

    fn loss(&mut self, loss: &Loss<'_>) {
        self.latency.lost_of_programs(clamp(loss.to_ns));
    }
}

impl LatencyPass<'_> {
    fn learn_device(&mut self, seen: &Seen<'_, '_>) {
        let payload = seen.record.payload;
        let number = match payload.get("dev") {
            Some(Value::Int(number, _)) => u64::try_from(i128::from(number)).ok(),
            _ => None,
        };
        if let (Some(number), Some(Value::Text(name))) = (number, payload.get("diskname")) {
            self.devices.insert(number, name.into_owned());
        }
    }
}

impl Sink for LatencyPass<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.latency.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.latency.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.latency.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.latency.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.latency.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.latency.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.latency.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.latency.unmatched(of);
    }
}

/// What was found, for those who print it.
struct LatencyReport<'a> {
    latency: &'a Latency,
    names: NameTable<'a>,
    totals: &'a Totals,
    told: &'a [ClockAlignment],
    spans: Vec<SpanCounts>,
    clock_backs: u64,
    causes: Causes,
}

impl LatencyReport<'_> {
    /// Samples that may be missing from a row: each lost record may have ended one. Of lost packets it is not known how
    /// many records they had.
    fn missing(&self) -> u64 {
        if self.totals.lost.packets > 0 { u64::MAX } else { self.totals.lost.records }
    }
}

/// Runs the verb.
pub fn run(args: LatencyArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let hosts = Input::by_kernel(&args.traces, &args.hosts)?;
    let times = absolute(&hosts, [args.range.from, args.range.to])?;
    let (text, code) =
        each(&hosts, ("kymo-latency-hosts-1", args.output.json()), &mut |host| of_host(&host.input, times, &args))?;
    args.output.print(&text)?;
    Ok(code)
}

/// What is found of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &LatencyArgs) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let kinds = match (args.what.is_empty(), args.span.is_empty()) {
        (true, true) => What::ALL.iter().map(|(what, _)| *what).collect(),
        _ => args.what.iter().copied().chain([What::Span]).collect(),
    };
    let has = |name: &str| args.by.iter().any(|by| by == name || CONTEXTS.contains(&(by.as_str(), name)));
    let by = By { process: has("process"), thread: has("thread"), prio: has("prio"), cpu: has("cpu") };
    let options = Options { what: kinds, by, worst_max: args.limit.into(), ..Options::default() };
    let device_class = classes.list.iter().position(|class| class.name == "lttng_statedump_block_device");
    let mut spans = Spans::new(&args.span, &input.traces, &classes.vocabulary)?;
    if has("key") {
        let keys = KeyNames::new(spans.pairs(), &input.traces)?;
        spans.keep_keys_apart(Box::new(keys));
    }
    let mut pass = LatencyPass { latency: Latency::new(options), spans, devices: BTreeMap::new(), device_class };
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (from, to) = (stretch.map(|stretch| stretch.from), stretch.map(|stretch| stretch.to));
    let (mut reader, mut walker) = range::begin(&input.traces, &classes, &indexes, from, to);
    let mut chosen = Chosen::new(&input.traces, &args.scope.expressions())?;
    walker.go(&mut reader, &mut chosen, &mut pass);
    chosen.conclude();
    // What ends with the stretch ends with no record.
    pass.latency.take(chosen.is_all());
    walker.state.finish(stretch.and_then(|stretch| stretch.end()), &mut pass);
    let (state, totals) = (walker.state, walker.totals);
    pass.latency.finish(&state);
    pass.latency.name_processes(&state);
    let functions = KernelFunctions::of(args.symbols.as_deref(), &input.traces);
    let names = NameTable {
        vocabulary: &classes.vocabulary,
        devices: pass.devices,
        spans: &args.span,
        keys: pass.spans.keys(),
        functions: &functions,
    };
    let causes = match args.explain {
        true => Causes::find((input, args.symbols.as_deref()), &classes, &pass.latency, &names, |key| {
            shows_worst(key, args)
        })?,
        false => Causes::default(),
    };
    let found = LatencyReport {
        names,
        causes,
        latency: &pass.latency,
        totals: &totals,
        told: &input.told,
        spans: pass.spans.counts(),
        clock_backs: state.clock_backs(),
    };
    let text = match args.output.json() {
        true => json::document(&found)? + "\n",
        false => text::report(&found, args, &Times::new(&input.traces, args.zone.utc)),
    };
    pass.spans.reasons().iter().chain(&functions.reasons()).for_each(|why| eprintln!("kymo: {why}"));
    Ok((text, conclude(input, &reader, &found, args)))
}

/// Whether the worst of a row are shown: there may be a hundred system calls; whoever wants their worst asks for them.
fn shows_worst(key: &Key, args: &LatencyArgs) -> bool {
    key.what != What::Syscall || !args.what.is_empty()
}

/// Says on standard error what was missing and damaged.
fn conclude(input: &Input, reader: &Reader<'_>, found: &LatencyReport<'_>, args: &LatencyArgs) -> ExitCode {
    if found.latency.series().is_empty() {
        eprintln!(
            "kymo: nothing of that is in the trace; record with -k sched,irq,syscalls,timer,block,net, or see kymo stats"
        );
    }
    for what in &args.what {
        let is_there = found.latency.series().iter().any(|(key, _)| key.what == *what);
        if !is_there && !found.latency.series().is_empty() {
            eprintln!("kymo: the trace has no {} (no sample)", what.name());
        }
    }
    super::analyze::damage(input, reader)
}
