// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and losses over time [spec/view.md 4.3]: of zoomed-out windows from the summaries of the index, else from
//! the records.

use std::thread;

use kymo_analyze::{Sink, State};
use kymo_ctf::read::{Clock, Item, Passed, Reader, Trace};
use kymo_feed::{LossAt, Missing, Seen, Visit, clamp};

use crate::columns::{Answer, Lost, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::pixels::Pixels;
use crate::questions::begun::begin;
use crate::record_columns::RecordColumns;
use crate::walk::{Gather, LossLog, Stop, Walk, reader, reader_of};

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

impl CountedBins {
    fn new(bins: Pixels) -> CountedBins {
        CountedBins { bins, records: vec![0; bins.count() as usize] }
    }

    fn add(&mut self, time: i64) {
        self.records[self.bins.of(time) as usize] += 1;
    }
}

impl Sink for CountedBins {}

impl Visit for CountedBins {
    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        if seen.is_selected {
            self.add(seen.head.time);
        }
    }
}

impl Gather for CountedBins {}

/// From the index: columns of the summary that is not finer than asked for by too much, several of which are one bin.
/// `None` where all summaries are too coarse for the window, or there are several clocks.
fn from_index(of: &Opened, window: Window, bins: u32) -> Option<Vec<Bin>> {
    let (_, whole_to) = of.whole();
    let whole_ns = whole_to.abs_diff(of.base()).max(1);
    let wanted = u128::from(bins) * u128::from(whole_ns) / u128::from(window.ns().max(1));
    let columns = RecordColumns::at_least(of, usize::try_from(wanted).unwrap_or(usize::MAX))?;
    let bin = |column: usize| {
        let (from, to) = (columns.begin(column), columns.end(column));
        Bin { from, to, records: columns.records(column), lost: columns.lost(column), packets: None }
    };
    grouped(window, bins, columns.within(window.from, window.to).map(bin))
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
            from_records(of, walk, count, &mut answer, stop)?
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

fn from_records(of: &Opened, walk: Walk<'_>, count: u32, answer: &mut Answer, stop: &Stop) -> Result<Vec<Bin>, Error> {
    let window = walk.window();
    if window.is_empty() {
        return Ok(Vec::new());
    }
    let pixels = Pixels::new(window, count);
    let (counted, losses) = match if walk.is_all() { count_times(of, pixels, stop)? } else { None } {
        Some(counted) => counted,
        None => {
            let mut counted = CountedBins::new(pixels);
            let walked = walk.in_pixels(pixels).run(&mut counted, stop)?;
            answer.notes.extend(walked.notes);
            (counted, walked.losses)
        }
    };
    let mut bins: Vec<Bin> = Vec::new();
    for (bin, records) in (0..count).zip(counted.records) {
        bins.push(Bin { from: pixels.edge(bin), to: pixels.edge(bin + 1), records, lost: 0, packets: Some(0) });
    }
    // A loss is where it ends, as in the index.
    for loss in losses.list() {
        let bin = &mut bins[pixels.of(loss.all.to) as usize];
        bin.lost = bin.lost.saturating_add(loss.all.records);
        bin.packets = bin.packets.map(|packets| packets.saturating_add(loss.all.packets));
    }
    answer.lost = losses.sum();
    Ok(bins)
}

/// Counts records of which nothing but the time is looked at: without a state. `None` where a trace has several clocks,
/// so that it takes more to know the time.
fn count_times(of: &Opened, pixels: Pixels, stop: &Stop) -> Result<Option<(CountedBins, LossLog)>, Error> {
    let clock = |trace: &'_ Trace| match &trace.metadata.clocks[..] {
        [clock] => Some(clock.clone()),
        _ => None,
    };
    let Some(clocks) = of.traces.iter().map(clock).collect::<Option<Vec<Clock>>>() else { return Ok(None) };
    let known = Walk::new(of, pixels.window()).in_pixels(pixels).known_losses().ok().flatten();
    if let Some((losses, clock)) = known.zip(clocks.first()) {
        if let Some(counted) = count_apart(of, pixels, clock, stop)? {
            return Ok(Some((counted, losses)));
        }
    }
    let (mut counted, mut losses) = (CountedBins::new(pixels), LossLog::default());
    let mut take = |loss: &LossAt| losses.take(loss, Some(&pixels));
    count(reader(of, pixels.window()), &clocks, &mut counted, &mut take, stop)?;
    Ok(Some((counted, losses)))
}

/// Counts what a reader has.
fn count(
    mut reader: Reader<'_>,
    clocks: &[Clock],
    counted: &mut CountedBins,
    lose: &mut impl FnMut(&LossAt),
    stop: &Stop,
) -> Result<(), Error> {
    let mut passed = 0u32;
    while let Some(next) = reader.pass() {
        stop.check_some(&mut passed)?;
        match next {
            Passed::Record { trace, cycles, .. } => counted.add(clamp(clocks[trace].nanoseconds(cycles))),
            Passed::Loss { .. } => {
                if let Some(Item::Loss(loss)) = reader.current() {
                    lose(&LossAt::of(&loss));
                }
            }
        }
    }
    Ok(())
}

/// Counts the streams of one trace, whose losses are known, on all CPUs: their order does not matter. `None` where the
/// index does not say where to begin.
fn count_apart(of: &Opened, pixels: Pixels, clock: &Clock, stop: &Stop) -> Result<Option<CountedBins>, Error> {
    let streams = of.traces.iter().map(|trace| trace.streams().count()).sum();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(streams);
    let count_some = |worker: usize| -> Result<Option<CountedBins>, Error> {
        let is_read: Vec<bool> = (0..streams).map(|stream| stream % workers == worker).collect();
        let Some(reader) = reader_of(of, pixels.window(), &is_read) else { return Ok(None) };
        let mut counted = CountedBins::new(pixels);
        count(reader, std::slice::from_ref(clock), &mut counted, &mut |_| {}, stop)?;
        Ok(Some(counted))
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|worker| scope.spawn(move || count_some(worker))).collect();
        let mut all: Option<CountedBins> = count_some(0)?;
        for other in others {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            all = all.zip(other).map(|(mut all, other)| {
                all.records.iter_mut().zip(other.records).for_each(|(sum, own)| *sum += own);
                all
            });
        }
        Ok(all)
    })
}
