// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and losses over time [spec/view.md 4.3]: of zoomed-out windows from the summaries of the index, else from
//! the records.

use std::ops::Range;

use kymo_analyze::{Sink, State};
use kymo_feed::{Missing, Seen, Visit, clamp};

use super::begun::begin;
use crate::columns::{Answer, Lost, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::pixels::Pixels;
use crate::walk::{Gather, Stop, Walk};

/// One bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    from: i64,
    to: i64,
    records: u64,
    lost: u64,
    packets: Option<u64>,
}

struct CountedBins {
    bins: Pixels,
    records: Vec<u64>,
}

impl Sink for CountedBins {}

impl Visit for CountedBins {
    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        self.records[self.bins.of(seen.head.time) as usize] += u64::from(seen.is_selected);
    }
}

impl Gather for CountedBins {}

/// From the index: columns of the summary that is not finer than asked for by too much, several of which are one bin.
/// `None` where all summaries are too coarse for the window, or there are several clocks.
fn from_index(of: &Opened, window: Window, bins: u32) -> Option<Vec<Bin>> {
    let (index, trace) = match (&of.indexes.whole()?[..], &of.traces[..]) {
        ([index], [trace]) => (*index, trace),
        _ => return None,
    };
    let [clock] = &trace.metadata.clocks[..] else { return None };
    let (_, whole_to) = of.whole();
    let whole_ns = whole_to.abs_diff(of.base()).max(1);
    let wanted = u128::from(bins) * u128::from(whole_ns) / u128::from(window.ns().max(1));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let level = index.level(wanted)?;
    let (events, streams) = (trace.metadata.events.len(), trace.streams().count());
    let summed = Summed { records: events..events + streams, lost: events + streams..events + 2 * streams };
    let (level, summed) = match index.fine().filter(|_| level.columns() < wanted) {
        Some(fine) => (fine, Summed { records: 0..1, lost: 1..2 }),
        None => (level, summed),
    };
    let time = |cycles: u64| clamp(clock.nanoseconds(cycles));
    let column = |column: usize| {
        let (from, to) = level.times(column);
        let (from, to) = (time(from), time(to));
        let sum = |rows: &Range<usize>| {
            rows.clone().map(|row| level.row(row).get(column).copied().unwrap_or(0)).fold(0, u64::saturating_add)
        };
        Bin { from, to, records: sum(&summed.records), lost: sum(&summed.lost), packets: None }
    };
    let first = first_column(level.columns(), |column| time(level.times(column).1) > window.from);
    let behind = first_column(level.columns(), |column| time(level.times(column).0) >= window.to);
    grouped(window, bins, (first..behind).map(column))
}

/// Rows of a summary.
struct Summed {
    records: Range<usize>,
    lost: Range<usize>,
}

/// The first of so many columns for which something is true that is true of all behind it, too.
fn first_column(columns: usize, is_true: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, columns);
    while from < to {
        let middle = from.midpoint(to);
        if is_true(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

/// Of a trace that is being written: from what was counted so far.
fn from_growing(of: &Opened, window: Window, bins: u32) -> Option<Vec<Bin>> {
    let columns = of.indexes.growing()?.columns();
    let bin = |(from, to, records, lost)| Bin { from, to, records, lost, packets: None };
    grouped(window, bins, columns.map(bin))
}

/// Columns of a window, several of which are one bin; `None` where they are too coarse.
fn grouped(window: Window, bins: u32, columns: impl Iterator<Item = Bin>) -> Option<Vec<Bin>> {
    let columns: Vec<Bin> = columns.filter(|bin| bin.to > window.from && bin.from < window.to).collect();
    // Less than half as fine as asked for is too coarse.
    if columns.len() * 2 < bins as usize {
        return None;
    }
    let group = columns.len().div_ceil(bins as usize);
    let one = |all: &[Bin]| {
        let (first, last) = (all.first()?, all.last()?);
        let (records, lost) = (all.iter().map(|bin| bin.records).sum(), all.iter().map(|bin| bin.lost).sum());
        Some(Bin { from: first.from, to: last.to, records, lost, packets: None })
    };
    columns.chunks(group.max(1)).map(one).collect()
}

/// What was lost: exactly of the whole trace; of a part as bins tell, which know no packets and no places.
fn lost_by_index(of: &Opened, window: Window, bins: &[Bin]) -> Lost {
    if let Some(growing) = of.indexes.growing().filter(|_| window.pair() == of.whole()) {
        let Missing { records, packets, places } = growing.lost();
        return Lost { records, packets, places };
    }
    if window.pair() == of.whole() {
        let streams = of.indexes.traces.iter().flatten().flat_map(|index| &index.streams);
        let sum = |part: usize| streams.clone().map(|stream| stream.lost[part]).fold(0, u64::saturating_add);
        return Lost { records: sum(0), packets: sum(1), places: sum(2) };
    }
    let places = bins.iter().filter(|bin| bin.lost > 0).count() as u64;
    Lost { records: bins.iter().map(|bin| bin.lost).fold(0, u64::saturating_add), packets: 0, places }
}

/// About how many records a window has, where an index tells that at once.
pub(super) fn records_about(of: &Opened, window: Window) -> Option<u64> {
    const BINS: u32 = 64;
    let bins = from_index(of, window, BINS).or_else(|| from_growing(of, window, BINS))?;
    Some(bins.iter().map(|bin| bin.records).fold(0, u64::saturating_add))
}

/// Answers `overview`.
///
/// # Errors
/// Parameters.
pub fn overview(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let count = parameters.bins()?;
    let walk = Walk::new(of, window).filtered(parameters)?;
    let mut answer = begin("overview", of, window);
    // The index has sums of all records.
    let summed = || from_index(of, window, count).or_else(|| from_growing(of, window, count));
    let bins = match walk.is_all().then(summed).flatten() {
        Some(bins) => {
            answer.set("source", "index");
            answer.lost = lost_by_index(of, window, &bins);
            bins
        }
        None => {
            answer.set("source", "records");
            from_records(walk, window, count, &mut answer, stop)?
        }
    };
    let table = Table::new("bins")
        .column("from", bins.iter().map(|bin| answer.time(bin.from)))
        .column("to", bins.iter().map(|bin| answer.time(bin.to)))
        .column("records", bins.iter().map(|bin| bin.records))
        .column("lost", bins.iter().map(|bin| bin.lost))
        .column("packets", bins.iter().map(|bin| bin.packets));
    answer.push(table);
    Ok(answer)
}

fn from_records(
    walk: Walk<'_>,
    window: Window,
    count: u32,
    answer: &mut Answer,
    stop: &Stop,
) -> Result<Vec<Bin>, Error> {
    if window.is_empty() {
        return Ok(Vec::new());
    }
    let pixels = Pixels::new(window, count);
    let mut counted = CountedBins { bins: pixels, records: vec![0; count as usize] };
    let walked = walk.in_pixels(pixels).run(&mut counted, stop)?;
    let mut bins: Vec<Bin> = Vec::new();
    for (bin, records) in (0..count).zip(counted.records) {
        bins.push(Bin { from: pixels.edge(bin), to: pixels.edge(bin + 1), records, lost: 0, packets: Some(0) });
    }
    // A loss is where it ends, as in the index.
    for loss in walked.losses.list() {
        let bin = &mut bins[pixels.of(loss.all.to) as usize];
        bin.lost = bin.lost.saturating_add(loss.all.records);
        bin.packets = bin.packets.map(|packets| packets.saturating_add(loss.all.packets));
    }
    answer.lost = walked.losses.sum();
    answer.notes.extend(walked.notes);
    Ok(bins)
}
