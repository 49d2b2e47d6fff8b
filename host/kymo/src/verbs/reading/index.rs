// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo index`: builds the index of a trace, and says what is in it.

mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use kymo_index::{Built, Error, How, Indexes, Stop, build};

use super::analyze::feed::Input;
use super::analyze::show::Times;
use crate::verbs::args::{OutputArgs, TraceArgs, ZoneArgs};

/// Index of a trace: build or check it; with it any moment opens at once
///
/// With an index, read --from, read --count, stats, state, latency --from and critical --from skip the part of the
/// trace before the time that they are asked for. Without an index the results are the same, but slower. The index is
/// stored in the trace's directory as .kymo-index, or in $XDG_CACHE_HOME/kymo (~/.cache/kymo) if that directory cannot
/// be written. Each chunk of a rotated session has its own index.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo index t             build it, or report that it is valid\n  \
    kymo index t --check     look through it without building\n  \
    kymo state t --at +1.5s  a moment of the trace\n\n\
    Exit status: 0 the index is valid, 1 --check found no valid index, 2 it could not be built.")]
pub struct IndexArgs {
    /// The trace: its directory, or that of a rotated session
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Build nothing; report whether the index is valid and complete
    #[arg(long, conflicts_with_all = ["rebuild", "no_write"])]
    check: bool,
    /// Rebuild even if the index is valid
    #[arg(long)]
    rebuild: bool,
    /// Write into the cache instead of the trace's directory
    #[arg(long)]
    no_write: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
}

/// Shared with the signal handler.
static STOP: Stop = Stop::new();

/// Runs the verb.
pub fn run(args: IndexArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&TraceArgs::of(&args.dir))?;
    if args.check {
        return check(&input, &args);
    }
    let begin = Instant::now();
    let spans = Some(kymo_query::named_spans as kymo_index::NamedSpans);
    let how = How { anew: args.rebuild, in_cache: args.no_write, spans, ..How::default() };
    stop_on_signals();
    let wait = |path: &Path| eprintln!("kymo: another process builds {}; waiting for it", path.display());
    let built = match build(&input.named[0], &input.traces, how, &STOP, &wait) {
        Ok(built) => built,
        Err(Error::Stopped) => {
            eprintln!("kymo: {}", Error::Stopped);
            return Ok(ExitCode::from(130));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(why) = &built.stale {
        eprintln!("kymo: the index that was there is replaced: {why}");
    }
    let indexes = Indexes::open(&input.named, &input.traces);
    let found =
        show::IndexReport { input: &input, indexes: &indexes, built: &built, seconds: begin.elapsed().as_secs_f64() };
    print(&found, &args)?;
    Ok(ExitCode::SUCCESS)
}

fn print(found: &show::IndexReport<'_>, args: &IndexArgs) -> anyhow::Result<()> {
    let text = match args.output.json() {
        true => show::document(found) + "\n",
        false => show::report(found, &Times::new(&found.input.traces, args.zone.utc)),
    };
    args.output.print(&text)
}

/// Looks through all of it.
fn check(input: &Input, args: &IndexArgs) -> anyhow::Result<ExitCode> {
    let indexes = Indexes::open(&input.named, &input.traces);
    for (path, why) in &indexes.stale {
        eprintln!("kymo: {} does not hold: {why}", path.display());
    }
    match indexes.check(&input.traces) {
        Ok((path, bytes)) => {
            let built = Built { path, bytes, is_new: false, stale: None };
            print(&show::IndexReport { input, indexes: &indexes, built: &built, seconds: 0.0 }, args)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            eprintln!("kymo: {}: {why}; kymo index {} builds one", args.dir.display(), args.dir.display());
            Ok(ExitCode::from(1))
        }
    }
}

/// Ctrl-C and the like let the builder remove what it has begun.
fn stop_on_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.set();
    }
    let handler = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which a signal handler may.
        unsafe { libc::signal(signal, handler) };
    }
}
