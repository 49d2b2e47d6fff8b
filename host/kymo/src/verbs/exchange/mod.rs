// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces and results of other tools, and for them.

pub mod export;
pub mod import;
pub mod lake;
pub mod sql;
