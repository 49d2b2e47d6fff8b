// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of traces as Parquet files ([`parquet`]) [spec/exchange.md 2]; their columns are those of kymo-tables.
//!
//! A crate and a command of their own, because Arrow and Parquet are a third of a build (spec/decisions/0007). Which
//! records, and from where, is for kymo-command.

pub mod parquet;
