// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first pass: from what is asked for to a stretch of a thread or a CPU.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use kymo_analyze::explain::Question;
use kymo_analyze::{
    By, CallSpan, Context, CpuSpan, Event, Head, InterruptSpan, Io, Key, Latency, OffSpan, Options, Sample, Sink,
    State, Thread, ThreadSpan, Threads, Until, What,
};

use kymo_feed::{Choose as _, LossAt};

use crate::verbs::analyze::choose::Chosen;
use crate::verbs::analyze::feed::{Classes, Input, Seen, Totals, Visit};
use crate::verbs::analyze::kernel_functions::KernelFunctions;
use crate::verbs::analyze::show::NameTable;
use crate::verbs::analyze::when::When;
use crate::verbs::analyze::who::{Who, WhoArgs, is_real_time, one};
use kymo_index::{Indexes, range};
use kymo_query::{SpanCounts, Spans};

/// What is asked for.
pub enum ExplainRequest {
    /// The N-th worst of a kind.
    Worst {
        /// The kind.
        what: What,
        /// 1: the worst.
        rank: u16,
    },
    /// A span of the user.
    Span {
        /// As it was given.
        text: String,
        /// 1: the longest.
        rank: u16,
        /// In the order of time instead, from 1.
        nth: Option<u64>,
    },
    /// A moment.
    At(When),
    /// A stretch of a thread.
    Stretch {
        /// None: the begin.
        from: Option<When>,
        /// None: the end.
        to: Option<When>,
    },
}

/// Of what it is asked.
pub struct Scope<'a> {
    /// The thread: its number, or its name.
    pub thread: Option<&'a str>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Which threads besides.
    pub who: &'a WhoArgs,
    /// A file with the functions of the kernel.
    pub symbols: Option<&'a Path>,
    /// Only what ends with a record for which these conditions hold.
    pub filter: &'a [String],
}

/// What the records are searched for.
struct QuestionSearch<'v> {
    who: Who,
    thread: Option<String>,
    cpu: Option<u32>,
    /// Threads that go by the name, in the order in which they were met, and whether they were real-time ones.
    tids: Vec<(i32, bool)>,
    /// Who started a timer.
    starters: BTreeMap<u64, i32>,
    latency: Latency,
    spans: Spans<'v>,
    /// By class: whether its records are of a span, or say who is whose child.
    looked_at: Vec<bool>,
    nth: Option<u64>,
    /// The span of that number.
    found: Option<Sample>,
    /// The moment, ns.
    at: Option<i64>,
    /// The stretches of the thread and of the CPU that the moment lies in.
    of_thread: Option<ThreadSpan>,
    /// How late the timer was that woke it.
    late_ns: u64,
    of_cpu: Option<CpuSpan>,
}

/// From what is asked for to the question, and to what is odd about begins and ends of spans.
pub fn question(
    input: &Input,
    classes: &Classes,
    asked: &ExplainRequest,
    scope: &Scope<'_>,
) -> anyhow::Result<(Question, Vec<String>)> {
    let (what, rank, spans, nth) = match asked {
        ExplainRequest::Worst { what, rank } => (vec![*what], *rank, Vec::new(), None),
        ExplainRequest::Span { text, rank, nth } => (vec![What::Span], *rank, vec![text.clone()], *nth),
        ExplainRequest::At(_) | ExplainRequest::Stretch { .. } => (Vec::new(), 1, Vec::new(), None),
    };
    let spans = Spans::new(&spans, &input.traces, &classes.vocabulary)?;
    let is_of_span = |class: usize| spans.classes().get(class) == Some(&true);
    let named = classes.list.iter().enumerate();
    let looked_at = named.map(|(at, class)| is_of_span(at) || Who::learns_of(&class.name)).collect();
    let mut search = QuestionSearch {
        who: Who::new(input, scope.who, scope.thread),
        thread: scope.thread.map(str::to_owned),
        cpu: scope.cpu,
        tids: Vec::new(),
        starters: BTreeMap::new(),
        // By priority: those of real-time threads come first.
        latency: Latency::new(Options {
            what,
            worst_max: rank.into(),
            by: By { prio: true, ..By::default() },
            ..Options::default()
        }),
        spans,
        looked_at,
        nth,
        found: None,
        at: if let ExplainRequest::At(when) = asked { Some(moment_of(*when, input)?) } else { None },
        of_thread: None,
        late_ns: 0,
        of_cpu: None,
    };
    let mut chosen = Chosen::new(&input.traces, scope.filter)?;
    let (from, to) = input.common().unzip();
    let indexes = if from.is_some() { input.indexes() } else { Indexes::default() };
    let (mut reader, mut walker) = range::begin(&input.traces, classes, &indexes, from, to);
    walker.go(&mut reader, &mut chosen, &mut search);
    chosen.conclude();
    search.latency.take(chosen.is_all());
    walker.state.finish(to, &mut search);
    let totals = walker.totals;
    let bounds = totals.span.context("the trace has no records there")?;
    let (first, last) = input.common().map_or(bounds, |(from, to)| (from, to.saturating_sub(1)));
    let question = match asked {
        ExplainRequest::Worst { what, rank } => {
            worst((classes, &KernelFunctions::of(scope.symbols, &input.traces)), &search, *what, *rank)?
        }
        ExplainRequest::Span { text, rank, .. } => span(&search, text, *rank)?,
        ExplainRequest::At(when) => moment(&search, when.at(first, last), &totals)?,
        ExplainRequest::Stretch { from, to } => stretch(search.tid()?, *from, *to, first, last)?,
    };
    Ok((question, search.spans.counts().iter().filter_map(SpanCounts::odd).collect()))
}

/// The stretch that was asked for, as far as it is in the trace, which goes from `first` to `last`.
fn stretch(tid: i32, from: Option<When>, to: Option<When>, first: i64, last: i64) -> anyhow::Result<Question> {
    let from = from.map_or(first, |when| when.at(first, last)).max(first);
    let to = to.map_or(last, |when| when.at(first, last)).min(last);
    if from >= to {
        bail!("--from is not before --to within the trace, which goes from {first} to {last}");
    }
    Ok(Question::stretch(tid, from, to))
}

/// A time of the trace's clock, ns.
fn moment_of(when: When, input: &Input) -> anyhow::Result<i64> {
    if let When::At(at) = when {
        return Ok(at);
    }
    let (first, last) = input.bounds(&input.indexes()).context("the trace has no records")?;
    Ok(when.at(first, last))
}

fn worst(
    (classes, functions): (&Classes, &KernelFunctions<'_>),
    search: &QuestionSearch<'_>,
    what: What,
    rank: u16,
) -> anyhow::Result<Question> {
    let all = search.latency.series();
    let mut samples: Vec<(&Key, &Sample)> =
        all.iter().flat_map(|(key, series)| series.worst.iter().map(move |sample| (*key, sample))).collect();
    let is_late = |sample: &Sample| !is_real_time(sample.prio);
    samples.sort_by_key(|(_, sample)| (is_late(sample), std::cmp::Reverse(sample.value_ns), sample.from));
    let Some((key, sample)) = samples.get(usize::from(rank) - 1) else {
        let of = search.who.text();
        let of_cpu = search.cpu.map_or(String::new(), |cpu| format!(" on cpu {cpu}"));
        bail!(
            "the trace has {} of {}{of}{of_cpu}; `kymo latency` lists what it has, and events for more are recorded by \
             -k sched,irq,syscalls,timer,block,net",
            samples.len(),
            what.name()
        );
    };
    let vocabulary = &classes.vocabulary;
    let names = NameTable { vocabulary, devices: BTreeMap::new(), spans: &[], keys: &[], functions };
    Ok(Question::of_sample(what, names.of(key.of), sample))
}

fn span(search: &QuestionSearch<'_>, text: &str, rank: u16) -> anyhow::Result<Question> {
    if search.nth.is_some() {
        let found = search.found.context("the trace has fewer such spans; `kymo latency --span` counts them")?;
        return Ok(Question::of_sample(What::Span, text.to_owned(), &found));
    }
    let all = search.latency.series();
    let spans = || all.iter().filter(|(key, _)| key.what == What::Span).map(|(_, series)| series);
    let mut samples: Vec<&Sample> = spans().flat_map(|series| &series.worst).collect();
    samples.sort_by_key(|sample| (std::cmp::Reverse(sample.value_ns), sample.from));
    let sample = samples.get(usize::from(rank) - 1).with_context(|| {
        format!("the trace has {} such spans{}", spans().map(|series| series.count()).sum::<u64>(), search.who.text())
    })?;
    Ok(Question::of_sample(What::Span, text.to_owned(), sample))
}

fn moment(search: &QuestionSearch<'_>, at: i64, totals: &Totals) -> anyhow::Result<Question> {
    let (first, last) = totals.span.unwrap_or((at, at));
    if at < first || at > last {
        bail!("--at lies outside of the trace, which goes from {first} to {last} (+{} ns)", last.abs_diff(first));
    }
    if search.thread.is_some() {
        let tid = search.tid()?;
        let span = search.of_thread.with_context(|| format!("nothing is known of thread {tid} at that moment"))?;
        return Ok(Question::of_span(&span, search.late_ns));
    }
    if let Some(cpu) = search.cpu {
        let span = search.of_cpu.with_context(|| format!("nothing is known of cpu {cpu} at that moment"))?;
        return Ok(Question { doubt: span.doubt, ..Question::moment(Some(cpu), span.from, span.to) });
    }
    Ok(Question::moment(None, at, at))
}

impl QuestionSearch<'_> {
    fn is_wanted(&self, thread: &Thread) -> bool {
        self.who.wants(thread)
    }

    fn is_wanted_cpu(&self, cpu: u32) -> bool {
        self.cpu.is_none_or(|wanted| wanted == cpu)
    }

    /// The thread that was asked for.
    fn tid(&self) -> anyhow::Result<i32> {
        one(self.thread.as_deref().unwrap_or_default(), &self.tids)
    }

    /// A timer is of the thread that starts it, unless an interrupt does.
    fn started(&mut self, timer: u64, head: &Head, state: &State) {
        match head.cpu.and_then(|cpu| state.cpu(cpu)).map(|cpu| cpu.context()) {
            Some(Context::Thread(tid)) => self.starters.insert(timer, tid),
            _ => self.starters.remove(&timer),
        };
    }

    fn meet(&mut self, thread: &Thread) {
        let is_real_time = is_real_time(thread.prio);
        match self.tids.iter_mut().find(|(tid, _)| *tid == thread.tid) {
            Some((_, known)) => *known |= is_real_time,
            None => self.tids.push((thread.tid, is_real_time)),
        }
    }

    /// Of a timer or a request, by whoever began it.
    fn is_wanted_by(&self, starter: Context, cpu: u32, threads: Threads<'_>) -> bool {
        self.is_wanted_cpu(cpu) && self.who.wants_by(thread_of(starter, threads))
    }
}

fn thread_of(context: Context, threads: Threads<'_>) -> Option<&Thread> {
    match context {
        Context::Thread(tid) => threads.get(tid),
        _ => None,
    }
}

impl Visit for QuestionSearch<'_> {
    fn looks_at(&self, class: usize) -> bool {
        self.looked_at.get(class) == Some(&true)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.latency.take(seen.is_selected);
        if seen.record.stream.starts_with("state_") {
            self.who.dumped(&seen.record.event.name, seen.record);
        }
        let QuestionSearch { who, spans, latency, nth, found, .. } = self;
        spans.record(seen, state, &mut |of, sample: Sample| {
            if !who.wants_span(&sample, state) {
                return;
            }
            match nth {
                Some(left @ 1..) => {
                    *left -= 1;
                    *found = if *left == 0 { Some(sample) } else { *found };
                }
                Some(_) => {}
                None => latency.span(of.number, of.key, sample),
            }
        });
    }

    fn loss(&mut self, loss: &LossAt) {
        self.latency.lose(loss.from, loss.to);
    }
}

impl Sink for QuestionSearch<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.who.event(event);
        let current = head.cpu.and_then(|cpu| state.cpu(cpu)).map_or(Context::Unknown, |cpu| cpu.current);
        let cpu = head.cpu.unwrap_or(u32::MAX);
        // A request is of the thread that makes it, and of the CPU where it ends.
        let is_wanted = match event {
            Event::TimerStart { timer, .. } => {
                self.started(*timer, head, state);
                true
            }
            Event::TimerExpire { timer, .. } => {
                let starter = self.starters.remove(timer).map_or(Context::Unknown, Context::Thread);
                self.is_wanted_by(starter, cpu, state.names())
            }
            Event::Io { step: Io::BlockIssue | Io::NetQueue, .. } => {
                self.is_wanted_by(current, self.cpu.unwrap_or(cpu), state.names())
            }
            Event::Io { .. } => self.is_wanted_cpu(cpu),
            _ => true,
        };
        if is_wanted {
            self.latency.event(head, event, state);
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if !self.is_wanted(thread) {
            return;
        }
        if self.thread.is_some() {
            self.meet(thread);
        }
        if self.at.is_some_and(|at| span.from <= at && span.to > at) {
            self.of_thread = Some(*span);
            self.late_ns = Latency::late_ns(span, thread);
        }
        if matches!(span.until, Until::Runs { cpu } if self.is_wanted_cpu(cpu)) {
            self.latency.thread(span, thread);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let is_now = self.at.is_some_and(|at| span.from <= at && span.to > at);
        if is_now && self.cpu == Some(span.cpu) {
            self.of_cpu = Some(*span);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        if self.is_wanted_cpu(span.cpu) && self.who.wants_over(thread_of(span.current, threads)) {
            self.latency.interrupt(span, threads);
        }
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        if self.is_wanted(thread) && self.is_wanted_cpu(span.cpu) {
            self.latency.call(span, thread);
        }
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        if self.is_wanted_cpu(span.cpu) && self.who.wants_off_by(thread_of(span.current, threads)) {
            self.latency.off(span, threads);
        }
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.latency.lost(cpu, from, to);
    }
}
