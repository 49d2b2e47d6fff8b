// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the command line that `kymo` and `kymo-sql` share: options ([`args`]), the traces that they name, opened
//! ([`input`]), what is said of them on standard error ([`caveats`], [`unknown`]), the terminal ([`terminal`]), and the
//! verb that both run ([`export`]), and the words of those that `kymo-sql` runs ([`sql`], [`lake`]).
//!
//! Knows no format of other tools but by kymo-export, and neither Arrow nor Parquet.

pub mod args;
pub mod caveats;
pub mod export;
pub mod figures;
pub mod hosts;
pub mod input;
pub mod interrupt;
pub mod intersect;
pub mod keys;
pub mod lake;
pub mod named;
pub mod process;
pub mod programs;
pub mod select;
pub mod sql;
pub mod terminal;
pub mod units;
pub mod unknown;
pub mod when;
