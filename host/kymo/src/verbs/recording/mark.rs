// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo mark`: a text into the sessions that run.

use std::process::ExitCode;

/// Put a mark with a text into the running sessions
///
/// The mark is a record `kymo_mark` with the present as its time, in every session of this user (root: of all users). A
/// program can write marks without kymo: under `kymo record`, $KYMO_MARK names a file that takes lines of text. With -k
/// the kernel stamps them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo mark 'load on'\n  echo 'load on' > $KYMO_MARK     inside of kymo record\n\n\
    Exit status: 0 marked, 1 no session took it, 2 errors.")]
pub struct Args {
    /// Only the session of the collector with this process id
    #[arg(long, value_name = "PID")]
    session: Option<u32>,
    /// No message about what was marked
    #[arg(short, long)]
    quiet: bool,
    /// The text; several words are joined by spaces
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = args.text.join(" ");
    let sent = kymo_collect::send_mark(&text, args.session)?;
    let taken = sent.iter().filter(|sent| sent.result.is_ok()).count();
    for refused in &sent {
        if let Err(error) = &refused.result {
            eprintln!("kymo: the session of process {} did not take the mark: {error}", refused.collector);
        }
    }
    if taken == 0 {
        match args.session {
            Some(pid) => eprintln!("kymo: process {pid} runs no session that takes marks"),
            None => eprintln!("kymo: no session is running; start one with kymo record"),
        }
        return Ok(ExitCode::from(1));
    }
    if !args.quiet {
        eprintln!("kymo: marked {taken} session{}", if taken == 1 { "" } else { "s" });
    }
    Ok(ExitCode::SUCCESS)
}
