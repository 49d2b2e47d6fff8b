// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one `-U` asks for.

use std::path::PathBuf;

use super::fetch::Fetch;

/// What one `-U` asks for, before any file was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    pub(super) binary: PathBuf,
    pub(super) place: ProbeTarget,
    pub(super) force: bool,
}

/// A function, or a probe that the program has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeTarget {
    Function { name: String, offset: u64, at_return: bool, args: Vec<Fetch> },
    Usdt { provider: String, name: String },
}

impl ProbeSpec {
    /// Whether a return is probed even in a program that this can crash.
    pub fn force(mut self, force: bool) -> ProbeSpec {
        self.force = force;
        self
    }
}
