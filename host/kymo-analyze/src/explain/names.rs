// SPDX-License-Identifier: MIT OR Apache-2.0
//! What everything is called: threads, interrupts, causes.

use super::cause::Cause;
use super::scene::Scene;
use super::symbols::Symbols;
use crate::event::{CallId, Interrupt, Off};
use crate::names::Vocabulary;
use crate::record::Class;
use crate::span::{Context, Ready, Waker};
use crate::units::priority;

/// All that knows names.
pub(super) struct Names<'a> {
    pub scene: &'a Scene,
    pub classes: &'a [Class],
    pub vocabulary: &'a Vocabulary,
    pub symbols: &'a dyn Symbols,
}

impl Names<'_> {
    /// `hog[9]`.
    pub fn thread(&self, tid: i32) -> String {
        let known = self.scene.threads.get(&tid).map(|who| who.name).filter(|name| !name.is_empty());
        let name = known.unwrap_or_else(|| self.scene.history.name(tid));
        match tid {
            0 => "idle".to_owned(),
            _ if name.is_empty() => format!("thread {tid}"),
            _ => format!("{name}[{tid}]"),
        }
    }

    /// `hog[9] (rt 90)`.
    pub fn thread_prio(&self, tid: i32) -> String {
        match self.prio(tid) {
            Some(prio) => format!("{} ({})", self.thread(tid), priority(prio)),
            None => self.thread(tid),
        }
    }

    pub fn prio(&self, tid: i32) -> Option<i16> {
        self.scene.threads.get(&tid)?.prio
    }

    pub fn process(&self, tid: i32) -> Option<i32> {
        self.scene.threads.get(&tid)?.process
    }

    pub fn call(&self, call: CallId) -> String {
        self.vocabulary.call_name(call).into_owned()
    }

    /// `irq 24 nvme0q1`, `hrtimer hrtimer_wakeup`.
    pub fn interrupt(&self, interrupt: Interrupt) -> String {
        match interrupt {
            Interrupt::Hrtimer(function) => format!("hrtimer {}", self.kernel(function)),
            Interrupt::Timer(function) => format!("timer {}", self.kernel(function)),
            _ => match self.scene.interrupts.get(&interrupt) {
                Some(name) => format!("{interrupt} {name}"),
                None => interrupt.to_string(),
            },
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

    /// What a part of the budget is.
    pub fn cause(&self, cause: Cause, cpu: Option<u32>) -> String {
        let on = cpu.map_or("its CPU".to_owned(), |cpu| format!("cpu {cpu}"));
        match cause {
            Cause::Running => "running".to_owned(),
            Cause::Interrupt(interrupt) => self.interrupt(interrupt),
            Cause::Preempted { by, off } => {
                let by = by.map_or("another thread".to_owned(), |by| self.thread_prio(by));
                format!("{by} had {on}{}", with(off))
            }
            Cause::WaitInterrupt(interrupt) => format!("{} had {on}", self.interrupt(interrupt)),
            Cause::IdleExit => format!("{on} was coming out of idle"),
            Cause::Switching => format!("{on} was switching to it"),
            Cause::Blocked { state, call, waker, fault } => self.blocked(state, call, waker, fault),
            Cause::Thread { tid, off } => format!("{} ran{}", self.thread_prio(tid), with(off)),
            Cause::Idle => "idle".to_owned(),
            Cause::Unknown => "not known".to_owned(),
        }
    }

    /// `blocked in futex, woken by owner[8] on cpu 1`.
    pub fn blocked(&self, state: u8, call: Option<CallId>, waker: Option<Waker>, fault: Option<u64>) -> String {
        let how = if state == b'D' { " uninterruptibly" } else { "" };
        let place = match (fault, call) {
            (Some(address), Some(call)) => format!(" in a page fault at {address:#x} within {}", self.call(call)),
            (Some(address), None) => format!(" in a page fault at {address:#x}"),
            (None, Some(call)) => format!(" in {}", self.call(call)),
            (None, None) => String::new(),
        };
        let by = waker.map_or(String::new(), |by| format!(", woken by {}", self.waker(&by)));
        format!("blocked{how}{place}{by}")
    }
}

fn with(off: Option<Off>) -> &'static str {
    match off {
        Some(Off::Irqs) => ", with interrupts off",
        Some(Off::Preemption) => ", with preemption off",
        None => "",
    }
}
