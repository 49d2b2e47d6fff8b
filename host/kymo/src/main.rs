// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of kymo. Verbs are modules below `verbs`; `cli` lists them, this file only chooses
//! one and turns its outcome into an exit code. It does no work of its own.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use kymo_command::process;

mod cli;
mod completion;
mod foreign_options;
mod help;
mod old_spellings;
mod verbs;

use cli::{Cli, Verb};

fn main() -> ExitCode {
    // This program may have been started as the guard of an instance of tracefs.
    kymo_tracefs::guard_instances();
    // A reader such as `head` that closes the pipe ends us quietly.
    process::default_sigpipe();
    process::survive_file_limits();
    let words = old_spellings::current(std::env::args_os());
    let matches = match help::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return refused(&error, &words),
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    process::log_to_stderr();
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
        Verb::Export(args) => verbs::export::run(args, &words[1..]),
        Verb::Sql(args) => verbs::sql::run(&args, &words[1..]),
        Verb::Lake(args) => verbs::lake::run(&args, &words[1..]),
        Verb::Maxrate(args) => verbs::maxrate::run(args),
        Verb::Load(args) => verbs::load::run(args),
        Verb::Eval(args) => verbs::eval::run(args),
        Verb::Import(args) => verbs::import::run(args),
        Verb::Compare(args) => verbs::compare::run(args),
        Verb::Report(args) => verbs::report::run(args),
        Verb::Docs(args) => verbs::docs::run(args, help::command()),
        Verb::Complete(args) => Ok(completion::run(args, &help::command())),
    };
    process::exit_code(outcome)
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
