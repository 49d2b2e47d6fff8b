// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names as people type them: patterns, and what a mistyped name may have been meant for.
//!
//! Knows no event, field or file: who asks brings the names.

mod glob;
mod near;

pub use glob::{event_matches, glob_matches, glob_matches_with_sets};
pub use near::{Containing, Near};
