// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rows of the table `slices` are made of.

use kymo_analyze::{Doubt, Name};

/// A slice on its way.
pub(crate) struct Slice {
    pub from: i64,
    pub to: i64,
    pub kind: &'static str,
    pub of: String,
    pub tid: Option<i32>,
    /// Process and name, where these are known already.
    pub who: Option<(Option<i32>, Name)>,
    pub cpu: Option<u32>,
    pub value: Option<i64>,
    pub depth: Option<u64>,
    pub doubt: Doubt,
}
