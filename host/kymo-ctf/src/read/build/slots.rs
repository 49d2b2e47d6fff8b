// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots: where integers leave their values for the lengths and selectors that refer to them. Several integers that
//! exclude each other, as those of a variant's options do, leave them in the same one.

use std::collections::HashMap;

use crate::read::class::ClassId;

/// Where a field location leads.
#[derive(Debug, Default)]
pub(in crate::read) struct Located {
    /// The fields: several where it leads through a variant. A record has one of them, or none.
    pub fields: Vec<ClassId>,
    /// The finished variants and optionals that it leads through.
    pub around: Vec<ClassId>,
}

/// The slots of an arena.
#[derive(Default)]
pub(super) struct Slots {
    /// By slot: the slot that it was united with, or itself.
    united: Vec<u32>,
    /// By variant or optional: slots that are filled by fields inside of it.
    pub filled_in: HashMap<ClassId, Vec<u32>>,
}

impl Slots {
    pub fn count(&self) -> u32 {
        self.united.len() as u32
    }

    pub fn add(&mut self) -> u32 {
        let slot = self.count();
        self.united.push(slot);
        slot
    }

    /// Makes one slot of two: `first` stands for both.
    pub fn unite(&mut self, first: u32, second: u32) {
        let (first, second) = (self.of(first), self.of(second));
        self.united[second as usize] = first;
    }

    /// The slot that stands for `slot`.
    pub fn of(&mut self, mut slot: u32) -> u32 {
        while self.united[slot as usize] != slot {
            let next = self.united[slot as usize];
            self.united[slot as usize] = self.united[next as usize];
            slot = next;
        }
        slot
    }
}
