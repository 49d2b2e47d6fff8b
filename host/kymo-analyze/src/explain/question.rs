// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a story is asked about.

use crate::cause::Asked;
use crate::doubt::Doubt;
use crate::latency::What;
use crate::series::Sample;
use crate::span::{Doing, ThreadSpan, Waker};

/// What a story is asked about: [from, to) of a thread or of a CPU, or the moment `from` where both are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The kind of latency, where it is one.
    pub what: Option<What>,
    /// What it is of, as text: the interrupt, the call, the device, the user's span; may be empty.
    pub of: String,
    /// The thread.
    pub tid: Option<i32>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// ns of the trace's clock.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// Who woke the thread.
    pub waker: Option<Waker>,
    /// Of a futex: who released it.
    pub owner: Option<i32>,
    /// What is doubtful about it already.
    pub doubt: Doubt,
    /// Of a wake-up: how late the timer was that woke the thread; `from` is when it was due.
    pub late_ns: u64,
    /// How the stretch came about.
    pub asked: Asked,
}

impl Question {
    /// A sample of a latency.
    pub fn of_sample(what: What, of: String, sample: &Sample) -> Question {
        Question {
            what: Some(what),
            of,
            tid: sample.tid.filter(|tid| *tid != 0),
            cpu: sample.cpu,
            from: sample.from,
            to: sample.to,
            waker: sample.waker,
            owner: sample.owner,
            doubt: sample.doubt,
            late_ns: sample.late_ns,
            asked: Asked::Stretch,
        }
    }

    /// A stretch of a thread.
    pub fn stretch(tid: i32, from: i64, to: i64) -> Question {
        Question { tid: Some(tid), ..Question::moment(None, from, to) }
    }

    /// The stretch that a span of a thread is. `late_ns`: how late the timer was that woke it.
    pub fn of_span(span: &ThreadSpan, late_ns: u64) -> Question {
        let from = match span.doing {
            Doing::Runnable { .. } => span.ready_from.saturating_sub_unsigned(late_ns),
            _ => span.from,
        };
        Question { doubt: span.doubt, ..Question::stretch(span.tid, from, span.to) }
    }

    /// A stretch or a moment of a CPU; of all where there is none.
    pub fn moment(cpu: Option<u32>, from: i64, to: i64) -> Question {
        let (of, doubt) = (String::new(), Doubt::NONE);
        let asked = Asked::Stretch;
        Question { what: None, of, tid: None, cpu, from, to, waker: None, owner: None, doubt, late_ns: 0, asked }
    }

    /// When the thread was woken; else when it begins.
    pub(super) fn waking(&self) -> i64 {
        self.from.saturating_add_unsigned(self.late_ns)
    }

    /// The thread whose time is spent; none: it is a CPU's.
    pub fn thread(&self) -> Option<i32> {
        let of_cpu = matches!(
            self.what,
            Some(
                What::Irq
                    | What::Vector
                    | What::Softirq
                    | What::SoftirqRaise
                    | What::Timer
                    | What::IrqsOff
                    | What::PreemptOff
            )
        );
        self.tid.filter(|_| !of_cpu)
    }
}
