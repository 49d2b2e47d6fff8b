// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of a machine at one moment.

use kymo_analyze::{Cpu, State, Thread};
use kymo_feed::Classes;

use crate::verbs::analyze::kernel_functions::KernelFunctions;

/// A machine at one moment.
pub(super) struct MachineMoment<'a> {
    pub(super) at: i64,
    pub(super) state: &'a State,
    pub(super) classes: &'a Classes,
    pub(super) functions: KernelFunctions<'a>,
    pub(super) cpus: Vec<&'a Cpu>,
    /// By number.
    pub(super) threads: Vec<&'a Thread>,
}
