// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread that sleeps waits for: whoever ends that, and who those wait for in turn.

use crate::budget::{BudgetPart as Piece, Piece as At};
use crate::cause::beside_idle::idle_exit_ground;
use crate::cause::segments::{STALL_MIN_NS, Walk, within};
use crate::cause::{Asked, Cause, Ground};
use crate::critical::{Act, PathStep};
use crate::doubt::Doubt;
use crate::event::{CallId, Off};
use crate::span::{Context, Doing, Waker};

/// What the end of a chain of threads is waited for.
#[derive(Clone, Copy)]
enum WaitsFor {
    /// A lock that it holds.
    Lock,
    /// What it does.
    Thread,
    /// Nothing: a thread before it is stopped.
    Stop {
        /// That thread.
        tid: i32,
        /// By a debugger.
        traced: bool,
    },
    /// Nothing: a thread before it is in a page fault.
    Fault,
}

impl Walk<'_> {
    pub(super) fn blocked(&mut self, (state, call, waker): (u8, Option<CallId>, Option<Waker>), piece: &At) {
        let (tid, asked) = (self.moment.tid, self.moment.asked);
        let (from, to) = (piece.from, piece.to);
        let waker_tid = match waker.map(|waker| waker.context) {
            Some(Context::Thread(by)) if by != tid => Some(by),
            _ => None,
        };
        let in_sample = || asked != Asked::Stretch && self.of.faults_of(tid, self.moment.from, to).next().is_some();
        let plain = Cause::Blocked { state, call, waker };
        match (state, asked, waker_tid) {
            (b'T' | b't', ..) => self.stopped(state == b't', waker_tid, from, to),
            (b'D', ..) if in_sample() => self.put(Cause::Fault, Ground::Seen, from, to),
            _ if self.of.sleeps_in_fault(tid, from) => self.put(Cause::Fault, Ground::Seen, from, to),
            (_, Asked::Lock, Some(_)) => self.chain(true, plain, from, to),
            (_, Asked::Woken, Some(_)) => self.chain(false, plain, from, to),
            (_, Asked::Timer, _) => self.before_timer(self.cpu_at(from), from, to),
            (_, Asked::Stretch, Some(_)) => {
                self.chain(self.of.waits_for_lock(tid, call, from) == Some(true), plain, from, to);
            }
            (_, Asked::Stretch, None) => self.slept((plain, waker), from, to),
            _ => self.put(plain, Ground::Seen, from, to),
        }
    }

    fn stopped(&mut self, traced: bool, continued_by: Option<i32>, from: i64, to: i64) {
        let (by, ground) = self.of.stopper(self.moment.tid, from, (traced, continued_by));
        self.put(Cause::Stopped { by, traced }, ground, from, to);
    }

    /// It slept until an interrupt woke it. If that was a timer which was late, it should have been woken before.
    fn slept(&mut self, (plain, waker): (Cause, Option<Waker>), from: i64, to: i64) {
        // It may have been woken behind what is asked about.
        let span = self.of.history.of_thread(self.moment.tid, from, to).next();
        let woken = span.map_or(to, |span| span.to);
        let due = self.of.due(self.moment.tid, woken).map_or(to, |due| due.clamp(from, to));
        self.put(plain, Ground::Seen, from, due);
        if due < to {
            self.before_timer(waker.map(|waker| waker.cpu), due, to);
        }
    }

    /// What the threads did that were waited for, one for the other.
    fn chain(&mut self, is_lock: bool, plain: Cause, from: i64, to: i64) {
        let path = self.of.history.critical(self.moment.tid, from, to);
        let waits = self.waits_for(&path.steps, is_lock);
        let (own_doubt, own_cpu) = (self.doubt, self.cpu);
        for (step, waits_for) in path.steps.iter().zip(waits) {
            let cut = Doubt::CUT.when(step.doubt.has(Doubt::CUT));
            self.doubt = own_doubt | cut;
            let is_lock = match waits_for {
                // The rest of a path that is too long.
                _ if step.depth == 0 && step.act == Act::Unknown && !cut.is_none() => {
                    self.put(Cause::Remainder, Ground::Seen, step.from, step.to);
                    continue;
                }
                _ if step.depth == 0 => {
                    self.put(plain, Ground::Seen, step.from, step.to);
                    continue;
                }
                WaitsFor::Stop { tid, traced } => {
                    let continued_by = (step.waiter == Some(tid)).then_some(step.tid);
                    let (by, ground) = self.of.stopper(tid, step.from, (traced, continued_by));
                    self.put(Cause::Stopped { by, traced }, ground, step.from, step.to);
                    continue;
                }
                WaitsFor::Fault => {
                    self.put(Cause::Fault, Ground::Seen, step.from, step.to);
                    continue;
                }
                WaitsFor::Lock => true,
                WaitsFor::Thread => false,
            };
            for piece in self.of.history.pieces(step.tid, step.from, step.to) {
                self.doubt = own_doubt | cut | within(piece.doubt, piece.part == Piece::Unknown);
                self.cpu = self.of.cpu_of(step.tid, piece.from, piece.to);
                self.other(is_lock, step.tid, &piece);
            }
            self.cpu = own_cpu;
        }
        self.doubt = own_doubt;
    }

    /// For each step what is waited for: it is the nearest waiter's wait that says whether that is a lock, and a waiter
    /// that is stopped, or in a page fault, waits for nobody, whoever ended that.
    fn waits_for(&self, steps: &[PathStep], is_lock: bool) -> Vec<WaitsFor> {
        // Who waits for whom, the one asked about first.
        let mut line: Vec<i32> = Vec::new();
        let mut found: Vec<WaitsFor> = Vec::with_capacity(steps.len());
        for step in steps.iter().rev() {
            line.resize(step.depth, self.moment.tid);
            if let (Some(last), Some(waiter)) = (line.last_mut(), step.waiter) {
                *last = waiter;
            }
            let between = line.iter().skip(1).find_map(|waiter| self.held(*waiter, step.from));
            let is_lock = || match &line[..] {
                [_, .., waiter] => self.is_lock(*waiter, step.from).unwrap_or(is_lock),
                _ => is_lock,
            };
            found.push(match between {
                Some(held) => held,
                None if is_lock() => WaitsFor::Lock,
                None => WaitsFor::Thread,
            });
        }
        found.reverse();
        found
    }

    /// Why a thread that sleeps at a time could not have gone on by itself.
    fn held(&self, tid: i32, at: i64) -> Option<WaitsFor> {
        let span = self.of.history.of_thread(tid, at, at.saturating_add(1)).next()?;
        match span.doing {
            Doing::Blocked { state: state @ (b'T' | b't'), .. } => Some(WaitsFor::Stop { tid, traced: state == b't' }),
            Doing::Blocked { in_fault: true, .. } => Some(WaitsFor::Fault),
            _ => None,
        }
    }

    /// Whether it is a lock that a thread sleeps for at a time, if that is known.
    fn is_lock(&self, tid: i32, at: i64) -> Option<bool> {
        let span = self.of.history.of_thread(tid, at, at.saturating_add(1)).next()?;
        match span.doing {
            Doing::Blocked { call, .. } => self.of.waits_for_lock(tid, call, span.from),
            _ => None,
        }
    }

    /// What a thread that is waited for did.
    fn other(&mut self, is_lock: bool, tid: i32, piece: &At) {
        let (from, to) = (piece.from, piece.to);
        let cause = match piece.part {
            Piece::Interrupt(interrupt) | Piece::WaitInterrupt(interrupt) => self.interrupted(interrupt),
            Piece::Running | Piece::Switching if is_lock => Cause::LockOwner { owner: tid },
            Piece::Running | Piece::Switching => Cause::Waker { tid },
            Piece::Preempted { by } if is_lock => return self.owner_waits(tid, by, piece),
            Piece::Preempted { .. } | Piece::IdleExit => return self.waits(tid, piece),
            Piece::Blocked { state: state @ (b'T' | b't'), .. } => {
                let (by, ground) = self.of.stopper(tid, from, (state == b't', None));
                return self.put(Cause::Stopped { by, traced: state == b't' }, ground, from, to);
            }
            Piece::Blocked { .. } if self.of.sleeps_in_fault(tid, from) => Cause::Fault,
            Piece::Blocked { call, .. } if is_lock => Cause::LockOwnerSleeps { owner: tid, call },
            Piece::Blocked { call, .. } => Cause::WakerSleeps { tid, call },
            Piece::Unknown => Cause::Remainder,
        };
        self.put(cause, Ground::Seen, from, to);
    }

    /// The owner of a lock could run, and did not.
    fn owner_waits(&mut self, owner: i32, by: Option<i32>, piece: &At) {
        let before = std::mem::take(&mut self.list);
        self.waits(owner, piece);
        for segment in std::mem::replace(&mut self.list, before) {
            // Who may not run is throttled, whatever it holds.
            let is_kept = matches!(segment.cause, Cause::Throttled { .. } | Cause::Frequency { .. });
            let cause = if is_kept { segment.cause } else { Cause::LockOwnerWaits { owner, by } };
            self.put(cause, segment.ground, segment.from, segment.to);
        }
    }

    /// The timer was due, and its interrupt had not come or had not woken the thread yet.
    fn before_timer(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        let from = self.take_slack(from, to);
        let Some(cpu) = cpu else {
            return self.put(Cause::Remainder, Ground::Seen, from, to);
        };
        self.cpu = Some(cpu);
        let is_changing = self.changes(Some(cpu), from, to).next().is_some();
        if to - from >= STALL_MIN_NS && !is_changing && self.of.times.all_stood_still(cpu, from, to) {
            return self.put(Cause::Firmware, Ground::Inferred, from, to);
        }
        let mut at = from;
        let (of, own_doubt) = (self.of, self.doubt);
        for span in of.history.of_cpu(cpu, from, to) {
            self.doubt = own_doubt | within(span.doubt, span.context == Context::Unknown);
            self.put(Cause::Remainder, Ground::Seen, at, span.from.min(to));
            let (begin, end) = (span.from.max(at), span.to.min(to));
            self.late_timer(cpu, span.context, begin, end);
            at = end.max(at);
        }
        self.put(Cause::Remainder, Ground::Seen, at, to);
        self.doubt = own_doubt;
    }

    fn late_timer(&mut self, cpu: u32, context: Context, from: i64, to: i64) {
        match context {
            Context::Idle => self.put(Cause::IdleExit, idle_exit_ground(to - from), from, to),
            Context::Interrupt(interrupt) => self.put_beside(self.interrupted(interrupt), Ground::Seen, from, to),
            Context::Thread(tid) if tid == self.moment.tid => self.put(Cause::Switching, Ground::Seen, from, to),
            Context::Thread(by) => {
                for (begin, end, off) in self.of.by_off(cpu, from, to) {
                    let ground = if off == Some(Off::Irqs) { Ground::Seen } else { Ground::Inferred };
                    self.put_beside(Cause::IrqsOff { by }, ground, begin, end);
                }
            }
            Context::Unknown => self.put(Cause::Remainder, Ground::Seen, from, to),
        }
    }
}
