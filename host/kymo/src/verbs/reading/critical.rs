// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo critical`: what a thread waited for, across threads and CPUs, and what that time was made of.

mod json;
mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_analyze::{CpuSpan, Event, Head, History, Latency, Options, Path, SPANS_MAX, Sample, Share, Sink, State};
use kymo_analyze::{Thread, ThreadSpan, What};
use kymo_ctf::read::Reader;

use kymo_feed::Choose;
use kymo_index::{Indexes, range};

use super::analyze::choose::Chosen;
use super::analyze::feed::{self, Classes, Input, Seen, Totals, Visit};
use super::analyze::show::Times;
use crate::verbs::args::{FilterArgs, OutputArgs, RangeArgs, ThreadArgs, TraceArgs, ZoneArgs};

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
pub struct Args {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    /// The stretch is the worst of these: wakeup, runqueue, syscall, futex
    #[arg(long, value_name = "WHAT", value_parser = ["wakeup", "runqueue", "syscall", "futex"], conflicts_with_all = ["from", "to"])]
    worst: Option<String>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

/// The first pass: which thread, and where its stretch is.
struct Search {
    thread: Option<String>,
    /// Threads that go by that name, in the order in which they were met.
    tids: Vec<i32>,
    latency: Latency,
}

impl Search {
    fn is_wanted(&self, thread: &Thread) -> bool {
        let Some(wanted) = &self.thread else { return true };
        wanted.parse() == Ok(thread.tid) || thread.name.as_str() == wanted
    }
}

impl Visit for Search {
    fn record(&mut self, seen: &Seen<'_, '_>, _state: &State) {
        self.latency.take(seen.is_selected);
    }
}

impl Sink for Search {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.latency.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if self.is_wanted(thread) {
            if self.thread.is_some() && !self.tids.contains(&thread.tid) {
                self.tids.push(thread.tid);
            }
            self.latency.thread(span, thread);
        }
    }

    fn call(&mut self, span: &kymo_analyze::CallSpan, thread: &Thread) {
        if self.is_wanted(thread) {
            self.latency.call(span, thread);
        }
    }
}

/// The second pass: all spans of the stretch.
struct Keep(History);

impl Visit for Keep {}

impl Sink for Keep {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        Sink::thread(&mut self.0, span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        Sink::cpu(&mut self.0, span);
    }
}

/// A thread, and a stretch of its time.
#[derive(Clone, Copy)]
struct Stretch {
    tid: i32,
    from: i64,
    to: i64,
}

/// What was found.
struct Found<'a> {
    stretch: Stretch,
    path: Path,
    budget: Vec<Share>,
    history: &'a History,
    classes: &'a Classes,
    lost: (u64, u64),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces.dirs)?;
    let classes = Classes::new(&input.traces);
    super::analyze::need_switches(&classes)?;
    let indexes = input.indexes();
    let asked = input.stretch(&indexes, args.range.from, args.range.to)?;
    let stretch = find(&input, &classes, &indexes, asked, &args)?;
    let mut keep = Keep(History::new(stretch.from, stretch.to, SPANS_MAX));
    let (reader, totals) = walk_in(&input, &classes, &indexes, asked, &mut (), &mut keep);
    let Stretch { tid, from, to } = stretch;
    let (path, budget) = (keep.0.critical(tid, from, to), keep.0.budget(tid, from, to));
    let found = Found { stretch, path, budget, history: &keep.0, classes: &classes, lost: totals.lost };
    let text = match args.output.json() {
        true => json::document(&found) + "\n",
        false => text::report(&found, &Times::new(&input.traces, args.zone.utc)),
    };
    args.output.print(&text)?;
    if let Some(full) = keep.0.full_from() {
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
    asked: Option<feed::Stretch>,
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
    asked: Option<feed::Stretch>,
    args: &Args,
) -> anyhow::Result<Stretch> {
    let kind = |name: &String| What::ALL.iter().find(|(_, known)| known == name).map(|(what, _)| *what);
    let what: Vec<What> = args.worst.iter().filter_map(kind).collect();
    let latency = Latency::new(Options { what, worst_max: 1, ..Options::default() });
    let mut search = Search { thread: args.threads.thread.clone(), tids: Vec::new(), latency };
    let mut chosen = Chosen::new(&input.traces, &args.filters.filter)?;
    let (_, totals) = walk_in(input, classes, indexes, asked, &mut chosen, &mut search);
    chosen.conclude();
    totals.span.context("the trace has no records there")?;
    let (first, last) = totals.selected_span.context("--filter holds for no record there")?;
    if args.worst.is_some() {
        let all = search.latency.series();
        let worst: Option<&Sample> =
            all.iter().filter_map(|(_, series)| series.worst.first()).max_by_key(|s| s.value_ns);
        let worst = worst.context("there is no such wait in the trace (of that thread)")?;
        let tid = worst.tid.context("the thread of the worst one is not known")?;
        return Ok(Stretch { tid, from: worst.from, to: worst.to });
    }
    let name = args.threads.thread.as_deref().unwrap_or_default();
    let tid = match search.tids[..] {
        [tid] => tid,
        [] => bail!("no thread {name:?} in the trace; `kymo stats --by thread` lists them"),
        [..] => {
            let tids: Vec<String> = search.tids.iter().take(20).map(i32::to_string).collect();
            bail!("{} threads are called {name:?}: choose one by its number: {}", search.tids.len(), tids.join(", "))
        }
    };
    let (from, to) = match asked.filter(|_| chosen.is_all()) {
        Some(asked) => (asked.from, if asked.is_to_end { last } else { asked.to }),
        None => (first, last),
    };
    if from >= to {
        bail!("the trace has records of one moment there: choose --from and --to further apart");
    }
    Ok(Stretch { tid, from, to })
}
