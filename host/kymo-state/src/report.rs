// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of a dump at its end.

/// What a dump found, and what it could not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Processes whose main thread was dumped.
    pub processes: u64,
    /// Threads, without the idle threads.
    pub threads: u64,
    /// Open files.
    pub files: u64,
    /// Memory maps.
    pub maps: u64,
    /// What is missing, why, and what would help; whole sentences. Processes that ended meanwhile are not missing.
    pub caveats: Vec<String>,
}
