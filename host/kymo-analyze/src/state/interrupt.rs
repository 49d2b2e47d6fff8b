// SPDX-License-Identifier: MIT OR Apache-2.0
//! What interrupts, idle states and system calls do to the state.

use super::cpu::Cpu;
use super::fault::Fault;
use super::machine::State;
use super::thread::{Call, Threads};
use crate::CallId;
use crate::doubt::Doubt;
use crate::event::{Event, Interrupt, Off};
use crate::name::Name;
use crate::sink::Sink;
use crate::span::{CallSpan, InterruptSpan, OffSpan, Unmatched};

impl State {
    #[inline]
    pub(super) fn interrupted(&mut self, cpu: Option<u32>, event: &Event, at: i64, sink: &mut impl Sink) {
        let due = self.due_of(cpu, event, at);
        self.timers.event(event);
        let Some(number) = cpu else { return };
        match *event {
            Event::Enter { interrupt, name } => self.enter(number, interrupt, name, at, sink),
            Event::TimerExpire { function, now, .. } => {
                self.enter(number, Interrupt::Hrtimer(function), Name::default(), at, sink);
                if let Some(cpu) = self.cpu_mut(number) {
                    cpu.expired_due = due;
                    cpu.clock_read = Some((now, cpu.time_of_clock(now, at)));
                }
            }
            Event::Leave { interrupt } => self.exit(number, interrupt, at, sink),
            Event::Raise { vec } => self.cpu_mut(number).into_iter().for_each(|cpu| cpu.raise(vec, at)),
            Event::Switchable { what, off: true } => {
                self.cpu_mut(number).into_iter().for_each(|cpu| cpu.switch_off(what, at));
            }
            Event::Switchable { what, off: false } => self.switch_on(number, what, at, sink),
            Event::Idle { cpu, state } => {
                if let Some(cpu) = self.cpu_mut(cpu.unwrap_or(number)) {
                    cpu.idle = state;
                    cpu.note_idle();
                }
            }
            Event::Frequency { cpu, khz } => {
                if let Some(cpu) = self.cpu_mut(cpu.unwrap_or(number)) {
                    cpu.khz = Some(khz);
                }
            }
            _ => {}
        }
    }

    /// When a timer that expires on a CPU at a time of the trace was due, as such a time.
    #[inline]
    pub(crate) fn due_of(&self, cpu: Option<u32>, event: &Event, at: i64) -> Option<i64> {
        let Event::TimerExpire { timer, now, .. } = *event else { return None };
        let late_ns = now.saturating_sub(self.timers.due(timer)?).max(0);
        let read = cpu.and_then(|number| self.cpu(number)).map_or(at, |cpu| cpu.time_of_clock(now, at));
        Some(read.saturating_sub(late_ns))
    }

    #[inline]
    fn enter(&mut self, number: u32, interrupt: Interrupt, name: Name, at: i64, sink: &mut impl Sink) {
        let Some(cpu) = self.cpu_mut(number) else { return };
        let span = cpu.cut(at);
        cpu.push(interrupt, name, at);
        span.iter().for_each(|span| sink.cpu(span));
    }

    #[inline]
    fn exit(&mut self, number: u32, interrupt: Interrupt, at: i64, sink: &mut impl Sink) {
        let Some(cpu) = self.cpus.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let is_known = cpu.frames().iter().any(|frame| frame.interrupt == interrupt)
            || matches!(interrupt, Interrupt::Hrtimer(_) | Interrupt::Timer(_));
        cpu.doubt |= Doubt::MISSED.when(!is_known);
        let span = cpu.cut(at);
        let frame = cpu.pop(interrupt);
        let current = cpu.current;
        span.iter().for_each(|span| sink.cpu(span));
        let Some(frame) = frame else {
            return sink.unmatched(Unmatched::Interrupt);
        };
        let span = InterruptSpan {
            interrupt: frame.interrupt,
            name: frame.name,
            cpu: number,
            current,
            from: frame.since,
            to: at,
            away_ns: frame.away_ns,
            raised: frame.raised,
            doubt: frame.doubt,
        };
        sink.interrupt(&span, Threads(&self.threads));
    }

    fn switch_on(&mut self, number: u32, what: Off, at: i64, sink: &mut impl Sink) {
        let Some(cpu) = self.cpus.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let current = cpu.current;
        let Some(since) = cpu.switch_on(what) else {
            return sink.unmatched(Unmatched::Off);
        };
        let span = OffSpan { what, cpu: number, current, from: since.at, to: at, doubt: since.doubt };
        sink.off(&span, Threads(&self.threads));
    }

    /// The thread of a record: what is current on its CPU, or what its head says.
    #[inline]
    fn thread_of(&self, cpu: Option<u32>, tid: Option<i32>) -> Option<i32> {
        tid.or_else(|| self.cpu(cpu?)?.thread()).filter(|&tid| tid != 0)
    }

    #[inline]
    pub(super) fn call(&mut self, cpu: Option<u32>, tid: Option<i32>, call: CallId, args: [u64; 2], at: i64) {
        let Some(tid) = self.thread_of(cpu, tid) else { return };
        if let Some(thread) = self.threads.entry(tid, at) {
            (thread.told, thread.is_fresh, thread.fault) = (true, false, None);
            let doubt = Doubt::NONE;
            thread.call = Some(Call { call, args, since: at, blocked: false, owner: None, doubt });
        }
    }

    /// A page fault begins. One in an interrupt is not its thread's: it cannot sleep.
    pub(super) fn faulted(&mut self, cpu: Option<u32>, tid: Option<i32>, user: bool) {
        let is_interrupt = cpu.and_then(|number| self.cpu(number)).is_some_and(Cpu::has_frames);
        let Some(tid) = self.thread_of(cpu, tid).filter(|_| !is_interrupt) else { return };
        if let Some(thread) = self.threads.get_mut(tid) {
            thread.fault = Some(if user { Fault::User } else { Fault::Kernel });
        }
    }

    pub(super) fn returned(
        &mut self,
        (cpu, tid): (Option<u32>, Option<i32>),
        call: Option<CallId>,
        value: i64,
        at: i64,
        sink: &mut impl Sink,
    ) {
        let (lost_until, mixed) = (self.lost_until, self.facts.mixed_clocks);
        let thread = self.thread_of(cpu, tid).and_then(|tid| self.threads.get_mut(tid));
        let Some(thread) = thread else {
            return sink.unmatched(Unmatched::Call);
        };
        let is_fresh = std::mem::take(&mut thread.is_fresh);
        thread.fault = None;
        let Some(open) = thread.call.take() else {
            if !is_fresh {
                sink.unmatched(Unmatched::Call);
            }
            return;
        };
        if call.is_some_and(|call| call != open.call) {
            return sink.unmatched(Unmatched::Call);
        }
        let doubt = open.doubt | Doubt::LOST.when(open.since < lost_until) | Doubt::MIXED.when(mixed && open.blocked);
        let span = CallSpan {
            call: open.call,
            args: open.args,
            value,
            tid: thread.tid,
            cpu: cpu.unwrap_or(u32::MAX),
            from: open.since,
            to: at,
            is_futex: self.futex == Some(open.call),
            blocked: open.blocked,
            owner: open.owner,
            doubt,
        };
        sink.call(&span, thread);
    }
}
