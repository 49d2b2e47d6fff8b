// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of functions for the answers of `kymo view`: those of `kymo explain`. The kernel's are read once, when the
//! first answer has one.

use std::sync::{Arc, OnceLock};

use kymo_analyze::explain::NoSymbols;
use kymo_query::{MakeSymbols, Symbolize};
use kymo_symbols::Kernel;

use crate::verbs::symbols::Symbolizer;

/// Makes what names functions for one answer.
pub fn make() -> MakeSymbols {
    let kernel: OnceLock<Result<Arc<Kernel>, String>> = OnceLock::new();
    Box::new(move |traces| {
        let kernel = kernel.get_or_init(|| Symbolizer::kernel_of(traces)).clone();
        match Symbolizer::with_kernel(kernel, traces) {
            Ok(known) => Box::new(known) as Box<dyn Symbolize>,
            // A dump that cannot be read any more: addresses stay numbers.
            Err(_) => Box::new(NoSymbols),
        }
    })
}
