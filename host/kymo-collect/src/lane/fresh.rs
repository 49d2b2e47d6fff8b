// SPDX-License-Identifier: MIT OR Apache-2.0
//! For triggers: what came on a lane since they looked last [spec/flight.md 3].

use std::sync::atomic::Ordering;

use kymo_abi::ring::Span;

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
        let Some(Look { head, cut, .. }) = Look::at(layout, ring, false) else { return nothing };
        let span = head.since(self.looked);
        if self.closed || span == Span::default() {
            return nothing;
        }
        if layout.marks_offset == 0 {
            // Below tail the bytes have been taken, and perhaps written over.
            let from = if head.since(self.tail).bytes < span.bytes { self.tail } else { self.looked };
            let unseen = from.since(self.looked).records;
            if from != self.looked {
                (self.looked, self.looked_cut) = (from, self.cut);
            }
            let span = head.since(from);
            return if layout.is_plausible(span, layout.ring_bytes) {
                (program.memory.copy_of(self.number, from, span, Vec::new()), unseen.into())
            } else {
                nothing
            };
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

    /// Triggers have looked at this much of what [`Self::fresh`] gave.
    pub(crate) fn looked_at(&mut self, span: Span, cut: Option<Cut>) {
        (self.looked, self.looked_cut) = (self.looked.plus(span), cut);
    }

    /// In front of what [`Self::fresh`] gave.
    pub(crate) fn looked_cut(&self) -> Option<Cut> {
        self.looked_cut
    }
}
