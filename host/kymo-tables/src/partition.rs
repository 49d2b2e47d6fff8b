// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a table, for readers on several machines: stretches of time of one trace, with about as many records each.

use kymo_ctf::read::Trace;
use kymo_index::range;
use serde::{Deserialize, Serialize};

use crate::open::Group;

/// A part of a table: all partitions together have each of its rows once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Partition {
    /// Which of the opened traces; those of one machine that are read together are one.
    pub trace: usize,
    /// Rows from this time on, ns; none: from the first one on. Of a stretch, its end decides.
    pub from: Option<i64>,
    /// Rows before this time, ns; none: to the last one.
    pub to: Option<i64>,
}

/// When a table can be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divides {
    /// A row may begin anywhere, or is complete only at the end.
    Never,
    /// Its rows follow from the state: without checkpoints of states each part would read all that lies before it.
    WithStates,
    Always,
}

/// One of each trace without a sound index, at least one of each other trace, and about `wanted` in all.
pub(crate) fn partitions(groups: &[Group], wanted: usize, divides: Divides) -> Vec<Partition> {
    let each = wanted.div_ceil(groups.len().max(1)).max(1);
    let mut all = Vec::new();
    for (trace, group) in groups.iter().enumerate() {
        // Without an index each part would read all that lies before it. Where times went back, a part does not have
        // all records of its time.
        let is_sound = group.indexes.whole().is_some();
        let can_begin = match divides {
            Divides::Never => false,
            Divides::WithStates => is_sound && group.indexes.states.is_some(),
            Divides::Always => is_sound,
        };
        let cuts = if each > 1 && can_begin { cuts(group, each) } else { Vec::new() };
        let from = std::iter::once(None).chain(cuts.iter().copied().map(Some));
        let to = cuts.iter().copied().map(Some).chain([None]);
        all.extend(from.zip(to).map(|(from, to)| Partition { trace, from, to }));
    }
    all
}

/// Times between parts.
fn cuts(group: &Group, parts: usize) -> Vec<i64> {
    let mut pieces = by_index(group).unwrap_or_default();
    if pieces.len() < 2 * parts {
        let Some((first, last)) = range::bounds(&group.traces, &group.indexes) else { return Vec::new() };
        let step = last.abs_diff(first) / parts as u64;
        let at = |part: usize| first.saturating_add_unsigned(step.saturating_mul(part as u64));
        let mut cuts: Vec<i64> = (1..parts).map(at).filter(|at| *at > first).collect();
        cuts.dedup();
        return cuts;
    }
    pieces.sort_unstable();
    let all: u64 = pieces.iter().map(|(_, records)| records).sum();
    let (mut cuts, mut passed) = (Vec::new(), 0);
    for (from, records) in &pieces {
        let wanted = (all / parts as u64).max(1).saturating_mul(cuts.len() as u64 + 1);
        if passed >= wanted && cuts.last().is_none_or(|last| last < from) && cuts.len() + 1 < parts {
            cuts.push(*from);
        }
        passed += records;
    }
    cuts
}

/// When packets begin, ns, and how many records they have. `None` where an index is missing.
fn by_index(group: &Group) -> Option<Vec<(i64, u64)>> {
    let mut pieces = Vec::new();
    for (trace, index) in group.traces.iter().zip(&group.indexes.traces) {
        let index = index.as_ref()?;
        let [clock] = &trace.metadata.clocks[..] else { return None };
        for stream in 0..Trace::streams(trace).count() {
            for entry in &*index.entries(stream)? {
                let ns = kymo_feed::clamp(clock.nanoseconds(entry.first));
                pieces.extend((entry.records > 0).then_some((ns, entry.records)));
            }
        }
    }
    Some(pieces)
}
