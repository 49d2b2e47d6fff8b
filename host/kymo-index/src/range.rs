// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stretch of time of a trace, read as if from its begin: with indexes sooner, and never otherwise [spec/index.md 6].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kymo_ctf::read::{Item, Range, Reader, Scanned, Scans, Start, Trace};
use kymo_feed::{Classes, Walker, clamp};

use crate::open::{Indexes, only_clock};

/// Times of the first record and of the last, ns; `None` where there is none. Reads all records where an index is
/// missing.
pub fn bounds(traces: &[Trace], indexes: &Indexes) -> Option<(i64, i64)> {
    if let Some(growing) = indexes.growing() {
        return growing.span();
    }
    indexes.bounds(traces).or_else(|| match traces.iter().all(|trace| only_clock(trace).is_some()) {
        true => scanned_bounds(traces),
        false => merged_bounds(traces),
    })
}

fn wider(bounds: Option<(i64, i64)>, (first, last): (i64, i64)) -> Option<(i64, i64)> {
    Some(bounds.map_or((first, last), |(a, b)| (a.min(first), b.max(last))))
}

/// Each stream for itself, on all CPUs.
fn scanned_bounds(traces: &[Trace]) -> Option<(i64, i64)> {
    let streams: Vec<(&Trace, usize)> =
        traces.iter().flat_map(|trace| (0..trace.streams().count()).map(move |stream| (trace, stream))).collect();
    let _pass = Scans::of(&streams);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut bounds = None;
        while let Some((trace, stream)) = streams.get(next.fetch_add(1, Ordering::Relaxed)) {
            bounds = scanned(trace, *stream).into_iter().fold(bounds, wider);
        }
        bounds
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(streams.len().max(1));
    thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let join = |other: thread::ScopedJoinHandle<'_, Option<(i64, i64)>>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let first = work();
        others.into_iter().filter_map(join).fold(first, wider)
    })
}

fn scanned(trace: &Trace, stream: usize) -> Option<(i64, i64)> {
    let mut cycles: Option<(u64, u64)> = None;
    let mut scan = trace.scan(stream);
    while let Some(item) = scan.next() {
        if let Scanned::Record { cycles: at, .. } = item {
            cycles = Some(cycles.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        }
    }
    let (clock, (first, last)) = only_clock(trace).zip(cycles)?;
    Some((clamp(clock.nanoseconds(first)), clamp(clock.nanoseconds(last))))
}

fn merged_bounds(traces: &[Trace]) -> Option<(i64, i64)> {
    let mut bounds = None;
    let mut reader = Reader::new(traces);
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            bounds = wider(bounds, (clamp(record.ns), clamp(record.ns)));
        }
    }
    bounds
}

/// The state of all records before `from`.
pub fn state_before<'c>(traces: &[Trace], classes: &'c Classes, indexes: &Indexes, from: i64) -> Walker<'c> {
    let walker = state_before_while(traces, classes, indexes, from, &|| true);
    walker.unwrap_or_else(|| Walker::new(classes))
}

/// The same, as long as `goes_on` says so; `None` where it was stopped.
pub fn state_before_while<'c>(
    traces: &[Trace],
    classes: &'c Classes,
    indexes: &Indexes,
    from: i64,
    goes_on: &dyn Fn() -> bool,
) -> Option<Walker<'c>> {
    let range = Range { from_ns: None, to_ns: Some(from.into()) };
    let known = match indexes.growing() {
        Some(growing) => growing.state_before(from, traces, classes),
        None => indexes.states.as_ref().and_then(|states| states.before(from, traces, classes)),
    };
    let begun = known.and_then(|(starts, walker)| Some((Reader::between(traces, range, &starts)?, walker)));
    let begin = || Some((Reader::between(traces, range, &[])?, Walker::new(classes)));
    let Some((mut reader, mut walker)) = begun.or_else(begin) else { return Some(Walker::new(classes)) };
    walker.follow_while(&mut reader, &mut |_| (), &mut (), goes_on).then_some(walker)
}

/// A reader of the records in [from, to), as far as they are given.
pub fn reader<'t>(traces: &'t [Trace], indexes: &Indexes, from: Option<i128>, to: Option<i128>) -> Reader<'t> {
    let range = Range { from_ns: from, to_ns: to };
    let starts: Vec<Start> = from.map_or_else(Vec::new, |from| indexes.starts(traces, from));
    let reader = Reader::between(traces, range, &starts);
    reader.or_else(|| Reader::between(traces, range, &[])).unwrap_or_else(|| Reader::new(&[]))
}

/// A reader of the records in [from, to), and the state in front of them.
pub fn begin<'t, 'c>(
    traces: &'t [Trace],
    classes: &'c Classes,
    indexes: &Indexes,
    from: Option<i64>,
    to: Option<i64>,
) -> (Reader<'t>, Walker<'c>) {
    let mut walker = Walker::new(classes);
    if let Some(from) = from {
        walker = state_before(traces, classes, indexes, from);
        walker.begin_range(from);
    }
    (reader(traces, indexes, from.map(i128::from), to.map(i128::from)), walker)
}
