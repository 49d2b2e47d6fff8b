// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions, such as those of timers, in findings. They are looked up as `kymo explain` does,
//! and only if a finding has one.

use std::cell::OnceCell;
use std::path::Path;

use kymo_ctf::read::Trace;
use kymo_query::FunctionNames;

use crate::verbs::symbols::Symbolizer;

/// The functions of the kernel of these traces.
pub struct KernelFunctions<'a> {
    /// A file that has them; `None`: where they are found by themselves.
    file: Option<&'a Path>,
    traces: &'a [Trace],
    /// `None` inside: they cannot be read.
    symbols: OnceCell<Option<Symbolizer>>,
}

impl<'a> KernelFunctions<'a> {
    /// Reads nothing yet.
    pub fn of(file: Option<&'a Path>, traces: &'a [Trace]) -> KernelFunctions<'a> {
        KernelFunctions { file, traces, symbols: OnceCell::new() }
    }

    /// Why some that were asked for have no name.
    pub fn reasons(&self) -> Vec<String> {
        self.symbols.get().and_then(Option::as_ref).map_or_else(Vec::new, Symbolizer::reasons)
    }
}

impl FunctionNames for KernelFunctions<'_> {
    fn name(&self, address: u64) -> String {
        let symbols = self.symbols.get_or_init(|| Symbolizer::new(self.file, self.traces).ok());
        let name = symbols.as_ref().and_then(|symbols| symbols.of_kernel(address));
        name.unwrap_or_else(|| format!("{address:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use kymo_analyze::Interrupt;

    use super::*;

    #[test]
    fn functions_that_are_not_known_are_addresses() {
        let functions = KernelFunctions::of(None, &[]);
        assert!(functions.reasons().is_empty(), "nothing was asked for");
        assert_eq!(functions.interrupt(Interrupt::Softirq(3)), "softirq net_rx");
        assert!(functions.symbols.get().is_none(), "and nothing was read");
        assert_eq!(functions.interrupt(Interrupt::Hrtimer(0xffff_0001)), "hrtimer 0xffff0001");
        assert_eq!(functions.interrupt(Interrupt::Timer(0xffff_0001)), "timer 0xffff0001");
    }
}
