// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of traces as Parquet files ([`parquet`]) [spec/exchange.md 2]; their columns are those of kymo-tables.
//!
//! `kymo sql` ([`sql`]): queries of these tables. `kymo lake` ([`lake`]): tables of many traces below one URL.
//!
//! A crate and a command of their own, because Arrow, Parquet and DataFusion take longer to build than all the rest
//! (spec/decisions/0007). Which
//! records, and from where, is for kymo-command.

pub mod day;
pub mod lake;
pub mod parquet;
pub mod properties;
pub mod sql;
