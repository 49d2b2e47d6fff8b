// SPDX-License-Identifier: MIT OR Apache-2.0
//! For triggers: what came on a lane since they looked last [spec/flight.md 3].

use std::sync::atomic::Ordering;

use kymo_abi::ring::{Mark, Span};

use super::{Lane, Pass, Program};
use crate::compact::{Cut, Look};
use crate::flight;

impl Lane {
    /// A copy of the records that came since they looked last, and how many were overwritten before.
    pub(crate) fn fresh(&mut self, program: &Program<'_>, pass: &Pass<'_>) -> (Vec<u8>, u64) {
        let found = self.fresh_bytes(program, pass);
        // Zeros may stand in the place of what is gone.
        if program.memory.is_damaged() { (Vec::new(), 0) } else { found }
    }

    fn fresh_bytes(&mut self, program: &Program<'_>, pass: &Pass<'_>) -> (Vec<u8>, u64) {
        let nothing = (Vec::new(), 0);
        let ring = &program.memory.view().rings()[self.number as usize];
        let layout = program.memory.layout();
        if layout.marks_offset == 0 {
            return self.fresh_of_recorded(program);
        }
        let Some(Look { head, cut, .. }) = Look::at(layout, ring, false) else { return nothing };
        let span = head.since(self.looked);
        if self.closed || span == Span::default() {
            return nothing;
        }
        if layout.is_plausible(span, layout.ring_bytes) {
            let copy = program.memory.copy_of(self.number, self.looked, span, Vec::new());
            std::sync::atomic::fence(Ordering::Acquire);
            let tail = ring.tail.load(Ordering::Acquire) as u32;
            if (self.looked.0 as u32).wrapping_sub(tail) as i32 >= 0 {
                return (copy, 0);
            }
        }
        // The writer was faster: what is still whole.
        let now = pass.now();
        let Some(intact) = flight::copy(program.memory, self.number, &self.notes, None, now, Vec::new()) else {
            (self.looked, self.looked_cut) = (head, cut);
            return (Vec::new(), span.records.into());
        };
        let unseen = intact.from.since(self.looked).records;
        (self.looked, self.looked_cut) = (intact.from, intact.cut);
        (intact.bytes().to_vec(), unseen.into())
    }

    /// Of a ring that is recorded: what was taken from it, and what it has. A record is never overwritten there, so
    /// none is missed but by what [`Self::keep_unlooked`] cannot keep.
    fn fresh_of_recorded(&mut self, program: &Program<'_>) -> (Vec<u8>, u64) {
        let (ring, layout) = (&program.memory.view().rings()[self.number as usize], program.memory.layout());
        let mut bytes = self.unlooked.clone();
        let head = Look::at(layout, ring, self.is_last).filter(|_| !self.closed).map(|look| look.head);
        let from = self.not_kept();
        if let Some(span) =
            head.map(|head| head.since(from)).filter(|span| layout.is_plausible(*span, layout.ring_bytes))
        {
            bytes.extend(program.memory.copy_of(self.number, from, span, Vec::new()));
        }
        (bytes, std::mem::take(&mut self.unseen))
    }

    /// The first byte that triggers have not looked at and that lies in the ring only.
    fn not_kept(&self) -> Mark {
        if self.unlooked.is_empty() { self.looked } else { self.tail }
    }

    /// All up to `head` was taken, and the writer is about to have its place back: keeps what triggers have not looked
    /// at, as much as a ring holds. `cut`: at `head`.
    pub(super) fn keep_unlooked(&mut self, program: &Program<'_>, head: Mark, cut: Option<Cut>) {
        if !self.has_triggers {
            return;
        }
        let (layout, from) = (program.memory.layout(), self.not_kept());
        let span = head.since(from);
        if layout.is_plausible(span, layout.ring_bytes)
            && self.unlooked.len() as u64 + u64::from(span.bytes) <= layout.ring_bytes.into()
        {
            self.unlooked.extend(program.memory.copy_of(self.number, from, span, Vec::new()));
        } else {
            self.unseen += u64::from(head.since(self.looked).records);
            self.unlooked.clear();
            (self.looked, self.looked_cut) = (head, cut);
        }
    }

    /// Records that triggers will never look at, once nobody writes any more and all was taken.
    pub(crate) fn never_looked(&self) -> u64 {
        let left = if self.has_triggers { self.tail.since(self.looked).records } else { 0 };
        self.unseen + u64::from(left)
    }

    /// Triggers have looked at this much of what [`Self::fresh`] gave.
    pub(crate) fn looked_at(&mut self, span: Span, cut: Option<Cut>) {
        self.unlooked.drain(..self.unlooked.len().min(span.bytes as usize));
        (self.looked, self.looked_cut) = (self.looked.plus(span), cut);
    }

    /// In front of what [`Self::fresh`] gave.
    pub(crate) fn looked_cut(&self) -> Option<Cut> {
        self.looked_cut
    }
}
