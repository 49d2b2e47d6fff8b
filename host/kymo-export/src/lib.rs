// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces out to other tools' formats, and theirs in [spec/exchange.md].
//!
//! [`columns`] gives records as Arrow record batches, [`export`] writes them in other tools' formats, [`import`]
//! makes a
//! trace of other tools' files, [`flame`] draws stacks, [`json`] and [`digits`] write values. Which records, from
//! where, and what is said to the user is for others.

#[cfg(feature = "parquet")]
pub mod columns;
pub mod digits;
mod error;
pub mod export;
pub mod flame;
pub mod import;
pub mod json;
mod uuid;

pub use error::Error;
