// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a thread that can run waits for a CPU that idles: the CPU is slow to come out of that, or it may not run the
//! thread. The length of a wait tells nothing of it: a guest's CPU that its host does not run, firmware, and a limit
//! that no record shows look the same. So a limit is named only where the CPU is seen to idle by its own choice.

use crate::cause::evidence::Evidence;
use crate::cause::segments::REAL_TIME;
use crate::cause::wait::{IdleChoice, LONG_IDLE_NS, QUOTA_WAIT_NS, Ready};
use crate::cause::{Cause, Ground, Limit};
use crate::span::{self, Context, Doing, ThreadSpan, Until};

/// A CPU that stands still may do so right behind a record, even twice in a wait. It must have paused more often.
const PAUSES_MIN: usize = 3;

/// How it is known that a CPU took so long to come out of idle, ns.
pub(super) fn idle_exit_ground(ns: i64) -> Ground {
    if ns >= LONG_IDLE_NS { Ground::Inferred } else { Ground::Seen }
}

impl Evidence {
    /// Why a thread waits for a CPU that idles in [from, to).
    pub(super) fn beside_idle(&self, tid: i32, ready: &Ready, from: i64, to: i64) -> (Cause, Ground) {
        let Some(ground) = self.may_not_run(tid, ready, from, to) else {
            let ground = idle_exit_ground(ready.wait.choice.idle_ns);
            return (Cause::IdleExit, if ready.is_here { ground } else { Ground::Inferred });
        };
        let limit = self.prio(tid, from).map_or(Limit::Quota, |own| self.limit(own, ready, true));
        (Cause::Throttled { by: None, limit }, ground)
    }

    /// How long the CPU idled in the wait at most: all of it that is not known to be a thread's.
    fn idle_ns(&self, ready: &Ready) -> i64 {
        let spans = self.history.of_cpu(ready.cpu, ready.arrived, ready.until);
        let busy = spans.filter(|span| matches!(span.current, Context::Thread(_)));
        let busy_ns = busy.map(|span| span.to.min(ready.until).saturating_sub(span.from.max(ready.arrived)));
        ready.until.saturating_sub(ready.arrived).saturating_sub(busy_ns.fold(0, i64::saturating_add))
    }

    /// How it is known that a CPU which idles in [from, to) may not run the thread; `None`: nothing shows it.
    fn may_not_run(&self, tid: i32, ready: &Ready, from: i64, to: i64) -> Option<Ground> {
        if !ready.is_here {
            return None;
        }
        if ready.is_in_queue(to.saturating_sub(from)) && self.was_passed_over(ready, from) {
            return Some(if ready.is_exact { Ground::Seen } else { Ground::Inferred });
        }
        if ready.wait.choice.is_seen {
            return Some(Ground::Seen);
        }
        (ready.wait.choice.is_inferred || self.keeps_back(tid, ready, from)).then_some(Ground::Inferred)
    }

    /// What shows in a wait that the CPU idles by its own choice.
    pub(super) fn idle_choice(&self, tid: i32, ready: &Ready) -> IdleChoice {
        let mut choice = IdleChoice { idle_ns: self.idle_ns(ready), ..IdleChoice::default() };
        if !ready.is_here {
            return choice;
        }
        choice.is_seen = self.idled_again(ready);
        choice.is_inferred = self.pauses(ready) >= PAUSES_MIN || self.ends_with_quota(tid, ready);
        let (mut since, mut newest) = (None, None);
        for span in self.history.of_cpu(ready.cpu, ready.arrived, ready.until) {
            if span.current != Context::Idle {
                since = Some(i64::MAX);
                continue;
            }
            let (from, to) = (span.from.max(ready.arrived), span.to.min(ready.until));
            since = match since {
                None => self.history.current_since(ready.cpu, from),
                Some(i64::MAX) => Some(span.from),
                known => known,
            };
            if span.context != Context::Idle {
                continue;
            }
            newest = Some((from, to));
            let is_chosen =
                since.is_some_and(|since| ready.is_behind(since)) && ready.is_in_queue(to.saturating_sub(from));
            if is_chosen || choice.is_seen || choice.is_inferred {
                choice.until = Some(to);
            }
        }
        if let Some((from, to)) = newest.filter(|(_, to)| choice.until != Some(*to)) {
            choice.until = if self.keeps_back(tid, ready, from) { Some(to) } else { choice.until };
        }
        choice
    }

    /// Whether the CPU went to an idle state although it was awake before, with the thread in its queue.
    fn idled_again(&self, ready: &Ready) -> bool {
        // In whatever state it was when the thread came: it is awake once it has come out of that.
        let states = self.idle_states(ready.cpu, ready.arrived.saturating_add(1), ready.until);
        let mut awake = states.skip_while(|enters| *enters && !ready.is_woken_here);
        ready.is_exact && awake.any(|enters| enters)
    }

    /// How often the CPU wrote a record with the thread in its queue, and then nothing for long, idle.
    fn pauses(&self, ready: &Ready) -> usize {
        if !ready.is_exact {
            return 0;
        }
        let from = if ready.is_woken_here { ready.arrived } else { ready.arrived.saturating_add(1) };
        let is_idle = |from, to| {
            let mut spans = self.history.of_cpu(ready.cpu, from, to);
            spans.all(|span| span.context == Context::Idle)
        };
        let pauses = self.times.pauses(ready.cpu, (from, ready.until), LONG_IDLE_NS);
        pauses.filter(|&(from, to)| is_idle(from, to)).count()
    }

    /// Whether groups got their CPU quota anew after a long time, and the CPU ran the thread right then.
    fn ends_with_quota(&self, tid: i32, ready: &Ready) -> bool {
        let is_normal = self.prio(tid, ready.arrived).is_some_and(|prio| prio >= REAL_TIME);
        // A timer that is late itself comes when a CPU that stood still goes on.
        let given = self.quota_given_in_time(ready.until).filter(|_| is_normal);
        given.is_some_and(|given| {
            given.saturating_sub(ready.arrived) >= QUOTA_WAIT_NS && ready.until.saturating_sub(given) < LONG_IDLE_NS
        })
    }

    /// Whether the CPU keeps back another thread of that class: one that ran there, had to leave, and was passed over
    /// by nobody or, if it is a real-time one, by a thread of a normal class, which the CPU has at that time.
    pub(super) fn keeps_back(&self, tid: i32, ready: &Ready, at: i64) -> bool {
        let is_real_time = |tid: i32, at| self.prio(tid, at).map(|prio| prio < REAL_TIME);
        let own = is_real_time(tid, at);
        let is_long = ready.until.saturating_sub(ready.arrived) >= LONG_IDLE_NS;
        let Some((current, since)) = self.current(ready.cpu, at).filter(|_| is_long && own.is_some()) else {
            return false;
        };
        let is_lower = match current {
            Context::Idle => true,
            Context::Thread(by) => own == Some(true) && self.prio_running(by, at).is_some_and(|prio| prio >= REAL_TIME),
            _ => false,
        };
        let waits = |other: i32| {
            let mut spans = self.history.of_thread(other, at, at.saturating_add(1));
            spans.any(|span| match span.doing {
                // Whoever it had to leave the CPU to may have left it, too: who has it now counts.
                Doing::Runnable {
                    why: span::Ready::Preempted { .. } | span::Ready::GaveWay { .. },
                    cpu: Some(cpu),
                } => {
                    let stays = !matches!(span.until, Until::Runs { cpu: other } if other != cpu);
                    cpu == ready.cpu
                        && stays
                        && since >= span.from
                        && is_real_time(other, span.from) == own
                        && (own == Some(true) || self.go_on_together(ready, span))
                }
                _ => false,
            })
        };
        is_lower && self.history.tids().into_iter().any(|other| other != tid && waits(other))
    }

    /// Whom a CPU has at a time, and since when.
    fn current(&self, cpu: u32, at: i64) -> Option<(Context, i64)> {
        let span = self.history.of_cpu(cpu, at, at.saturating_add(1)).next()?;
        Some((span.current, self.history.current_since(cpu, at)?))
    }

    /// Whether the CPU ran both from the same moment on, one behind the other: groups have limits of their own, so one
    /// that is kept back is no sign of another.
    fn go_on_together(&self, ready: &Ready, other: &ThreadSpan) -> bool {
        let (first, last) = (other.to.min(ready.until), other.to.max(ready.until));
        other.until == (Until::Runs { cpu: ready.cpu }) && self.went_idle(ready.cpu, first, last) == Some(false)
    }
}
