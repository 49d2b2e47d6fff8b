// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `cpu_state`: what CPUs did.

use kymo_analyze::{Context, CpuSpan, Interrupt, Sink, State};

use super::{Derive, Needs, Out, RowPlace, doubt, name, ns, tid_of, walk};
use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const CPU_STATE: Known = Known {
    name: "cpu_state",
    about: "What CPUs did, stretch by stretch (needs the scheduler's events)",
    columns: columns! {
        "time" Time "Begin of the stretch";
        "end_time" Time "Its end";
        "duration_ns" Count "Its length, ns";
        "cpu" Id "The CPU";
        "state" Words "The innermost of what it did: thread, idle, interrupt, softirq, timer, unknown";
        "tid" Id "The thread that ran or was interrupted; 0: the idle thread";
        "name" Words "Its name";
        "interrupt" Words "The interrupt, softirq or timer";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

#[derive(Default)]
struct CpuStates(Vec<CpuSpan>);

impl Sink for CpuStates {
    fn cpu(&mut self, span: &CpuSpan) {
        self.0.push(*span);
    }
}

/// The word for what a CPU does.
fn word(context: Context) -> &'static str {
    match context {
        Context::Unknown => "unknown",
        Context::Idle => "idle",
        Context::Thread(_) => "thread",
        Context::Interrupt(Interrupt::Softirq(_) | Interrupt::Soft) => "softirq",
        Context::Interrupt(Interrupt::Hrtimer(_) | Interrupt::Timer(_)) => "timer",
        Context::Interrupt(_) => "interrupt",
    }
}

impl Derive for CpuStates {
    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        for span in self.0.drain(..) {
            let tid = tid_of(span.current);
            if !out.wants(&RowPlace { from: span.from, to: span.to, cpu: Some(span.cpu), tid }) {
                continue;
            }
            let interrupt = match span.context {
                Context::Interrupt(interrupt) => interrupt.to_string(),
                _ => String::new(),
            };
            out.push(&[
                span.from.into(),
                span.to.into(),
                ns(span.from, span.to),
                span.cpu.into(),
                word(span.context).into(),
                tid.into(),
                name(state, tid).as_str().into(),
                interrupt.as_str().into(),
                doubt(span.doubt).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    walk(group, scan, rows, emit, &mut CpuStates::default(), Needs::State)
}
