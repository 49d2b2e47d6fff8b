// SPDX-License-Identifier: MIT OR Apache-2.0
//! One program's rings as the drain thread sees them: its lanes, what they came to, and records without a lane.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kymo_abi::RingKind;

use crate::drain::{Added, Counters, RingUse};
use crate::flight::Intact;
use crate::lane::{Lane, Pass, Program, allowed_growth};
use crate::pace;
use crate::snapshot::SnapshotPart;
use crate::summary::Cause;

/// From one question who has a memory to the next: a process that ends gives its descriptors back one after the other.
const QUESTION_FIRST: Duration = Duration::from_micros(200);
/// The same, where it is held for long.
const QUESTION_LAST: Duration = Duration::from_secs(1);

/// A program under observation.
pub(crate) struct Running {
    pub added: Box<Added>,
    pub lanes: Vec<Lane>,
    /// Triggers look at every record.
    has_triggers: bool,
    /// Lanes in which a first record was seen, until the control thread is told.
    pub first: Vec<u32>,
    pub lost_lane_seen: u64,
    pub lost_lane_closed: bool,
    pub seen_ns: u64,
    pub seen_cycles: u64,
    /// The program has left: when the kernel is asked next whether somebody still writes, and how long after that
    /// again.
    left: Option<(Instant, Duration)>,
}

impl Running {
    pub(crate) fn new(added: Box<Added>, has_triggers: bool) -> Running {
        let (seen_cycles, seen_ns) = (added.made_cycles, added.made_ns);
        Running {
            added,
            lanes: Vec::new(),
            has_triggers,
            first: Vec::new(),
            lost_lane_seen: 0,
            lost_lane_closed: false,
            seen_ns,
            seen_cycles,
            left: None,
        }
    }

    /// The program has left, or was left. Others may have its memory.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.left.get_or_insert((now, QUESTION_FIRST));
    }

    /// Whether it is time to ask who has the memory.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.left.is_some_and(|(at, _)| at <= now)
    }

    /// Somebody has it: asks again, later each time.
    pub(crate) fn ask_later(&mut self, now: Instant) {
        if let Some((at, pause)) = &mut self.left {
            *at = now + *pause;
            *pause = (*pause * 2).min(QUESTION_LAST);
        }
    }

    pub(crate) fn asked_again_at(&self) -> Option<Instant> {
        self.left.map(|(at, _)| at)
    }

    /// Bytes that its memory counts for.
    pub(crate) fn charge(&self) -> u64 {
        self.added.charge + self.added.memory.charged_more()
    }

    /// Whether the writers do not wait for us, and overwrite what is old.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.added.memory.layout().marks_offset != 0
    }

    /// Lanes that can have been used: portable ones are claimed from below [spec/ring.md 6].
    pub(crate) fn lanes_used(&self) -> u32 {
        let layout = self.added.memory.layout();
        match layout.kind {
            RingKind::Rseq => layout.lane_count,
            RingKind::Portable => {
                self.added.memory.view().header().lanes_used.load(Ordering::Relaxed).clamp(1, layout.lane_count)
            }
        }
    }

    /// The rings that have been used.
    pub(crate) fn ring_use(&self) -> impl Iterator<Item = RingUse> {
        let memory = &self.added.memory;
        let of = |lane: &Lane| RingUse {
            serial: memory.serial(),
            lane: lane.number(),
            cpu: lane.cpu(),
            bytes: lane.waiting(memory),
            ring_bytes: memory.layout().ring_bytes,
            records: lane.records,
            lost: lane.lost.total(),
        };
        self.lanes.iter().map(of).filter(|of| of.bytes > 0 || of.records > 0 || of.lost > 0)
    }

    pub(crate) fn find_lanes(&mut self) {
        for number in self.lanes.len() as u32..self.lanes_used() {
            let mut lane = Lane::new(&self.added.memory, number, self.added.made_cycles, self.added.made_ns);
            lane.has_triggers = self.has_triggers && !self.is_overwritten();
            self.lanes.push(lane);
        }
    }

    /// Flight recorder: sees how far the writers are.
    pub(crate) fn watch(&mut self, pass: &mut Pass<'_>, counters: &Counters) {
        self.find_lanes();
        self.count_lost_lane(pass, counters);
        let Added { ref memory, vpid, procname, .. } = *self.added;
        let program = Program { memory, vpid, procname };
        for lane in &mut self.lanes {
            let (records, bytes, lost) = (lane.records, lane.bytes, lane.lost.total());
            lane.watch(&program, pass);
            if records == 0 && lane.records != 0 {
                self.first.push(lane.number());
            }
            counters.records.fetch_add(lane.records - records, Ordering::Relaxed);
            counters.bytes.fetch_add(lane.bytes - bytes, Ordering::Relaxed);
            counters.lost.fetch_add(lane.lost.total().saturating_sub(lost), Ordering::Relaxed);
        }
    }

    /// Flight recorder: copies what a lane holds. `None` where that is nothing.
    pub(crate) fn freeze(
        &mut self,
        lane: usize,
        pass: &mut Pass<'_>,
        since: Option<u64>,
        buffer: Vec<u8>,
    ) -> Option<Intact> {
        let Added { ref memory, vpid, procname, .. } = *self.added;
        let program = Program { memory, vpid, procname };
        self.lanes.get_mut(lane)?.freeze(&program, pass, since, buffer)
    }

    /// Writes what was copied of a lane.
    pub(crate) fn write_frozen(&mut self, lane: usize, pass: &mut Pass<'_>, intact: &Intact, part: &mut SnapshotPart) {
        let Added { ref memory, vpid, procname, .. } = *self.added;
        let program = Program { memory, vpid, procname };
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.write_frozen(&program, pass, intact, part);
        }
    }

    pub(crate) fn look(&mut self, pass: &mut Pass<'_>, counters: &Counters) -> bool {
        self.find_lanes();
        self.count_lost_lane(pass, counters);
        let Added { ref memory, vpid, procname, .. } = *self.added;
        let program = Program { memory, vpid, procname };
        let mut busy = false;
        for lane in &mut self.lanes {
            let (records, bytes, lost) = (lane.records, lane.bytes, lane.lost.total());
            let taken = lane.look(&program, pass);
            busy |= taken >= memory.layout().ring_bytes / 4;
            if records == 0 && lane.records != 0 {
                self.first.push(lane.number());
            }
            if lane.records != records {
                counters.records.fetch_add(lane.records - records, Ordering::Relaxed);
                counters.bytes.fetch_add(lane.bytes - bytes, Ordering::Relaxed);
            }
            let lost_now = lane.lost.total();
            if lost_now != lost {
                counters.lost.fetch_add(lost_now - lost, Ordering::Relaxed);
            }
        }
        busy
    }

    /// Whether the last look found nothing in any ring.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_quiet)
    }

    /// Whether no ring fills fast, and the bytes that wait in the fullest one [`pace`](crate::pace).
    pub(crate) fn pace(&self) -> (bool, u32) {
        let ring_bytes = self.added.memory.layout().ring_bytes;
        let are_calm = self.lanes.iter().all(|lane| pace::is_calm(lane.grown, ring_bytes));
        (are_calm, self.lanes.iter().map(|lane| lane.left).max().unwrap_or_default())
    }

    /// Threads that found no lane: told of on the first lane's stream [spec/trace.md 6].
    pub(crate) fn count_lost_lane(&mut self, pass: &Pass<'_>, counters: &Counters) {
        let value = self.added.memory.view().header().lost_lane.load(Ordering::Relaxed);
        if self.added.memory.is_damaged() {
            return;
        }
        let grown = value.wrapping_sub(self.lost_lane_seen);
        let (from, from_ns) = (self.seen_cycles, self.seen_ns);
        (self.seen_ns, self.seen_cycles) = (pass.ns, pass.cycles);
        if grown == 0 || self.lost_lane_closed {
            return;
        }
        let (to, is_sane) = (pass.source.read(), grown <= allowed_growth(from_ns, pass.ns));
        let Some(lane) = self.lanes.first_mut() else { return };
        if is_sane {
            lane.lose(Cause::Lane, grown, from, to);
            counters.lost.fetch_add(grown, Ordering::Relaxed);
            self.lost_lane_seen = value;
        } else {
            self.lost_lane_closed = true;
            let what = format!("the counter of records without a lane went from {} to {value}", self.lost_lane_seen);
            lane.damage.push(crate::lane::LaneDamage { at: to, what, closed: false });
        }
    }

    pub(crate) fn finish(&mut self, pass: &mut Pass<'_>, counters: &Counters) {
        let Added { ref memory, vpid, procname, .. } = *self.added;
        let program = Program { memory, vpid, procname };
        for lane in &mut self.lanes {
            let (records, bytes) = (lane.records, lane.bytes);
            lane.finish(&program, pass);
            counters.records.fetch_add(lane.records - records, Ordering::Relaxed);
            counters.bytes.fetch_add(lane.bytes - bytes, Ordering::Relaxed);
        }
    }
}
