// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `thread_state`: what threads did, as rows of the viewer show it.

use kymo_analyze::{Doing, Doubt, Name, Sink, State, Thread, ThreadSpan, Until, Vocabulary};
use kymo_query::doing::{self, By, Calls, STATES};

use super::{Derive, Needs, Out, RowPlace, by_name, doubt, ns, walk};
use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const THREAD_STATE: Known = Known {
    name: "thread_state",
    about: "What threads did, stretch by stretch (needs the scheduler's events)",
    columns: columns! {
        "time" Time "Begin of the stretch";
        "end_time" Time "Its end: the begin of the next one, or the end of the trace";
        "duration_ns" Count "Its length, ns";
        "tid" Id "The thread";
        "pid" Id "Its process";
        "name" Words "Its name then";
        "state" Words "What it did: running, preempted, woken (waits for a CPU after a wake-up), gave_way, lock, uninterruptible, page_fault, waiting, sleeping, stopped, absent, unknown";
        "cpu" Id "The CPU that it ran on or waited for";
        "by_tid" Id "Who woke it, or took its CPU; 0: the idle thread";
        "by" Words "Its name, or the interrupt's";
        "call" Words "The system call that it was blocked in";
        "letter" Words "The kernel's letter of a blocked state";
        "prio" Signed "The kernel's priority";
        "is_open" Bool "The trace ended in it";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

struct Stretch {
    span: ThreadSpan,
    name: Name,
    process: Option<i32>,
    prio: Option<i16>,
}

struct ThreadStates<'v> {
    calls: Calls,
    vocabulary: &'v Vocabulary,
    pending: Vec<Stretch>,
}

impl Sink for ThreadStates<'_> {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if span.to > span.from {
            let (name, process, prio) = (thread.name, thread.process, thread.prio);
            self.pending.push(Stretch { span: *span, name, process, prio });
        }
    }
}

impl Derive for ThreadStates<'_> {
    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        for Stretch { span, name, process, prio } in self.pending.drain(..) {
            let cpu = doing::cpu(&span.doing);
            if !out.wants(&RowPlace { from: span.from, to: span.to, cpu, tid: Some(span.tid) }) {
                continue;
            }
            let by = doing::by(&span.doing);
            let (letter, call) = match span.doing {
                Doing::Blocked { state, call, .. } => (Some([state]), call),
                _ => (None, None),
            };
            let letter = letter.as_ref().and_then(|letter| std::str::from_utf8(letter).ok());
            let call = call.map(|call| self.vocabulary.call_name(call));
            out.push(&[
                span.from.into(),
                span.to.into(),
                ns(span.from, span.to),
                span.tid.into(),
                process.into(),
                name.as_str().into(),
                STATES[usize::from(self.calls.state(&span.doing))].into(),
                cpu.into(),
                by.and_then(By::tid).into(),
                by_name(state, by).as_ref().into(),
                call.as_deref().into(),
                letter.into(),
                prio.map(i64::from).into(),
                (span.until == Until::End).into(),
                doubt(span.doubt.without(Doubt::END)).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let vocabulary = &group.classes.vocabulary;
    let mut states = ThreadStates { calls: Calls::new(vocabulary), vocabulary, pending: Vec::new() };
    walk(group, scan, rows, emit, &mut states, Needs::State)
}
