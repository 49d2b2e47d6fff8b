// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo critical`: what a thread waited for, across threads and CPUs, and what that time was made of.

mod answer;
mod json;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_analyze::explain::Question;
use kymo_analyze::{By, Event, Head, Latency, Options, SPANS_MAX, Sample, Sink, State, Thread, ThreadSpan, What};
use kymo_ctf::read::Reader;

use kymo_feed::Choose;
use kymo_index::{Indexes, range};
use kymo_query::{Keep, Surroundings};

use super::analyze::choose::Chosen;
use super::analyze::feed::{self, Classes, Input, Seen, Totals, Visit};
use super::analyze::kernel_functions::KernelFunctions;
use super::analyze::show::Times;
use super::analyze::who::{Who, WhoArgs, is_real_time, one};
use super::symbols::Symbolizer;
use crate::verbs::args::{FilterArgs, OutputArgs, RangeArgs, ThreadArgs, TraceArgs, ZoneArgs};
use answer::{CriticalPathAnswer, ThreadStretch};

/// Critical path of a thread: what it waited for, and what that waited for
///
/// While the thread runs or waits for a CPU, the step is its own. Where it was blocked, the path continues with the
/// thread that woke it, and so on, until a thread that ran, or an interrupt, timer or softirq. A summary of the time
/// follows. Needs the scheduler's events; interrupts and system calls add detail: kymo record -k sched,irq,syscalls.
#[derive(clap::Args)]
#[command(
    mut_arg("thread", |arg| arg.required_unless_present("worst").help("The thread: its number, or its name")),
    mut_arg("filter", |arg| arg.help("With --worst: only waits that end with a record for which the condition is true; else the stretch \
        goes from the first such record to the last (repeatable: all must be true)")),
    mut_arg("from", |arg| arg.help("From this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 as --json \
        prints them [default: the begin]. The thread is looked for from there on")),
    mut_arg("to", |arg| arg.help("Up to this time [default: the end]")),
    after_help = "Examples:\n  kymo critical t --thread waiter                all of a thread's time in the trace\n  \
    kymo critical t --worst futex                  the longest futex wait of all threads\n  \
    kymo critical t --thread audio --worst wakeup  the latest wake-up of one\n  \
    kymo critical t --thread 1234 --from +1.5s --to +1.51s\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such thread."
)]
pub struct CriticalArgs {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    who: WhoArgs,
    /// The stretch is the worst of these: wakeup, runqueue, syscall, futex
    #[arg(long, value_name = "WHAT", value_parser = ["wakeup", "runqueue", "syscall", "futex"], conflicts_with_all = ["from", "to"])]
    worst: Option<String>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Functions of the kernel: its System.map, or a copy of /proc/kallsyms [default: of this machine, where it is the
    /// same boot]
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

/// Records so long before and after a stretch are looked at, ns.
const AROUND_NS: i64 = 10_000_000_000;

/// The first pass: which thread, and where its stretch is.
struct PathSearch {
    /// Threads that go by that name, in the order in which they were met, and whether they were real-time ones.
    tids: Vec<(i32, bool)>,
    who: Who,
    latency: Latency,
    /// By class: whether its records say who is whose child.
    tells_of_children: Vec<bool>,
}

impl Visit for PathSearch {
    fn looks_at(&self, class: usize) -> bool {
        self.tells_of_children.get(class) == Some(&true)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, _state: &State) {
        self.latency.take(seen.is_selected);
        if seen.record.stream.starts_with("state_") {
            self.who.dumped(&seen.record.event.name, seen.record);
        }
    }
}

impl Sink for PathSearch {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.who.event(event);
        self.latency.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if self.who.wants(thread) {
            let is_real_time = is_real_time(thread.prio);
            match self.tids.iter_mut().find(|(tid, _)| *tid == thread.tid) {
                Some((_, known)) => *known |= is_real_time,
                None if self.who.names_thread() => self.tids.push((thread.tid, is_real_time)),
                None => {}
            }
            self.latency.thread(span, thread);
        }
    }

    fn call(&mut self, span: &kymo_analyze::CallSpan, thread: &Thread) {
        if self.who.wants(thread) {
            self.latency.call(span, thread);
        }
    }
}

/// Runs the verb.
pub fn run(args: CriticalArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces)?;
    let classes = Classes::new(&input.traces);
    super::analyze::need_switches(&classes)?;
    let indexes = input.indexes();
    let asked = input.stretch(&indexes, args.range.from, args.range.to)?;
    let stretch = find(&input, &classes, &indexes, asked, &args)?;
    let ThreadStretch { tid, from, to } = stretch;
    let around = Surroundings::of(&input.traces, Symbolizer::new(args.symbols.as_deref(), &input.traces)?);
    let mut keep = Keep::new([Question::stretch(tid, from, to)], SPANS_MAX, &classes, around).without_records();
    // What came before says when timers were due, and who has which priority.
    let wider = asked.map(|asked| feed::ReadRange {
        from: asked.from.saturating_sub(AROUND_NS),
        to: asked.to.saturating_add(AROUND_NS),
        is_to_end: true,
    });
    let (reader, totals) = walk_in(&input, &classes, &indexes, wider, &mut (), &mut keep);
    let (scenes, known) = keep.take();
    let scene = scenes.first().context("the stretch has no scene")?;
    let evidence = scene.evidence();
    let path = evidence.history().critical(tid, from, to);
    let budget = scene.budget(&classes.vocabulary, &known);
    let missing_events = scene.missing_events(&classes.vocabulary, &budget);
    let functions = KernelFunctions::of(args.symbols.as_deref(), &input.traces);
    let (classes, lost) = (&classes, totals.lost);
    let found = CriticalPathAnswer { stretch, path, budget, missing_events, evidence, classes, functions, lost };
    let text = match args.output.json() {
        true => json::document(&found) + "\n",
        false => text::report(&found, &Times::new(&input.traces, args.zone.utc)),
    };
    args.output.print(&text)?;
    if let Some(full) = scene.full_from() {
        eprintln!(
            "kymo: more than {SPANS_MAX} spans in that stretch: from {full} on the path is not known; choose a shorter one"
        );
    }
    Ok(super::analyze::damage(&input, &reader))
}

/// Goes through the records of a stretch, or of the whole trace.
fn walk_in<'t>(
    input: &'t Input,
    classes: &Classes,
    indexes: &Indexes,
    asked: Option<feed::ReadRange>,
    choose: &mut impl Choose,
    visit: &mut impl Visit,
) -> (Reader<'t>, Totals) {
    let (from, to) = (asked.map(|asked| asked.from), asked.map(|asked| asked.to));
    let (mut reader, mut walker) = range::begin(&input.traces, classes, indexes, from, to);
    walker.go(&mut reader, choose, visit);
    walker.state.finish(asked.and_then(|asked| asked.end()), visit);
    (reader, walker.totals)
}

fn find(
    input: &Input,
    classes: &Classes,
    indexes: &Indexes,
    asked: Option<feed::ReadRange>,
    args: &CriticalArgs,
) -> anyhow::Result<ThreadStretch> {
    let kind = |name: &String| What::ALL.iter().find(|(_, known)| known == name).map(|(what, _)| *what);
    let what: Vec<What> = args.worst.iter().filter_map(kind).collect();
    let by = By { prio: true, ..By::default() };
    let latency = Latency::new(Options { what, worst_max: 1, by, ..Options::default() });
    let who = Who::new(input, &args.who, args.threads.thread.as_deref());
    let tells_of_children = classes.list.iter().map(|class| Who::learns_of(&class.name)).collect();
    let mut search = PathSearch { tids: Vec::new(), who, latency, tells_of_children };
    let mut chosen = Chosen::new(&input.traces, &args.filters.filter)?;
    let (_, totals) = walk_in(input, classes, indexes, asked, &mut chosen, &mut search);
    chosen.conclude();
    // A stretch may have no record, and what the threads did in it is known all the same.
    let silent = asked.filter(|_| chosen.is_all()).map(|asked| (asked.from, asked.to));
    totals.span.or(silent).context("the trace has no records there")?;
    let (first, last) = totals.selected_span.or(silent).context("--filter holds for no record there")?;
    if args.worst.is_some() {
        let all = search.latency.series();
        let worst: Option<&Sample> = all
            .iter()
            .filter_map(|(_, series)| series.worst.first())
            .max_by_key(|s| (is_real_time(s.prio), s.value_ns));
        let worst = worst.with_context(|| format!("there is no such wait in the trace{}", search.who.text()))?;
        let tid = worst.tid.context("the thread of the worst one is not known")?;
        return Ok(ThreadStretch { tid, from: worst.from, to: worst.to });
    }
    let tid = one(args.threads.thread.as_deref().unwrap_or_default(), &search.tids)?;
    let (from, to) = match asked.filter(|_| chosen.is_all()) {
        Some(asked) => (asked.from, if asked.is_to_end { last } else { asked.to }),
        None => (first, last),
    };
    if from >= to {
        bail!("the trace has records of one moment there: choose --from and --to further apart");
    }
    Ok(ThreadStretch { tid, from, to })
}
