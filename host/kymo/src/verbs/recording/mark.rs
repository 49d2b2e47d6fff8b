// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo mark`: a text into the sessions that run.

use std::process::ExitCode;

use kymo_collect::Sent;
use serde_json::{Value, json};

use crate::verbs::args::JsonArgs;

/// Marker: write a text with the current time into the running sessions
///
/// The mark is a record `kymo_mark` with the present as its time, in every session of this user (root: of all users). A
/// program can write marks without kymo: under `kymo record`, $KYMO_MARK names a file that takes lines of text. With -k
/// the kernel stamps them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo mark 'load on'\n  echo 'load on' > $KYMO_MARK     inside of kymo record\n\n\
    Exit status: 0 marked, 1 no session took it, 2 errors.")]
pub struct MarkArgs {
    /// Only this session: its name, or the process id of its collector (of kymo record)
    #[arg(long, value_name = "NAME|PID")]
    session: Option<String>,
    /// Print no message
    #[arg(short, long)]
    quiet: bool,
    /// The text; several words are joined by spaces
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
    #[command(flatten)]
    out: JsonArgs,
}

/// Runs the verb.
pub fn run(args: MarkArgs) -> anyhow::Result<ExitCode> {
    let text = args.text.join(" ");
    let collector = args.session.as_deref().map(collector).transpose()?;
    let sent = match collector {
        Some(None) => Vec::new(),
        Some(Some(pid)) => kymo_collect::send_mark(&text, Some(pid))?,
        None => kymo_collect::send_mark(&text, None)?,
    };
    let taken = sent.iter().filter(|sent| sent.result.is_ok()).count();
    for refused in &sent {
        if let Err(error) = &refused.result {
            eprintln!("kymo: the session of process {} did not take the mark: {error}", refused.collector);
        }
    }
    if args.out.json {
        println!("{}", document(&text, &sent));
    }
    if taken == 0 {
        match args.session {
            Some(session) => eprintln!("kymo: {session} is no running session that takes marks"),
            None => eprintln!("kymo: no session is running; start one with kymo record"),
        }
        return Ok(ExitCode::from(1));
    }
    if !args.quiet {
        eprintln!("kymo: marked {taken} session{}", if taken == 1 { "" } else { "s" });
    }
    Ok(ExitCode::SUCCESS)
}

/// The process id of a session's collector; none where there is no such session. A name is looked for first.
fn collector(session: &str) -> anyhow::Result<Option<u32>> {
    let named = kymo_collect::remotes()?.into_iter().find(|remote| remote.name() == session);
    Ok(named.map(|remote| remote.pid()).or_else(|| session.parse().ok()))
}

/// What was sent to whom, as `kymo-mark-1`.
fn document(text: &str, sent: &[Sent]) -> Value {
    let one = |sent: &Sent| {
        let error = sent.result.as_ref().err().map(ToString::to_string);
        json!({ "collector": sent.collector, "taken": error.is_none(), "error": error })
    };
    json!({ "schema": "kymo-mark-1", "text": text, "sessions": sent.iter().map(one).collect::<Vec<_>>() })
}
