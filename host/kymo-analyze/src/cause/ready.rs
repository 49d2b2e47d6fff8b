// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a thread that can run does not run.

use crate::budget::{BudgetPart as Piece, Piece as At};
use crate::cause::evidence::Evidence;
use crate::cause::segments::{REAL_TIME, Walk};
use crate::cause::wait::{QUOTA_WAIT_NS, Ready, WholeWait};
use crate::cause::{Cause, Ground, Limit};
use crate::doubt::Doubt;
use crate::event::Off;
use crate::span::{self, Context, Doing, Until};

/// Threads of normal classes share a CPU: one that waits for longer may be kept from running, ns.
const UNFAIR_NS: i64 = 20_000_000;

impl Walk<'_> {
    /// A piece in which a thread could have run.
    pub(super) fn waits(&mut self, tid: i32, piece: &At) {
        let (from, to) = (piece.from, piece.to);
        let Some(mut ready) = self.of.readiness(tid, from, to) else {
            return self.put(Cause::Remainder, Ground::Seen, from, to);
        };
        // A wait has many pieces: what it shows as a whole is looked up once.
        let known = self.wait.filter(|(of, wait)| *of == tid && wait.is_same(&ready));
        ready.wait = known.map_or_else(|| self.of.whole_wait(tid, &ready), |(_, known)| known.wait);
        self.wait = Some((tid, ready));
        if !ready.is_here {
            self.doubt |= Doubt::MISSED;
        }
        match piece.part {
            Piece::Switching => self.put(Cause::Switching, Ground::Seen, from, to),
            Piece::IdleExit => {
                let (cause, ground) = self.of.beside_idle(tid, &ready, from, to);
                self.put(cause, ground, from, to);
            }
            Piece::Preempted { by: Some(by) } => {
                for (begin, end, off) in self.of.by_off(ready.cpu, from, to) {
                    match self.of.behind(tid, by, &ready, (begin, off)) {
                        (cause @ (Cause::PreemptionOff { .. } | Cause::IrqsOff { .. }), ground) => {
                            self.put_beside(cause, ground, begin, end);
                        }
                        (cause, ground) => self.put(cause, ground, begin, end),
                    }
                }
            }
            _ => self.put(Cause::Remainder, Ground::Seen, from, to),
        }
    }
}

impl Evidence {
    /// Why a thread waits while another one runs.
    fn behind(&self, tid: i32, by: i32, ready: &Ready, (at, off): (i64, Option<Off>)) -> (Cause, Ground) {
        let (own, other) = (self.prio(tid, at), self.prio_running(by, at));
        let off_by = match off {
            Some(Off::Irqs) => Some((Cause::IrqsOff { by }, Ground::Seen)),
            Some(Off::Preemption) => Some((Cause::PreemptionOff { by }, Ground::Seen)),
            None => None,
        };
        let (Some(own), Some(other)) = (own, other) else {
            return off_by.unwrap_or((Cause::Thread { by }, Ground::Inferred));
        };
        if other <= own.min(REAL_TIME - 1) {
            return (Cause::Thread { by }, Ground::Seen);
        }
        let was_passed_over = self.was_passed_over(ready, at);
        if own >= REAL_TIME {
            // Who is let go may wait for others, who came meanwhile: only what follows shows that it was kept back.
            let is_kept = ready.idled(at) || self.waits_for_quota(ready, at);
            let throttled = (Cause::Throttled { by: Some(by), limit: Limit::Quota }, Ground::Inferred);
            // Others were chosen for so long, or until some group got its quota anew, that it may not have been in the
            // queue at all: a quota looks the same. So it does if the CPU kept it back before.
            let is_long = ready.until.saturating_sub(ready.arrived) >= UNFAIR_NS;
            let may_be_quota =
                is_long || self.quota_given(ready.arrived, ready.until).is_some() || ready.idled(ready.arrived);
            let ground = if was_passed_over && may_be_quota { Ground::Inferred } else { Ground::Seen };
            let shared = off_by.unwrap_or((Cause::RunQueue { by }, ground));
            return if was_passed_over && is_kept { throttled } else { shared };
        }
        // A CPU that nobody has told of the thread yet chooses a lower one, too.
        if was_passed_over && (ready.is_exact || ready.is_woken_here) {
            let limit = self.limit(own, ready, ready.idled(ready.arrived));
            let ground = if ready.is_exact { Ground::Seen } else { Ground::Inferred };
            return (Cause::Throttled { by: Some(by), limit }, ground);
        }
        if off_by.is_none() && self.keeps_back(tid, ready, at) {
            let limit = self.limit(own, ready, ready.idled(ready.arrived));
            return (Cause::Throttled { by: Some(by), limit }, Ground::Inferred);
        }
        off_by.unwrap_or((Cause::PreemptionOff { by }, Ground::Inferred))
    }

    /// Whoever has the CPU came to it when the thread could run: the scheduler chose another one, or none.
    pub(super) fn was_passed_over(&self, ready: &Ready, at: i64) -> bool {
        ready.is_behind(self.history.current_since(ready.cpu, at).unwrap_or(i64::MIN))
    }

    /// Whether a thread of a normal class was passed over until groups got their quota anew, and then soon ran.
    fn waits_for_quota(&self, ready: &Ready, at: i64) -> bool {
        let Some(given) = self.quota_given(ready.arrived, ready.until) else { return false };
        let (before, after) = (given.saturating_sub(ready.arrived), ready.until.saturating_sub(given));
        at < given && before >= QUOTA_WAIT_NS && after <= before / 2
    }

    /// What a wait shows as a whole.
    fn whole_wait(&self, tid: i32, ready: &Ready) -> WholeWait {
        let spans = self.history.of_cpu(ready.cpu, ready.arrived, ready.until);
        let prios = spans.filter_map(|span| match span.current {
            Context::Thread(other) => self.prio_running(other, span.from.max(ready.arrived)),
            _ => None,
        });
        let lowest = prios.filter(|prio| *prio < REAL_TIME).max();
        WholeWait { lowest, choice: self.idle_choice(tid, ready) }
    }

    /// Which limit stops a thread of that priority. `has_idled`: its CPU, in that wait.
    pub(super) fn limit(&self, own: i16, ready: &Ready, has_idled: bool) -> Limit {
        match own {
            REAL_TIME.. => Limit::Quota,
            ..0 => Limit::Deadline,
            _ if ready.wait.lowest.is_some_and(|prio| prio > own) => Limit::RealTimeGroup,
            _ if has_idled => Limit::RealTime,
            _ => match self.machine.kernel {
                Some(version) if version < (6, 12) => Limit::RealTime,
                _ => Limit::FairServer,
            },
        }
    }

    /// For what a thread that can run waits.
    fn readiness(&self, tid: i32, from: i64, to: i64) -> Option<Ready> {
        let span = self.history.of_thread(tid, from, to).next()?;
        let ran_on = match span.until {
            Until::Runs { cpu } => Some(cpu),
            _ => None,
        };
        let Doing::Runnable { cpu, why } = span.doing else { return None };
        let cpu = cpu.or(ran_on)?;
        // It may have left this CPU for another one at any time, if the trace does not say when.
        let is_here = ran_on.is_none_or(|ran_on| ran_on == cpu);
        let came = if self.moved_here(tid, span) { span.from } else { span.ready_from };
        let has_left =
            came == span.ready_from && matches!(why, span::Ready::Preempted { .. } | span::Ready::GaveWay { .. });
        let queued = self.queued(tid, came, span.to);
        Some(Ready {
            cpu,
            arrived: if has_left { came } else { queued.unwrap_or(came) },
            until: span.to,
            has_left,
            is_exact: is_here && (has_left || queued.is_some()),
            is_here,
            is_woken_here: is_here
                && came == span.ready_from
                && matches!(why, span::Ready::Woken(waker) if waker.cpu == cpu),
            wait: WholeWait::default(),
        })
    }

    /// Whether it was in the queue of another CPU before.
    fn moved_here(&self, tid: i32, span: &crate::span::ThreadSpan) -> bool {
        let spans = self.history.thread(tid);
        let before = spans.partition_point(|other| other.from < span.from);
        let last = before.checked_sub(1).and_then(|at| spans.get(at));
        last.is_some_and(|last| matches!(last.doing, Doing::Runnable { .. }) && last.to == span.from)
    }

    /// [from, to) of a CPU divided by what was off on it, as records say.
    pub(super) fn by_off(&self, cpu: u32, from: i64, to: i64) -> Vec<(i64, i64, Option<Off>)> {
        // Begins (1) and ends (-1); those of [from, to) alone, which divide nothing, too.
        let mut edges = vec![(from, Off::Irqs, 0), (to, Off::Irqs, 0)];
        for off in self.offs_of(cpu, from, to) {
            edges.push((off.from.max(from), off.what, 1));
            edges.push((off.to.min(to), off.what, -1));
        }
        edges.sort_unstable_by_key(|(at, ..)| *at);
        let (mut irqs, mut preemption) = (0, 0);
        let mut divided = Vec::new();
        for pair in edges.windows(2) {
            let ((at, what, step), (next, ..)) = (pair[0], pair[1]);
            match what {
                Off::Irqs => irqs += step,
                Off::Preemption => preemption += step,
            }
            let off = match (irqs > 0, preemption > 0) {
                (true, _) => Some(Off::Irqs),
                (false, true) => Some(Off::Preemption),
                (false, false) => None,
            };
            if at < next {
                divided.push((at, next, off));
            }
        }
        divided
    }
}
