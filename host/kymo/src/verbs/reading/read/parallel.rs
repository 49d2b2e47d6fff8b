// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printing with all CPUs, where records decide about one another or the traces cannot be cut (`sliced` is the faster
//! way): one thread merges and chooses, others make lines of batches, and the lines are written in order.
//!
//! What holds across records (the threads of a machine, pairs of records, the limit) is the choosing thread's. A batch
//! needs nothing of the one before but the time of its last record.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kymo_ctf::read::{Batch, Item, Passed, Reader, Trace};

use super::args::ReadArgs;
use super::shape::{BUFFER_BYTES, PrintChoice, PrintShape, Totals};

/// Items of a batch.
const BATCH_ITEMS: usize = 4096;
/// Smaller traces are printed before threads are there.
const BYTES_MIN: usize = 4 << 20;

/// A batch to make lines of, and where they go.
struct Job<'t> {
    batch: Batch<'t>,
    /// Time of the record before, as it is shown.
    before: Option<i128>,
    to: Sender<Done<'t>>,
}

/// Its lines, and the batch, to be filled again.
type Done<'t> = (Vec<u8>, Batch<'t>);

/// How many threads should make lines; `None` where one thread alone is better.
pub fn workers(traces: &[Trace], args: &ReadArgs, flush_at: usize) -> Option<usize> {
    let bytes: usize = traces.iter().flat_map(Trace::streams).map(|(_, bytes)| bytes).sum();
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let is_long = bytes >= BYTES_MIN && args.limit.is_none() && flush_at > 1;
    (is_long && cpus > 1).then_some(cpus)
}

/// Like printing with one thread, with `workers` threads more.
pub fn print<'t>(
    reader: &mut Reader<'t>,
    choice: &mut PrintChoice<'_>,
    totals: &mut Totals,
    shape: PrintShape<'_>,
    workers: usize,
    to: &mut dyn Write,
) -> io::Result<()> {
    let (jobs, queue) = sync_channel::<Job<'t>>(workers);
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(&queue, shape));
        }
        // Dropped with this closure's end, which ends the workers.
        let jobs = jobs;
        let mut filler = Filler { reader, choice, totals, shape, before: None, name: String::new() };
        let mut open = VecDeque::new();
        let mut is_last = false;
        while !is_last {
            let mut batch = if open.len() > 2 * workers { write_first(&mut open, to)? } else { Batch::default() };
            let before = filler.before;
            is_last = filler.fill(&mut batch);
            let (to, lines) = channel();
            if jobs.send(Job { batch, before, to }).is_err() {
                return Err(io::Error::other("the threads that make lines ended too early"));
            }
            open.push_back(lines);
        }
        while !open.is_empty() {
            write_first(&mut open, to)?;
        }
        to.flush()
    })
}

/// Writes the lines of the batch that was given away first; the batch.
fn write_first<'t>(open: &mut VecDeque<Receiver<Done<'t>>>, to: &mut dyn Write) -> io::Result<Batch<'t>> {
    let done = open.pop_front().and_then(|lines| lines.recv().ok());
    let (lines, batch) = done.ok_or_else(|| io::Error::other("a thread that makes lines ended too early"))?;
    to.write_all(&lines)?;
    Ok(batch)
}

/// Makes lines until there are no more batches.
fn work(queue: &Mutex<Receiver<Job<'_>>>, shape: PrintShape<'_>) {
    let mut format = shape.format();
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { batch, before, to }) = job else { return };
        format.resume(before);
        let mut lines = Vec::with_capacity(BUFFER_BYTES);
        batch.for_each(|item| format.item(&mut lines, item));
        // Nobody waits for them any more where writing has failed.
        drop(to.send((lines, batch)));
    }
}

/// Merges and chooses.
struct Filler<'f, 't, 'c> {
    reader: &'f mut Reader<'t>,
    choice: &'f mut PrintChoice<'c>,
    totals: &'f mut Totals,
    shape: PrintShape<'f>,
    /// Time of the last record that was chosen, as it is shown.
    before: Option<i128>,
    /// Name of the thread of a record.
    name: String,
}

impl<'t> Filler<'_, 't, '_> {
    /// Fills `batch` with items that are shown. Whether there are no more.
    fn fill(&mut self, batch: &mut Batch<'t>) -> bool {
        batch.clear();
        let goes_by_event = self.choice.goes_by_event();
        while batch.len() < BATCH_ITEMS {
            let goes_on =
                !self.choice.is_over() && if goes_by_event { self.take_by_event(batch) } else { self.take(batch) };
            if !goes_on {
                return true;
            }
        }
        false
    }

    /// Takes the next item without a look at its fields. False where there is none.
    #[inline]
    fn take_by_event(&mut self, batch: &mut Batch<'t>) -> bool {
        let Some(passed) = self.reader.pass() else { return false };
        match passed {
            Passed::Record { trace, event, cycles } => {
                if self.choice.wants_event(trace, event, self.totals) {
                    let ns = self.reader.keep(batch);
                    self.before = Some(if self.shape.args.cycles { cycles.into() } else { ns });
                }
            }
            Passed::Loss { records, packets } => {
                self.totals.lost.add(records, packets);
                self.reader.keep(batch);
            }
        }
        true
    }

    /// Takes the next item, if it is wanted. False where there is none.
    fn take(&mut self, batch: &mut Batch<'t>) -> bool {
        let learns = self.choice.learn.is_some();
        let Some(mut item) = self.reader.next() else { return false };
        if !self.choice.wants(&mut item, self.totals) {
            return true;
        }
        let mut thread = None;
        if let Item::Record(record) = &item {
            self.before = Some(if self.shape.args.cycles { record.cycles.into() } else { record.ns });
            if learns {
                self.name.clear();
                self.name.push_str(record.procname);
                thread = Some((record.vpid, record.vtid));
            }
        }
        self.reader.keep(batch);
        if let Some((vpid, vtid)) = thread {
            batch.set_thread(vpid, vtid, &self.name);
        }
        true
    }
}
