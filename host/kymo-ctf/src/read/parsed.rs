// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a parser made of metadata, of either format.

use super::class::Metadata;
use super::error::Caveat;

/// Metadata, and how they were come by.
pub(super) struct Parsed {
    pub metadata: Metadata,
    /// What was passed over, and what is missing.
    pub caveats: Vec<Caveat>,
    /// Steps of work that it took.
    pub steps: u64,
}
