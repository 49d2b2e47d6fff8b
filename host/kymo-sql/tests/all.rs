// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes a minute to compile, for each has DataFusion in it.

mod ask;
mod command;
#[path = "../../kymo-query/tests/common/mod.rs"]
mod common;
#[path = "../../kymo-export/tests/support/contexts.rs"]
mod contexts;
mod lake;
mod lake_command;
mod lake_types;
mod lakes;
mod own_contexts;
mod progress;
mod queries;
mod reference;
mod round_trip;
#[path = "../../kymo-export/tests/support/rows.rs"]
mod rows;
mod ship;
mod sql;
#[path = "../../kymo-tables/tests/support/mod.rs"]
mod support;
mod texts;
