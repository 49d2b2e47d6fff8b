// SPDX-License-Identifier: MIT OR Apache-2.0
//! High-resolution timers between their start and their call. They are part of the state, so that a timer that was
//! started before a stretch is known in it.

use crate::compact::{Put, Take};
use crate::event::Event;
use crate::hash::Map;

/// Timers that are followed at most.
const TIMERS_MAX: usize = 1 << 16;

/// Timers that have been started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Timers {
    /// By address: when a timer is due, in its own clock, ns.
    due: Map<u64, i64>,
    left_out: u64,
}

impl Timers {
    /// Moves by an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::TimerStart { timer, expires } => self.start(timer, expires),
            Event::TimerCancel { timer } | Event::TimerExpire { timer, .. } => {
                self.due.remove(&timer);
            }
            _ => {}
        }
    }

    fn start(&mut self, timer: u64, expires: i64) {
        if self.due.len() >= TIMERS_MAX && !self.due.contains_key(&timer) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.due.insert(timer, expires);
    }

    /// When a timer is due, if it was started.
    #[inline]
    pub fn due(&self, timer: u64) -> Option<i64> {
        self.due.get(&timer).copied()
    }

    /// How many there are, and how many were too many.
    pub fn counts(&self) -> (u64, u64) {
        (self.due.len() as u64, self.left_out)
    }

    /// By address, so that equal states have equal bytes.
    pub fn encode(&self, put: &mut Put) {
        let mut all: Vec<(u64, i64)> = self.due.iter().map(|(timer, due)| (*timer, *due)).collect();
        all.sort_unstable();
        put.number(self.left_out);
        put.number(all.len() as u64);
        let mut last = 0;
        for (timer, due) in all {
            put.number(timer - last);
            put.signed(due);
            last = timer;
        }
    }

    /// Of such bytes; `None`: they are not.
    pub fn decode(take: &mut Take<'_>) -> Option<Timers> {
        let mut timers = Timers { due: Map::default(), left_out: take.number()? };
        let count = take.count().filter(|&count| count <= TIMERS_MAX)?;
        let mut last = 0u64;
        for index in 0..count {
            let step = take.number()?;
            last = last.checked_add(step).filter(|_| index == 0 || step > 0)?;
            timers.due.insert(last, take.signed()?);
        }
        Some(timers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(timers: &Timers) -> Vec<u8> {
        let mut put = Put::default();
        timers.encode(&mut put);
        put.0
    }

    #[test]
    fn a_timer_is_known_from_its_start_to_its_end() {
        let mut timers = Timers::default();
        for (timer, expires) in [(0xffff_8880_0000_0010, 5000), (0, -7), (0xffff_8880_0000_0020, i64::MAX), (7, 1)] {
            timers.event(&Event::TimerStart { timer, expires });
        }
        timers.event(&Event::TimerStart { timer: 7, expires: 2 });
        timers.event(&Event::TimerCancel { timer: 0xffff_8880_0000_0020 });
        assert_eq!([7, 0, 0xffff_8880_0000_0020].map(|timer| timers.due(timer)), [Some(2), Some(-7), None]);
        let again = Timers::decode(&mut Take(&bytes(&timers))).unwrap();
        assert_eq!((&again, again.counts()), (&timers, (3, 0)));
        timers.event(&Event::TimerExpire { timer: 7, function: 1, now: 9 });
        assert_eq!(timers.due(7), None);
    }

    #[test]
    fn there_is_a_bound_and_what_is_beyond_is_counted() {
        let mut timers = Timers::default();
        (0..TIMERS_MAX as u64 + 3).for_each(|timer| timers.event(&Event::TimerStart { timer, expires: 1 }));
        timers.event(&Event::TimerStart { timer: 5, expires: 2 });
        assert_eq!((timers.counts(), timers.due(5)), ((TIMERS_MAX as u64, 3), Some(2)));
        assert_eq!(timers.due(TIMERS_MAX as u64), None);
    }

    #[test]
    fn bytes_that_are_no_timers_are_refused() {
        // More than there are bytes for; the same address twice; an end in the middle.
        for bad in [&[0, 9, 1, 1][..], &[0, 2, 1, 1, 0, 1], &[0, 1, 1]] {
            assert_eq!(Timers::decode(&mut Take(bad)), None, "{bad:?}");
        }
    }
}
