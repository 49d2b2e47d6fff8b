// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo recover`: what a dead session left in the files of its rings.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::verbs::args::JsonArgs;

/// Crash recovery: the records of a killed session from its ring files (--ring-dir)
///
/// When collector and programs were killed, the records that were not written yet are still in the files of --ring-dir.
/// They are appended to the trace, and the files are removed. The session must be dead.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo record --ring-dir /dev/shm/rings -o trace -- ./program     (killed)\n  \
    kymo recover /dev/shm/rings trace\n\nExit status: 0 recovered, or nothing to recover; 1 not all; 2 errors.")]
pub struct RecoverArgs {
    /// Directory with ring files
    ring_dir: PathBuf,
    /// Trace of the session that made them
    trace: PathBuf,
    #[command(flatten)]
    out: JsonArgs,
}

/// Runs the verb.
pub fn run(args: RecoverArgs) -> anyhow::Result<ExitCode> {
    let recovered = kymo_collect::recover(&args.ring_dir, &args.trace)?;
    for caveat in &recovered.caveats {
        eprintln!("kymo: {caveat}");
    }
    eprintln!(
        "kymo: {} records ({} bytes) recovered from {} ring file{}; next: kymo read {}",
        recovered.records,
        recovered.bytes,
        recovered.files,
        if recovered.files == 1 { "" } else { "s" },
        args.trace.display()
    );
    if args.out.json {
        println!("{}", serde_json::to_string_pretty(&recovered)?);
    }
    Ok(ExitCode::from(u8::from(!recovered.caveats.is_empty())))
}
