//! `kymo session start`, as the user sees it: makes the collector and waits until it is ready or says why not.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use super::settings;
use crate::verbs::record::options::Options;

/// Start a session in the background; returns when the programs that run are attached and kernel events are on
///
/// What goes wrong before that is shown here, and nothing is left. Later remarks, the summary and the output of the command go to
/// the file DIR.log beside the trace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kymo session start motor -u 'motor:*' -o DIR\n  \
    kymo session start web -k sched --for 1h -- ./server --its-option\n  \
    kymo session start box --flight --ring-size 16M\n  kymo session start --load motor.toml\n\n\
    Exit status: 0 it runs, 2 errors, 126 and 127 the command cannot be run or was not found.")]
pub struct Args {
    /// Name of the session: letters, digits, _ . and -, at most 40; unique among the user's sessions
    #[arg(value_name = "NAME", value_parser = session_name, required_unless_present = "load")]
    pub name: Option<String>,
    #[command(flatten)]
    pub options: Options,
    /// Flight recorder: full rings are overwritten, and written out by `kymo session snapshot` only
    #[arg(long)]
    pub flight: bool,
    /// Switch events on (+PATTERN) or off (-PATTERN) from the beginning, as `enable` and `disable` would, in this order
    #[arg(long, value_name = "+|-PATTERN", allow_hyphen_values = true, value_parser = change)]
    pub change: Vec<Change>,
    /// Switch kernel events on (+PATTERN, as of -k) or off (-PATTERN) from the beginning, in this order
    #[arg(long, value_name = "+|-PATTERN", allow_hyphen_values = true, value_parser = kernel_change)]
    pub kernel_change: Vec<Change>,
    /// Options from a file that `kymo session save` wrote; those of the command line come before them
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// Print what was started as JSON
    #[arg(long)]
    pub json: bool,
    /// No message
    #[arg(short, long)]
    pub quiet: bool,
    /// This is the collector: standard output leads to who started it.
    #[arg(long, hide = true)]
    detached: bool,
}

/// Options that are about the start and not about the session: not in files.
pub const OF_THE_START: [&str; 5] = ["load", "json", "quiet", "detached", "help"];

/// A change of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub pattern: String,
    pub on: bool,
}

impl Args {
    pub fn is_detached(&self) -> bool {
        self.detached
    }
}

fn session_name(text: &str) -> Result<String, String> {
    match kymo_collect::is_session_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name has 1 to 40 letters, digits, '_', '.' and '-'".to_owned()),
    }
}

fn change(text: &str) -> Result<Change, String> {
    let change = signed(text)?;
    kymo_collect::Patterns::new(std::slice::from_ref(&change.pattern), &[]).map_err(|error| error.to_string())?;
    Ok(change)
}

fn kernel_change(text: &str) -> Result<Change, String> {
    let change = signed(text)?;
    kymo_tracefs::Wanted::parse(std::slice::from_ref(&change.pattern)).map_err(|error| error.to_string())?;
    Ok(change)
}

fn signed(text: &str) -> Result<Change, String> {
    let (on, pattern) = match text.split_at_checked(1) {
        Some(("+", pattern)) => (true, pattern),
        Some(("-", pattern)) => (false, pattern),
        _ => return Err("give +PATTERN or -PATTERN".to_owned()),
    };
    Ok(Change { pattern: pattern.to_owned(), on })
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let words = settings::words_of_the_collector(args)?;
    let answer = make_collector(&words)?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        eprintln!("kymo: {error}");
        let status = answer["status"].as_u64().and_then(|status| u8::try_from(status).ok());
        return Ok(ExitCode::from(status.unwrap_or(2)));
    }
    if args.json {
        println!("{answer:#}");
    } else if !args.quiet {
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        eprintln!(
            "kymo: session {} runs (collector: process {}), {} into {}; `kymo session stop {}` ends it",
            text("name"),
            answer["pid"],
            if answer["mode"] == "flight" { "snapshots" } else { "recording" },
            text("output"),
            text("name")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts this program again as the collector, and reads its one line.
fn make_collector(words: &[OsString]) -> anyhow::Result<Value> {
    let mut child = Command::new("/proc/self/exe")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the collector")?;
    let mut line = Vec::new();
    let mut from = child.stdout.take().context("the collector has no standard output")?;
    let mut byte = [0];
    // No further: what the collector starts may hold the pipe open.
    while from.read(&mut byte).context("cannot read from the collector")? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    if let Ok(answer) = serde_json::from_slice(&line) {
        return Ok(answer);
    }
    let status = child.wait().context("cannot wait for the collector")?;
    match status.code() {
        // The command line was refused in the same words as on this side; they stand above.
        Some(code) if line.is_empty() && code == 2 => anyhow::bail!("the session was not started"),
        _ => anyhow::bail!("the collector ended ({status}) before it was ready"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        assert_eq!(change("+motor:*"), Ok(Change { pattern: "motor:*".into(), on: true }));
        assert_eq!(change("-motor"), Ok(Change { pattern: "motor".into(), on: false }));
        for bad in ["", "motor", "+", "-a b", "é"] {
            assert!(change(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names() {
        assert!(session_name("a.b-c_9").is_ok());
        assert!(session_name("").unwrap_err().contains("letters"));
        assert!(session_name("a/b").is_err());
    }
}
