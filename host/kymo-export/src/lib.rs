// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces out to other tools' formats, and theirs in [spec/exchange.md].
//!
//! [`columns`] gives records as Arrow record batches, [`export`] writes them in other tools' formats, [`import`]
//! makes a
//! trace of other tools' files, [`flame`] draws stacks. Which records, from where, and what is said to the user is
//! for others.

pub mod columns;
mod error;
pub mod export;
pub mod flame;
pub mod import;
mod json;

pub use error::Error;
