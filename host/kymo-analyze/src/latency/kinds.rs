// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of latencies, what series are of, and which kinds one span is a sample of [spec/analyze.md 5].

use serde::Serialize;

use crate::CallId;
use crate::event::Interrupt;
use crate::name::Name;

macro_rules! kinds {
    ($(#[doc = $doc:literal] $what:ident $name:literal;)*) => {
        /// A kind of latency.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub enum What {
            $(#[doc = $doc] #[serde(rename = $name)] $what,)*
        }

        impl What {
            /// All kinds, with their names.
            pub const ALL: &[(What, &'static str)] = &[$((What::$what, $name)),*];
        }
    };
}

// A row of spec/analyze.md 5 each.
kinds! {
    /// From the wake-up of a thread until it runs.
    Wakeup "wakeup";
    /// From when a thread can run until it runs.
    Runqueue "runqueue";
    /// From when a thread is preempted until it runs again.
    Preempted "preempted";
    /// An interrupt of a device.
    Irq "irq";
    /// An interrupt of the processor's own.
    Vector "vector";
    /// From when a softirq is raised until it begins.
    SoftirqRaise "softirq-raise";
    /// A softirq.
    Softirq "softirq";
    /// From when a timer should expire until it does.
    Timer "timer";
    /// Interrupts off.
    IrqsOff "irqs-off";
    /// Preemption off.
    PreemptOff "preempt-off";
    /// A system call.
    Syscall "syscall";
    /// A futex call in which a thread was blocked.
    Futex "futex";
    /// A block request.
    Block "block";
    /// A packet, from the queue to the driver.
    Net "net";
    /// What the user names: begin and end.
    Span "span";
}

impl What {
    /// Its name.
    pub fn name(self) -> &'static str {
        What::ALL[self as usize].1
    }

    /// Whether it is a thread's. What interrupts and timers take is their CPU's, whichever thread was current.
    pub(crate) fn is_of_thread(self) -> bool {
        !matches!(self, What::Irq | What::Vector | What::SoftirqRaise | What::Softirq | What::Timer)
    }

    /// What a series of it is of, where a sample of several kinds is of `of`.
    fn of(self, of: Of) -> Of {
        if self == What::Futex { Of::All } else { of }
    }
}

macro_rules! groups {
    ($(#[doc = $doc:literal] $group:ident $($what:ident)*;)*) => {
        /// The kinds that one span is a sample of, the same one for all of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum SampleGroup {
            $(#[doc = $doc] $group,)*
        }

        impl SampleGroup {
            /// All of them. Bytes of indexes have their positions.
            pub const ALL: &[SampleGroup] = &[$(SampleGroup::$group),*];

            /// The kinds.
            pub fn kinds(self) -> &'static [What] {
                match self {
                    $(SampleGroup::$group => &[$(What::$what),*],)*
                }
            }
        }
    };
}

groups! {
    /// A thread was woken, and runs.
    Woken Wakeup Runqueue;
    /// The same, from when the timer was due that woke it.
    WokenLate Wakeup;
    /// A thread could run, and runs: it gave way, or was woken by a timer that was late.
    Waited Runqueue;
    /// A thread was preempted, and runs again.
    Preempted Preempted Runqueue;
    /// As the kind.
    Irq Irq;
    /// As the kind.
    Vector Vector;
    /// As the kind.
    SoftirqRaise SoftirqRaise;
    /// As the kind.
    Softirq Softirq;
    /// As the kind.
    Timer Timer;
    /// As the kind.
    IrqsOff IrqsOff;
    /// As the kind.
    PreemptOff PreemptOff;
    /// A system call that is no wait for a futex.
    Syscall Syscall;
    /// A futex call in which a thread was blocked.
    Futex Futex Syscall;
    /// As the kind.
    Block Block;
    /// As the kind.
    Net Net;
    /// `Woken`, of a real-time thread.
    WokenRealTime Wakeup Runqueue;
    /// `WokenLate`, of a real-time thread.
    WokenLateRealTime Wakeup;
    /// As the kind.
    Span Span;
}

impl SampleGroup {
    /// Each of its kinds, with what a series of that is of.
    pub fn series(self, of: Of) -> impl Iterator<Item = (What, Of)> {
        self.kinds().iter().map(move |what| (*what, what.of(of)))
    }

    /// Whether they are wake-ups of real-time threads.
    pub fn is_real_time(self) -> bool {
        matches!(self, SampleGroup::WokenRealTime | SampleGroup::WokenLateRealTime)
    }

    /// Whether they are a thread's.
    pub fn is_of_thread(self) -> bool {
        self.kinds().iter().all(|what| what.is_of_thread())
    }

    /// Whether what is known of records before decides if there is a sample, or what is doubtful about it: the state
    /// does not say.
    pub fn is_of_past(self) -> bool {
        matches!(
            self,
            SampleGroup::SoftirqRaise | SampleGroup::Timer | SampleGroup::Block | SampleGroup::Net | SampleGroup::Span
        )
    }
}

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Of {
    /// Everything of its kind.
    All,
    /// An interrupt, and what the trace calls it.
    Interrupt(Interrupt, Name),
    /// A timer's function.
    Function(u64),
    /// A system call.
    Call(CallId),
    /// A block device: the kernel's number, `major << 20 | minor`.
    Device(u64),
    /// A network device.
    Interface(Name),
    /// The user's span of that number.
    Span(u16),
    /// The same, of one key, by the number that its giver knows it by.
    Keyed(u16, u32),
    /// What was too much to be kept apart.
    Others,
}

/// Which series a sample belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind.
    pub what: What,
    /// What it is of.
    pub of: Of,
    /// The process, where they are kept apart.
    pub process: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The priority.
    pub prio: Option<i16>,
    /// The CPU.
    pub cpu: Option<u32>,
}

/// What else is kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// Processes.
    pub process: bool,
    /// Threads.
    pub thread: bool,
    /// Priorities.
    pub prio: bool,
    /// CPUs.
    pub cpu: bool,
}
