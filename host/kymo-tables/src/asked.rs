// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that are asked for with arguments: spans between two events, and critical paths.

use arrow_schema::SchemaRef;
use kymo_analyze::{Act, CpuSpan, History, SPANS_MAX, Sink, Thread, ThreadSpan};
use kymo_feed::{Visit, Walker};
use kymo_index::range;
use kymo_query::doing::{self, By};
use kymo_query::{PathNames, Spans};

use crate::derived::slices::{self, SLICES};
use crate::derived::{by_name, doubt, name, ns};
use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

/// A table with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableFunction {
    /// Spans between two events, as `kymo latency --span` has them.
    Span {
        /// The event that begins a span.
        begin: String,
        /// The event that ends it.
        end: String,
        /// Fields that both have in common, separated by commas; none: the thread.
        by: Option<String>,
    },
    /// What a stretch of a thread waited for, as `kymo critical` has it.
    CriticalPath {
        /// The thread.
        tid: i32,
        /// Begin of the stretch, ns.
        from: i64,
        /// Its end, ns.
        to: i64,
    },
}

pub(crate) const CRITICAL_PATH: Known = Known {
    name: "critical_path",
    about: "What a stretch of a thread depended on, step by step (needs the scheduler's events)",
    columns: columns! {
        "time" Time "Begin of the step";
        "end_time" Time "Its end";
        "duration_ns" Count "Its length, ns";
        "tid" Id "The thread that mattered then";
        "name" Words "Its name";
        "depth" Count "How many threads wait for this one, one for the other";
        "act" Words "What it did: runs, waits (for a CPU), blocked, unknown";
        "cpu" Id "The CPU that it ran on or waited for";
        "by_tid" Id "Of a wait: who woke it, or has its CPU";
        "by" Words "Its name, or the interrupt's";
        "call" Words "The system call that it was blocked in";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

/// How long behind a stretch is read, ns: what is open at its end ends there.
const BEHIND_NS: i64 = 1_000_000_000;

impl TableFunction {
    pub(crate) fn known(&self) -> &'static Known {
        match self {
            TableFunction::Span { .. } => &SLICES,
            TableFunction::CriticalPath { .. } => &CRITICAL_PATH,
        }
    }

    /// The text of a span.
    fn text(begin: &str, end: &str, by: Option<&str>) -> String {
        by.map_or_else(|| format!("{begin}, {end}"), |by| format!("{begin}, {end}, by={by}"))
    }

    /// Whether one of the groups has what is named.
    pub(crate) fn check(&self, groups: &[Group]) -> Result<(), Error> {
        let TableFunction::Span { begin, end, by } = self else { return Ok(()) };
        let texts = [TableFunction::text(begin, end, by.as_deref())];
        let mut refused = None;
        for group in groups {
            match Spans::new(&texts, &group.traces, &group.classes.vocabulary) {
                Ok(_) => return Ok(()),
                Err(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(()), |why| Err(Error::Filter(why.message.trim_start().to_owned())))
    }

    pub(crate) fn schema(&self, columns: &[usize], is_absolute: bool) -> SchemaRef {
        self.known().schema(columns, is_absolute)
    }

    /// Sends the rows of a group.
    pub(crate) fn read(&self, group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
        match self {
            TableFunction::Span { begin, end, by } => {
                let text = TableFunction::text(begin, end, by.as_deref());
                slices::read_spans(group, scan, rows, emit, vec![text])
            }
            TableFunction::CriticalPath { tid, from, to } => critical(group, scan, rows, emit, (*tid, *from, *to)),
        }
    }
}

/// Keeps what a critical path is made of.
struct Kept(History);

impl Visit for Kept {}

impl Sink for Kept {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        Sink::thread(&mut self.0, span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        Sink::cpu(&mut self.0, span);
    }
}

fn critical(
    group: &Group,
    scan: &Scan,
    rows: &mut Rows,
    emit: &mut Emit,
    (tid, from, to): (i32, i64, i64),
) -> Result<(), Ended> {
    // Behind the last record nothing is known: as `kymo critical`.
    let to = group.bounds().map_or(to, |(_, last)| to.min(last));
    if from >= to {
        return Ok(());
    }
    let goes_on = || emit.goes_on();
    let before = range::state_before_while(&group.traces, &group.classes, &group.indexes, from, &goes_on);
    let Some(mut walker): Option<Walker<'_>> = before else { return emit.check().and(Err(Ended::Enough)) };
    walker.begin_range(from);
    let until = to.saturating_add(BEHIND_NS);
    let mut reader = range::reader(&group.traces, &group.indexes, Some(from.into()), Some(until.into()));
    let mut kept = Kept(History::new(from, to.saturating_add(1), SPANS_MAX));
    if !walker.go_while(&mut reader, &mut (), &mut kept, &goes_on) {
        return emit.check().and(Err(Ended::Enough));
    }
    walker.state.finish(None, &mut kept);
    let state = &walker.state;
    for step in kept.0.critical(tid, from, to).steps {
        let (cpu, by, call) = match step.act {
            Act::Runs { cpu } => (Some(cpu), None, None),
            Act::Waits { why, cpu } => (cpu, doing::by(&kymo_analyze::Doing::Runnable { why, cpu }), None),
            Act::Blocked { call, waker, .. } => (None, waker.and_then(|waker| doing::by_waker(&waker)), call),
            Act::Unknown => (None, None, None),
        };
        let is_wanted = scan.wants_time(Some(step.from)) && scan.wants_end(Some(step.to)) && scan.wants_cpu(cpu);
        if !is_wanted || !scan.wants_tid(Some(step.tid.into())) {
            continue;
        }
        let own = kept.0.name(step.tid);
        let own = if own.is_empty() { name(state, Some(step.tid)) } else { own };
        let call = call.map(|call| group.classes.vocabulary.call_name(call));
        rows.push(&[
            step.from.into(),
            step.to.into(),
            ns(step.from, step.to),
            step.tid.into(),
            own.as_str().into(),
            (step.depth as u64).into(),
            PathNames::word(step.act).into(),
            cpu.into(),
            by.and_then(By::tid).into(),
            by_name(state, by).as_ref().into(),
            call.as_deref().into(),
            doubt(step.doubt).as_ref().into(),
            group.host.as_str().into(),
        ]);
        if rows.is_full() {
            rows.send(emit)?;
        }
    }
    rows.send(emit)
}
