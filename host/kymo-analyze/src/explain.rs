//! The story of one worst case, stretch of a thread, or moment [spec/analyze.md 10].
//!
//! A [`Question`] says what is asked about. A [`Scene`] is a sink beside the state: it keeps spans and records around
//! it, bounded. [`Scene::story`] makes a [`Story`] of that: typed, for `--json` and for those who build on it;
//! [`Story::text`] is the screenful.

mod advice;
mod cause;
mod chain;
mod decode;
mod errno;
mod evidence;
mod headline;
mod names;
mod note;
mod rows;
mod scene;
mod story;
mod text;

pub use cause::Cause;
pub use decode::Flags;
pub use errno::{errno, signal};
pub use note::{Note, Value};
pub use scene::Scene;
pub use story::{Advice, Gap, Link, Moment, Place, Row, Slice, Story};
pub use text::Look;

use crate::doubt::Doubt;
use crate::latency::What;
use crate::series::Sample;
use crate::span::Waker;

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
        }
    }

    /// A stretch of a thread.
    pub fn stretch(tid: i32, from: i64, to: i64) -> Question {
        Question { tid: Some(tid), ..Question::moment(None, from, to) }
    }

    /// A stretch or a moment of a CPU; of all where there is none.
    pub fn moment(cpu: Option<u32>, from: i64, to: i64) -> Question {
        let (of, doubt) = (String::new(), Doubt::NONE);
        Question { what: None, of, tid: None, cpu, from, to, waker: None, owner: None, doubt }
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

/// Functions of addresses. Whoever has files implements it; [`NoSymbols`] knows none.
pub trait Symbols {
    /// The kernel's function at an address, such as `hrtimer_wakeup+0x12`.
    fn kernel(&self, address: u64) -> Option<String>;
    /// The kernel's function so many bytes behind the begin of its text, as the events of interrupts off tell it.
    fn kernel_offset(&self, _offset: i64) -> Option<String> {
        None
    }
    /// A program's function and line at an address, as the process had it mapped at that time.
    fn user(&self, process: i32, address: u64, time: i64) -> Option<String>;
}

/// Knows no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn kernel(&self, _: u64) -> Option<String> {
        None
    }

    fn user(&self, _: i32, _: u64, _: i64) -> Option<String> {
        None
    }
}
