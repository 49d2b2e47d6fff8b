// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session says of its samples at the end.

use serde::Serialize;

/// What a session says of its samples at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SampleSummary {
    /// Samples a second, of each CPU that is not idle.
    pub frequency: u32,
    /// Samples in the trace.
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Maps of processes that appeared meanwhile.
    pub maps: u64,
    /// Records that did not fit into a ring, or could not be written.
    pub lost: u64,
    /// What else a reader should know.
    pub caveats: Vec<String>,
}
