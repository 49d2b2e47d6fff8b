// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `kymo lake`: one definition for the help, man page and completion of `kymo`, and for `kymo-sql`, which
//! runs it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{bail, ensure};

use crate::args::JsonArgs;
use crate::units;

/// Tables of many traces as Parquet files, for kymo sql --lake, Spark, DuckDB and polars
///
/// A lake is a directory or a prefix of an object store. Its files are TABLE/host=HOST/day=YYYY-MM-DD/NAME.parquet:
/// what knows Hive partitions reads them as they are. Tasks: kymo-sql(7). The layout: kymo-lake(7).
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub struct LakeArgs {
    /// What is done.
    #[command(subcommand)]
    pub verb: LakeVerb,
}

/// What is done with a lake.
#[derive(clap::Subcommand)]
#[expect(missing_docs, reason = "a variant's text would be its help, which is that of its arguments")]
pub enum LakeVerb {
    Add(LakeAddArgs),
    List(LakeListArgs),
    Ship(LakeShipArgs),
    #[command(hide = true)]
    Serve(LakeServeArgs),
}

/// Add traces to a lake: their derived tables as Parquet, whole or not at all
///
/// Each trace is an addition of its own. A trace that is in the lake already with the same labels and tables is left
/// as it is; with others, it is replaced. A run that was killed leaves nothing that kymo sql --lake reads; the next
/// one of the same trace removes what is left. The first directory of a path that is missing is made.
///
/// URL is a directory, file:///..., or, if kymo-sql was built with the feature: s3://BUCKET/... (aws), gs://BUCKET/...
/// (gcp), az://CONTAINER/... (azure), with credentials from the environment (AWS_ACCESS_KEY_ID, ...).
#[derive(clap::Args)]
#[command(mut_arg("json", |arg| arg.help("Print what was added as JSON")))]
#[command(after_help = "Examples:\n  \
    kymo lake add trace --to /srv/lake --label kernel=6.12-rt --label board=imx8\n  \
    kymo lake add traces --to /srv/lake          a directory with traces below\n  \
    kymo lake add trace --to lake --table 'motor:*' --table wakeups\n  \
    kymo lake add trace --to s3://bucket/lake --with-trace\n  \
    kymo sql --lake lake 'SELECT host, max(duration_ns) FROM wakeups GROUP BY host'\n\n\
    Exit status: 0 all traces are in the lake, 2 errors, 3 a trace could not be opened: that is a row of losses.")]
pub struct LakeAddArgs {
    /// Trace directories, or directories with traces below
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Where to, and what.
    #[command(flatten)]
    pub of: AdditionArgs,
    /// Do not print what was added
    #[arg(short, long)]
    pub quiet: bool,
    /// Text or JSON.
    #[command(flatten)]
    pub out: JsonArgs,
}

/// Where additions go, and what they have.
#[derive(clap::Args)]
pub struct AdditionArgs {
    /// The lake: a directory or a URL; it is made if it is missing
    #[arg(long, required = true, value_name = "URL")]
    pub to: String,
    /// Add this text to all rows as the column label_KEY; a key has letters, digits and _
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Write this table: a name or glob, also of events ('motor:*'); losses is always written [default: all tables
    /// that are derived from records]
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Copy the trace into the lake, too; otherwise the lake has the path of the trace
    #[arg(long)]
    pub with_trace: bool,
}

/// Add the chunks and snapshots of a session to a lake as they are closed, until the session has ended
///
/// Each chunk and each snapshot is an addition of its own; a session that is not cut is added at its end. While the
/// lake cannot be reached, or its disk is full, the addition is tried again, after a second at first and each minute
/// at last; what was recorded waits on this machine's disk. A chunk that the session's --keep removes before it is in
/// the lake is counted, named at the end, and in the lake. A run that was interrupted goes on where it was when it is
/// started again. `kymo session start --lake URL` runs this beside the session.
#[derive(clap::Args)]
#[command(mut_arg("json", |arg| arg.help("Print at the end what was shipped as JSON")))]
#[command(after_help = "Examples:\n  \
    kymo session start box -k sched --rotate-time 10m --keep 12 --lake /srv/lake\n  \
    kymo lake ship kymo-trace-2026 --to /srv/lake          beside a session, or when it has ended\n  \
    kymo lake ship DIR --to s3://bucket/lake --with-trace --remove --bandwidth 2M\n\n\
    Exit status: 0 all is in the lake, 2 errors, 3 a chunk was removed before, or could not be opened.")]
pub struct LakeShipArgs {
    /// Directory of the session's trace
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Where to, and what.
    #[command(flatten)]
    pub of: AdditionArgs,
    /// Remove a chunk or snapshot when its copy is in the lake
    #[arg(long, requires = "with_trace")]
    pub remove: bool,
    /// Write so many bytes a second at most, as a mean: 500K, 2M
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub bandwidth: Option<u64>,
    /// The process that records: where it is gone, nothing more is waited for.
    #[arg(long, value_name = "PID", hide = true)]
    pub recorder: Option<u32>,
    /// Only make the lake, if it is missing: what is wrong with it is told before a session begins.
    #[arg(long, hide = true)]
    pub check: bool,
    /// Do not print what was shipped
    #[arg(short, long)]
    pub quiet: bool,
    /// Text or JSON.
    #[command(flatten)]
    pub out: JsonArgs,
}

/// List what is in a lake: traces, hosts, days, labels, rows, losses, and what is unfinished
#[derive(clap::Args)]
#[command(mut_arg("json", |arg| arg.help("Print the additions, and what is unfinished, as JSON")))]
#[command(after_help = "Examples:\n  kymo lake list /srv/lake\n  \
    kymo lake list /srv/lake --json\n\n\
    Exit status: 0 fine, 2 errors.")]
pub struct LakeListArgs {
    /// The lake: a directory or a URL
    #[arg(value_name = "URL")]
    pub lake: String,
    /// Text or JSON.
    #[command(flatten)]
    pub out: JsonArgs,
}

/// Answer questions about a lake: lines of JSON on standard input, answers on standard output; ends with the input
///
/// kymo view --lake starts it.
#[derive(clap::Args)]
pub struct LakeServeArgs {
    /// The lake: a directory or a URL
    #[arg(value_name = "URL")]
    pub lake: String,
}

impl AdditionArgs {
    /// The labels by key.
    ///
    /// # Errors
    /// One without `=`, with another key than letters, digits and `_`, or a key with two values.
    pub fn labels(&self) -> anyhow::Result<BTreeMap<String, String>> {
        check_labels(&self.labels)
    }
}

/// Labels by key.
///
/// # Errors
/// One without `=`, with another key than letters, digits and `_`, or a key with two values.
pub fn check_labels(texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            bail!("the label {text}: it is KEY=VALUE, as board=imx8");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        ensure!(
            !key.is_empty() && key.chars().all(is_plain),
            "the label {text}: the key {key:?} becomes a part of a column's name: use letters, digits and _"
        );
        ensure!(!value.is_empty(), "the label {text}: it has no value; leave the label out instead");
        if let Some(before) = labels.insert(key.to_owned(), value.to_owned()) {
            ensure!(before == value, "the label {key} has two values: {before} and {value}");
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: LakeAddArgs,
    }

    #[test]
    fn labels_are_keys_with_values() {
        let labels = |words: &[&str]| {
            let labels = words.iter().flat_map(|word| ["--label", *word]);
            let words = ["add", "t", "--to", "l"].into_iter().chain(labels);
            Cli::try_parse_from(words).unwrap().args.of.labels().map_err(|error| error.to_string())
        };
        let of = |key: &str, value: &str| Ok(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        assert_eq!(labels(&[]), Ok(BTreeMap::new()));
        assert_eq!(labels(&["kernel=6.12-rt"]), of("kernel", "6.12-rt"));
        assert_eq!(labels(&["a=b=c/ü ", "a=b=c/ü "]), of("a", "b=c/ü "));
        for (words, part) in [
            (&["board"][..], "KEY=VALUE"),
            (&["=x"], "letters, digits"),
            (&["a b=x"], "letters, digits"),
            (&["a="], "no value"),
            (&["a=1", "a=2"], "two values: 1 and 2"),
        ] {
            let error = labels(words).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
