// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of perf events as times of the session's clock. The kernel cannot give them in cycles of the TSC, nor in ticks
//! of Arm's generic timer, so they are taken in CLOCK_MONOTONIC_RAW, which is linear in these, and brought over by
//! pairs of readings of both. If the session's clock is CLOCK_MONOTONIC, the events use that one.

use kymo_abi::Clock;

use crate::clock::{ClockSource, Pair};
use rustix::time::ClockId;

/// Pairs this close to each other do not tell the frequency well, ns.
const BASELINE_MIN_NS: u64 = 1_000_000;

/// Brings times over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    source: ClockSource,
    first: Pair,
    latest: Pair,
}

impl Times {
    /// From now on.
    pub fn new(source: ClockSource) -> Times {
        let first = Pair::take(source, ClockId::MonotonicRaw);
        Times { source, first, latest: first }
    }

    /// The clock that events are opened with.
    pub fn clock_id(source: ClockSource) -> libc::clockid_t {
        match source.clock() {
            Clock::Tsc | Clock::Cntvct => libc::CLOCK_MONOTONIC_RAW,
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
        }
    }

    /// Reads another pair. To be called before [`Self::of`], for times up to now.
    pub fn refresh(&mut self) {
        if self.source.clock() != Clock::Monotonic {
            let pair = Pair::take(self.source, ClockId::MonotonicRaw);
            self.latest = if pair.ns > self.latest.ns { pair } else { self.latest };
        }
    }

    /// Whether enough time has gone by for the frequency to be known.
    pub fn is_ready(&self) -> bool {
        self.source.clock() == Clock::Monotonic || self.latest.ns - self.first.ns >= BASELINE_MIN_NS
    }

    /// A time of an event in the session's clock.
    pub fn of(&self, ns: u64) -> u64 {
        if self.source.clock() == Clock::Monotonic {
            return ns;
        }
        let baseline_ns = i128::from(self.latest.ns - self.first.ns).max(1);
        let cycles = i128::from(self.latest.cycles.saturating_sub(self.first.cycles));
        let away_ns = i128::from(ns) - i128::from(self.latest.ns);
        let at = i128::from(self.latest.cycles) + away_ns * cycles / baseline_ns;
        u64::try_from(at.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::choose;

    #[test]
    fn times_are_those_of_the_session() {
        let source = ClockSource::new(choose());
        let mut times = Times::new(source);
        while !times.is_ready() {
            times.refresh();
        }
        let id = match Times::clock_id(source) {
            libc::CLOCK_MONOTONIC => ClockId::Monotonic,
            _ => ClockId::MonotonicRaw,
        };
        let (before, ns, after) = (source.read(), source.nanoseconds(id), source.read());
        times.refresh();
        // Half a millisecond would be far off: what is tested is that the two clocks are brought together.
        let of = times.of(ns);
        let slack = (after - before) + 1_000_000;
        assert!(of + slack >= before && of <= after + slack, "{before} {of} {after}");
    }
}
