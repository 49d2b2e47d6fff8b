// SPDX-License-Identifier: MIT OR Apache-2.0
//! What items of a trace do to a state, apart from the reader that they come from.

use kymo_analyze::{Event, Head};
use kymo_ctf::read::{Glance, Loss};

use crate::classes::{Classes, clamp, tells_of_writer};

/// Records that were lost between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossAt {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The CPU, where it is known.
    pub cpu: Option<u32>,
    /// The process, of a program's records.
    pub process: Option<u32>,
    /// Records that were counted.
    pub records: u64,
    /// Packets that are missing.
    pub packets: u64,
}

impl LossAt {
    /// Of one that a reader tells of.
    pub fn of(loss: &Loss<'_>) -> LossAt {
        LossAt {
            from: clamp(loss.from_ns),
            to: clamp(loss.to_ns),
            cpu: loss.cpu,
            process: loss.vpid,
            records: loss.records,
            packets: loss.packets,
        }
    }
}

/// What an item does to a state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    /// A record: what happened, or only that its writer ran.
    Record(Head, Option<Event>),
    /// A record that moves nothing. Whether it is of a kernel.
    Nothing(bool),
    /// Records are missing.
    Loss(LossAt),
}

impl Classes {
    /// What a record does to a state.
    #[inline]
    pub(crate) fn moved(&self, record: &Glance<'_>) -> Move {
        let known = &self.known[self.of_glance(record)];
        if !known.is_of_kernel() {
            return Move::Nothing(false);
        }
        let fields = record.fields().unwrap_or_default();
        let head = Head { time: clamp(record.ns), cpu: record.cpu(), tid: known.tid_of(fields, record) };
        match known.event_of(fields, record) {
            None if !tells_of_writer(&head, record.stream()) => Move::Nothing(true),
            event => Move::Record(head, event),
        }
    }
}
