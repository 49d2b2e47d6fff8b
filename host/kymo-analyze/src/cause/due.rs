// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the timers were due that wake threads.

use crate::event::{Event, Interrupt};
use crate::hash::Map;
use crate::record::Head;
use crate::span::Context;
use crate::state::State;

/// Timers that are followed at most.
const TIMERS_MAX: usize = 1 << 20;

/// High-resolution timers from their start to their call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dues {
    /// By address: when a timer is due, in its own clock.
    started: Map<u64, i64>,
    /// By CPU: when the timer was due whose function is called there.
    expiring: Map<u32, i64>,
}

impl Dues {
    /// Takes an event, before the state moves by it.
    pub fn event(&mut self, head: &Head, event: &Event) {
        match *event {
            Event::TimerStart { timer, expires } if self.started.len() < TIMERS_MAX => {
                self.started.insert(timer, expires);
            }
            Event::TimerCancel { timer } => {
                self.started.remove(&timer);
            }
            Event::TimerExpire { timer, now, .. } => {
                let Some(cpu) = head.cpu else { return };
                match self.started.remove(&timer) {
                    Some(expires) => {
                        let late = now.saturating_sub(expires).max(0);
                        self.expiring.insert(cpu, head.time.saturating_sub(late))
                    }
                    None => self.expiring.remove(&cpu),
                };
            }
            _ => {}
        }
    }

    /// When the timer was due that wakes a thread by this record; none if no timer does, or its start is not known.
    pub fn of_wake(&self, head: &Head, state: &State) -> Option<i64> {
        let cpu = head.cpu?;
        let is_timer = matches!(state.cpu(cpu)?.context(), Context::Interrupt(Interrupt::Hrtimer(_)));
        self.expiring.get(&cpu).copied().filter(|_| is_timer)
    }
}
