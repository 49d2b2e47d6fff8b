// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of kymo. Verbs are modules below `verbs`; this file only chooses one and turns its outcome into an
//! exit code. It does no work of its own.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser, Subcommand};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

mod completion;
mod foreign_options;
mod help;
mod old_spellings;
mod terminal;
mod verbs;

/// Tracer and latency laboratory for Linux.
#[derive(Parser)]
#[command(name = "kymo", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(Box<verbs::record::Args>),
    Session(verbs::session::Args),
    Read(verbs::read::Args),
    Index(verbs::index::Args),
    State(verbs::state::Args),
    Stats(verbs::stats::Args),
    Top(verbs::top::Args),
    Latency(verbs::latency::Args),
    Critical(verbs::critical::Args),
    Explain(Box<verbs::explain::Args>),
    View(verbs::view::Args),
    List(verbs::list::Args),
    Mark(verbs::mark::Args),
    Recover(verbs::recover::Args),
    Collect(verbs::collect::Args),
    Wakeup(verbs::probe::Wakeup),
    Npt(verbs::probe::Npt),
    Hwlat(verbs::probe::Hwlat),
    Preempt(verbs::probe::Preempt),
    Pi(verbs::probe::Pi),
    Slots(verbs::slots::Args),
    Functions(verbs::functions::Args),
    Heap(verbs::heap::Args),
    Export(verbs::export::Args),
    Maxrate(verbs::maxrate::Args),
    Load(verbs::load::Args),
    Eval(verbs::eval::Args),
    Import(verbs::import::Args),
    Compare(verbs::compare::Args),
    Report(verbs::report::Args),
    Doctor(verbs::doctor::Args),
    Shield(verbs::shield::Args),
    Docs(verbs::docs::Args),
    #[command(name = "__complete")]
    Complete(completion::Args),
}

/// What the tool says about itself: `KYMO_LOG=info`, or by module `kymo_collect=debug,warn`; errors alone without it.
fn log_to_stderr() {
    let wanted = std::env::var("KYMO_LOG").unwrap_or_default();
    let (targets, error) = match wanted.parse::<Targets>() {
        Ok(targets) => (targets, None),
        Err(error) => (Targets::default(), Some(error)),
    };
    let targets = if wanted.is_empty() { Targets::new().with_default(tracing::Level::ERROR) } else { targets };
    tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(targets))
        .init();
    if let Some(error) = error {
        eprintln!("kymo: KYMO_LOG={wanted} is not understood ({error}); such as info, or kymo_collect=debug,warn");
    }
}

fn main() -> ExitCode {
    // This program may have been started as the guard of an instance of tracefs.
    kymo_tracefs::guard_instances();
    // A reader such as `head` that closes the pipe ends us quietly.
    verbs::default_sigpipe();
    verbs::survive_file_limits();
    let words = old_spellings::current(std::env::args_os());
    let matches = match help::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return refused(&error, &words),
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log_to_stderr();
    let outcome = match cli.verb {
        Verb::Record(args) => verbs::record::run(*args),
        Verb::Session(args) => verbs::session::run(args),
        Verb::Read(args) => verbs::read::run(args),
        Verb::Index(args) => verbs::index::run(args),
        Verb::State(args) => verbs::state::run(args),
        Verb::Stats(args) => verbs::stats::run(args),
        Verb::Top(args) => verbs::top::run(args),
        Verb::Latency(args) => verbs::latency::run(args),
        Verb::Critical(args) => verbs::critical::run(args),
        Verb::Explain(args) => verbs::explain::run(*args),
        Verb::View(args) => verbs::view::run(args),
        Verb::List(args) => verbs::list::run(args),
        Verb::Mark(args) => verbs::mark::run(args),
        Verb::Recover(args) => verbs::recover::run(args),
        Verb::Collect(args) => verbs::collect::run(args),
        Verb::Wakeup(args) => verbs::probe::wakeup(args),
        Verb::Npt(args) => verbs::probe::npt(args),
        Verb::Hwlat(args) => verbs::probe::hwlat(args),
        Verb::Preempt(args) => verbs::probe::preempt(args),
        Verb::Pi(args) => verbs::probe::pi(args),
        Verb::Slots(args) => verbs::slots::run(args),
        Verb::Shield(args) => verbs::shield::run(args),
        Verb::Doctor(args) => verbs::doctor::run(args),
        Verb::Functions(args) => verbs::functions::run(args),
        Verb::Heap(args) => verbs::heap::run(args),
        Verb::Export(args) => verbs::export::run(args),
        Verb::Maxrate(args) => verbs::maxrate::run(args),
        Verb::Load(args) => verbs::load::run(args),
        Verb::Eval(args) => verbs::eval::run(args),
        Verb::Import(args) => verbs::import::run(args),
        Verb::Compare(args) => verbs::compare::run(args),
        Verb::Report(args) => verbs::report::run(args),
        Verb::Docs(args) => verbs::docs::run(args),
        Verb::Complete(args) => Ok(completion::run(args)),
    };
    // What was printed is read before what went wrong is said.
    terminal::finish_pager();
    outcome.unwrap_or_else(|error| {
        eprintln!("kymo: {}", message(&error));
        ExitCode::from(2)
    })
}

/// A command line that is not understood, or that asks for help. Options of other tools get a hint.
fn refused(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let hints = foreign_options::hints(error, words);
    if hints.is_empty() {
        error.exit();
    }
    let _ = error.print();
    hints.iter().for_each(|hint| eprintln!("\n  {hint}"));
    ExitCode::from(2)
}

/// An error and its causes, each said once: many of ours name their cause themselves.
fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
