// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a record of a kernel says, whoever recorded it and whatever it is called there.

use serde::Serialize;

use crate::name::Name;

/// A system call: a number of [`crate::Vocabulary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u16);

impl CallId {
    /// From this call on a number of [`CallId`] is the system call's own.
    pub(crate) const BY_NUMBER: u16 = 0x8000;

    /// Whether the number is the system call's own.
    pub(crate) fn is_by_number(self) -> bool {
        self.0 >= Self::BY_NUMBER
    }

    /// By the system call's own number.
    pub(crate) fn by_number(number: i128) -> Option<CallId> {
        let number = u16::try_from(number).ok()?;
        number.checked_add(Self::BY_NUMBER).map(CallId)
    }
}

/// What takes the CPU away from a thread without a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// A device's interrupt, by number.
    Irq(i32),
    /// A softirq, by vector.
    Softirq(u8),
    /// An interrupt of the processor's own: a position in [`VECTORS`].
    Vector(u8),
    /// The call of a high-resolution timer, by the address of its function.
    Hrtimer(u64),
    /// The call of a timer of the wheel, by the address of its function.
    Timer(u64),
    /// An interrupt of which only that is known.
    Hard,
    /// A softirq of which only that is known.
    Soft,
}

/// Softirqs by vector.
pub const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// Interrupts of the processor's own, as the kernel calls their events.
pub const VECTORS: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "thermal_apic",
    "x86_platform_ipi",
    "spurious_apic",
    "error_apic",
    "threshold_apic",
    "deferred_error_apic",
];

impl Interrupt {
    /// Whether it comes from hardware: nothing can be switched while it lasts.
    pub fn is_hard(self) -> bool {
        matches!(self, Interrupt::Irq(_) | Interrupt::Vector(_) | Interrupt::Hard)
    }
}

impl std::fmt::Display for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = |names: &[&'static str], index: u8| names.get(usize::from(index)).copied();
        match *self {
            Interrupt::Irq(number) => write!(f, "irq {number}"),
            Interrupt::Softirq(vec) => match known(&SOFTIRQS, vec) {
                Some(name) => write!(f, "softirq {name}"),
                None => write!(f, "softirq {vec}"),
            },
            Interrupt::Vector(vector) => write!(f, "{}", known(&VECTORS, vector).unwrap_or("vector")),
            Interrupt::Hrtimer(function) => write!(f, "hrtimer {function:#x}"),
            Interrupt::Timer(function) => write!(f, "timer {function:#x}"),
            Interrupt::Hard => f.write_str("an interrupt"),
            Interrupt::Soft => f.write_str("a softirq"),
        }
    }
}

/// How a thread leaves a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// It could go on, and was preempted.
    Preempted,
    /// It could go on: it gave way, or was preempted on its way back to user space, or an older kernel does not tell.
    GaveWay,
    /// It sleeps; the kernel's letter for how.
    Asleep(u8),
    /// It has ended.
    Ended,
}

/// A step of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It begins.
    Waking,
    /// The thread can run.
    Wakeup,
    /// A thread can run for the first time.
    New,
}

/// What is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Interrupts of the CPU.
    Irqs,
    /// Preemption on the CPU.
    Preemption,
}

/// Which of the two block or network events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// A request goes to the block device.
    BlockIssue,
    /// The block device has done it.
    BlockComplete,
    /// A packet is queued for a network device.
    NetQueue,
    /// The driver has taken it.
    NetXmit,
}

/// One event. Priorities are the kernel's: 0 to 139, real-time below 100. Tid 0 is the idle thread of each CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A CPU changes from one thread to another.
    Switch {
        /// The thread that ran.
        prev: i32,
        /// Its name; may be empty.
        prev_name: Name,
        /// Its priority.
        prev_prio: Option<i16>,
        /// How it leaves.
        leaves: Leaves,
        /// The thread that runs now.
        next: i32,
        /// Its name; may be empty.
        next_name: Name,
        /// Its priority.
        next_prio: Option<i16>,
    },
    /// A thread is woken.
    Wake {
        /// Which step.
        step: Wake,
        /// The thread.
        tid: i32,
        /// Its name; may be empty.
        name: Name,
        /// Its priority.
        prio: Option<i16>,
        /// Where it shall run, as far as it is decided.
        cpu: Option<u32>,
        /// The record's own flags say that it was written in this, and not by the thread that ran.
        within: Option<Interrupt>,
    },
    /// A thread gets another CPU.
    Migrate {
        /// The thread.
        tid: i32,
        /// The CPU.
        cpu: u32,
    },
    /// A thread's priority changes.
    Priority {
        /// The thread.
        tid: i32,
        /// The new one.
        prio: i16,
    },
    /// A thread is made.
    Fork {
        /// The thread that makes it.
        parent: i32,
        /// The new thread.
        child: i32,
        /// Its name; may be empty.
        name: Name,
        /// Its process, where the trace tells.
        process: Option<i32>,
    },
    /// A thread is made: whether it belongs to the process of its maker.
    Create {
        /// The new thread.
        child: i32,
        /// Its name.
        name: Name,
        /// It does.
        same_process: bool,
    },
    /// A thread has another name.
    Rename {
        /// The thread; newer kernels do not tell it.
        tid: Option<i32>,
        /// The name before; may be empty.
        old: Name,
        /// The name.
        name: Name,
    },
    /// A process runs another program.
    Exec {
        /// The thread that does, by its number from now on.
        tid: i32,
        /// Its number before.
        old_tid: i32,
        /// The program's file name without directories; empty where it has none.
        name: Name,
    },
    /// A thread begins to end.
    Exit {
        /// The thread.
        tid: i32,
    },
    /// A thread is forgotten by the kernel.
    Free {
        /// The thread.
        tid: i32,
    },
    /// An interrupt, softirq or timer call begins.
    Enter {
        /// Which.
        interrupt: Interrupt,
        /// What the trace calls it; may be empty.
        name: Name,
    },
    /// It ends.
    Leave {
        /// Which; of timer calls the function is not told, and is 0.
        interrupt: Interrupt,
    },
    /// A softirq is wanted.
    Raise {
        /// Its vector.
        vec: u8,
    },
    /// A high-resolution timer is started.
    TimerStart {
        /// Its address.
        timer: u64,
        /// When it shall expire, in its own clock, ns.
        expires: i64,
    },
    /// A high-resolution timer is cancelled.
    TimerCancel {
        /// Its address.
        timer: u64,
    },
    /// A high-resolution timer expires, and its function is called.
    TimerExpire {
        /// Its address.
        timer: u64,
        /// Its function.
        function: u64,
        /// The time, in its own clock, ns.
        now: i64,
    },
    /// A system call begins.
    Call {
        /// Which.
        call: CallId,
        /// Its first two arguments that are integers, 0 where there are not so many.
        args: [u64; 2],
    },
    /// It returns.
    Return {
        /// Which, where the event tells.
        call: Option<CallId>,
        /// What it returned.
        value: i64,
    },
    /// Interrupts or preemption go off or on.
    Switchable {
        /// Which.
        what: Off,
        /// They go off.
        off: bool,
    },
    /// A CPU goes to an idle state, or comes out of it.
    Idle {
        /// The CPU.
        cpu: Option<u32>,
        /// The state; none: it comes out.
        state: Option<u32>,
    },
    /// A CPU's frequency.
    Frequency {
        /// The CPU.
        cpu: Option<u32>,
        /// kHz.
        khz: u32,
    },
    /// Block and network requests.
    Io {
        /// Which step.
        step: Io,
        /// Of block: the device; of net: 0.
        device: u64,
        /// Of block: the sector; of net: the address of the packet.
        key: u64,
        /// Of net: the device.
        name: Name,
        /// Of block: its bytes, where the event tells; else 0.
        bytes: u64,
        /// Of block: it writes, or it reads; `None`: neither, as a flush, or the event does not tell.
        writes: Option<bool>,
    },
    /// A page fault.
    Fault {
        /// The address.
        address: u64,
        /// From user space.
        user: bool,
    },
    /// A signal is sent.
    Signal {
        /// To this thread, or to the process of that number.
        tid: i32,
        /// Its number.
        number: i32,
    },
    /// Noise as the kernel's osnoise tracer finds it.
    Noise {
        /// `irq`, `softirq`, `nmi`, or `thread`.
        kind: &'static str,
        /// When it began, in the kernel's own clock, ns.
        start: i64,
        /// How long it was, ns, without what came in between.
        duration: i64,
    },
    /// A thread, as the state dump found it.
    Dumped {
        /// The thread.
        tid: i32,
        /// Its process.
        process: i32,
        /// Its name.
        name: Name,
        /// Its priority, where the dump tells.
        prio: Option<i16>,
        /// It sleeps.
        asleep: bool,
    },
}
