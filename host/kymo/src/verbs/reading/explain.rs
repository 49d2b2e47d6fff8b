// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo explain`: finds the worst case, stretch or moment that is asked about, and prints the story that kymo-analyze
//! makes of it; reports of the kernel's latency tracers likewise.

mod find;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_analyze::explain::{Question, StoryStyle};
use kymo_analyze::{SPANS_MAX, What};
use kymo_ctf::read::Reader;
use kymo_query::{Keep, Surroundings};

use super::analyze::feed::{Classes, Input, walk};
use super::analyze::show::Times;
use super::analyze::when::{self, When};
use super::analyze::who::WhoArgs;
use crate::verbs::args::{CpuArgs, FilterArgs, OutputArgs, RangeArgs, ThreadArgs, TraceArgs, ZoneArgs};
use find::ExplainRequest;

/// Causes of a latency: what happened in a worst case, a span, or at one moment
///
/// One screenful: who, how long and why in a sentence; what the time went to; who was waited for; the time line, with
/// the gap that matters marked, flags and fields decoded and addresses as functions; what is doubtful, what the trace
/// cannot show, and what to try. Without options it is the latest wake-up of the recorded command and its children:
/// real-time threads come first, and a wake-up by a timer begins when that was due. What a story is made of:
/// kymo-analyze(7), section 10.
///
/// A file instead of a directory is a report of the kernel's latency tracers (irqsoff, preemptoff, preemptirqsoff,
/// wakeup, wakeup_rt, wakeup_dl, with heads of any age): what was measured, from where to where, its largest gap with
/// what lies on both sides, each flag in words, and what cannot be right about it.
#[derive(clap::Args)]
#[command(mut_arg("dirs", |arg| arg.value_name("DIR|REPORT").help("Trace directories; several are merged by time. Or one report of a latency tracer")))]
#[command(mut_arg("cpu", |arg| arg.help("Only this CPU")))]
#[command(mut_arg("thread", |arg| arg.help("Only this thread: its number, or its name. Of several with one name the one with a real-time priority")))]
#[command(mut_arg("filter", |arg| arg.help("Only latencies that end with a record for which the condition is true (repeatable: all must be true)")))]
#[command(mut_arg("from", |arg| arg.requires("thread").help("A stretch of --thread: from this time on [default: the begin]")))]
#[command(mut_arg("to", |arg| arg.requires("thread").help("A stretch of --thread: up to this time [default: the end]")))]
#[command(after_help = "Examples:\n  kymo record -k sched,irq,syscalls,timer -o t -- ./program; kymo explain t\n  \
    kymo explain t --worst futex                       the longest wait for a lock\n  \
    kymo explain t --worst wakeup:3 --thread audio     the third latest wake-up of one thread\n  \
    kymo explain t --span 'req:begin, req:end'         the longest request; --nth 12: the twelfth\n  \
    kymo explain t --at +1.5s --cpu 1                  what CPU 1 was doing, and what came before and after\n  \
    kymo explain t --thread audio --from +1.5s --to +1.51s\n  \
    kymo explain /sys/kernel/tracing/trace             the report of a latency tracer, or a copy of it\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such thing.")]
pub struct ExplainArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// The worst of a kind of `kymo latency --what` (wakeup, irq, softirq, irqs-off, syscall, futex, ...), or WHAT:N
    /// for the N-th worst; with --span, the N-th longest [default: wakeup]
    #[arg(long, value_name = "WHAT[:N]|N", conflicts_with_all = ["at", "from", "to"])]
    worst: Option<String>,
    /// A span from event A to the next event B of the same thread; with by=K of the same values of K instead, of any
    /// thread, as in kymo latency --span [default: the longest]
    #[arg(long, value_name = "A,B[,by=K]", conflicts_with_all = ["at", "from", "to"])]
    span: Option<String>,
    /// With --span: the N-th in the order of time
    #[arg(long, value_name = "N", requires = "span", conflicts_with = "worst", value_parser = clap::value_parser!(u64).range(1..))]
    nth: Option<u64>,
    /// A moment: +1.5s from the begin of the trace, or ns since 1970 as --json prints them. With --thread or --cpu: the
    /// stretch that contains it
    #[arg(long, value_name = "TIME", value_parser = when::parse, conflicts_with_all = ["from", "to"])]
    at: Option<When>,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    cpus: CpuArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Functions of the kernel: its System.map, or a copy of /proc/kallsyms [default: of this machine, where it is the
    /// same boot]
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    /// Show N records in the time line
    #[arg(long, alias = "lines", value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u16).range(4..=1000))]
    limit: u16,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

impl ExplainArgs {
    /// What is asked for.
    fn asked(&self) -> anyhow::Result<ExplainRequest> {
        if let Some(at) = self.at {
            return Ok(ExplainRequest::At(at));
        }
        if self.range.from.is_some() || self.range.to.is_some() {
            return Ok(ExplainRequest::Stretch { from: self.range.from, to: self.range.to });
        }
        let worst = self.worst.as_deref();
        if let Some(span) = &self.span {
            let rank = worst.map(|text| text.parse::<u16>().ok().filter(|rank| *rank > 0));
            let Some(rank) = rank.unwrap_or(Some(1)) else {
                bail!("--worst {:?}: with --span it is a number, 1 for the longest", worst.unwrap_or_default());
            };
            return Ok(ExplainRequest::Span { text: span.clone(), rank, nth: self.nth });
        }
        let (name, rank) = worst.unwrap_or("wakeup").split_once(':').unwrap_or((worst.unwrap_or("wakeup"), "1"));
        let names = || What::ALL.iter().map(|(_, name)| *name).filter(|name| *name != "span").collect::<Vec<_>>();
        let found = What::ALL.iter().find(|(what, known)| *known == name && *what != What::Span);
        let Some((what, _)) = found else {
            bail!("--worst {name:?}: there is {}; for spans of your own: --span", names().join(", "));
        };
        let rank = rank.parse::<u16>().ok().filter(|rank| (1..=1000).contains(rank));
        let rank = rank.with_context(|| format!("--worst {name}:N: N is 1 (the worst) to 1000"))?;
        Ok(ExplainRequest::Worst { what: *what, rank })
    }
}

/// Runs the verb.
pub fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    if let [path] = &args.traces.dirs[..] {
        if let Some(bytes) = report::read(path)? {
            let kernel = args.symbols.as_deref().map(super::symbols::from_file).transpose()?;
            args.output.print(&report::told(path, &bytes, kernel.as_ref(), args.limit.into(), args.output.json())?)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let input = Input::open(&args.traces)?;
    let classes = Classes::new(&input.traces);
    let asked = args.asked()?;
    let scope = find::Scope {
        thread: args.threads.thread.as_deref(),
        cpu: args.cpus.single("explain")?,
        who: &args.who,
        symbols: args.symbols.as_deref(),
        filter: &args.filters.filter,
    };
    let (question, odd) = find::question(&input, &classes, &asked, &scope)?;
    story(&input, &classes, question, odd, &args)
}

/// The second pass, and the story. `odd`: of begins and ends of spans, which makes the question doubtful.
fn story(
    input: &Input,
    classes: &Classes,
    question: Question,
    odd: Vec<String>,
    args: &ExplainArgs,
) -> anyhow::Result<ExitCode> {
    let known = super::symbols::Symbolizer::new(args.symbols.as_deref(), &input.traces)?;
    let around = Surroundings::of(&input.traces, known);
    let question = Question { of: around.known.named(&question.of), ..question };
    let mut keep = Keep::new([question], SPANS_MAX, classes, around);
    let mut reader = Reader::new(&input.traces);
    walk(&mut reader, classes, &mut keep);
    let (scenes, known) = keep.take();
    let scene = scenes.first().context("no question was asked")?;
    let mut story = scene.story(&classes.list, &classes.vocabulary, &known, args.limit.into());
    story.blind.extend(known.reasons());
    story.doubts.extend(odd);
    let text = match args.output.json() {
        true => {
            let mut document = serde_json::to_value(&story).context("cannot write the story as JSON")?;
            document["schema"] = "kymo-explain-1".into();
            document.to_string() + "\n"
        }
        false => {
            let times = Times::new(&input.traces, args.zone.utc);
            story.text(&StoryStyle { time: &|ns| times.text(ns) })
        }
    };
    args.output.print(&text)?;
    Ok(super::analyze::damage(input, &reader))
}
