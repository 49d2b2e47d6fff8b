// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

mod absurd;
mod babeltrace;
mod compact;
mod damage;
mod foreign;
mod generated;
mod generator;
mod hostile;
mod metadata_errors;
mod round_trip;
mod rules;
mod support;
mod types;
mod wraps;
