// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read --count`: how many records of each event there are. Without a filter no record is looked into.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZero;
use std::thread;

use kymo_ctf::read::{Caveat, Counts, Item, Trace};
use kymo_feed::Missing;
use kymo_index::TraceIndex;

use super::filter::Filters;
use super::select::{Selection, Shown};
use super::shape::{Begin, PrintChoice, PrintShape, Totals};
use crate::verbs::analyze::caveats::CaveatCounts;

/// What was counted, and what was wrong on the way.
pub struct Counted {
    /// By name of the event.
    events: BTreeMap<String, u64>,
    pub totals: Totals,
    /// Position of the trace, and what is wrong with it.
    pub caveats: Vec<(usize, Caveat)>,
    pub caveat_counts: CaveatCounts,
}

/// Counts the records that are wanted.
pub fn count(shape: PrintShape<'_>, begin: &Begin<'_>, filters: &mut Filters) -> Counted {
    let mut counted = Counted {
        events: BTreeMap::new(),
        totals: Totals::default(),
        caveats: Vec::new(),
        caveat_counts: CaveatCounts::default(),
    };
    if shape.args.scope.expressions().is_empty() && shape.args.limit.is_none() && begin.is_all() {
        let whole = begin.indexes.whole();
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        for (index, trace) in shape.traces.iter().enumerate() {
            let known = whole.as_ref().map(|whole| of_index(trace, whole[index]));
            counted.add(index, trace, shape.selection, known.unwrap_or_else(|| trace.count(threads)));
        }
        return counted;
    }
    let learn = if filters.have_threads() { begin.learn(shape.traces) } else { None };
    begin.tell(shape.traces, filters);
    let mut choice = PrintChoice { selection: shape.selection, filters, learn, limit: shape.args.limit, shown: 0 };
    let mut counts: Vec<Vec<u64>> = shape.traces.iter().map(|trace| vec![0; trace.metadata.events.len()]).collect();
    let mut reader = begin.reader(shape.traces);
    while !choice.is_over() {
        let Some(mut item) = reader.next() else { break };
        let is_wanted = choice.wants(&mut item, &mut counted.totals);
        if let (Item::Record(record), true) = (item, is_wanted) {
            counts[record.trace][record.event_position] += 1;
        }
    }
    reader.end_pass();
    for (trace, counts) in shape.traces.iter().zip(counts) {
        counted.add_events(trace, &counts);
    }
    counted.caveats = reader.caveats().map(|(trace, caveat)| (trace, caveat.clone())).collect();
    counted.caveat_counts = CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() };
    counted
}

/// The counts that an index has of a trace without damage.
fn of_index(trace: &Trace, index: &TraceIndex) -> Counts {
    let mut counts = Counts { events: vec![0; trace.metadata.events.len()], ..Counts::default() };
    for stream in &index.streams {
        for of in &stream.events {
            if let Some(count) = counts.events.get_mut(of.event) {
                *count = count.saturating_add(of.records);
            }
        }
        counts.lost_records = counts.lost_records.saturating_add(stream.lost[0]);
        counts.lost_packets = counts.lost_packets.saturating_add(stream.lost[1]);
        counts.lost_places = counts.lost_places.saturating_add(stream.lost[2]);
    }
    counts
}

impl Counted {
    fn add(&mut self, index: usize, trace: &Trace, selection: &Selection, mut counts: Counts) {
        for (position, count) in counts.events.iter_mut().enumerate() {
            match selection.event(index, position) {
                Shown::Yes => continue,
                Shown::OnlyWithState => self.totals.state_records += *count,
                Shown::No => {}
            }
            *count = 0;
        }
        self.add_events(trace, &counts.events);
        let (records, packets, places) = (counts.lost_records, counts.lost_packets, counts.lost_places);
        self.totals.lost.add_all(&Missing { records, packets, places });
        self.caveats.extend(counts.caveats.into_iter().map(|caveat| (index, caveat)));
        self.caveat_counts.all += counts.caveat_count;
        self.caveat_counts.damage += counts.damage_count;
    }

    fn add_events(&mut self, trace: &Trace, counts: &[u64]) {
        for (event, &count) in trace.metadata.events.iter().zip(counts).filter(|&(_, &count)| count > 0) {
            *self.events.entry(event.name.clone()).or_default() += count;
        }
    }

    /// A line for each event, the most frequent one first, and one for all; or one JSON object.
    pub fn print(&self, is_json: bool, to: &mut dyn Write) -> io::Result<()> {
        let all: u64 = self.events.values().sum();
        if is_json {
            // What was in packets that are missing is not known.
            let lost = (self.totals.lost.packets == 0).then_some(self.totals.lost.records);
            return writeln!(to, "{}", serde_json::json!({ "records": all, "lost": lost, "events": self.events }));
        }
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
        for (name, count) in events {
            let clean: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            writeln!(to, "{count:>12} {clean}")?;
        }
        writeln!(to, "{all:>12} {}", if all == 1 { "record" } else { "records" })
    }
}
