// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that programs share.

use std::sync::Arc;

use kymo_abi::ring::Layout;

use crate::channel::Channel;
use crate::memory::Memory;

/// A memory that is handed to every program that it fits.
pub(super) struct SharedRings {
    pub uid: u32,
    pub cpu_count: u32,
    pub channel: Channel,
    pub serial: u64,
    pub layout: Layout,
    pub memory: Arc<Memory>,
    /// Its entry in the list of processes.
    pub process: usize,
}
