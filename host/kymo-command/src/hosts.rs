// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of several hosts: their clocks brought together [spec/hosts.md].

mod align;
mod group;
mod shift;

use kymo_ctf::read::{Trace, unite_clocks};
use kymo_index::Named;

pub use align::ClockAlignment;
use group::Group;

/// How the clocks of several traces stand to each other.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct HostArgs {
    /// Shift the times of trace DIR: `host2=+1.5ms`. DIR is the argument, or the last part of its path (repeatable)
    #[arg(long, value_name = "DIR=TIME", help_heading = "Several hosts", allow_hyphen_values = true)]
    pub shift: Vec<String>,
    /// Convert the clocks of all traces to that of the first trace. Uses messages in both directions: the event of
    /// sending, the event of receiving, and the fields that identify a message; or one event that all traces have of
    /// the same moments. The result and its uncertainty are printed on standard error
    #[arg(
        long,
        value_name = "SEND,RECEIVE,by=KEY | common:EVENT,by=KEY",
        help_heading = "Several hosts",
        conflicts_with = "shift"
    )]
    pub align: Option<String>,
}

impl HostArgs {
    /// Nothing is said of clocks.
    pub fn is_none(&self) -> bool {
        self.shift.is_empty() && self.align.is_none()
    }
}

/// Brings the clocks of traces together, which are those of `named`, in that order. Says on standard error how.
pub fn bring_together(traces: &mut [Trace], named: &[Named], args: &HostArgs) -> anyhow::Result<Vec<ClockAlignment>> {
    if args.is_none() {
        unite_clocks(traces);
        return Ok(Vec::new());
    }
    let mut end = 0;
    let group = |named: &Named| {
        let begin = end;
        end += named.parts.len();
        Group { dir: named.dir.clone(), traces: begin..end }
    };
    let groups: Vec<Group> = named.iter().map(group).collect();
    // Clocks of different hosts may look the same, as those of copies of one machine do.
    for group in &groups {
        unite_clocks(&mut traces[group.traces.clone()]);
    }
    shift::apply(traces, &groups, &args.shift)?;
    let Some(align) = &args.align else { return Ok(Vec::new()) };
    let told = align::apply(traces, &groups, align)?;
    told.iter().for_each(|told| eprintln!("kymo: {told}"));
    Ok(told)
}
