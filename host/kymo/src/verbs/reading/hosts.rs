// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of several hosts: their clocks brought together [spec/hosts.md].

mod align;
mod group;
mod shift;

use kymo_ctf::read::{Trace, unite_clocks};
use kymo_index::Named;

pub use align::Told;
use group::Group;

/// How the clocks of several traces stand to each other.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct HostArgs {
    /// The times of trace DIR are shifted by so much: `host2=+1.5ms`; DIR as it is given, or the last part of its path
    /// (may be given several times)
    #[arg(long, value_name = "DIR=TIME", help_heading = "Several hosts", allow_hyphen_values = true)]
    pub shift: Vec<String>,
    /// Bring the clocks of all traces to that of the first one, by messages between them, both ways: the event that is
    /// written where one is sent, the one where it is received, and the fields that are the same of both; or by events
    /// that all traces have of the same moments. What comes out, and how sure it is, is said on standard error
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
pub fn bring_together(traces: &mut [Trace], named: &[Named], args: &HostArgs) -> anyhow::Result<Vec<Told>> {
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
