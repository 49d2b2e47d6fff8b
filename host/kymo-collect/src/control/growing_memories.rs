// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memories of portable programs, whose lanes are claimed one by one: what they use, by the kernel's word.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::memory::Memory;

/// From one look to the next, while something changes.
const LOOK_FIRST: Duration = Duration::from_millis(50);

/// The same, while nothing does.
const LOOK_LAST: Duration = Duration::from_secs(1);

/// Pages beside the lanes: control blocks, and what the file system needs.
const SLACK_BYTES: u64 = 256 << 10;

/// The memory of a program whose lanes are claimed one by one.
struct Growing {
    memory: Weak<Memory>,
    /// Lanes that it might claim since the look before, and since the one before that: a thread may have read an old
    /// limit.
    limits: [u32; 2],
}

/// All of them.
pub(super) struct GrowingMemories {
    list: Vec<Growing>,
    /// Bytes that are in use.
    pub bytes: u64,
    next_look: Instant,
    pause: Duration,
}

impl GrowingMemories {
    pub(super) fn new(now: Instant) -> GrowingMemories {
        GrowingMemories { list: Vec::new(), bytes: 0, next_look: now, pause: LOOK_FIRST }
    }

    pub(super) fn add(&mut self, memory: &Arc<Memory>, now: Instant) {
        let limits = [memory.layout().lane_count; 2];
        self.list.push(Growing { memory: Arc::downgrade(memory), limits });
        (self.next_look, self.pause) = (now + LOOK_FIRST, LOOK_FIRST);
    }

    /// When the next look is due; `None` where there is nothing to look at.
    pub(super) fn next_look(&self) -> Option<Instant> {
        (!self.list.is_empty()).then_some(self.next_look)
    }

    /// Looks at all. Returns the serials of those that have claimed more than they may. `fixed` bytes of `cap` are
    /// others'.
    pub(super) fn look(&mut self, fixed: u64, cap: u64, now: Instant) -> Vec<u64> {
        let before = self.bytes;
        let mut living: Vec<(Arc<Memory>, [u32; 2])> = Vec::new();
        living.extend(self.list.iter().filter_map(|growing| Some((growing.memory.upgrade()?, growing.limits))));
        let used = |memory: &Memory| memory.used_bytes();
        self.bytes = living.iter().map(|(memory, _)| used(memory)).sum();
        let free = cap.saturating_sub(fixed.saturating_add(self.bytes));
        let mut beyond = Vec::new();
        self.list.clear();
        for (memory, limits) in living {
            let layout = memory.layout();
            let ring_bytes = u64::from(layout.ring_bytes);
            let lanes = used(&memory).saturating_sub(layout.data_offset).div_ceil(ring_bytes);
            let may_have = u64::from(limits[0].max(limits[1]));
            if used(&memory) > layout.data_offset + SLACK_BYTES + may_have.saturating_mul(ring_bytes) {
                beyond.push(memory.serial());
            }
            let limit = (lanes + free / ring_bytes).clamp(1, layout.lane_count.into()) as u32;
            memory.view().header().lanes_limit.store(limit, Ordering::Relaxed);
            self.list.push(Growing { memory: Arc::downgrade(&memory), limits: [limit, limits[0]] });
        }
        self.pause = if self.bytes == before { (self.pause * 2).min(LOOK_LAST) } else { LOOK_FIRST };
        self.next_look = now + self.pause;
        beyond
    }
}
