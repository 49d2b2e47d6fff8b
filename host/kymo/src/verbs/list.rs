//! `kymo list`.

use std::process::ExitCode;

/// Placeholder
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("list is under construction")
}
