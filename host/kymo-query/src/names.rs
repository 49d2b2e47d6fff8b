// SPDX-License-Identifier: MIT OR Apache-2.0
//! What latencies are of, as people read it.

use std::collections::BTreeMap;

use kymo_analyze::{Of, Vocabulary};

/// What things are called.
pub struct Names<'a> {
    /// System calls.
    pub vocabulary: &'a Vocabulary,
    /// Block devices by the kernel's number.
    pub devices: BTreeMap<u64, String>,
    /// The user's spans.
    pub spans: &'a [String],
    /// Keys of spans, by number.
    pub keys: &'a [String],
}

impl Names<'_> {
    /// What a series is of.
    pub fn of(&self, of: Of) -> String {
        match of {
            Of::All => String::new(),
            Of::Interrupt(interrupt, name) if name.is_empty() => interrupt.to_string(),
            Of::Interrupt(interrupt, name) => format!("{interrupt} {name}"),
            Of::Function(function) => format!("{function:#x}"),
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
