// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lake [spec/lake.md]: the tables of many traces as Parquet files below one URL. [`add`] writes an addition,
//! [`ship`] those of a session, [`list`] tells what there is, [`catalog`] has its tables for [`crate::sql`], [`ask`]
//! answers the page over it.
//!
//! What a trace's tables have is decided in kymo-tables. No service, no lock: who adds what is in objects of the lake.

pub mod add;
pub mod ask;
pub mod catalog;
mod identity;
pub mod list;
pub mod manifest;
pub mod names;
mod pace;
pub mod place;
pub mod provider;
mod rows;
mod run;
pub mod scan;
mod serve;
pub mod ship;
pub mod unfinished;
mod upload;
mod write;

use std::process::ExitCode;

use kymo_command::lake::{LakeArgs, LakeVerb};

/// Runs the verb.
///
/// # Errors
/// Words that make no sense, places and traces that cannot be opened, what cannot be read or written.
pub fn run(args: &LakeArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        LakeVerb::Add(args) => run::add(args),
        LakeVerb::List(args) => run::list(args),
        LakeVerb::Ship(args) => run::ship(args),
        LakeVerb::Serve(args) => serve::run(args),
    }
}
