// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records by event, from the indexes: for `kymo stats` and for the question `statistics`, where nothing else is asked
//! for. Of whole traces no record is read; of a window those at its ends, and those that say when an event was first
//! and last.

use std::collections::BTreeSet;
use std::ops::Range;

use kymo_analyze::Stats;
use kymo_ctf::read::{Clock, Item, Passed, Trace};
use kymo_feed::{Classes, LossAt, Missing, clamp};
use kymo_index::{Buckets, Indexes, TraceIndex, range};

use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::walk::{LossLog, Stop};

/// Columns that are read at most to find when an event was first and last.
const COLUMNS_READ_MAX: usize = 256;

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

/// Counts of a window.
#[derive(Debug)]
pub(crate) struct WindowCounts {
    /// By event of the trace.
    events: Vec<CountedEvent>,
    /// What was lost in the window.
    pub losses: LossLog,
}

#[derive(Clone, Copy, Debug)]
struct CountedEvent {
    records: u64,
    first: i64,
    last: i64,
}

impl CountedEvent {
    const NONE: CountedEvent = CountedEvent { records: 0, first: i64::MAX, last: i64::MIN };

    fn see(&mut self, time: i64) {
        (self.first, self.last) = (self.first.min(time), self.last.max(time));
    }
}

/// Stretches of one trace, in cycles, of which the index has some.
struct Parts<'o> {
    of: &'o Opened,
    index: &'o TraceIndex,
    clock: &'o Clock,
    window: Window,
    level: Buckets,
    /// Columns that lie in the window.
    columns: Range<usize>,
}

impl WindowCounts {
    /// Of a window of one trace: columns of the index in the middle, and what is read at the ends. `None` where the
    /// index does not have so much, or where too much would be read.
    pub fn of(of: &Opened, window: Window, stop: &Stop) -> Result<Option<WindowCounts>, Error> {
        let Some(parts) = Parts::new(of, window) else { return Ok(None) };
        parts.count(stop)
    }

    /// Records of all events.
    pub fn records(&self) -> u64 {
        self.events.iter().map(|event| event.records).fold(0, u64::saturating_add)
    }

    /// Times of the first record and of the last.
    pub fn span(&self) -> Option<(i64, i64)> {
        let events = || self.events.iter().filter(|event| event.records > 0);
        Some((events().map(|event| event.first).min()?, events().map(|event| event.last).max()?))
    }

    /// Adds them by class. Whether each event has one.
    pub fn add_to(&self, stats: &mut Stats, classes: &Classes) -> bool {
        let events = self.events.iter().enumerate().filter(|(_, counted)| counted.records > 0);
        let of_class = |(event, counted): (usize, &CountedEvent)| Some((classes.at(0, event)?, *counted));
        let Some(all) = events.map(of_class).collect::<Option<Vec<_>>>() else { return false };
        for (class, counted) in all {
            stats.add_counted(class, counted.records, (counted.first, counted.last));
        }
        true
    }
}

impl<'o> Parts<'o> {
    fn new(of: &'o Opened, window: Window) -> Option<Parts<'o>> {
        let (index, trace) = match (&of.indexes.whole()?[..], &of.traces[..]) {
            ([index], [trace]) => (*index, trace),
            _ => return None,
        };
        let [clock] = &trace.metadata.clocks[..] else { return None };
        // Missing packets are in no column.
        if index.streams.iter().any(|stream| stream.lost[1] > 0) {
            return None;
        }
        let level = index.level(usize::MAX)?;
        let ns = |cycles: u64| clamp(clock.nanoseconds(cycles));
        let first = (0..level.columns()).find(|column| ns(level.times(*column).0) >= window.from)?;
        let behind = (first..level.columns()).find(|column| ns(level.times(*column).1 - 1) >= window.to);
        let columns = first..behind.unwrap_or(level.columns());
        // Of less than this everything is read at once.
        (columns.len() > 2).then_some(Parts { of, index, clock, window, level, columns })
    }

    fn ns(&self, cycles: u64) -> i64 {
        clamp(self.clock.nanoseconds(cycles))
    }

    /// The first cycle of the columns, and the first one behind them.
    fn ends(&self) -> Range<u64> {
        self.level.times(self.columns.start).0..self.level.times(self.columns.end - 1).1
    }

    fn row(&self, row: usize) -> &[u64] {
        let row = self.level.row(row);
        &row[self.columns.start.min(row.len())..self.columns.end.min(row.len())]
    }

    fn count(&self, stop: &Stop) -> Result<Option<WindowCounts>, Error> {
        let (events, streams) = (self.of.traces[0].metadata.events.len(), self.index.streams.len());
        let mut all = WindowCounts { events: vec![CountedEvent::NONE; events], losses: LossLog::default() };
        let middle = self.ends();
        self.read(0..middle.start, true, &mut all, stop)?;
        let mut behind = WindowCounts { events: vec![CountedEvent::NONE; events], losses: LossLog::default() };
        self.read(middle.end..u64::MAX, true, &mut behind, stop)?;
        let mut to_read = BTreeSet::new();
        for event in 0..events {
            let row = self.row(event);
            let records = row.iter().copied().fold(0, u64::saturating_add);
            if records > 0 {
                // In front of the first of them, and behind the last, there may be none.
                let (before, behind) = (all.events[event].records, behind.events[event].records);
                let first = row.iter().position(|count| *count > 0).filter(|_| before == 0);
                let last = row.iter().rposition(|count| *count > 0).filter(|_| behind == 0);
                to_read.extend(first.into_iter().chain(last));
            }
            let (of, behind) = (&mut all.events[event], behind.events[event]);
            of.records = of.records.saturating_add(records).saturating_add(behind.records);
            (of.first, of.last) = (of.first.min(behind.first), of.last.max(behind.last));
        }
        for stream in 0..streams {
            let lost = self.row(events + streams + stream).iter().enumerate();
            to_read.extend(lost.filter(|(_, lost)| **lost > 0).map(|(column, _)| column));
        }
        if to_read.len() > COLUMNS_READ_MAX {
            return Ok(None);
        }
        for column in to_read {
            let (from, to) = self.level.times(self.columns.start + column);
            self.read(from..to, false, &mut all, stop)?;
        }
        all.losses.append(behind.losses);
        Ok(Some(all))
    }

    /// Reads what is of these cycles and of the window. `counts`: its records are in no column that is taken.
    fn read(&self, cycles: Range<u64>, counts: bool, into: &mut WindowCounts, stop: &Stop) -> Result<(), Error> {
        let (is_first, is_last) = (cycles.start == 0, cycles.end == u64::MAX);
        // What reaches to an end of the trace is read with losses before the first record and behind the last.
        let is_open = is_last && self.of.bounds.is_none_or(|(_, last)| self.window.to > last);
        let from = match is_first {
            true => (self.window.from > self.of.base()).then_some(self.window.from),
            false => Some(self.ns(cycles.start)),
        };
        // Times of several cycles are one ns.
        let to = if is_last { self.window.to } else { self.ns(cycles.end).saturating_add(1) };
        let to = (!is_open).then_some(to);
        let (traces, indexes) = (&self.of.traces, &self.of.indexes);
        let mut reader = range::reader(traces, indexes, from.map(i128::from), to.map(i128::from));
        let mut passed = 0u32;
        while let Some(next) = reader.pass() {
            stop.check_some(&mut passed)?;
            match next {
                Passed::Record { event, cycles: at, .. } if cycles.contains(&at) => {
                    let of = &mut into.events[event];
                    of.records += u64::from(counts);
                    of.see(self.ns(at));
                }
                Passed::Record { .. } => {}
                _ => {
                    let Some(Item::Loss(loss)) = reader.current() else { continue };
                    if cycles.contains(&loss.to_cycles) || is_last && loss.to_cycles >= cycles.start {
                        into.losses.take(&LossAt::of(&loss), None);
                    }
                }
            }
        }
        Ok(())
    }
}
