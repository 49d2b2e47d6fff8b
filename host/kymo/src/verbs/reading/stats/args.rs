// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `kymo stats`.

use super::by::{self, By};
use crate::verbs::args::{EventArgs, OutputArgs, RangeArgs, ScopeArgs, TraceArgs};
use crate::verbs::hosts::HostArgs;

/// Statistics of a trace: counts, rates and values by event, thread, CPU or field
///
/// Rows by any sequence of event, process, thread, cpu and fields of the payload; records of a kernel belong to the
/// thread that ran on their CPU.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo stats t                               records and rates by event\n  \
    kymo stats t --by process,event --limit 20   what each process wrote, the busiest first\n  \
    kymo stats t --by axis,event               what was written of each axis\n  \
    kymo stats t --by caller --sum size --limit 10   the callers of malloc that asked for most bytes\n  \
    kymo stats t --event 'motor:*' --values    min, mean, max, deviation and quantiles of each field\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was counted), 2 it cannot be opened.")]
pub struct StatsArgs {
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Group by event, process, thread, cpu (or $event, $pid, $tid, $cpu), names of payload fields that are integers or
    /// text (`field:cpu` for a field with one of these names), and contexts ($proc, $prio, any that records have); at
    /// most four, in any order. Addresses, such
    /// as those of `caller`, are shown as functions with their lines
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "event", value_parser = by::parse)]
    pub(super) by: Vec<By>,
    #[command(flatten)]
    pub(super) events: EventArgs,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Also show statistics of each field that is a number
    #[arg(long, alias = "fields")]
    pub(super) values: bool,
    /// Add up the values of this payload field in each row, and sort the rows by that, the largest first
    #[arg(long, value_name = "FIELD")]
    pub(super) sum: Option<String>,
    /// Also show bytes: of all records, of one record, per second. Packet headers are not counted
    #[arg(long)]
    pub(super) sizes: bool,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Show only the N rows with most records, the most first; with --sum those with the largest sums [default: all, by
    /// name]
    #[arg(long, alias = "top", value_name = "N")]
    pub(super) limit: Option<usize>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) hosts: HostArgs,
}
