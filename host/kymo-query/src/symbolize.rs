// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who names functions in stories: somebody else, who may open files.

use kymo_analyze::explain::{NoSymbols, Symbols};
use kymo_ctf::read::Record;

/// Functions of addresses, by whoever has files; it may learn from records where programs have them mapped.
pub trait Symbolize: Symbols {
    /// Takes what a record says of the memory of a process.
    fn learn(&mut self, _record: &Record<'_>) {}

    /// Whether records of an event say something of that.
    fn learns_of(&self, _event: &str) -> bool {
        false
    }

    /// Where a function of the kernel begins, by its whole name.
    fn address_in_kernel(&self, _name: &str) -> Option<u64> {
        None
    }

    /// Control groups of threads, where state dumps were read beside the records.
    fn groups(&self) -> Vec<(i32, String)> {
        Vec::new()
    }

    /// Why some functions could not be found: each reason once.
    fn reasons(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Symbolize for NoSymbols {}

impl<S: Symbolize + ?Sized> Symbolize for Box<S> {
    fn learn(&mut self, record: &Record<'_>) {
        (**self).learn(record);
    }

    fn learns_of(&self, event: &str) -> bool {
        (**self).learns_of(event)
    }

    fn address_in_kernel(&self, name: &str) -> Option<u64> {
        (**self).address_in_kernel(name)
    }

    fn groups(&self) -> Vec<(i32, String)> {
        (**self).groups()
    }

    fn reasons(&self) -> Vec<String> {
        (**self).reasons()
    }
}
