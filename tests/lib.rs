// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests through the whole pipe use: their harness, which is a crate of its own (`harness/`).

pub use kymo_harness::*;
