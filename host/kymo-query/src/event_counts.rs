// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of whole traces by event, from their indexes: for `kymo stats` and for the question `statistics`, where
//! nothing else is asked for. No record is read.

use kymo_analyze::Stats;
use kymo_ctf::read::Trace;
use kymo_feed::{Classes, Missing, clamp};
use kymo_index::Indexes;

/// What the indexes have beside the counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Records, with those of events that nobody wants.
    pub records: u64,
    /// What was lost.
    pub lost: Missing,
}

/// Adds the records of the wanted classes to `stats`. `None`, and nothing added, where the indexes do not have all.
pub fn event_counts(
    traces: &[Trace],
    indexes: &Indexes,
    classes: &Classes,
    is_wanted: impl Fn(usize) -> bool,
    stats: &mut Stats,
) -> Option<EventCounts> {
    let mut found = EventCounts::default();
    let mut counted = Vec::new();
    for (trace, index) in indexes.whole()?.into_iter().enumerate() {
        let clock = traces.get(trace)?.metadata.clocks.first()?;
        for stream in &index.streams {
            found.records = found.records.saturating_add(stream.records());
            let [records, packets, places] = stream.lost;
            found.lost.add_all(&Missing { records, packets, places });
            for of in &stream.events {
                let class = classes.at(trace, of.event)?;
                let ns = |cycles| clamp(clock.nanoseconds(cycles));
                if is_wanted(class) {
                    counted.push((class, of.records, (ns(of.first), ns(of.last))));
                }
            }
        }
    }
    counted.into_iter().for_each(|(class, records, span)| stats.add_counted(class, records, span));
    Some(found)
}
