// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo list`.

use crate::verbs::args::OutputArgs;

/// Available events: of running programs, of a file, or of the kernel
///
/// Without arguments: the running programs. With a pattern (motor:*), the events of running programs that match it.
/// With a file (./program, libx.so, x.o), the events in it, its USDT probes and its functions, without running it; the
/// latter two are for `kymo record -U`. With -k, the events of the kernel. The exit status is 1 when there is nothing
/// to list.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo list                     programs that run and have tracepoints\n  \
    kymo list ./program           events, USDT probes and functions in a file\n  kymo list -k                  names of all kernel events\n  \
    kymo list -k sched            kernel events of a group, with their fields\n  \
    kymo list -k '*:*wakeup*'     those whose names match\n  kymo list --state             events of the state dump\n\n\
    Exit status: 0 something was listed, 1 nothing, 2 errors.")]
pub struct ListArgs {
    /// Executables, libraries or object files; or patterns of events, as provider:name with * ? [a-z]. With -k:
    /// patterns of kernel events, as system:event with * ?, a system, or a group (sched irq syscalls timer block net
    /// power faults all)
    #[arg(value_name = "FILE|PATTERN")]
    pub(super) what: Vec<String>,
    /// Events of the kernel instead of programs: all names, or those that match a pattern, with their fields
    ///
    /// Names, types and fields are the kernel's own. If a trace has another name, it is shown behind "in a trace"; with
    /// `kymo record --names kernel`, traces have the kernel's names.
    #[arg(short = 'k', long)]
    pub(super) kernel: bool,
    /// The events of the state dump that is recorded beside kernel events, with their fields
    #[arg(long, conflicts_with_all = ["kernel", "what", "verbose"])]
    pub(super) state: bool,
    /// Show the events of each program, with their fields; of a file, all functions; with -k, the fields of all events
    #[arg(short, long, aliases = ["events", "fields"])]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) show: OutputArgs,
}
