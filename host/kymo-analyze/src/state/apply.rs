// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a state moves: by events, by losses, and at its end. What an event does to threads is in `sched`, to
//! interrupts and calls in `interrupt`.

use super::cpu::Cpu;
use super::machine::{CPUS_MAX, State};
use super::step::context_of;
use crate::doubt::Doubt;
use crate::event::Event;
use crate::name::Name;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{Doing, Until};

impl State {
    /// Moves by a record that says nothing of the kernel, but was written by a CPU at a time.
    pub fn pass(&mut self, head: &Head, sink: &mut impl Sink) {
        let (at, _) = self.time_of(head);
        if let (Some(cpu), Some(_)) = (self.meet(head, at), head.tid) {
            self.check_current(cpu, head, at, sink);
        }
    }

    /// Moves by an event.
    #[inline]
    pub fn apply(&mut self, head: &Head, event: &Event, sink: &mut impl Sink) {
        let completed;
        let event = match event {
            Event::Rename { tid: None, .. } => {
                completed = self.with_thread(head, event);
                &completed
            }
            _ => event,
        };
        sink.event(head, event, self);
        let (at, is_back) = self.time_of(head);
        if is_back {
            self.mark_back(head, event);
        }
        self.follow(head, event, at, sink);
        if is_back {
            self.mark_back(head, event);
        }
    }

    /// The event, with its thread where the trace leaves it to be found: a thread mostly renames itself, and does if it
    /// has the name that is given up.
    fn with_thread(&self, head: &Head, event: &Event) -> Event {
        let Event::Rename { tid: None, old, name } = *event else { return *event };
        let writer = head.tid.or(head.cpu.and_then(|cpu| self.cpu(cpu)).and_then(Cpu::thread));
        let thread = writer.and_then(|tid| self.threads.get(tid)).filter(|thread| thread.identity().name == old);
        Event::Rename { tid: thread.map(|thread| thread.tid), old, name }
    }

    #[inline]
    fn follow(&mut self, head: &Head, event: &Event, at: i64, sink: &mut impl Sink) {
        if let Event::Dumped { .. } = event {
            return self.dumped(event, at, sink);
        }
        let cpu = self.meet(head, at);
        if let Some(cpu) = cpu {
            self.check_current(cpu, head, at, sink);
        }
        match *event {
            Event::Switch { .. }
            | Event::Wake { .. }
            | Event::Migrate { .. }
            | Event::Priority { .. }
            | Event::Fork { .. }
            | Event::Create { .. }
            | Event::Rename { .. }
            | Event::Exec { .. }
            | Event::Exit { .. }
            | Event::Free { .. } => self.scheduled(cpu, event, at, sink),
            Event::Call { call, args } => self.call(cpu, head.tid, call, args, at),
            Event::Fault { user, .. } => self.faulted(cpu, head.tid, user),
            Event::Return { call, value } => self.returned((cpu, head.tid), call, value, at, sink),
            _ => self.interrupted(cpu, event, at, sink),
        }
    }

    /// Takes note that records of a CPU, or of all, are missing between two times.
    pub fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64, sink: &mut impl Sink) {
        sink.lost(cpu, from, to);
        self.advance(from);
        let at = self.now;
        self.lost_until = self.lost_until.max(to);
        let numbers: Vec<u32> = match cpu {
            Some(number) => vec![number],
            None => self.cpus().map(|cpu| cpu.number).collect(),
        };
        for number in numbers {
            let Some(cpu) = self.cpus.get_mut(number as usize).and_then(Option::as_mut) else { continue };
            cpu.lost_until = cpu.lost_until.max(to);
            let (span, thread) = (cpu.cut(at), cpu.thread());
            cpu.forget();
            span.iter().for_each(|span| sink.cpu(span));
            if let Some(tid) = thread {
                self.turn(tid, Doing::Unknown, at, Doubt::LOST, sink);
            }
        }
    }

    /// Ends all that is open, at the newest time or at `end`.
    pub fn finish(&mut self, end: Option<i64>, sink: &mut impl Sink) {
        if !self.has_begun {
            return;
        }
        end.into_iter().for_each(|end| self.advance(end));
        let (at, lost_until) = (self.now, self.lost_until);
        for cpu in self.cpus.iter_mut().flatten() {
            cpu.doubt |= Doubt::END;
            cpu.cut(at).iter().for_each(|span| sink.cpu(span));
        }
        for thread in self.threads.iter_mut() {
            thread.doubt |= Doubt::END;
            let doing = thread.doing;
            if let Some(span) = thread.becomes(doing, at, Until::End, lost_until) {
                sink.thread(&span, thread);
            }
        }
    }

    /// The time of a record, never before that of an earlier one, and whether it went back on its CPU.
    #[inline]
    fn time_of(&mut self, head: &Head) -> (i64, bool) {
        self.advance(head.time);
        let Some(cpu) = head.cpu.and_then(|cpu| self.cpus.get_mut(cpu as usize)).and_then(Option::as_mut) else {
            return (self.now, false);
        };
        let is_back = head.time < cpu.newest;
        cpu.newest = cpu.newest.max(head.time);
        self.clock_backs += u64::from(is_back);
        (self.now, is_back)
    }

    /// Marks what a record touches whose time went back: what ends with it, and what begins.
    #[cold]
    fn mark_back(&mut self, head: &Head, event: &Event) {
        let mut tids = match *event {
            Event::Switch { prev, next, .. } => vec![prev, next],
            Event::Wake { tid, .. } => vec![tid],
            _ => Vec::new(),
        };
        if let Some(cpu) = head.cpu.and_then(|number| self.cpu_mut(number)) {
            cpu.mark(Doubt::CLOCK);
            tids.extend(cpu.thread());
        }
        for tid in tids {
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.doubt |= Doubt::CLOCK;
                thread.call.iter_mut().for_each(|call| call.doubt |= Doubt::CLOCK);
            }
        }
    }

    #[inline]
    fn advance(&mut self, time: i64) {
        self.now = if self.has_begun { self.now.max(time) } else { time };
        self.has_begun = true;
    }

    /// The CPU of a record, which is known from now on.
    #[inline]
    fn meet(&mut self, head: &Head, at: i64) -> Option<u32> {
        let number = head.cpu.filter(|&number| number < CPUS_MAX)?;
        if self.cpus.len() <= number as usize {
            self.cpus.resize(number as usize + 1, None);
        }
        self.cpus[number as usize].get_or_insert_with(|| {
            let mut cpu = Cpu::new(number, at);
            cpu.newest = head.time;
            cpu
        });
        Some(number)
    }

    /// Holds the thread that a record names against the one that should run.
    #[inline]
    fn check_current(&mut self, cpu: u32, head: &Head, at: i64, sink: &mut impl Sink) {
        let Some(tid) = head.tid else { return };
        let current = self.cpu_mut(cpu).map(|cpu| cpu.current);
        if current.is_some_and(|current| current != context_of(tid)) {
            // Who has ended writes nothing: another thread has its number.
            if let Some(thread) = self.threads.get_mut(tid).filter(|thread| thread.doing == Doing::Ended) {
                thread.call_it(Name::default(), None, false);
            }
            self.put(cpu, tid, at, sink);
        }
    }
}
