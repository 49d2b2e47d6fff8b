// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stretch of a thread as segments: each has one cause, and they follow each other without gap and overlap.

use crate::budget::{BudgetPart as Piece, Piece as At};
use crate::cause::evidence::Evidence;
use crate::cause::wait::Ready;
use crate::cause::{Asked, Cause, Ground, Moment};
use crate::doubt::Doubt;
use crate::event::{Interrupt, VECTORS};
use crate::span::Doing;
pub(super) use crate::units::REAL_TIME;

/// The thread itself runs for so long without a record, and that is no stall, ns: it returns from a call, or it meets
/// an interrupt that has no event.
pub(super) const STALL_MIN_NS: i64 = 20_000;
/// Slack of the timers of threads of normal classes, unless they ask for another, ns.
const SLACK_NS: i64 = 50_000;
/// A page fault has no end in a trace: what a thread runs behind one is the fault's for so long at most, ns.
const FAULT_NS_MAX: i64 = 20_000;

/// A piece of time with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The CPU that the thread ran or waited on, where it is known.
    pub cpu: Option<u32>,
    /// What it went to.
    pub cause: Cause,
    /// How that is known.
    pub ground: Ground,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

impl Segment {
    /// ns.
    pub fn ns(&self) -> u64 {
        self.to.abs_diff(self.from)
    }
}

impl Evidence {
    /// What a stretch of a thread was made of.
    pub fn segments(&self, moment: &Moment) -> Vec<Segment> {
        let mut walk = Walk::new(self, moment);
        for piece in self.history.pieces(moment.tid, moment.from, moment.to) {
            walk.piece(&piece);
        }
        walk.list
    }
}

/// Segments on the way.
pub(super) struct Walk<'a> {
    pub of: &'a Evidence,
    pub moment: Moment,
    pub list: Vec<Segment>,
    /// Of the piece.
    pub doubt: Doubt,
    pub cpu: Option<u32>,
    slack_ns: i64,
    /// The last wait for a CPU that was looked at, and whose it is.
    pub wait: Option<(i32, Ready)>,
    /// First page fault of the sample.
    first_fault: Option<i64>,
}

impl<'a> Walk<'a> {
    fn new(of: &'a Evidence, moment: &Moment) -> Walk<'a> {
        let is_normal = of.prio(moment.tid, moment.from).is_some_and(|prio| prio >= REAL_TIME);
        let has_slack = is_normal && moment.asked == Asked::Timer;
        Walk {
            of,
            moment: *moment,
            list: Vec::new(),
            doubt: Doubt::NONE,
            cpu: None,
            wait: None,
            slack_ns: if has_slack { SLACK_NS } else { 0 },
            first_fault: of.faults_of(moment.tid, moment.from, moment.to).next().map(|(at, _)| at),
        }
    }

    pub fn put(&mut self, cause: Cause, ground: Ground, from: i64, to: i64) {
        if to <= from {
            return;
        }
        let (cpu, doubt) = (self.cpu, self.doubt);
        match self.list.last_mut() {
            Some(last)
                if last.to == from
                    && (last.cause, last.ground, last.cpu, last.doubt) == (cause, ground, cpu, doubt) =>
            {
                last.to = to;
            }
            _ => self.list.push(Segment { from, to, cpu, cause, ground, doubt }),
        }
    }

    /// As `put`, for time in which the thread's CPU was not the thread's: what a change of the CPU's frequency took of
    /// it goes to that.
    pub fn put_beside(&mut self, cause: Cause, ground: Ground, from: i64, to: i64) {
        let mut at = from;
        let changes: Vec<_> = self.changes(self.cpu_at(from), from, to).collect();
        for (begin, end, khz) in changes {
            self.put(cause, ground, at, begin);
            self.put(Cause::Frequency { khz }, Ground::Inferred, begin.max(at), end);
            at = end.max(at);
        }
        self.put(cause, ground, at, to);
    }

    /// What changes of a CPU's frequency, made by itself, took of [from, to): from, to, kHz.
    pub fn changes(&self, cpu: Option<u32>, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, u32)> + use<'a> {
        let own = self.of.changes.iter().filter(move |change| Some(change.cpu) == cpu);
        own.map(move |change| (change.from.max(from), change.to.min(to), change.khz))
            .filter(|(begin, end, _)| end - begin >= STALL_MIN_NS)
    }

    fn piece(&mut self, piece: &At) {
        self.doubt = within(piece.doubt, piece.part == Piece::Unknown);
        self.cpu = self.of.cpu_of(self.moment.tid, piece.from, piece.to);
        let (from, to) = (piece.from, piece.to);
        match piece.part {
            Piece::Running => self.ran(from, to),
            Piece::Interrupt(interrupt) | Piece::WaitInterrupt(interrupt) => {
                self.put_beside(self.interrupted(interrupt), Ground::Seen, from, to);
            }
            Piece::Preempted { .. } | Piece::IdleExit | Piece::Switching => self.waits(self.moment.tid, piece),
            Piece::Blocked { state, call, waker } => self.blocked((state, call, waker), piece),
            Piece::Unknown => self.put(Cause::Remainder, Ground::Seen, from, to),
        }
    }

    /// A call of a high-resolution timer is part of the timer interrupt where nobody asks for its function.
    pub fn interrupted(&self, interrupt: Interrupt) -> Cause {
        let local_timer = VECTORS.iter().position(|name| *name == "local_timer").map_or(0, |at| at as u8);
        Cause::Interrupt(match interrupt {
            Interrupt::Hrtimer(_) => Interrupt::Vector(local_timer),
            Interrupt::Timer(_) => Interrupt::Softirq(1),
            other => other,
        })
    }

    pub fn take_slack(&mut self, from: i64, to: i64) -> i64 {
        let until = to.min(from + self.slack_ns);
        self.put(Cause::Slack, Ground::Inferred, from, until);
        self.slack_ns -= until - from;
        until
    }

    /// The thread's CPU.
    pub fn cpu_at(&self, at: i64) -> Option<u32> {
        self.cpu.or(self.moment.cpu).or_else(|| self.of.cpu_before(self.moment.tid, at))
    }

    /// The thread ran.
    fn ran(&mut self, from: i64, to: i64) {
        if self.moment.asked == Asked::Stretch {
            let faults: Vec<i64> = self.of.faults_of(self.moment.tid, from, to).map(|(at, _)| at).collect();
            let mut at = from;
            for (index, fault) in faults.iter().enumerate() {
                let next = faults.get(index + 1).copied().unwrap_or(to);
                let end = next.min(fault.saturating_add(FAULT_NS_MAX));
                self.ran_itself(at, *fault);
                self.put(Cause::Fault, Ground::Inferred, at.max(*fault), end);
                at = end.max(at);
            }
            return self.ran_itself(at, to);
        }
        let fault = self.first_fault.map_or(to, |at| at.clamp(from, to));
        self.ran_itself(from, fault);
        self.put(Cause::Fault, Ground::Seen, fault, to);
    }

    /// The thread ran, and no fault was the reason.
    fn ran_itself(&mut self, from: i64, to: i64) {
        if to <= from {
            return;
        }
        let cpu = self.cpu_at(to);
        let from = self.take_nmis(cpu, from, to);
        if self.moment.asked == Asked::Stretch {
            let mut at = from;
            for (begin, end, owner) in self.of.spins_of(self.moment.tid, from, to) {
                self.ran_freely(cpu, at, begin);
                self.put(Cause::LockOwner { owner }, Ground::Inferred, begin, end);
                at = end.max(at);
            }
            return self.ran_freely(cpu, at, to);
        }
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

    /// A thread with work of its own may run without a record for as long as it likes.
    fn ran_freely(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        if to <= from {
            return;
        }
        let is_stall = to - from >= STALL_MIN_NS
            && cpu.is_some_and(|cpu| {
                self.of.times.is_silent(cpu, from, to) && self.of.times.all_stood_still(cpu, from, to)
            });
        match is_stall {
            true => self.put(Cause::Firmware, Ground::Inferred, from, to),
            false => self.put(Cause::Own, Ground::Seen, from, to),
        }
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

/// The trace may end in the span that a piece is cut from: of the piece itself all is known, but where nothing is.
pub(super) fn within(doubt: Doubt, is_unknown: bool) -> Doubt {
    if is_unknown { doubt } else { doubt.without(Doubt::END) }
}

impl Evidence {
    /// The CPU that a thread ran or waited on in a piece.
    pub(super) fn cpu_of(&self, tid: i32, from: i64, to: i64) -> Option<u32> {
        let span = self.history.of_thread(tid, from, to).next()?;
        match (span.doing, span.until) {
            (Doing::Running { cpu }, _) | (Doing::Runnable { cpu: Some(cpu), .. }, _) => Some(cpu),
            (Doing::Runnable { .. }, crate::span::Until::Runs { cpu }) => Some(cpu),
            _ => None,
        }
    }

    /// Where a thread ran last.
    pub(super) fn cpu_before(&self, tid: i32, at: i64) -> Option<u32> {
        let spans = self.history.thread(tid);
        let before = spans.partition_point(|span| span.from < at);
        spans[..before].iter().rev().find_map(|span| match span.doing {
            Doing::Running { cpu } => Some(cpu),
            _ => None,
        })
    }
}
