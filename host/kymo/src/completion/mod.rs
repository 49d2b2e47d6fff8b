// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion in shells. Their scripts ([`scripts`]) are a few lines, which ask the hidden verb `__complete` for each
//! word; what can follow is decided in [`engine`], from the command line's definition and from what runs ([`world`]).
//!
//! Answers are quick and errors are silent: somebody waits with a finger on the key.

mod engine;
mod line;
pub mod scripts;
mod world;

use std::io::Write as _;
use std::process::ExitCode;

use engine::Rest;

/// Print what can follow on a command line (called by the completion scripts of shells)
#[derive(clap::Args)]
#[command(hide = true)]
pub struct CompletionArgs {
    /// The line up to the cursor, to be split as a shell does
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    line: Option<String>,
    /// The words up to the cursor; the last one is completed
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Prints `=WORD` (what is completed), then `CANDIDATE\tWHAT IT IS` lines, then `:files`, `:dirs` or `:command N` where
/// the shell has more.
pub fn run(args: CompletionArgs, definition: &clap::Command) -> ExitCode {
    let words = match &args.line {
        Some(line) => line::words(line),
        None => args.words,
    };
    let answer = engine::answer(definition, &words, &world::System);
    let mut text = format!("={}\n", words.last().map_or("", String::as_str));
    for (candidate, about) in &answer.candidates {
        let about = about.lines().next().unwrap_or_default().replace('\t', " ");
        text += &format!("{candidate}\t{about}\n");
    }
    match answer.rest {
        Rest::Nothing => {}
        Rest::Files => text += ":files\n",
        Rest::Dirs => text += ":dirs\n",
        Rest::Command(at) => text += &format!(":command {at}\n"),
    }
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
