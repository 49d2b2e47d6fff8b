// SPDX-License-Identifier: MIT OR Apache-2.0
//! What latencies are of, as people read it.

use std::collections::BTreeMap;

use kymo_analyze::explain::Symbols;
use kymo_analyze::{Interrupt, Of, Vocabulary};

/// What things are called.
pub struct NameTable<'a> {
    /// System calls.
    pub vocabulary: &'a Vocabulary,
    /// Block devices by the kernel's number.
    pub devices: BTreeMap<u64, String>,
    /// The user's spans.
    pub spans: &'a [String],
    /// Keys of spans, by number.
    pub keys: &'a [String],
    /// The kernel's function at an address, such as a timer's.
    pub functions: &'a dyn FunctionNames,
}

/// Names of the kernel's functions.
pub trait FunctionNames {
    /// A function by its address; the address in base 16 if it is not known.
    fn name(&self, address: u64) -> String {
        format!("{address:#x}")
    }

    /// An interrupt, with the function of a timer.
    fn interrupt(&self, interrupt: Interrupt) -> String {
        match interrupt {
            Interrupt::Hrtimer(function) => format!("hrtimer {}", self.name(function)),
            Interrupt::Timer(function) => format!("timer {}", self.name(function)),
            other => other.to_string(),
        }
    }
}

/// Functions as stories name them.
pub(crate) struct BySymbols<'a>(pub &'a dyn Symbols);

impl FunctionNames for BySymbols<'_> {
    fn name(&self, address: u64) -> String {
        self.0.kernel(address).unwrap_or_else(|| format!("{address:#x}"))
    }
}

impl NameTable<'_> {
    /// What a series is of.
    pub fn of(&self, of: Of) -> String {
        match of {
            Of::All => String::new(),
            Of::Interrupt(interrupt, name) if name.is_empty() => self.functions.interrupt(interrupt),
            Of::Interrupt(interrupt, name) => format!("{interrupt} {name}"),
            Of::Function(function) => self.functions.name(function),
            Of::Call(call) => self.vocabulary.call_name(call).into_owned(),
            Of::Device(device) => self.device(device),
            Of::Interface(name) => name.to_string(),
            Of::Span(number) => self.spans.get(usize::from(number)).cloned().unwrap_or_default(),
            Of::Keyed(number, key) => {
                let key = self.keys.get(key as usize).map_or("?", String::as_str);
                format!("{} {key}", self.of(Of::Span(number)))
            }
            Of::Others => "(others)".to_owned(),
        }
    }

    fn device(&self, device: u64) -> String {
        let number = || format!("{}:{}", device >> 20, device & 0xf_ffff);
        self.devices.get(&device).cloned().unwrap_or_else(number)
    }
}
