// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, for those who show it: stacks in their order, with names. Only what is shown is named.

use std::collections::HashMap;

use kymo_analyze::heap::{Amount, StackSums};
use kymo_feed::Missing;

use super::args::{Bytes, HeapArgs};
use super::pass::HeapPass;
use super::stacks::Stacks;
use crate::verbs::symbols::AddressPlace;

/// All of it.
pub struct HeapReport<'a> {
    pub args: &'a HeapArgs,
    pub pass: HeapPass,
    /// [from, to), ns.
    pub range: (i64, i64),
    /// What was lost of programs.
    pub lost: Missing,
    /// Why the numbers are not exact.
    pub caveats: Vec<String>,
    functions: HashMap<AddressPlace, String>,
}

impl<'a> HeapReport<'a> {
    /// Without names yet.
    pub fn new(
        args: &'a HeapArgs,
        pass: HeapPass,
        range: (i64, i64),
        lost: Missing,
        caveats: Vec<String>,
    ) -> HeapReport<'a> {
        HeapReport { args, pass, range, lost, caveats, functions: HashMap::new() }
    }

    /// The stacks that have any of the bytes that are asked for, the largest first: number, and these bytes.
    pub fn stacks(&self) -> Vec<(u32, Amount)> {
        let all = self.pass.heap.stacks().iter().enumerate();
        let mut found: Vec<(u32, Amount)> =
            all.map(|(number, sums)| (number as u32, amount(sums, self.args.what))).collect();
        found.retain(|(_, amount)| *amount != Amount::default());
        found.sort_by_key(|(number, amount)| (std::cmp::Reverse(amount.bytes), *number));
        found
    }

    /// The bytes that are asked for, of all stacks.
    pub fn whole(&self) -> Amount {
        let total = self.pass.heap.total();
        match self.args.what {
            Bytes::Peak => total.peak,
            Bytes::Live => total.live,
            Bytes::Leaked => total.leaked,
            Bytes::Allocated => total.allocated,
        }
    }

    /// What a stack without frames is called.
    pub fn nameless(number: u32) -> &'static str {
        if number == Stacks::OTHERS { "(all other stacks: there are too many)" } else { "(stack not recorded)" }
    }

    /// Function and line of a frame, where they are known.
    pub fn name(&self, place: AddressPlace) -> Option<String> {
        self.pass.symbols.name_at(place, true)
    }

    /// The function of a frame, or the address.
    pub fn function(&mut self, place: AddressPlace) -> String {
        let symbols = &self.pass.symbols;
        let name = || symbols.caller(place).filter(|name| !name.is_empty()).unwrap_or_else(|| number(place));
        self.functions.entry(place).or_insert_with(name).clone()
    }

    /// Why some frames have no name.
    pub fn reasons(&self) -> Vec<String> {
        self.pass.symbols.reasons()
    }
}

/// The bytes of a stack that are asked for.
pub fn amount(sums: &StackSums, what: Bytes) -> Amount {
    match what {
        Bytes::Peak => sums.peak,
        Bytes::Live => sums.live,
        Bytes::Leaked => sums.leaked,
        Bytes::Allocated => sums.allocated,
    }
}

/// The address of a frame, for one without a name.
pub fn number(place: AddressPlace) -> String {
    let (AddressPlace::Mapped { address, .. }
    | AddressPlace::Module { address, .. }
    | AddressPlace::Nowhere { address, .. }) = place;
    format!("{address:#x}")
}
