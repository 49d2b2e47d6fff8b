// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a report says, and why a text is none.

use super::flags::Column;

/// Lines in which a report must be recognised.
pub(super) const HEAD_LINES: usize = 64;

/// What a report measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measures {
    /// Interrupts off.
    Irqs,
    /// Preemption off.
    Preemption,
    /// Either of them off, without a break.
    Either,
    /// From the wake-up of a thread until it runs.
    Wakeup,
    /// The old tracer, whose kernel could be set to any of them, and does not say to which.
    Unsaid,
}

/// How lines of the body look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `ps-6143  2d..1  259us+: function <-caller`.
    Latency,
    /// `ps-6143 [002] d..1  44.922973: function <-caller`.
    Absolute,
    /// `0 us |  0)  ps-6143  | d..1 | 0.378 us | function();`.
    Graph,
}

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The tracer's name; `preemption` where an old report does not say.
    pub tracer: String,
    /// What it measures.
    pub measures: Measures,
    /// The head is of 2.6.2x: without `#`, `+` marks gaps above 1 us.
    pub is_old: bool,
    /// Release of the kernel; may be empty.
    pub kernel: String,
    /// The length that the kernel measured, us.
    pub latency_us: Option<u64>,
    /// Entries shown, and in all.
    pub entries: Option<(u64, u64)>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// How the kernel preempts: `preempt_rt`, `desktop`, ...; may be empty.
    pub model: String,
    /// CPUs that were online.
    pub cpus: Option<u32>,
    /// The thread that was current, or that was woken.
    pub task: Option<Task>,
    /// Where it began; may be empty.
    pub started: String,
    /// Where it ended; may be empty.
    pub ended: String,
    /// The columns of flags.
    pub columns: Vec<Column>,
    /// The body.
    pub form: Form,
    /// Its lines, as they stand.
    pub lines: Vec<Line>,
    /// Lines that were not understood.
    pub odd: u64,
    /// There was more than is looked at.
    pub is_cut: bool,
}

/// The thread of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name; may be empty.
    pub comm: String,
    /// Its number.
    pub pid: i32,
    /// Its nice value.
    pub nice: i32,
    /// Its policy by the kernel's number.
    pub policy: u32,
    /// Its real-time priority as people set it.
    pub rt_prio: u32,
}

impl Task {
    /// Policy and priority in words: `FIFO 80`, `nice 0`.
    pub fn priority(&self) -> String {
        match self.policy {
            1 => format!("FIFO {}", self.rt_prio),
            2 => format!("RR {}", self.rt_prio),
            3 => format!("batch, nice {}", self.nice),
            5 => "idle policy".to_owned(),
            6 => "deadline".to_owned(),
            _ => format!("nice {}", self.nice),
        }
    }
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its number in the text, from 1.
    pub number: usize,
    /// The current thread's name, cut to eight characters by the kernel; may be empty.
    pub comm: String,
    /// Its number.
    pub pid: Option<i32>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The flags, a character for each column.
    pub flags: String,
    /// ns: from the begin of the report, or of the clock where times are absolute.
    pub time: i64,
    /// The kernel's mark for the gap that follows.
    pub mark: Option<char>,
    /// What happened, as it stands.
    pub text: String,
    /// The function, where it is a call.
    pub function: String,
    /// Who called it; may be empty.
    pub caller: String,
    /// A wake-up or a switch, as the wakeup tracers write them.
    pub woken: Option<Woken>,
    /// Of a graph: how long the function took, ns.
    pub took: Option<i64>,
    /// The stack that was printed with it, the innermost first.
    pub stack: Vec<String>,
    /// When that stack had been taken, ns.
    pub stack_time: Option<i64>,
}

/// `186:120:R   + [000]     196: 19:R cyclictest`: a thread wakes another, or (`==>`) is switched away for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The current thread, and its priority (the kernel's).
    pub from: (i32, i16),
    /// The other one.
    pub to: (i32, i16),
    /// Its name; may be empty.
    pub comm: String,
    /// It is a switch.
    pub is_switch: bool,
    /// The state of the current thread, by the kernel's letter.
    pub state: char,
}

/// Why a text is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReport {
    /// It does not look like one.
    #[error(
        "not a report of a latency tracer: neither '# tracer: irqsoff' (preemptoff, preemptirqsoff, wakeup, wakeup_rt, \
         wakeup_dl) nor 'latency trace v1' in its first {HEAD_LINES} lines"
    )]
    Unknown,
    /// Of another tracer.
    #[error(
        "a report of the tracer {0:?}; explained are those of irqsoff, preemptoff, preemptirqsoff, wakeup, wakeup_rt, \
         wakeup_dl"
    )]
    OtherTracer(String),
    /// It has no entry.
    #[error("the report of {0} has no entry: nothing was measured between its start and its reading")]
    Empty(String),
}
