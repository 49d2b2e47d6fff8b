// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a trace over time: by stream and by event, and times by CPU.

pub(crate) mod account;
pub(crate) mod buckets;
pub(crate) mod cpu_times;
pub(crate) mod fine;
pub(crate) mod known_entries;
