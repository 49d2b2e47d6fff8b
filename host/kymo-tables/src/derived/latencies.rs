// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables `latencies`, every sample of `kymo latency`, and `locks`, futex calls.

use std::collections::BTreeMap;

use kymo_analyze::{
    CallSpan, CpuSpan, Event, Head, InterruptSpan, Key, Latency, Name, OffSpan, Options, Sample, Sink, State, Thread,
    ThreadSpan, Threads, Unmatched,
};
use kymo_feed::{LossAt, Seen, recorders};
use kymo_query::doing::{self, By};
use kymo_query::{FunctionNames, NameTable, Spans};

use super::slices::spans_of;
use super::{Derive, Needs, Out, RowPlace, by_name, doubt, name, ns, walk};
use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const LATENCIES: Known = Known {
    name: "latencies",
    about: "Latencies: every sample of kymo latency, of all kinds; not of the recorder's own threads",
    columns: columns! {
        "time" Time "Begin of the sample";
        "end_time" Time "Its end";
        "duration_ns" Count "The latency, ns";
        "kind" Words "wakeup, runqueue, preempted, irq, vector, softirq-raise, softirq, timer, irqs-off, preempt-off, syscall, futex, block, net, span";
        "of" Words "What it is of: the interrupt, system call, device, span";
        "tid" Id "The thread";
        "pid" Id "Its process";
        "name" Words "Its name";
        "prio" Signed "The kernel's priority";
        "cpu" Id "The CPU where it ended";
        "by_tid" Id "Of a wake-up: who woke the thread; 0: the idle thread";
        "by" Words "Its name, or the interrupt's";
        "owner_tid" Id "Of a futex: who held it";
        "late_ns" Count "Of a wake-up by a timer: how late the timer was, ns";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed, nested";
        "host" Words "Machine that the trace is of";
    },
};

pub(crate) const LOCKS: Known = Known {
    name: "locks",
    about: "Calls of futex: how long a thread waited for a lock, and who held it (needs system calls; with the scheduler's \
            events it is known who was blocked)",
    columns: columns! {
        "time" Time "Begin of the call";
        "end_time" Time "Its end";
        "duration_ns" Count "Its length, ns";
        "tid" Id "The thread";
        "pid" Id "Its process";
        "name" Words "Its name";
        "address" Count "Address of the lock in the process";
        "operation" Count "Second argument of the call";
        "value" Signed "What it returned";
        "is_blocked" Bool "The thread was blocked in it";
        "owner_tid" Id "Who woke the thread in a futex call on the same address";
        "owner" Words "Its name";
        "cpu" Id "The CPU where it returned";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

/// Addresses stay numbers: nothing is looked up for a table.
struct Addresses;

impl FunctionNames for Addresses {}

struct Latencies<'v> {
    latency: Latency,
    spans: Spans<'v>,
    texts: Vec<String>,
    devices: BTreeMap<u64, String>,
    device_class: Option<usize>,
}

impl Sink for Latencies<'_> {
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

impl Derive for Latencies<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let latency = &mut self.latency;
        self.spans.record(seen, state, &mut |of, sample| latency.span(of.number, of.key, sample));
        if self.device_class == Some(seen.class) {
            self.devices.extend(kymo_feed::device_of(seen.record));
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.latency.lose(loss.from, loss.to);
    }

    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        let vocabulary = &out.group.classes.vocabulary;
        let mut names: Option<NameTable<'_>> = None;
        for (key, sample) in self.latency.samples() {
            let Sample { from, to, cpu, tid, .. } = sample;
            if !out.wants(&RowPlace { from, to, cpu, tid }) {
                continue;
            }
            let names = names.get_or_insert_with(|| NameTable {
                vocabulary,
                devices: self.devices.clone(),
                spans: &self.texts,
                keys: &[],
                functions: &Addresses,
            });
            row(out, names, &key, &sample, state);
        }
    }
}

fn row(out: &mut Out<'_>, names: &NameTable<'_>, key: &Key, sample: &Sample, state: &State) {
    let by = sample.waker.and_then(|waker| doing::by_waker(&waker));
    let of = if out.has(4) { names.of(key.of) } else { String::new() };
    out.push(&[
        sample.from.into(),
        sample.to.into(),
        sample.value_ns.into(),
        key.what.name().into(),
        of.as_str().into(),
        sample.tid.into(),
        sample.process.into(),
        sample.name.as_str().into(),
        sample.prio.map(i64::from).into(),
        sample.cpu.into(),
        by.and_then(By::tid).into(),
        by_name(state, by).as_ref().into(),
        sample.owner.into(),
        sample.late_ns.into(),
        doubt(sample.doubt).as_ref().into(),
        out.group.host.as_str().into(),
    ]);
}

/// Sends the samples of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let recorders = recorders(&group.traces);
    let mut latency = Latency::new(Options { worst_max: 2, recorders, ..Options::default() });
    latency.keep_samples();
    let texts = spans_of(group);
    let spans = Spans::new(&texts, &group.traces, &group.classes.vocabulary);
    let spans = spans.map_err(|refused| Error::Filter(refused.message))?;
    let is_device = |class: &kymo_analyze::Class| class.name == kymo_feed::DEVICES;
    let device_class = group.classes.list.iter().position(is_device);
    let mut latencies = Latencies { latency, spans, texts, devices: BTreeMap::new(), device_class };
    walk(group, scan, rows, emit, &mut latencies, Needs::All)
}

#[derive(Default)]
struct Locks(Vec<(CallSpan, Name, Option<i32>)>);

impl Sink for Locks {
    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        if span.is_futex {
            self.0.push((*span, thread.name, thread.process));
        }
    }
}

impl Derive for Locks {
    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        for (span, own, process) in self.0.drain(..) {
            if !out.wants(&RowPlace { from: span.from, to: span.to, cpu: Some(span.cpu), tid: Some(span.tid) }) {
                continue;
            }
            out.push(&[
                span.from.into(),
                span.to.into(),
                ns(span.from, span.to),
                span.tid.into(),
                process.into(),
                own.as_str().into(),
                span.args[0].into(),
                span.args[1].into(),
                span.value.into(),
                span.blocked.into(),
                span.owner.into(),
                name(state, span.owner).as_str().into(),
                span.cpu.into(),
                doubt(span.doubt).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

/// Sends the futex calls of a group.
pub(crate) fn locks(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    walk(group, scan, rows, emit, &mut Locks::default(), Needs::State)
}
