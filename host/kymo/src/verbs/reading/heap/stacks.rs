// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks of allocations, each known by a number. Equal stacks of all processes are one: frames are places in
//! files, not addresses.

use std::collections::HashMap;

use kymo_ctf::read::{Record, Value};

use crate::verbs::symbols::fields::address;
use crate::verbs::symbols::{AddressPlace, Symbolizer};

/// Different stacks that are kept at most; what is beyond has one stack together.
const STACKS_MAX: usize = 1 << 18;
/// Stacks of addresses that are remembered, of all processes: what is beyond is looked up anew.
const REMEMBERED_MAX: usize = 1 << 20;

/// Whose stack it is, and when.
pub struct Where {
    /// Position of the trace.
    pub trace: usize,
    /// The heap's number of the process.
    pub process: usize,
    /// The process whose memory the addresses are in, by the number by which it knows itself.
    pub pid: u32,
    /// ns.
    pub time: i64,
}

/// Numbers of stacks by their addresses.
type StackNumbers = HashMap<Box<[u64]>, u32>;

/// All stacks.
pub struct Stacks {
    /// By number: frames, the innermost first; return addresses.
    list: Vec<Vec<AddressPlace>>,
    numbers: HashMap<Vec<AddressPlace>, u32>,
    /// By process and state of its memory: addresses, and the number of their stack.
    remembered: HashMap<(usize, usize), StackNumbers>,
    remembered_count: usize,
    scratch: Vec<u64>,
    /// Records had a call stack, and not only a caller.
    pub are_whole: bool,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            list: vec![Vec::new(), Vec::new()],
            numbers: HashMap::from([(Vec::new(), Stacks::UNKNOWN)]),
            remembered: HashMap::new(),
            remembered_count: 0,
            scratch: Vec::new(),
            are_whole: false,
        }
    }
}

impl Stacks {
    /// Of records without an address.
    pub const UNKNOWN: u32 = 0;
    /// Of those that are too many.
    pub const OTHERS: u32 = 1;

    /// The number of a record's stack. `caller`: where the allocator returns to.
    pub fn of(&mut self, record: &Record<'_>, caller: Option<u64>, place: &Where, symbols: &Symbolizer) -> u32 {
        let mut addresses = std::mem::take(&mut self.scratch);
        addresses.clear();
        if let Some(Value::Array(elements)) = record.common_context.get("callstack") {
            self.are_whole = true;
            addresses.extend(elements.iter().filter_map(|element| address(&element)));
        }
        from_caller(&mut addresses, caller.filter(|caller| *caller != 0));
        let key = (place.process, symbols.epoch(place.trace, place.pid, place.time));
        let known = self.remembered.get(&key).and_then(|known| known.get(&addresses[..])).copied();
        let number = known.unwrap_or_else(|| {
            let locate = |address: &u64| symbols.locate(place.trace, place.pid, Some(place.time), *address);
            let number = self.number(addresses.iter().map(locate).collect());
            if self.remembered_count < REMEMBERED_MAX {
                self.remembered_count += 1;
                self.remembered.entry(key).or_default().insert(addresses[..].into(), number);
            }
            number
        });
        self.scratch = addresses;
        number
    }

    fn number(&mut self, frames: Vec<AddressPlace>) -> u32 {
        if let Some(&number) = self.numbers.get(&frames) {
            return number;
        }
        if self.list.len() >= STACKS_MAX {
            return Stacks::OTHERS;
        }
        let number = self.list.len() as u32;
        self.list.push(frames.clone());
        self.numbers.insert(frames, number);
        number
    }

    /// The frames of a stack, the innermost first.
    pub fn frames(&self, number: u32) -> &[AddressPlace] {
        self.list.get(number as usize).map_or(&[], Vec::as_slice)
    }

    /// The program of a process has ended: its addresses mean nothing any more.
    pub fn forget(&mut self, process: usize) {
        self.remembered.retain(|key, known| {
            let stays = key.0 != process;
            self.remembered_count -= if stays { 0 } else { known.len() };
            stays
        });
    }
}

/// A stack from the caller of the allocator on: what is in front of it is kymo's own. A stack without the caller ended
/// before it, and only the caller is known.
fn from_caller(addresses: &mut Vec<u64>, caller: Option<u64>) {
    let Some(caller) = caller else { return };
    match addresses.iter().position(|address| *address == caller) {
        Some(position) => drop(addresses.drain(..position)),
        None => {
            addresses.clear();
            addresses.push(caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_begin_at_the_caller_of_the_allocator() {
        let check = |stack: &[u64], caller: Option<u64>, expect: &[u64]| {
            let mut addresses = stack.to_vec();
            from_caller(&mut addresses, caller);
            assert_eq!(addresses, expect, "{stack:?} {caller:?}");
        };
        check(&[1, 2, 3, 4], Some(3), &[3, 4]);
        check(&[3, 4], Some(3), &[3, 4]);
        check(&[1], Some(3), &[3]);
        check(&[], Some(3), &[3]);
        check(&[1, 2], None, &[1, 2]);
        check(&[], None, &[]);
    }

    #[test]
    fn equal_stacks_have_one_number() {
        let mut stacks = Stacks::default();
        let place = |address| AddressPlace::Mapped { mapping: 0, address };
        let first = stacks.number(vec![place(1), place(2)]);
        assert_eq!(stacks.number(vec![place(1), place(2)]), first);
        assert_ne!(stacks.number(vec![place(1)]), first);
        assert_eq!(stacks.number(Vec::new()), Stacks::UNKNOWN);
        assert_eq!(stacks.frames(first), [place(1), place(2)]);
    }
}
