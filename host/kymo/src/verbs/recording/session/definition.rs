// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo session start`, of which the files of `--definition` and the words of the collector are made,
//! too.

use std::path::PathBuf;

use kymo_command::units;

use crate::verbs::args::JsonArgs;
use crate::verbs::record::options::Options;

/// Start a session in the background; returns when the programs that run are attached and kernel events are on
///
/// What goes wrong before that is shown here, and nothing is left. Later remarks, the summary and the output of the
/// command go to the file DIR.log beside the trace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kymo session start motor -u 'motor:*' -o DIR\n  \
    kymo session start web -k sched --duration 1h -- ./server --its-option\n  \
    kymo session start box --flight --ring-size 16M\n  \
    kymo session start box -k sched --rotate-time 10m --keep 12 --lake /srv/lake\n  \
    kymo session start --definition motor.toml\n\n\
    Exit status: 0 it runs, 2 errors, 126 and 127 the command cannot be run or was not found.")]
pub struct DefinitionArgs {
    /// Name of the session: letters, digits, _ . and -, at most 40; unique among the user's sessions
    #[arg(value_name = "NAME", value_parser = session_name, required_unless_present = "definition")]
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
    /// Read options from a file that `kymo session save` wrote; the command line takes precedence
    #[arg(long, alias = "load", value_name = "FILE")]
    pub definition: Option<PathBuf>,
    #[command(flatten)]
    pub lake: LakeOptions,
    #[command(flatten)]
    pub out: JsonArgs,
    /// Print no message
    #[arg(short, long)]
    pub quiet: bool,
    /// This is the collector: standard output leads to who started it.
    #[arg(long, hide = true)]
    detached: bool,
}

/// Options that ship what is recorded.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Lake")]
pub struct LakeOptions {
    /// Add chunks and snapshots to this lake as they are closed, as kymo lake ship does: a directory or a URL
    #[arg(long = "lake", value_name = "URL")]
    pub url: Option<String>,
    /// Add this text to all rows in the lake as the column label_KEY (repeatable)
    #[arg(long = "lake-label", value_name = "KEY=VALUE", requires = "url")]
    pub labels: Vec<String>,
    /// Copy chunks and snapshots into the lake, too
    #[arg(long = "lake-with-trace", requires = "url")]
    pub with_trace: bool,
    /// Remove a chunk or snapshot from this machine when its copy is in the lake
    #[arg(long = "lake-remove", requires = "with_trace")]
    pub remove: bool,
    /// Write so many bytes a second to the lake at most, as a mean: 500K, 2M
    #[arg(long = "lake-bandwidth", value_name = "SIZE", requires = "url", value_parser = units::bytes)]
    pub bandwidth: Option<u64>,
}

/// Options that are about the start and not about the session: not in files.
pub const OF_THE_START: [&str; 5] = ["definition", "json", "quiet", "detached", "help"];

/// A change of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub pattern: String,
    pub on: bool,
}

impl DefinitionArgs {
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
