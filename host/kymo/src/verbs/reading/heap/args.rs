// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `kymo heap`.

use std::path::PathBuf;

use crate::verbs::args::{OutputArgs, RangeArgs, ScopeArgs, TraceArgs};

/// Heap of programs: live, peak and leaked bytes by call stack, growth, flame graph
///
/// Needs the calls of malloc and its kin: `kymo record --with malloc`. With `--context callstack` each block belongs to
/// its whole call stack, else to the function that called the allocator. Bytes are those that the program asked for,
/// without what the allocator adds.
///
/// A forked child can free the blocks of its parent; they count for the parent alone. Blocks that a program had when it
/// became another one (exec) are neither live nor leaked. Frees of blocks from before the recording are counted apart.
/// If records were lost, live and leaked bytes are estimates, and the output says so.
#[derive(clap::Args)]
#[command(mut_arg("filter", |arg| arg.help("Only blocks whose allocation is a record for which the condition is true, such as \
    `size > 4096` (repeatable: all must be true); the language is in kymo-filter(7)")))]
#[command(mut_arg("cpu", |arg| arg.help("Only blocks that were allocated on these CPUs, as 0-3,6")))]
#[command(mut_arg("thread", |arg| arg.help("Only blocks that this thread allocated: its number, or its name")))]
#[command(mut_arg("process", |arg| arg.help("Only blocks that this process allocated: its number, or its name")))]
#[command(mut_arg("from", |arg| arg.help("Only the peak and the growth from this time on, and leaks of blocks that were allocated from then \
    on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 [default: the begin]")))]
#[command(mut_arg("to", |arg| arg.help("Only before this time; live is what is live then. Whether a block is leaked is decided by all records \
    behind it [default: the end]")))]
#[command(
    after_help = "Examples:\n  kymo record --with malloc --context callstack -o t -- ./program && kymo heap t\n  \
    kymo heap t --what leaked --limit 5         the five stacks that leak most\n  \
    kymo heap t --from +10s --to +20s --what leaked   allocated in these ten seconds, and never freed\n  \
    kymo heap t --svg heap.svg                  flame graph of the heap when it was largest\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was used), 2 it cannot be opened, or has no such records."
)]
pub struct HeapArgs {
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Sort stacks by these bytes, and draw them in the flame graph: peak (live when the heap was largest), live (at
    /// the end), leaked (never freed), allocated (all, also what was freed)
    #[arg(long, value_name = "BYTES", value_enum, default_value_t = Bytes::Peak, hide_possible_values = true)]
    pub what: Bytes,
    #[command(flatten)]
    pub scope: ScopeArgs,
    #[command(flatten)]
    pub range: RangeArgs,
    /// Show the growth in N equal steps
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub steps: u32,
    /// Show only the N largest stacks, and the N processes with the largest heaps
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,
    /// Write a flame graph of the bytes, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bytes {
    /// Live when the heap was largest.
    Peak,
    /// Live at the end.
    Live,
    /// Never freed.
    Leaked,
    /// All.
    Allocated,
}

impl Bytes {
    /// As in the option.
    pub fn name(self) -> &'static str {
        match self {
            Bytes::Peak => "peak",
            Bytes::Live => "live",
            Bytes::Leaked => "leaked",
            Bytes::Allocated => "allocated",
        }
    }
}
