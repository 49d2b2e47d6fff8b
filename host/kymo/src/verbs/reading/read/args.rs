// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo read`.

use std::path::PathBuf;

use crate::verbs::args::{EventArgs, OutputArgs, RangeArgs, ScopeArgs, TraceArgs, ZoneArgs};
use crate::verbs::hosts::HostArgs;

/// Print a trace as text or JSON, in the order of time
///
/// Any CTF 1.8 or CTF 2 trace can be read, not only those of kymo. Lost records are shown where they are missing.
/// What is damaged is listed on standard error at the end.
///
/// Each record is shown with its program[process/thread]. Records of a kernel only have the thread: its name and
/// process are what the trace has told of it so far (state dump, switches, forks, execs), and `-` where it has not.
#[derive(clap::Args)]
#[command(
    mut_arg("dirs", |arg| arg.help("Trace directories, directories with traces below, or logs of POSIX Trace streams (kymo-posix(7)); several are \
        merged by time. Or net://HOST[:PORT]/host/HOSTNAME/SESSION, a live session of LTTng's relay daemon; net://HOST[:PORT] \
        lists its sessions")),
    mut_arg("from", |arg| arg.conflicts_with("follow").help("Only records from this time on: +1.5s from the begin of the trace, -1s from \
        its end, or ns since 1970 as --json prints them. With an index (kymo index) what is before is not read")),
    mut_arg("to", |arg| arg.conflicts_with("follow").help("Only records before this time")),
    mut_arg("intersect", |arg| arg.conflicts_with_all(["follow", "to_ctf"])),
    mut_arg("json", |arg| arg.help("Print one JSON object a line: times in nanoseconds since 1970, bytes in hexadecimal, NaN and \
        infinities as strings")),
    after_help = "Examples:\n  kymo read t                                         all records\n  \
    kymo read t --from -1s --event 'motor:*'            the last second of some events\n  \
    kymo read t --filter 'motor:step.duration > 200us'   records for which a condition is true\n  \
    kymo read t --fields time,'$tid','$prio',axis        columns: fields and contexts\n  \
    kymo read t --intersect                              where all streams have data\n  \
    kymo read t --cpu 0-1 --thread audio --json          of one thread on two CPUs, as JSON\n  \
    kymo read --follow motor                             a running session\n  \
    kymo read net://localhost                            live sessions of LTTng, on the relay daemon of this machine\n  \
    kymo read net://lab:5344/host/box/s1 --json          one of them, while it is recorded\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was printed), 2 it cannot be opened."
)]
pub struct ReadArgs {
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Show only these columns: time, delta, cpu, proc, pid, tid, event (or $time, $cpu, $proc, $pid, $tid, $event),
    /// names of payload fields, contexts of any tracer such as `$prio`, `*` for all fields and contexts
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) fields: Option<Vec<String>>,
    #[command(flatten)]
    pub(super) events: EventArgs,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Also show the records of the state dump: processes, files and devices at the start and the end of the recording.
    /// Without this option they are shown only if --event matches them
    #[arg(long)]
    pub(super) state: bool,
    /// Print only the number of records of each event
    #[arg(long, conflicts_with_all = ["follow", "fields"])]
    pub(super) count: bool,
    /// Continue while the trace is being written, until its session ends. DIR may be the name of a session (of
    /// `kymo session`). Records are shown about 0.3 s late, in the order of time
    #[arg(long)]
    pub(super) follow: bool,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Convert the log of a POSIX Trace stream into the CTF 1.8 trace TO, which must not exist
    #[arg(long, value_name = "TO", conflicts_with_all = ["json", "fields", "event", "filter", "cpu", "thread", "process", "state", "count", "follow", "limit"])]
    pub(super) to_ctf: Option<PathBuf>,
    /// Stop after this many records
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u64>,
    /// Show the functions of a record's addresses below it, with source lines if there is debug information: of call
    /// stacks (`--context callstack`) and of fields such as `ip`. Program files are those of this machine, if they are
    /// the same build. Kernel functions are those of this boot, or of FILE (System.map, or a copy of /proc/kallsyms)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["follow", "count", "to_ctf"])]
    pub(super) symbols: Option<Option<PathBuf>>,
    /// Show times in cycles of the trace clock
    #[arg(long)]
    pub(super) cycles: bool,
    #[command(flatten)]
    pub(super) zone: ZoneArgs,
    /// Show the date before the time of day
    #[arg(long)]
    pub(super) date: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) hosts: HostArgs,
}
