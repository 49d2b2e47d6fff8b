// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo lake`: `kymo-sql` does all of it.

use std::ffi::OsString;
use std::process::ExitCode;

use kymo_command::lake::LakeVerb;

use super::sql;

pub use kymo_command::lake::LakeArgs;

/// Runs the verb, whose words on the command line are `words`.
pub fn run(args: &LakeArgs, words: &[OsString]) -> anyhow::Result<ExitCode> {
    // What is wrong with the words is said also where kymo-sql is missing.
    match &args.verb {
        LakeVerb::Add(args) => drop(args.of.labels()?),
        LakeVerb::Ship(args) => drop(args.of.labels()?),
        LakeVerb::List(_) | LakeVerb::Serve(_) => {}
    }
    Err(sql::become_kymo_sql(words, "kymo lake"))
}
