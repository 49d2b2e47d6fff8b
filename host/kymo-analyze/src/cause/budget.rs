// SPDX-License-Identifier: MIT OR Apache-2.0
//! The budget of one sample: each piece of it goes to one cause.

use crate::budget::{Part as Piece, Piece as At};
use crate::cause::evidence::Evidence;
use crate::cause::{Asked, Cause, Explained, Ground, Moment, Part};
use crate::doubt::Doubt;
use crate::event::{Interrupt, Off, VECTORS};
use crate::hash::Map;
use crate::name::Name;
use crate::span::{self, Context, Doing, Until, Waker};

/// The thread itself runs for so long without a record, and that is no stall, ns: it returns from a call, or it meets
/// an interrupt that has no event.
const STALL_MIN_NS: i64 = 20_000;
/// Slack of the timers of threads of normal classes, unless they ask for another, ns.
const SLACK_NS: i64 = 50_000;
/// Priorities below are those of real-time classes.
const REAL_TIME: i16 = 100;

impl Evidence {
    /// The budget of a sample.
    pub fn explain(&self, moment: &Moment) -> Explained {
        let mut budget = Budget::new(self, moment);
        for piece in self.history.pieces(moment.tid, moment.from, moment.to) {
            budget.piece(&piece);
        }
        budget.finish()
    }

    /// Since when a CPU has the thread (or none) that it has at a time.
    fn current_since(&self, cpu: u32, at: i64) -> Option<i64> {
        let spans = self.history.cpu(cpu);
        let last = spans.partition_point(|span| span.from <= at).checked_sub(1)?;
        let current = spans[last].current;
        let same = spans[..=last].iter().rev().take_while(|span| span.current == current);
        same.last().map(|span| span.from)
    }
}

/// What a thread that can run waits for.
struct Ready {
    cpu: u32,
    /// Whoever has the CPU came to it when the thread could run: the scheduler chose another one, or none.
    was_passed_over: bool,
}

/// A budget on the way.
struct Budget<'a> {
    of: &'a Evidence,
    moment: Moment,
    parts: Vec<Part>,
    index: Map<(Cause, Ground), usize>,
    /// When the thread ran: what of it is its own is decided at the end.
    own: Vec<(i64, i64)>,
    doubt: Doubt,
    slack_ns: i64,
}

impl<'a> Budget<'a> {
    fn new(of: &'a Evidence, moment: &Moment) -> Budget<'a> {
        let is_normal = of.prio(moment.tid, moment.from).is_some_and(|prio| prio >= REAL_TIME);
        Budget {
            of,
            moment: *moment,
            parts: Vec::new(),
            index: Map::default(),
            own: Vec::new(),
            doubt: Doubt::NONE,
            slack_ns: if is_normal { SLACK_NS } else { 0 },
        }
    }

    fn put(&mut self, cause: Cause, ground: Ground, from: i64, to: i64) {
        let ns = to.abs_diff(from);
        if to <= from {
            return;
        }
        let at = *self.index.entry((cause, ground)).or_insert(self.parts.len());
        if at == self.parts.len() {
            let (name, prio) = self.named(cause, from);
            self.parts.push(Part { cause, ground, ns: 0, pieces: 0, name, prio });
        }
        self.parts[at].ns += ns;
        self.parts[at].pieces += 1;
    }

    /// As `put`, for time in which the thread's CPU was not the thread's: what a change of the CPU's frequency took of
    /// it goes to that.
    fn put_beside(&mut self, cause: Cause, ground: Ground, from: i64, to: i64) {
        let mut at = from;
        for (begin, end, khz) in self.changes(self.cpu_at(from), from, to) {
            self.put(cause, ground, at, begin);
            self.put(Cause::Frequency { khz }, Ground::Inferred, begin, end);
            at = end;
        }
        self.put(cause, ground, at, to);
    }

    /// What changes of a CPU's frequency, made by itself, took of [from, to): from, to, kHz.
    fn changes(&self, cpu: Option<u32>, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, u32)> + 'a {
        let own = self.of.changes.iter().filter(move |change| Some(change.cpu) == cpu);
        own.map(move |change| (change.from.max(from), change.to.min(to), change.khz))
            .filter(|(begin, end, _)| end - begin >= STALL_MIN_NS)
    }

    fn named(&self, cause: Cause, at: i64) -> (Name, Option<i16>) {
        if let Cause::Interrupt(interrupt) = cause {
            return (self.of.handler(interrupt), None);
        }
        match cause.tid() {
            Some(tid) => (self.of.history.name(tid), self.of.prio_running(tid, at)),
            None => (Name::default(), None),
        }
    }

    fn piece(&mut self, piece: &At) {
        self.doubt |= piece.doubt;
        let (from, to) = (piece.from, piece.to);
        match piece.part {
            Piece::Running => self.own.push((from, to)),
            Piece::Interrupt(interrupt) | Piece::WaitInterrupt(interrupt) => {
                self.put_beside(interrupted(interrupt), Ground::Seen, from, to);
            }
            Piece::Preempted { .. } | Piece::IdleExit | Piece::Switching => {
                match self.waiting(self.moment.tid, piece) {
                    (cause @ Cause::PreemptionOff { .. }, ground) => self.put_beside(cause, ground, from, to),
                    (cause, ground) => self.put(cause, ground, from, to),
                }
            }
            Piece::Blocked { state, waker, .. } => self.blocked(state, waker, from, to),
            Piece::Unknown => self.put(Cause::Remainder, Ground::Seen, from, to),
        }
    }

    /// Why a thread that can run does not.
    fn waiting(&self, tid: i32, piece: &At) -> (Cause, Ground) {
        let Some(ready) = self.readiness(tid, piece.from, piece.to) else {
            return (Cause::Remainder, Ground::Seen);
        };
        match piece.part {
            Piece::Switching => (Cause::Switching, Ground::Seen),
            Piece::IdleExit if ready.was_passed_over => (Cause::Throttled { by: None }, Ground::Seen),
            Piece::IdleExit => (Cause::IdleExit, Ground::Seen),
            Piece::Preempted { by: Some(by) } => self.behind(tid, by, &ready, piece),
            _ => (Cause::Remainder, Ground::Seen),
        }
    }

    /// Why a thread waits while another one runs.
    fn behind(&self, tid: i32, by: i32, ready: &Ready, piece: &At) -> (Cause, Ground) {
        let (own, other) = (self.of.prio(tid, piece.from), self.of.prio_running(by, piece.from));
        let (Some(own), Some(other)) = (own, other) else { return (Cause::Thread { by }, Ground::Inferred) };
        if other <= own.min(REAL_TIME - 1) {
            return (Cause::Thread { by }, Ground::Seen);
        }
        if own >= REAL_TIME {
            return (Cause::RunQueue { by }, Ground::Seen);
        }
        if ready.was_passed_over {
            return (Cause::Throttled { by: Some(by) }, Ground::Seen);
        }
        let is_seen = self.of.was_off(Off::Preemption, ready.cpu, piece.from, piece.to)
            || self.of.was_off(Off::Irqs, ready.cpu, piece.from, piece.to);
        (Cause::PreemptionOff { by }, if is_seen { Ground::Seen } else { Ground::Inferred })
    }

    /// For what a thread that can run waits.
    fn readiness(&self, tid: i32, from: i64, to: i64) -> Option<Ready> {
        let span = self.of.history.of_thread(tid, from, to).next()?;
        let ran_on = match span.until {
            Until::Runs { cpu } => Some(cpu),
            _ => None,
        };
        let Doing::Runnable { cpu, why } = span.doing else { return None };
        let cpu = cpu.or(ran_on).or(self.moment.cpu)?;
        let since = self.of.current_since(cpu, from).unwrap_or(i64::MIN);
        // Of a thread that ran and had to leave, who came in its place was chosen then.
        let has_left = matches!(why, span::Ready::Preempted { .. } | span::Ready::GaveWay { .. });
        let was_passed_over = since > span.ready_from || (has_left && since == span.ready_from);
        Some(Ready { cpu, was_passed_over })
    }

    fn blocked(&mut self, state: u8, waker: Option<Waker>, from: i64, to: i64) {
        let waker_tid = match waker.map(|waker| waker.context) {
            Some(Context::Thread(tid)) if tid != self.moment.tid => Some(tid),
            _ => None,
        };
        let faulted =
            || self.of.faults.iter().any(|(at, tid)| *tid == self.moment.tid && (self.moment.from..to).contains(at));
        match (state, self.moment.asked, waker_tid) {
            (b'T' | b't', ..) => self.put(Cause::Stopped, Ground::Seen, from, to),
            (b'D', ..) if faulted() => self.put(Cause::Fault, Ground::Seen, from, to),
            (_, Asked::Lock, Some(owner)) => self.behind_lock(owner, from, to),
            (_, Asked::Woken, Some(waker)) => self.before_waking(waker, from, to),
            (_, Asked::Timer, _) => self.before_timer(from, to),
            _ => self.put(Cause::Blocked { state }, Ground::Seen, from, to),
        }
    }

    /// What the owner of a lock did meanwhile.
    fn behind_lock(&mut self, owner: i32, from: i64, to: i64) {
        for piece in self.of.history.pieces(owner, from, to) {
            self.doubt |= piece.doubt;
            let by = match piece.part {
                Piece::Interrupt(interrupt) | Piece::WaitInterrupt(interrupt) => {
                    self.put(interrupted(interrupt), Ground::Seen, piece.from, piece.to);
                    continue;
                }
                Piece::Running | Piece::Switching => {
                    self.put(Cause::LockOwner { owner }, Ground::Seen, piece.from, piece.to);
                    continue;
                }
                Piece::Preempted { by } => by,
                _ => None,
            };
            self.put(Cause::LockOwnerWaits { owner, by }, Ground::Seen, piece.from, piece.to);
        }
    }

    /// What the thread that wakes did before it did it.
    fn before_waking(&mut self, waker: i32, from: i64, to: i64) {
        for piece in self.of.history.pieces(waker, from, to) {
            self.doubt |= piece.doubt;
            let (cause, ground) = match piece.part {
                Piece::Interrupt(interrupt) | Piece::WaitInterrupt(interrupt) => {
                    self.put(interrupted(interrupt), Ground::Seen, piece.from, piece.to);
                    continue;
                }
                Piece::Preempted { .. } | Piece::IdleExit => self.waiting(waker, &piece),
                _ => (Cause::Waker { tid: waker }, Ground::Seen),
            };
            self.put(cause, ground, piece.from, piece.to);
        }
    }

    /// The timer was due, and its interrupt had not come or had not woken the thread yet.
    fn before_timer(&mut self, from: i64, to: i64) {
        let from = self.take_slack(from, to);
        let Some(cpu) = self.cpu_at(from) else {
            return self.put(Cause::Remainder, Ground::Seen, from, to);
        };
        let is_changing = self.changes(Some(cpu), from, to).next().is_some();
        if to - from >= STALL_MIN_NS && !is_changing && self.of.times.all_stood_still(cpu, from, to) {
            return self.put(Cause::Firmware, Ground::Inferred, from, to);
        }
        let mut at = from;
        let of = self.of;
        for span in of.history.of_cpu(cpu, from, to) {
            self.doubt |= span.doubt;
            self.put(Cause::Remainder, Ground::Seen, at, span.from.min(to));
            let (begin, end) = (span.from.max(at), span.to.min(to));
            self.late_timer(cpu, span.context, begin, end);
            at = end.max(at);
        }
        self.put(Cause::Remainder, Ground::Seen, at, to);
    }

    fn late_timer(&mut self, cpu: u32, context: Context, from: i64, to: i64) {
        match context {
            Context::Idle => self.put(Cause::IdleExit, Ground::Seen, from, to),
            Context::Interrupt(interrupt) => self.put_beside(interrupted(interrupt), Ground::Seen, from, to),
            Context::Thread(tid) if tid == self.moment.tid => self.put(Cause::Switching, Ground::Seen, from, to),
            Context::Thread(by) => {
                let is_seen = self.of.was_off(Off::Irqs, cpu, from, to);
                let ground = if is_seen { Ground::Seen } else { Ground::Inferred };
                self.put_beside(Cause::IrqsOff { by }, ground, from, to);
            }
            Context::Unknown => self.put(Cause::Remainder, Ground::Seen, from, to),
        }
    }

    fn take_slack(&mut self, from: i64, to: i64) -> i64 {
        let until = to.min(from + self.slack_ns);
        self.put(Cause::Slack, Ground::Inferred, from, until);
        self.slack_ns -= until - from;
        until
    }

    /// The thread's CPU.
    fn cpu_at(&self, at: i64) -> Option<u32> {
        self.moment.cpu.or_else(|| self.cpu_before(at))
    }

    /// Where the thread ran last.
    fn cpu_before(&self, at: i64) -> Option<u32> {
        let spans = self.of.history.thread(self.moment.tid);
        let before = spans.partition_point(|span| span.from < at);
        spans[..before].iter().rev().find_map(|span| match span.doing {
            Doing::Running { cpu } => Some(cpu),
            _ => None,
        })
    }

    fn finish(mut self) -> Explained {
        let Moment { tid, from, to, .. } = self.moment;
        let mut faults = self.of.faults.iter().filter(|(at, who)| *who == tid && (from..to).contains(at));
        let first_fault = faults.next().map(|(at, _)| *at);
        let count = first_fault.map_or(0, |_| 1 + faults.count() as u64);
        for (begin, end) in std::mem::take(&mut self.own) {
            let fault = first_fault.map_or(end, |at| at.clamp(begin, end));
            self.ran(begin, fault);
            self.put(Cause::Fault, Ground::Seen, fault, end);
        }
        self.parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        Explained { parts: self.parts, doubt: self.doubt, faults: count }
    }

    /// The thread ran, and no fault was the reason.
    fn ran(&mut self, from: i64, to: i64) {
        let cpu = self.cpu_at(to);
        let from = self.take_nmis(cpu, from, to);
        let changed = cpu.and_then(|cpu| self.of.frequency(cpu, self.moment.from, self.moment.to));
        if let Some(khz) = changed {
            return self.put(Cause::Frequency { khz }, Ground::Inferred, from, to);
        }
        if to - from < STALL_MIN_NS {
            return self.put(Cause::Own, Ground::Seen, from, to);
        }
        let cause = match cpu {
            Some(cpu) if self.of.times.all_stood_still(cpu, from, to) => Cause::Firmware,
            _ if self.of.machine.is_guest => Cause::Steal,
            _ => Cause::Remainder,
        };
        self.put(cause, Ground::Inferred, from, to);
    }

    /// What non-maskable interrupts took of [from, to); the rest begins at what is given back.
    fn take_nmis(&mut self, cpu: Option<u32>, from: i64, to: i64) -> i64 {
        let of = self.of;
        let mut at = from;
        for (_, begin, end) in of.nmis.iter().filter(|(number, ..)| Some(*number) == cpu) {
            let (begin, end) = (*begin.max(&at), *end.min(&to));
            if begin < end {
                // Shifted to the front: the sum is what counts.
                self.put(Cause::Nmi, Ground::Seen, at, at + (end - begin));
                at += end - begin;
            }
        }
        at
    }
}

/// A call of a high-resolution timer is part of the timer interrupt.
fn interrupted(interrupt: Interrupt) -> Cause {
    let local_timer = VECTORS.iter().position(|name| *name == "local_timer").map_or(0, |at| at as u8);
    Cause::Interrupt(match interrupt {
        Interrupt::Hrtimer(_) => Interrupt::Vector(local_timer),
        Interrupt::Timer(_) => Interrupt::Softirq(1),
        other => other,
    })
}
