// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printing with all CPUs, where the event alone decides about a record: the traces are cut by time, each thread makes
//! the lines of whole slices with a reader of its own, and the lines are written in order.
//!
//! A line shows the time since the one before. Of a slice's first record that is known only where the slice before has
//! been printed, so it is kept and its line is made last.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kymo_ctf::read::{Batch, Caveat, Damage, Item, Passed, Reader, Severity, Slice, Slices, Trace};

use super::format::Format;
use super::select::Shown;
use super::shape::{BUFFER_BYTES, PrintShape, Printed, Totals};
use crate::verbs::analyze::caveats::CaveatCounts;

/// Lines that are kept until it is their turn to be written, in bytes.
const KEPT_BYTES: usize = 128 << 20;
/// Lines have so many times the bytes of their records, mostly less.
const LINES_PER_BYTE: usize = 6;
/// Smaller slices are not worth a reader of their own.
const SLICE_BYTES_MIN: usize = 256 << 10;
/// Lines of larger ones would have left the caches of the CPU when it is their turn to be written.
const SLICE_BYTES_MAX: usize = 2 << 20;
/// But a slice has so many bytes of each stream.
const STREAM_BYTES_MIN: usize = 64 << 10;
/// More of them would have to make do with small slices.
const WORKERS_MAX: usize = 8;

/// Buffers for lines, which are used again: memory that is new for each would cost as much as making the lines.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// One without lines: the one that was given back last, which is most likely in a cache.
    fn take(&self) -> Vec<u8> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4))
    }

    fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// A slice to make lines of, and where they go.
struct Job<'t> {
    slice: Slice,
    to: SyncSender<Part<'t>>,
}

/// What a thread makes of a slice, in this order.
enum Part<'t> {
    /// What is up to the first record that is shown.
    Head(Batch<'t>),
    Lines(Vec<u8>),
    End(Box<Done>),
}

/// What a slice had beside lines.
#[derive(Default)]
struct Done {
    totals: Totals,
    /// Time of the last record that was shown, as it is shown.
    last: Option<i128>,
    caveats: Vec<(usize, Caveat)>,
    counts: CaveatCounts,
}

/// Nobody waits for the lines any more: writing has failed.
struct Unwanted;

/// Cuts traces for `workers` threads. `None` where they cannot be cut.
pub fn slices(traces: &[Trace], workers: usize) -> Option<Slices<'_>> {
    let streams = || traces.iter().flat_map(Trace::streams);
    let bytes: usize = streams().map(|(_, bytes)| bytes).sum();
    let workers = workers.min(WORKERS_MAX);
    let most = KEPT_BYTES / (workers + 2) / LINES_PER_BYTE;
    let most = most.min(SLICE_BYTES_MAX.max(streams().count().saturating_mul(STREAM_BYTES_MIN)));
    let even = bytes / (4 * workers);
    Slices::new(traces, even.clamp(SLICE_BYTES_MIN, most) as u64)
}

/// Prints all that `slices` have, with `workers` threads more.
pub fn print<'t>(
    mut slices: Slices<'t>,
    shape: PrintShape<'t>,
    workers: usize,
    to: &mut dyn Write,
) -> io::Result<Printed> {
    let workers = workers.min(WORKERS_MAX);
    let parts_max = KEPT_BYTES / (workers + 2) / BUFFER_BYTES;
    let (jobs, queue) = sync_channel::<Job<'t>>(workers);
    let queue = Mutex::new(queue);
    let buffers = Buffers::default();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(&queue, shape, &buffers));
        }
        // Dropped with this closure's end, which ends the workers.
        let jobs = jobs;
        let (format, traces, all) = (shape.format(), shape.traces, Printed::default());
        let mut writer = SliceWriter { format, traces, buffers: &buffers, before: None, all };
        let mut open = VecDeque::new();
        while let Some(slice) = slices.next() {
            let bytes = slice.bytes();
            let (to_writer, parts) = sync_channel(parts_max);
            if jobs.send(Job { slice, to: to_writer }).is_err() {
                return Err(ended_early());
            }
            open.push_back((parts, bytes));
            if open.len() > workers {
                writer.write_first(&mut open, &slices, to)?;
            }
        }
        while !open.is_empty() {
            writer.write_first(&mut open, &slices, to)?;
        }
        to.flush()?;
        Ok(writer.concluded())
    })
}

fn ended_early() -> io::Error {
    io::Error::other("a thread that makes lines ended too early")
}

/// Makes lines until there are no more slices.
fn work<'t>(queue: &Mutex<Receiver<Job<'t>>>, shape: PrintShape<'t>, buffers: &Buffers) {
    let mut format = shape.format();
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { slice, to }) = job else { return };
        if make(&slice, &to, shape, buffers, &mut *format).is_err() {
            return;
        }
    }
}

/// Makes the lines of a slice.
fn make<'t>(
    slice: &Slice,
    to: &SyncSender<Part<'t>>,
    shape: PrintShape<'t>,
    buffers: &Buffers,
    format: &mut dyn Format,
) -> Result<(), Unwanted> {
    let send = |part| to.send(part).map_err(|_| Unwanted);
    let mut reader = Reader::of_slice(shape.traces, slice);
    let mut done = Done::default();
    let mut head = Some(Batch::default());
    let mut lines = buffers.take();
    while let Some(passed) = reader.pass() {
        if !done.wants(passed, shape) {
            continue;
        }
        if let Some(mut begun) = head.take() {
            let ns = reader.keep(&mut begun);
            match passed {
                Passed::Loss { .. } => head = Some(begun),
                Passed::Record { cycles, .. } => {
                    done.last = Some(if shape.args.cycles { cycles.into() } else { ns });
                    format.resume(done.last);
                    send(Part::Head(begun))?;
                }
            }
            continue;
        }
        let Some(item) = reader.current() else { break };
        if let Item::Record(record) = &item {
            done.last = Some(if shape.args.cycles { record.cycles.into() } else { record.ns });
        }
        format.item(&mut lines, &item);
        if lines.len() >= BUFFER_BYTES {
            send(Part::Lines(std::mem::replace(&mut lines, buffers.take())))?;
        }
    }
    if let Some(begun) = head {
        send(Part::Head(begun))?;
    }
    send(Part::Lines(lines))?;
    done.caveats = reader.caveats().map(|(trace, caveat)| (trace, caveat.clone())).collect();
    done.counts = CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() };
    send(Part::End(Box::new(done)))
}

impl Done {
    /// Whether an item is shown. Counts what is not, and what is missing.
    #[inline]
    fn wants(&mut self, passed: Passed, shape: PrintShape<'_>) -> bool {
        match passed {
            Passed::Record { trace, event, .. } => {
                let shown = shape.selection.event(trace, event);
                self.totals.state_records += u64::from(shown == Shown::OnlyWithState);
                shown == Shown::Yes
            }
            Passed::Loss { records, packets } => {
                self.totals.lost.add(records, packets);
                true
            }
        }
    }
}

/// Writes slices, one behind the other.
struct SliceWriter<'t, 'b> {
    format: Box<dyn Format + 't>,
    traces: &'t [Trace],
    buffers: &'b Buffers,
    /// Time of the last record that was written, as it is shown.
    before: Option<i128>,
    all: Printed,
}

impl<'t> SliceWriter<'t, '_> {
    /// Writes the slice that was given away first, while its lines come.
    fn write_first(
        &mut self,
        open: &mut VecDeque<(Receiver<Part<'t>>, u64)>,
        slices: &Slices<'_>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let Some((parts, bytes)) = open.pop_front() else { return Ok(()) };
        loop {
            match parts.recv().map_err(|_| ended_early())? {
                Part::Head(batch) => {
                    let mut lines = Vec::new();
                    self.format.resume(self.before);
                    batch.for_each(|item| self.format.item(&mut lines, item));
                    to.write_all(&lines)?;
                }
                Part::Lines(lines) => {
                    to.write_all(&lines)?;
                    self.buffers.give(lines);
                }
                Part::End(done) => {
                    slices.tell(bytes);
                    self.add(*done);
                    return Ok(());
                }
            }
        }
    }

    fn add(&mut self, done: Done) {
        self.before = done.last.or(self.before);
        self.all.totals.lost.add_all(&done.totals.lost);
        self.all.totals.state_records += done.totals.state_records;
        self.all.counts.all += done.counts.all;
        self.all.counts.damage += done.counts.damage;
        for (trace, caveat) in done.caveats {
            if caveat.damage == Damage::CutShort && self.is_told(trace, &caveat) {
                self.all.counts.all -= 1;
                self.all.counts.damage -= u64::from(caveat.damage.severity() == Severity::Unread);
                continue;
            }
            self.all.caveats.push((trace, caveat));
        }
    }

    /// Each slice finds for itself that a file was cut short.
    fn is_told(&self, trace: usize, caveat: &Caveat) -> bool {
        let is_same =
            |(of, told): &(usize, Caveat)| *of == trace && told.file == caveat.file && told.damage == caveat.damage;
        self.all.caveats.iter().any(is_same)
    }

    /// With caveats file by file, as one reader has them.
    fn concluded(mut self) -> Printed {
        let traces = self.traces;
        let place = |(trace, caveat): &(usize, Caveat)| {
            (*trace, traces[*trace].streams().position(|(name, _)| name == caveat.file))
        };
        self.all.caveats.sort_by_cached_key(place);
        self.all
    }
}
