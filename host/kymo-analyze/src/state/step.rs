// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several kinds of events do to the state: a thread runs, or does something else, and leaves the CPU that it
//! was on.

use super::cpu::Cpu;
use super::machine::State;
use super::thread::Thread;
use crate::doubt::Doubt;
use crate::event::Interrupt;
use crate::sink::Sink;
use crate::span::{Context, Doing, Ready, ThreadSpan, Until, Waker};

impl State {
    #[inline]
    pub(super) fn mark_thread(&mut self, tid: i32, doubt: Doubt) {
        if let Some(thread) = self.threads.get_mut(tid) {
            thread.doubt |= doubt;
        }
    }

    /// A thread that is said to run here cannot be current elsewhere.
    #[inline]
    pub(super) fn leave_other_cpu(&mut self, tid: i32, here: u32, at: i64, sink: &mut impl Sink) {
        let Some(Doing::Running { cpu: other }) = self.threads.get(tid).map(|thread| thread.doing) else { return };
        if other == here {
            return;
        }
        if let Some(cpu) = self.cpu_mut(other).filter(|cpu| cpu.current == Context::Thread(tid)) {
            cpu.doubt |= Doubt::MISSED;
            let span = cpu.cut(at);
            cpu.forget();
            cpu.doubt = Doubt::MISSED;
            span.iter().for_each(|span| sink.cpu(span));
        }
        self.mark_thread(tid, Doubt::MISSED);
    }

    /// A thread does something else from now on.
    #[inline]
    pub(super) fn turn(&mut self, tid: i32, doing: Doing, at: i64, doubt: Doubt, sink: &mut impl Sink) {
        let lost_until = self.lost_until;
        let Some(thread) = self.threads.entry(tid, at) else { return };
        let before = thread.doing;
        if let Some(span) = thread.becomes(doing, at, Until::Next, lost_until) {
            emit(sink, &span, thread, before);
        }
        thread.doubt = doubt;
    }

    /// What a CPU is in the middle of, as who wakes.
    #[inline]
    pub(super) fn waker(&self, cpu: Option<u32>, tid: Option<i32>) -> Waker {
        let known = cpu.and_then(|number| self.cpu(number));
        let context = match known.map(Cpu::context) {
            None | Some(Context::Unknown) => tid.map_or(Context::Unknown, context_of),
            Some(context) => context,
        };
        Waker { cpu: cpu.unwrap_or(u32::MAX), context }
    }

    /// The same, where the record of the wake-up says itself that it was written in an interrupt: its events may not be
    /// in the trace. Softirqs of PREEMPT_RT run in threads, which the state follows if it has their events.
    #[inline]
    pub(super) fn waker_within(&self, cpu: Option<u32>, within: Option<Interrupt>) -> Waker {
        let waker = self.waker(cpu, None);
        let is_seen = matches!(waker.context, Context::Interrupt(_));
        match within.filter(|within| !is_seen && (within.is_hard() || !self.facts.interrupts)) {
            Some(within) => Waker { context: Context::Interrupt(within), ..waker },
            None => waker,
        }
    }

    /// A thread runs on a CPU.
    #[inline]
    pub(super) fn run(&mut self, tid: i32, cpu: u32, at: i64, doubt: Doubt, sink: &mut impl Sink) {
        let (lost_until, facts) = (self.lost_until, self.facts);
        let Some(thread) = self.threads.entry(tid, at) else { return };
        let before = thread.doing;
        thread.doubt |= doubt;
        match before {
            Doing::Blocked { .. } | Doing::Ended | Doing::Forked => thread.doubt |= Doubt::MISSED,
            Doing::Runnable { why: Ready::Woken(waker) | Ready::New(waker), .. } => {
                thread.doubt |= Doubt::MIXED.when(facts.mixed_clocks && waker.cpu != cpu);
            }
            _ => {}
        }
        thread.woken = None;
        if before == (Doing::Running { cpu }) {
            return;
        }
        if let Some(span) = thread.becomes(Doing::Running { cpu }, at, Until::Runs { cpu }, lost_until) {
            emit(sink, &span, thread, before);
        }
        thread.doubt = doubt;
    }

    /// The CPU runs a thread without a switch that the trace has.
    #[cold]
    pub(super) fn put(&mut self, number: u32, tid: i32, at: i64, sink: &mut impl Sink) {
        let Some(cpu) = self.cpu_mut(number) else { return };
        let before = cpu.current;
        let missed = Doubt::MISSED.when(before != Context::Unknown);
        cpu.doubt |= missed;
        if let Some(span) = cpu.cut(at) {
            sink.cpu(&span);
        }
        cpu.current = context_of(tid);
        cpu.current_doubt = Doubt::GUESSED;
        cpu.doubt = Doubt::GUESSED | missed;
        if let Context::Thread(before) = before {
            self.mark_thread(before, Doubt::MISSED);
            self.turn(before, Doing::Unknown, at, Doubt::MISSED, sink);
        }
        if tid != 0 {
            self.leave_other_cpu(tid, number, at, sink);
            self.run(tid, number, at, Doubt::GUESSED | missed, sink);
        }
    }
}

/// Hands a span on with the thread as it was in it.
#[inline]
pub(super) fn emit(sink: &mut impl Sink, span: &ThreadSpan, thread: &mut Thread, before: Doing) {
    let after = std::mem::replace(&mut thread.doing, before);
    sink.thread(span, thread);
    thread.doing = after;
}

/// A thread, or idle.
#[inline]
pub(super) fn context_of(tid: i32) -> Context {
    if tid == 0 { Context::Idle } else { Context::Thread(tid) }
}
