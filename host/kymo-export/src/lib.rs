// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces out to other tools' formats, and theirs in [spec/exchange.md].
//!
//! [`export`] writes records in other tools' formats, [`import`] makes a trace of other tools' files, [`flame`] draws
//! stacks, [`json`] and [`digits`] write values. Which records, from where, and what is said to the user is for others.
//! Formats that need Arrow are kymo-sql's, which writes them as an [`export::Exporter`], too.

pub mod digits;
mod error;
pub mod export;
pub mod flame;
pub mod import;
pub mod json;
mod uuid;

pub use error::Error;
