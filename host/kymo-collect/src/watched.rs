// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who looks at the trace while it is written gets it sooner [spec/session.md 11]: for a short time after each request
//! the bytes of rings wait less before they reach the files. While nobody asks, nothing is done for that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// For so long a request has effect.
const LEASE: Duration = Duration::from_secs(2);
/// While somebody looks: what waits so long in a ring, or in a batch, is written.
pub(crate) const AGE: Duration = Duration::from_millis(20);
/// And rings that stand still are looked at this often, at least.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(10);

/// What whoever looks at the trace may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// A record is in the file so many ms after it was published, at most.
    pub within_ms: u64,
    /// For so many ms from when it was asked for.
    pub for_ms: u64,
}

/// Until when somebody looks, CLOCK_MONOTONIC ns.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    until_ns: AtomicU64,
    /// Time between two looks of the drain thread at rings that move.
    poll_ns: AtomicU64,
}

impl Watching {
    pub(crate) fn note_poll(&self, poll: Duration) {
        self.poll_ns.store(poll.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Somebody looks now. A look before the age is reached, and one after it.
    pub(crate) fn renew(&self, now_ns: u64) -> Watched {
        self.until_ns.fetch_max(now_ns.saturating_add(LEASE.as_nanos() as u64), Ordering::Relaxed);
        let poll = Duration::from_nanos(self.poll_ns.load(Ordering::Relaxed)).max(WAIT_MAX);
        Watched { within_ms: (AGE + 2 * poll).as_millis() as u64, for_ms: LEASE.as_millis() as u64 }
    }

    /// How long bytes wait in a ring: so long while nobody looks.
    pub(crate) fn age_ns(&self, now_ns: u64, usual_ns: u64) -> u64 {
        if self.is_on(now_ns) { usual_ns.min(AGE.as_nanos() as u64) } else { usual_ns }
    }

    /// How long a look at rings that stand still may wait: so long while nobody looks.
    pub(crate) fn wait(&self, now_ns: u64, usual: Duration) -> Duration {
        if self.is_on(now_ns) { usual.min(WAIT_MAX) } else { usual }
    }

    pub(crate) fn is_on(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_is_forgotten_after_a_while() {
        let (watching, second) = (Watching::default(), 1_000_000_000);
        assert!(!watching.is_on(0));
        assert_eq!(watching.renew(5 * second), Watched { within_ms: 40, for_ms: 2000 });
        assert!(watching.is_on(7 * second - 1) && !watching.is_on(7 * second));
        let (ms, second_ms) = (Duration::from_millis(1), 1000);
        assert_eq!([6, 7].map(|at| watching.age_ns(at * second, second)), [20_000_000, second]);
        assert_eq!([6, 7].map(|at| watching.wait(at * second, second_ms * ms)), [WAIT_MAX, second_ms * ms]);
        assert_eq!((watching.age_ns(6 * second, 5), watching.wait(6 * second, ms)), (5, ms));
        // One whose clock is behind takes nothing away.
        watching.renew(4 * second);
        assert!(watching.is_on(7 * second - 1));
        // A slow poll is in the promise.
        watching.note_poll(Duration::from_millis(50));
        assert_eq!(watching.renew(6 * second).within_ms, 120);
    }
}
