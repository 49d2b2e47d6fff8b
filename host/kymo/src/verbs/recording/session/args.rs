// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo session`, but for those of `start`.

use std::path::PathBuf;
use std::time::Duration;

use super::definition::DefinitionArgs;
use crate::verbs::args::{JsonArgs, OutputArgs};
use crate::verbs::units;

/// Background sessions: start, list, change, snapshot, rotate and stop them
///
/// A session is a collector process of its own, with a name that is unique for its user. It goes on until `stop`,
/// --duration, the end of its command, or SIGTERM.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo session start motor -u 'motor:*' -o DIR    record what runs and what comes\n  \
    kymo session start box --flight -k sched        a flight recorder: rings are overwritten until\n  \
    kymo session snapshot box --before 20ms         ... somebody wants the last moments\n  \
    kymo session list\n  kymo session status motor\n  kymo session enable motor 'audio:*'\n  kymo session stop motor\n\n\
    Exit status of every verb: 0 done, 1 there is no such session, 2 errors."
)]
pub struct SessionArgs {
    #[command(subcommand)]
    pub(super) verb: SessionVerb,
}

#[derive(clap::Subcommand)]
pub(super) enum SessionVerb {
    Start(Box<DefinitionArgs>),
    List(SessionListArgs),
    Status(StatusArgs),
    Enable(SelectArgs),
    Disable(SelectArgs),
    Add(AddArgs),
    Snapshot(SnapshotArgs),
    Rotate(RotateArgs),
    Stop(StopArgs),
    Save(SaveArgs),
}

/// List the sessions that run: this user's, for root those of all users
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session list\n  kymo session list --json\n\n\
    Exit status: 0 there are some, 1 there are none, 2 errors.")]
pub(super) struct SessionListArgs {
    #[command(flatten)]
    pub(super) show: OutputArgs,
}

/// Show how a session goes: rates, losses, programs, events, memory
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session status motor\n  kymo session status motor --json\n\n\
    Exit status: 0 shown, 1 there is no such session, 2 errors.")]
pub(super) struct StatusArgs {
    /// Name of the session
    pub(super) name: String,
    #[command(flatten)]
    pub(super) show: OutputArgs,
}

/// Switch events on or off while a session runs
///
/// The last change that matches an event decides, for the programs that run and for those that come. When the verb
/// returns, the running programs have been told; each obeys within its next turn of its helper thread. Programs with
/// KYMO_NO_THREAD=1 obey no more after their start. Kernel events (-k) are on or off when the verb returns; a session
/// that has none gets its rings then.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session enable motor 'audio:*'\n  kymo session disable motor motor:tick\n  \
    kymo session enable motor -k 'irq,sched:sched_switch[prev_prio < 50]'\n\n\
    Exit status: 0 done, 1 there is no such session, 2 errors.")]
pub(super) struct SelectArgs {
    /// Name of the session
    pub(super) name: String,
    /// Events, as provider:name with * ? [a-z]; a provider alone means all its events
    #[arg(required_unless_present = "kernel", value_name = "PATTERN")]
    pub(super) patterns: Vec<String>,
    /// Kernel events, as -k of kymo record: system:event with globs, groups, filters in brackets, fields in braces
    #[arg(short = 'k', long = "kernel", value_name = "PATTERN")]
    pub(super) kernel: Vec<String>,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}

/// Change the ring size of newly attached programs; with --running, of all programs
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session add motor --ring-size 16M\n  \
    kymo session add motor --ring-size 16M --running    no record is lost by the change\n\n\
    Exit status: 0 done, 1 there is no such session, 2 errors.")]
pub(super) struct AddArgs {
    /// Name of the session
    pub(super) name: String,
    /// Ring memory per CPU and program: bytes, or with K, M, G; a power of two
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(super) ring_size: u64,
    /// Also change the rings of running programs, while they write
    #[arg(long)]
    pub(super) running: bool,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}

/// Write out the last moments of a flight recorder, as a trace; nothing is stopped
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session snapshot box\n  \
    kymo session snapshot box --before 20ms --reason 'late frame' -o late --wait\n\n\
    Exit status: 0 taken (with --wait: written), 1 there is no such session, 2 errors.")]
pub(super) struct SnapshotArgs {
    /// Name of the session
    pub(super) name: String,
    /// Directory of the snapshot; must be absent or empty [default: snapshot-NNNN in the session's directory]
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Reason, written into the snapshot
    #[arg(long, value_name = "TEXT", default_value = "asked for")]
    pub(super) reason: String,
    /// Length of the past in the snapshot: 20ms, 1s [default: all that is in the rings]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(super) before: Option<Duration>,
    /// Return when the snapshot is written, and print what is in it
    #[arg(long)]
    pub(super) wait: bool,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}

/// Close what was written so far as a trace of its own, and go on in a new directory
///
/// The traces are OUTPUT/chunk-0001, chunk-0002, ...; `kymo read OUTPUT` reads them as one. With --size, --time or
/// --keep nothing is closed now: the session does so by itself from now on.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo session rotate motor\n  kymo session rotate motor --rotate-size 1G --keep 10\n\n\
    Exit status: 0 done, 1 there is no such session, 2 errors."
)]
pub(super) struct RotateArgs {
    /// Name of the session
    pub(super) name: String,
    /// Continue in a new directory when the trace has this size
    #[arg(long, alias = "size", value_name = "SIZE", value_parser = units::bytes)]
    pub(super) rotate_size: Option<u64>,
    /// Continue in a new directory when the trace has this age: 10s, 5m, 1h
    #[arg(long, alias = "time", value_name = "TIME", value_parser = units::duration)]
    pub(super) rotate_time: Option<Duration>,
    /// Keep this many closed chunks and remove older ones
    #[arg(long, value_name = "N")]
    pub(super) keep: Option<u32>,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}

/// End a session and print its summary
///
/// A command of the session that still runs is sent SIGTERM and recorded for two seconds more.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo session stop motor\n  kymo session stop motor --json\n\n\
    Exit status: 0 ended, 1 there is no such session, 2 errors (the trace is gone), 3 ended, but records may be missing that could not be\n\
    counted: the summary says of which programs, and why.")]
pub(super) struct StopArgs {
    /// Name of the session
    pub(super) name: String,
    #[command(flatten)]
    pub(super) out: JsonArgs,
    /// Print no summary; errors only, and why records may be missing that nobody could count
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Write the options of a running session into a file, with what was changed since its start
#[derive(clap::Args)]
#[command(mut_arg("json", |arg| arg.help("Write JSON instead of TOML; --definition reads TOML only")))]
#[command(
    after_help = "Examples:\n  kymo session save motor motor.toml\n  kymo session start --definition motor.toml\n\n\
    Exit status: 0 written, 1 there is no such session, 2 errors."
)]
pub(super) struct SaveArgs {
    /// Name of the session
    pub(super) name: String,
    /// File to write [default: standard output]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) out: JsonArgs,
}
