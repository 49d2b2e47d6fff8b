// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latency laboratory: tests, loads, results, and the machine that they run on.

pub mod compare;
pub mod doctor;
pub mod eval;
pub mod load;
pub mod maxrate;
pub mod probe;
pub mod report;
pub mod results;
pub mod shield;
pub mod slots;
pub mod tool;
