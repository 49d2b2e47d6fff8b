// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo latency`: opens traces, lets kymo-analyze find latencies, and prints them.

mod args;
mod causes;
mod json;
mod keys;
mod report;
mod text;

use std::collections::BTreeMap;
use std::process::ExitCode;

use kymo_analyze::usage::Choice;
use kymo_analyze::{By, CallSpan, CpuSpan, Event, Head, InterruptSpan, Latency, OffSpan, Options, Sink, State};
use kymo_analyze::{Thread, ThreadSpan, Threads, Unmatched, What};
use kymo_ctf::read::{Reader, Trace, Value};
use kymo_feed::{Choose as _, LossAt, recorders};

use kymo_index::range;
use kymo_query::Spans;

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Seen, Visit, absolute, each};
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::{NameTable, Times};
use super::analyze::when::When;
use crate::verbs::args::{ScopeArgs, ThreadArgs};
pub use args::LatencyArgs;
use args::{CONTEXTS, shows_worst};
use causes::Causes;
use keys::KeyNames;
use report::LatencyReport;

/// All that is asked of one pass over the records.
struct LatencyPass<'v> {
    latency: Latency,
    spans: Spans<'v>,
    /// Names of block devices, from the state dump.
    devices: BTreeMap<u64, String>,
    device_class: Option<usize>,
}

impl Visit for LatencyPass<'_> {
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true) || self.device_class == Some(class)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let latency = &mut self.latency;
        latency.take(seen.is_selected);
        self.spans.record(seen, state, &mut |of, sample| latency.span(of.number, of.key, sample));
        if self.device_class == Some(seen.class) {
            self.learn_device(seen);
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.latency.lose(loss.from, loss.to);
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

/// Whether latencies are kept apart by something.
fn is_by(args: &LatencyArgs, name: &str) -> bool {
    args.by.iter().any(|by| by == name || CONTEXTS.contains(&(by.as_str(), name)))
}

/// Which latencies are asked for.
fn options(args: &LatencyArgs, traces: &[Trace]) -> Options {
    let what = match (args.what.is_empty(), args.span.is_empty()) {
        (true, true) => What::ALL.iter().map(|(what, _)| *what).collect(),
        _ => args.what.iter().copied().chain([What::Span]).collect(),
    };
    let is_by = |name| is_by(args, name);
    Options {
        what,
        by: By { process: is_by("process"), thread: is_by("thread"), prio: is_by("prio"), cpu: is_by("cpu") },
        worst_max: args.limit.into(),
        recorders: recorders(traces),
        thread: args.scope.threads.thread.as_deref().map(Choice::parse),
        process: args.scope.process.as_deref().map(Choice::parse),
        ..Options::default()
    }
}

/// What is found of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &LatencyArgs) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let options = options(args, &input.traces);
    let device_class = classes.list.iter().position(|class| class.name == "lttng_statedump_block_device");
    let mut spans = Spans::new(&args.span, &input.traces, &classes.vocabulary)?;
    if is_by(args, "key") {
        let keys = KeyNames::new(spans.pairs(), &input.traces)?;
        spans.keep_keys_apart(Box::new(keys));
    }
    let mut pass = LatencyPass { latency: Latency::new(options), spans, devices: BTreeMap::new(), device_class };
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (from, to) = (stretch.map(|stretch| stretch.from), stretch.map(|stretch| stretch.to));
    let (mut reader, mut walker) = range::begin(&input.traces, &classes, &indexes, from, to);
    // Whose a latency is, its sample says, and not the record that ends it: another thread may have written that.
    let of_records = ScopeArgs { threads: ThreadArgs::default(), process: None, ..args.scope.clone() };
    let mut chosen = Chosen::new(&input.traces, &of_records.expressions())?;
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
