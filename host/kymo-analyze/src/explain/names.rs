// SPDX-License-Identifier: MIT OR Apache-2.0
//! What everything is called: threads, interrupts, causes. Names and priorities are those of the moment.

use super::scene::Scene;
use super::symbols::Symbols;
use crate::cause::{Cause, CausePart, Ground, Group, group_text};
use crate::event::{CallId, Interrupt};
use crate::names::Vocabulary;
use crate::record::Class;
use crate::span::{Context, Ready, Waker};
use crate::units::priority;

/// All that knows names.
pub(super) struct StoryNames<'a> {
    pub scene: &'a Scene,
    pub classes: &'a [Class],
    pub vocabulary: &'a Vocabulary,
    pub symbols: &'a dyn Symbols,
}

impl StoryNames<'_> {
    /// `hog[9]`, by the name that it has when what is asked about ends.
    pub fn thread(&self, tid: i32) -> String {
        self.thread_at(tid, self.moment())
    }

    /// The last moment of what is asked about.
    pub fn moment(&self) -> i64 {
        let question = &self.scene.question;
        question.to.saturating_sub(1).max(question.from)
    }

    /// `hog[9]`.
    pub fn thread_at(&self, tid: i32, at: i64) -> String {
        let name = self.scene.evidence.name(tid, at);
        match tid {
            0 => "idle".to_owned(),
            _ if name.is_empty() => format!("thread {tid}"),
            _ => format!("{name}[{tid}]"),
        }
    }

    /// `hog[9] (rt 90)`.
    pub fn with_prio(&self, tid: i32, prio: Option<i16>) -> String {
        match prio {
            Some(prio) => format!("{} ({})", self.thread(tid), priority(prio)),
            None => self.thread(tid),
        }
    }

    /// The thread that a part of the budget names, by the name that it had then.
    fn thread_of(&self, part: &CausePart, tid: i32) -> String {
        match part.cause.tid() == Some(tid) && tid != 0 && !part.name.is_empty() {
            true => format!("{}[{tid}]", part.name),
            false => self.thread(tid),
        }
    }

    /// The same, with its priority then.
    fn who(&self, part: &CausePart, tid: i32) -> String {
        match part.prio {
            Some(prio) => format!("{} ({})", self.thread_of(part, tid), priority(prio)),
            None => self.thread_of(part, tid),
        }
    }

    /// Of the thread that is asked about: where the stretch begins.
    pub fn own_prio(&self) -> Option<i16> {
        let question = &self.scene.question;
        // Of what ends with running, the wake-up says it.
        let at = if question.thread().is_some() { question.waking() } else { question.to };
        self.scene.evidence.prio(question.tid?, at)
    }

    /// The control group of the thread that is asked about.
    pub fn own_group(&self) -> Option<&Group> {
        self.scene.evidence.group(self.scene.question.tid?)
    }

    pub fn process(&self, tid: i32) -> Option<i32> {
        self.scene.evidence.process(tid)
    }

    pub fn call(&self, call: CallId) -> String {
        self.vocabulary.call_name(call).into_owned()
    }

    /// `irq 24 nvme0q1`, `hrtimer hrtimer_wakeup`.
    pub fn interrupt(&self, interrupt: Interrupt) -> String {
        match interrupt {
            Interrupt::Hrtimer(function) => format!("hrtimer {}", self.kernel(function)),
            Interrupt::Timer(function) => format!("timer {}", self.kernel(function)),
            _ => format!("{interrupt} {}", self.scene.evidence.handler(interrupt)).trim_end().to_owned(),
        }
    }

    /// A function of the kernel, or its address.
    pub fn kernel(&self, address: u64) -> String {
        self.symbols.kernel(address).unwrap_or_else(|| format!("{address:#x}"))
    }

    pub fn context(&self, context: Context) -> String {
        match context {
            Context::Unknown => "somebody".to_owned(),
            Context::Idle => "the idle CPU".to_owned(),
            Context::Thread(tid) => self.thread(tid),
            Context::Interrupt(interrupt) => self.interrupt(interrupt),
        }
    }

    pub fn waker(&self, waker: &Waker) -> String {
        let who = self.context(waker.context);
        if waker.cpu == u32::MAX { who } else { format!("{who} on cpu {}", waker.cpu) }
    }

    pub fn ready(&self, why: Ready) -> String {
        match why {
            Ready::Woken(by) | Ready::New(by) => format!("woken by {}", self.waker(&by)),
            Ready::Preempted { by } => format!("preempted by {}", self.thread(by)),
            Ready::GaveWay { to } => format!("gave way to {}", self.thread(to)),
        }
    }

    /// What a part of the budget is, whoever had the CPU: a thread that is throttled is so beside each of them, and one
    /// that shares its CPU waits for all who do.
    pub fn shared_cause(&self, part: &CausePart) -> Option<String> {
        let on = part.cpu.map_or("its CPU".to_owned(), |cpu| format!("cpu {cpu}"));
        match part.cause {
            // Whether it is seen or inferred may differ from piece to piece of one wait.
            Cause::Throttled { limit, .. } => Some(format!("throttled by {}", limit.text(self.own_group()))),
            Cause::RunQueue { .. } if part.ground == Ground::Inferred => {
                let group = group_text(self.own_group());
                Some(format!("other threads of its class had {on} (inferred: a CPU quota of {group} looks the same)"))
            }
            Cause::RunQueue { .. } => Some(format!("other threads of its class had {on}")),
            _ => None,
        }
    }

    /// What a part of the budget is.
    pub fn cause(&self, part: &CausePart) -> String {
        let on = part.cpu.map_or("its CPU".to_owned(), |cpu| format!("cpu {cpu}"));
        let who = |tid: i32| self.who(part, tid);
        let guess = if part.ground == Ground::Inferred { " (inferred)" } else { "" };
        match part.cause {
            Cause::Own => "running".to_owned(),
            Cause::Interrupt(interrupt) => format!("{} had {on}", self.interrupt(interrupt)),
            Cause::Nmi => format!("non-maskable interrupts had {on}"),
            Cause::RunQueue { by } if part.ground == Ground::Inferred => {
                let group = group_text(self.own_group());
                format!("{} had {on} (inferred: a CPU quota of {group} looks the same)", who(by))
            }
            Cause::Thread { by } | Cause::RunQueue { by } => format!("{} had {on}{guess}", who(by)),
            Cause::IrqsOff { by } => format!("{} had {on}, with interrupts off{guess}", who(by)),
            Cause::PreemptionOff { by } => format!("{} had {on}, with preemption off{guess}", who(by)),
            Cause::IdleExit if part.ground == Ground::Inferred => {
                format!("{on} idled on (inferred: slow out of idle, its host, firmware, or throttling)")
            }
            Cause::IdleExit => format!("{on} was coming out of idle"),
            Cause::Switching => format!("{on} was switching to it"),
            Cause::Throttled { by, limit } => {
                let meanwhile = by.map_or(format!("{on} idled"), |by| format!("{} had {on}", who(by)));
                format!("throttled{guess} by {}, while {meanwhile}", limit.text(self.own_group()))
            }
            Cause::Stopped { by, traced } => {
                let by = by.map_or(String::new(), |by| format!(" by {}{guess}", self.thread_of(part, by)));
                format!("stopped{by}, {}", if traced { "under a debugger" } else { "by a signal" })
            }
            Cause::Fault => match part.ground {
                Ground::Seen => "page faults that it slept in (major)".to_owned(),
                Ground::Inferred => "page faults that it ran in (minor)".to_owned(),
            },
            Cause::Frequency { khz } => format!("{on} changed to {} MHz", khz / 1000),
            Cause::Firmware => "all CPUs stood still: firmware, or the host of a virtual machine".to_owned(),
            Cause::Steal => format!("{on} stood still: its host did not run it (inferred)"),
            Cause::Slack => "slack of its timer".to_owned(),
            Cause::Blocked { state, call, waker } => self.blocked(state, call, waker),
            Cause::Ran { tid } => format!("{} ran", who(tid)),
            Cause::Idle => "idle".to_owned(),
            Cause::Remainder => self.unknown(part.cpu),
            _ => self.waited_for(part, &on),
        }
    }

    /// What somebody did who was waited for.
    fn waited_for(&self, part: &CausePart, on: &str) -> String {
        let who = |tid: i32| self.who(part, tid);
        let sleeps = |call: Option<CallId>| {
            call.map_or("slept".to_owned(), |call| format!("was blocked in {}", self.call(call)))
        };
        match part.cause {
            Cause::LockOwner { owner } if part.ground == Ground::Inferred => {
                format!("{} held the lock, and ran, while the kernel spun for it (inferred)", who(owner))
            }
            Cause::LockOwner { owner } => format!("{} held the lock, and ran", who(owner)),
            Cause::LockOwnerWaits { owner, by: Some(by) } => {
                format!("{} held the lock, and waited while {} had {on}", who(owner), self.thread(by))
            }
            Cause::LockOwnerWaits { owner, by: None } => format!("{} held the lock, and waited for {on}", who(owner)),
            Cause::LockOwnerSleeps { owner, call } => format!("{} held the lock, and {}", who(owner), sleeps(call)),
            Cause::Waker { tid } => format!("{} ran, and had not woken it yet", who(tid)),
            Cause::WakerSleeps { tid, call } => format!("{} had not woken it yet, and {}", who(tid), sleeps(call)),
            _ => "not known".to_owned(),
        }
    }

    fn unknown(&self, cpu: Option<u32>) -> String {
        match cpu.filter(|cpu| !self.scene.evidence.times.knows(*cpu)) {
            Some(cpu) => format!("not known: no records of cpu {cpu} within 100 ms of it"),
            None => "not known".to_owned(),
        }
    }

    /// `in a page fault, woken by irq 24 on cpu 1`.
    pub fn in_fault(&self, waker: Option<Waker>) -> String {
        let by = waker.map_or(String::new(), |by| format!(", woken by {}", self.waker(&by)));
        format!("blocked in a page fault{by}")
    }

    /// `blocked in futex, woken by owner[8] on cpu 1`.
    pub fn blocked(&self, state: u8, call: Option<CallId>, waker: Option<Waker>) -> String {
        let how = if state == b'D' { " uninterruptibly" } else { "" };
        let place = call.map_or(String::new(), |call| format!(" in {}", self.call(call)));
        let by = waker.map_or(String::new(), |by| format!(", woken by {}", self.waker(&by)));
        match state {
            b'T' => format!("stopped by a signal{by}"),
            b't' => format!("stopped under a debugger{by}"),
            _ => format!("blocked{how}{place}{by}"),
        }
    }
}
