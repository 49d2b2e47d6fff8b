// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traces of a command line, opened, with their indexes. How their records come to kymo-analyze is
//! `kymo_feed`.

pub mod split;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kymo_ctf::read::{Caveat, Decoded, Error, Trace};
use kymo_ctf::write::EnvValue;
pub use kymo_feed::{Classes, Payload, Seen, Totals, Visit, walk};
use kymo_index::{Indexes, Named, range};

use crate::args::TraceArgs;
use crate::hosts::{self, ClockAlignment, HostArgs};
use crate::intersect;
use crate::named::named;
use crate::terminal::ReadingProgress;
use crate::unknown;
use crate::when::When;
pub use split::{OfHost, absolute, each};

/// Opens a trace, or a part of one. Of one that a collector writes, or wrote until it was killed, the last packet of a
/// file need not be whole.
pub fn open_part(dir: &Path) -> Result<Decoded<Trace>, Error> {
    // Asked first: what is complete then has no half packet afterwards.
    let is_unfinished = unknown::is_unfinished(dir);
    let mut opened = Trace::open(dir)?;
    if is_unfinished {
        opened.value.may_grow();
    }
    Ok(opened)
}

/// Says of a trace without a file of records that it has none: half a copy looks like that. Says of one that is a part
/// of another one that records were left out of it.
pub fn say_if_empty(trace: &Trace) {
    say_if_trim(trace);
    if trace.streams().next().is_none() {
        let label = &trace.label;
        eprintln!("kymo: {label} has metadata and no stream files, so no records: was all of it copied?");
    }
}

/// The export of a part of a trace [spec/exchange.md 2.1]: what is not in it is no loss.
fn say_if_trim(trace: &Trace) {
    let env = |key: &str| trace.metadata.env.iter().find(|(known, _)| known == key).map(|(_, value)| value);
    let Some(EnvValue::Text(options)) = env("kymo_trim") else { return };
    let count = if let Some(EnvValue::Int(count)) = env("kymo_trim_left_out") { *count } else { 0 };
    let label = &trace.label;
    eprintln!("kymo: {label} is a part of a trace ({options}): {count} records of its time were left out on purpose");
}

/// The traces of a command line, opened.
pub struct Input {
    /// The traces.
    pub traces: Vec<Trace>,
    /// As they were named.
    pub named: Vec<Named>,
    /// What was wrong with them when they were opened.
    pub caveats: Vec<Caveat>,
    /// What was found of their clocks.
    pub told: Vec<ClockAlignment>,
    /// Their clocks are given as those of another host.
    is_corrected: bool,
    /// `--intersect`: the first ns in which all streams have data, and the first one behind.
    common: Option<(i64, i64)>,
}

impl Input {
    /// Opens traces; the parts of one that was cut are one after the other.
    pub fn open(args: &TraceArgs) -> anyhow::Result<Input> {
        Self::of_hosts(args, &HostArgs::default())
    }

    /// The same; their clocks are brought together as asked for.
    pub fn of_hosts(args: &TraceArgs, hosts: &HostArgs) -> anyhow::Result<Input> {
        let (input, of_kernels) = Self::all(args, hosts)?;
        if let [first, second, ..] = &of_kernels[..] {
            let of = |position: &usize| input.named[*position].dir.display();
            let (first, second) = (of(first), of(second));
            bail!(
                "{first} and {second} both have the scheduler's events: give one trace of a kernel at a time (kymo stats, \
                 kymo latency and kymo view take several)"
            );
        }
        Ok(input)
    }

    /// All traces, and which directories have the scheduler's events.
    pub(super) fn all(args: &TraceArgs, hosts: &HostArgs) -> anyhow::Result<(Input, Vec<usize>)> {
        if let Some(url) = args.dirs.iter().filter_map(|dir| dir.to_str()).find(|dir| kymo_live::is_url(dir)) {
            bail!(
                "{url} is live: kymo read prints it; for all else give the directory that lttng-relayd writes (--output)"
            );
        }
        let mut input = Input::nothing(!hosts.is_none());
        let progress = Arc::new(ReadingProgress::new());
        let mut of_kernels = Vec::new();
        for (position, named) in named(&args.dirs).into_iter().enumerate() {
            let first = input.traces.len();
            for part in &named.parts {
                let mut opened = open_part(part)?;
                args.apply(&mut opened.value);
                opened.value.watch(progress.clone());
                say_if_empty(&opened.value);
                input.caveats.extend(opened.caveats);
                input.traces.push(opened.value);
            }
            if input.traces[first..].iter().any(has_switches) {
                of_kernels.push(position);
            }
            input.named.push(named);
        }
        input.told = hosts::bring_together(&mut input.traces, &input.named, hosts)?;
        if args.intersect {
            // Who uses the index says what is wrong with it.
            let indexes =
                if input.is_corrected { Indexes::default() } else { Indexes::open(&input.named, &input.traces) };
            input.common = Some(intersect::stretch(&input.traces, &input.named, &indexes)?);
        }
        Ok((input, of_kernels))
    }

    /// No trace yet.
    fn nothing(is_corrected: bool) -> Input {
        let (traces, named, caveats, told) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Input { traces, named, caveats, told, is_corrected, common: None }
    }

    /// Times of the first record and of the last, ns, or the ends of what `--intersect` leaves; `None` where there is
    /// no record.
    pub fn bounds(&self, indexes: &Indexes) -> Option<(i64, i64)> {
        let of_common = |(from, to): (i64, i64)| (from, to.saturating_sub(1));
        self.common.map(of_common).or_else(|| range::bounds(&self.traces, indexes))
    }

    /// What `--intersect` leaves: the first ns, and the first one behind.
    pub fn common(&self) -> Option<(i64, i64)> {
        self.common
    }

    /// Their indexes, as far as they hold. Says which do not.
    pub fn indexes(&self) -> Indexes {
        // They have times as each host's own clock has them, and only packets of the trace's UUID.
        if self.is_corrected || self.traces.iter().any(Trace::ignores_uuid) {
            return Indexes::default();
        }
        indexes(&self.named, &self.traces)
    }

    /// A stretch of their time, ns; `None` where no end of it is given.
    pub fn stretch(
        &self,
        indexes: &Indexes,
        from: Option<When>,
        to: Option<When>,
    ) -> anyhow::Result<Option<ReadRange>> {
        if from.is_none() && to.is_none() {
            return Ok(self.common.map(|(from, to)| ReadRange { from, to, is_to_end: false }));
        }
        let bounds = self.bounds(indexes).context("the trace has no records")?;
        let stretch = ReadRange::within(bounds, from, to)?;
        Ok(Some(ReadRange { is_to_end: stretch.is_to_end && self.common.is_none(), ..stretch }))
    }
}

/// A stretch of the time of a trace: [from, to), ns.
#[derive(Clone, Copy, Debug)]
pub struct ReadRange {
    /// The first ns.
    pub from: i64,
    /// The first one behind.
    pub to: i64,
    /// To the last record.
    pub is_to_end: bool,
}

impl ReadRange {
    /// From one time to another, of a trace whose first and last record are at these.
    ///
    /// # Errors
    /// Nothing of the trace is between them.
    pub fn within((first, last): (i64, i64), from: Option<When>, to: Option<When>) -> anyhow::Result<ReadRange> {
        let from = from.map_or(first, |when| when.at(first, last)).max(first);
        let to = to.map_or(last.saturating_add(1), |when| when.at(first, last)).min(last.saturating_add(1));
        if from >= to {
            bail!("--from is not before --to within the trace, which goes from {first} to {last}");
        }
        Ok(ReadRange { from, to, is_to_end: to > last })
    }

    /// When what is open in it ends, where that is before the trace does.
    pub fn end(&self) -> Option<i64> {
        (!self.is_to_end).then_some(self.to)
    }
}

/// The indexes of traces, as far as they hold. Says which do not.
pub fn indexes(named: &[Named], traces: &[Trace]) -> Indexes {
    let indexes = Indexes::open(named, traces);
    for (path, why) in &indexes.stale {
        eprintln!("kymo: {} is not used: {why}; kymo index renews it", path.display());
    }
    indexes
}

/// Whether a trace has the scheduler's events.
pub fn has_switches(trace: &Trace) -> bool {
    trace.metadata.events.iter().any(|event| event.name.ends_with("sched_switch"))
}
