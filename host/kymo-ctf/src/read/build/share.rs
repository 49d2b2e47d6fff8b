// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives integers their slots, and the classes that refer to them.

use super::Builder;
use super::slots::Located;
use crate::read::class::{Class, ClassId, ClassKind, Int, Len};

impl Builder {
    /// The slot in which the integer `class` leaves its value.
    pub fn slot(&mut self, class: ClassId, path: &[String]) -> Result<u32, String> {
        let located = Located { fields: vec![class], around: Vec::new() };
        self.shared_slot(&located, &path.join("."))
    }

    /// The slot in which each of the integers leaves its value. `path`: for messages.
    pub fn shared_slot(&mut self, located: &Located, path: &str) -> Result<u32, String> {
        self.charge(located.fields.len() + located.around.len())?;
        let mut shared = None;
        for class in &located.fields {
            let saved = match &self.classes[*class as usize].kind {
                ClassKind::Int(int) => int.save,
                ClassKind::Wide(wide) => {
                    let bits = wide.bits;
                    return Err(format!(
                        "`{path}` has {bits} bits: lengths and selectors of more than 64 are not read"
                    ));
                }
                _ => return Err(format!("`{path}` is not an integer")),
            };
            let Some(saved) = saved.map(|slot| self.slots.of(slot)) else { continue };
            let first = *shared.get_or_insert(saved);
            self.slots.unite(first, saved);
        }
        let slot = shared.unwrap_or_else(|| self.slots.add());
        for class in &located.fields {
            if let ClassKind::Int(Int { save, .. }) = &mut self.classes[*class as usize].kind {
                *save = Some(slot);
            }
        }
        for class in &located.around {
            self.slots.filled_in.entry(*class).or_default().push(slot);
        }
        Ok(slot)
    }

    /// Gives each class the slots that stand for its own.
    pub(super) fn unite_slots(&mut self) {
        let slots = &mut self.slots;
        for Class { kind, .. } in &mut self.classes {
            match kind {
                ClassKind::Int(Int { save: Some(slot), .. }) => *slot = slots.of(*slot),
                ClassKind::Text { len: Len::Saved(slot), .. }
                | ClassKind::Bytes { len: Len::Saved(slot) }
                | ClassKind::Array { len: Len::Saved(slot), .. }
                | ClassKind::Variant { slot, .. }
                | ClassKind::Optional { slot, .. } => *slot = slots.of(*slot),
                _ => {}
            }
        }
        for (class, mut filled) in std::mem::take(&mut slots.filled_in) {
            filled.iter_mut().for_each(|slot| *slot = slots.of(*slot));
            filled.sort_unstable();
            filled.dedup();
            if let ClassKind::Variant { clears, .. } | ClassKind::Optional { clears, .. } =
                &mut self.classes[class as usize].kind
            {
                *clears = filled;
            }
        }
    }
}
