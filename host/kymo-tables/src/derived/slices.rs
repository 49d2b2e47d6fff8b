// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `slices`: what has a begin and an end, of threads and of CPUs.

use kymo_analyze::{
    CallSpan, Doubt, Interrupt, InterruptSpan, LostUntil, Off, OffSpan, Sample, Sink, State, Thread, Threads,
};
use kymo_feed::{LossAt, Seen};
use kymo_query::Spans;

use super::slice::Slice;
use super::{Derive, Needs, Out, RowPlace, doubt, name, ns, tid_of, walk};
use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::functions::Calls;
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const SLICES: Known = Known {
    name: "slices",
    about: "What has a begin and an end: spans of the user's events (as axis:begin, axis:end), system calls, interrupts, \
            softirqs, timer calls, interrupts and preemption off, functions",
    columns: columns! {
        "time" Time "Begin";
        "end_time" Time "End";
        "duration_ns" Count "Length, ns";
        "kind" Words "span, syscall, irq, softirq, timer, irqs_off, preempt_off, function";
        "of" Words "What it is: the events of a span, the system call, the interrupt, the address of a function";
        "tid" Id "The thread that did it, or was interrupted; 0: the idle thread";
        "pid" Id "Its process";
        "name" Words "Its name";
        "cpu" Id "The CPU where it ended";
        "value" Signed "What a system call returned";
        "depth" Count "Of a function: callers that are open";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed, nested";
        "host" Words "Machine that the trace is of";
    },
};

/// The spans that names of events tell, as `kymo latency` and the viewer take them.
pub(crate) fn spans_of(group: &Group) -> Vec<String> {
    kymo_query::named_spans(&group.traces, &group.classes)
}

struct Slices<'g> {
    group: &'g Group,
    spans: Spans<'g>,
    texts: Vec<String>,
    functions: Calls,
    lost: LostUntil,
    pending: Vec<Slice>,
}

impl Sink for Slices<'_> {
    fn interrupt(&mut self, span: &InterruptSpan, _: Threads<'_>) {
        let kind = match span.interrupt {
            Interrupt::Softirq(_) | Interrupt::Soft => "softirq",
            Interrupt::Hrtimer(_) | Interrupt::Timer(_) => "timer",
            _ => "irq",
        };
        let of = match span.name.is_empty() {
            true => span.interrupt.to_string(),
            false => format!("{} {}", span.interrupt, span.name),
        };
        self.pending.push(Slice {
            from: span.from,
            to: span.to,
            kind,
            of,
            tid: tid_of(span.current),
            who: None,
            cpu: Some(span.cpu),
            value: None,
            depth: None,
            doubt: span.doubt,
        });
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.pending.push(Slice {
            from: span.from,
            to: span.to,
            kind: "syscall",
            of: self.group.classes.vocabulary.call_name(span.call).into_owned(),
            tid: Some(span.tid),
            who: Some((thread.process, thread.name)),
            cpu: Some(span.cpu),
            value: Some(span.value),
            depth: None,
            doubt: span.doubt,
        });
    }

    fn off(&mut self, span: &OffSpan, _: Threads<'_>) {
        let kind = if matches!(span.what, Off::Irqs) { "irqs_off" } else { "preempt_off" };
        self.pending.push(Slice {
            from: span.from,
            to: span.to,
            kind,
            of: String::new(),
            tid: tid_of(span.current),
            who: None,
            cpu: Some(span.cpu),
            value: None,
            depth: None,
            doubt: span.doubt,
        });
    }
}

impl<'g> Slices<'g> {
    fn new(group: &'g Group, spans: Spans<'g>, texts: Vec<String>, functions: Calls) -> Slices<'g> {
        Slices { group, spans, texts, functions, lost: LostUntil::default(), pending: Vec::new() }
    }

    fn span(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let Slices { spans, texts, pending, lost, .. } = self;
        spans.record(seen, state, &mut |of, sample: Sample| {
            pending.push(Slice {
                from: sample.from,
                to: sample.to,
                kind: "span",
                of: texts.get(usize::from(of.number)).cloned().unwrap_or_default(),
                tid: sample.tid,
                who: Some((sample.process, sample.name)),
                cpu: sample.cpu,
                value: None,
                depth: None,
                doubt: sample.doubt | Doubt::LOST.when(sample.from < lost.at(sample.to)),
            });
        });
    }

    fn lost(&mut self, loss: &LossAt) {
        self.lost.lose(loss.from, loss.to);
        self.functions.lost(loss.to);
    }
}

impl Derive for Slices<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.span(seen, state);
        self.functions.record(seen, state, &mut self.pending);
    }

    fn loss(&mut self, loss: &LossAt) {
        self.lost(loss);
    }

    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        for slice in self.pending.drain(..) {
            let Slice { from, to, cpu, tid, .. } = slice;
            if !out.wants(&RowPlace { from, to, cpu, tid }) {
                continue;
            }
            let known = || (tid.and_then(|tid| state.thread(tid)?.process), name(state, tid));
            let (process, own) = slice.who.unwrap_or_else(known);
            out.push(&[
                from.into(),
                to.into(),
                ns(from, to),
                slice.kind.into(),
                slice.of.as_str().into(),
                tid.into(),
                process.into(),
                own.as_str().into(),
                cpu.into(),
                slice.value.into(),
                slice.depth.into(),
                doubt(slice.doubt).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

/// Spans alone.
struct OnlySpans<'g>(Slices<'g>);

impl Sink for OnlySpans<'_> {}

impl Derive for OnlySpans<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.0.span(seen, state);
    }

    fn loss(&mut self, loss: &LossAt) {
        self.0.lost(loss);
    }

    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        self.0.flush(out, state);
    }
}

/// Sends the spans of a group by their texts; none where it has no such events.
pub(crate) fn read_spans(
    group: &Group,
    scan: &Scan,
    rows: &mut Rows,
    emit: &mut Emit,
    texts: Vec<String>,
) -> Result<(), Ended> {
    let Ok(spans) = Spans::new(&texts, &group.traces, &group.classes.vocabulary) else { return Ok(()) };
    let functions = Calls::new(&[]);
    let mut spans = OnlySpans(Slices::new(group, spans, texts, functions));
    walk(group, scan, rows, emit, &mut spans, Needs::All)
}

pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let texts = spans_of(group);
    let spans = Spans::new(&texts, &group.traces, &group.classes.vocabulary);
    let spans = spans.map_err(|refused| Error::Filter(refused.message))?;
    let functions = Calls::new(&group.traces);
    let mut slices = Slices::new(group, spans, texts, functions);
    walk(group, scan, rows, emit, &mut slices, Needs::All)
}
