// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's part of a session before it starts: what was asked for by name, and what triggers bring in.

use kymo_tracefs::Wanted;

use super::{Kernel, KernelConditions, KernelConfig};
use crate::Error;
use crate::clock::ClockSource;
use crate::session::Config;

/// What a session has of the kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelPart {
    /// What is recorded.
    pub kernel: Option<Kernel>,
    /// What triggers ask for.
    pub asked: KernelConditions,
}

/// Makes what `config` asks for. Where the kernel is optional, why it is missing goes to `caveats`. Without events of
/// its own a session records those that its triggers name.
pub(crate) fn prepare(config: &Config, source: ClockSource, caveats: &mut Vec<String>) -> Result<KernelPart, Error> {
    let mut part = KernelPart::default();
    if let Some(wanted) = &config.kernel {
        part.kernel = optional(config, caveats, Kernel::prepare(wanted, source))?;
    }
    if !config.flight {
        return Ok(part);
    }
    let base = config.kernel.as_ref().unwrap_or(&config.kernel_base);
    let probes = part.kernel.as_ref().map(Kernel::probes).unwrap_or_default();
    let asked = KernelConditions::of(&config.triggers.conditions, base.naming, &probes);
    part.asked = match optional(config, caveats, asked)? {
        Some(asked) => asked,
        None => return Ok(part),
    };
    if config.kernel.is_none() && !part.asked.events.is_empty() {
        let names: Vec<String> = part.asked.events.iter().map(|of| of.event.to_string()).collect();
        let with_them = KernelConfig { wanted: Wanted::parse(&names)?, ..base.clone() };
        part.kernel = optional(config, caveats, Kernel::prepare(&with_them, source))?;
    }
    Ok(part)
}

/// `None` and a caveat where the kernel cannot be had and need not be.
fn optional<T>(config: &Config, caveats: &mut Vec<String>, result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if config.kernel_optional => {
            caveats.push(format!("no kernel events: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
