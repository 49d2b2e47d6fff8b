// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

mod choices;
mod common;
mod contexts;
mod counts;
mod few;
mod fields;
mod follow;
mod growing;
mod hostile;
mod identities;
mod indexed;
mod kept;
mod latencies;
mod lead;
mod pictures;
mod questions;
#[path = "../../kymo-index/tests/common/mod.rs"]
mod random_trace;
mod spans;
mod statistics;
mod stories;
mod sums;
mod truth;
mod vanishing;
mod wakes;
mod writers;
