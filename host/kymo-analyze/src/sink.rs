// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes what the state hands on: spans as they end, and events before they move it.

use crate::event::Event;
use crate::record::Head;
use crate::span::{CallSpan, CpuSpan, InterruptSpan, OffSpan, ThreadSpan, Unmatched};
use crate::state::{State, Thread, Threads};

/// Who takes what the state hands on.
pub trait Sink {
    /// An event, before the state moves by it.
    fn event(&mut self, _head: &Head, _event: &Event, _state: &State) {}
    /// A stretch of a thread is over; the thread as it was in it.
    fn thread(&mut self, _span: &ThreadSpan, _thread: &Thread) {}
    /// A stretch of a CPU is over.
    fn cpu(&mut self, _span: &CpuSpan) {}
    /// An interrupt is over.
    fn interrupt(&mut self, _span: &InterruptSpan, _threads: Threads<'_>) {}
    /// A system call is over.
    fn call(&mut self, _span: &CallSpan, _thread: &Thread) {}
    /// Interrupts or preemption are on again.
    fn off(&mut self, _span: &OffSpan, _threads: Threads<'_>) {}
    /// Records of a CPU, or of all where there is none, were lost between two times.
    fn lost(&mut self, _cpu: Option<u32>, _from: i64, _to: i64) {}
    /// An end came without its beginning.
    fn unmatched(&mut self, _of: Unmatched) {}
}

/// Takes nothing.
impl Sink for () {}

/// Both take everything.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.0.event(head, event, state);
        self.1.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.0.thread(span, thread);
        self.1.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.0.cpu(span);
        self.1.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.0.interrupt(span, threads);
        self.1.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.0.call(span, thread);
        self.1.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.0.off(span, threads);
        self.1.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.0.lost(cpu, from, to);
        self.1.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.0.unmatched(of);
        self.1.unmatched(of);
    }
}

impl<S: Sink> Sink for &mut S {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        (**self).event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        (**self).thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        (**self).cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        (**self).interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        (**self).call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        (**self).off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        (**self).lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        (**self).unmatched(of);
    }
}
