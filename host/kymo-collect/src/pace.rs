// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the drain thread sleeps: --poll-us while any ring fills fast, and longer while none does
//! [spec/session.md 7].

use std::time::Duration;

use kymo_abi::RingKind;
use kymo_abi::ring::Layout;

/// However quiet it is.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Bytes a second that one ring can be given: 50 million records of 20 bytes; portable, 20 million.
const RSEQ_BYTES_PER_S: u64 = 1_000_000_000;
const PORTABLE_BYTES_PER_S: u64 = 400_000_000;

/// A ring is calm while it gains no more than this part of its bytes from one look to the next.
const CALM_PART: u32 = 16;

/// The pace of the looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    poll: Duration,
    wait: Duration,
}

impl Pace {
    pub(crate) fn new(poll: Duration) -> Pace {
        Pace { poll, wait: poll }
    }

    /// Time from the begin of a look to the next one: doubled while all rings are calm, up to `bound`, see
    /// [`bound_of`].
    pub(crate) fn next(&mut self, are_calm: bool, bound: Duration) -> Duration {
        self.wait = if are_calm { (self.wait * 2).min(bound.min(WAIT_MAX)).max(self.poll) } else { self.poll };
        self.wait
    }
}

/// Whether a ring that gained `grown` bytes since the last look can wait longer for the next one.
pub(crate) fn is_calm(grown: u32, ring_bytes: u32) -> bool {
    grown <= ring_bytes / CALM_PART
}

/// How long nobody needs to look at the rings of a memory, the fullest of which has `waiting` bytes: until a burst has
/// filled it, less a poll for the look to come.
pub(crate) fn bound_of(layout: &Layout, waiting: u32, poll: Duration) -> Duration {
    let per_s = match layout.kind {
        RingKind::Rseq => RSEQ_BYTES_PER_S,
        RingKind::Portable => PORTABLE_BYTES_PER_S,
    };
    let room = u64::from(layout.ring_bytes.saturating_sub(waiting));
    Duration::from_nanos(room * 1_000_000_000 / per_s).saturating_sub(poll)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_abi::Clock;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn calm_rings_are_looked_at_less_often_and_fast_ones_at_once() {
        let mut pace = Pace::new(MS);
        let waits: Vec<u128> = (0..6).map(|_| pace.next(true, Duration::from_secs(1)).as_millis()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 20, 20]);
        assert_eq!(pace.next(false, Duration::from_secs(1)), MS);
        assert_eq!(pace.next(true, Duration::from_secs(1)), 2 * MS);
        assert_eq!(pace.next(true, MS * 3), 3 * MS);
        // Rings that fill within a poll are looked at as often as ever; so are those of a slow poll.
        assert_eq!(pace.next(true, Duration::ZERO), MS);
        assert_eq!(Pace::new(50 * MS).next(true, Duration::from_secs(1)), 50 * MS);
    }

    #[test]
    fn a_burst_does_not_fill_a_ring_unseen() {
        let bound = |kind, ring_bytes, waiting| {
            let layout = Layout::new(kind, Clock::Tsc, 3, ring_bytes, 4096).unwrap();
            bound_of(&layout, waiting, MS).as_micros()
        };
        assert_eq!(bound(RingKind::Rseq, 4 << 20, 0), 3194);
        assert_eq!(bound(RingKind::Rseq, 4 << 20, 256 << 10), 2932);
        assert_eq!(bound(RingKind::Rseq, 4 << 20, u32::MAX), 0);
        assert_eq!(bound(RingKind::Rseq, 64 << 10, 0), 0);
        assert_eq!(bound(RingKind::Rseq, 64 << 20, 0), 66_108);
        assert_eq!(bound(RingKind::Portable, 1 << 20, 0), 1621);
    }

    #[test]
    fn a_ring_is_calm_up_to_a_sixteenth() {
        assert!(is_calm(0, 0) && is_calm(256 << 10, 4 << 20));
        assert!(!is_calm((256 << 10) + 1, 4 << 20));
    }
}
