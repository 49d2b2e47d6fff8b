// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel thread: every few milliseconds it empties the rings of all CPUs [spec/kernel.md 4].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use kymo_ftrace::format::EventFormat;
use kymo_ftrace::{Decoder, Naming};
use kymo_tracefs::Instance;
use rustix::time::ClockId;

use crate::Error;
use crate::chunks::{RotateJob, RotatedPart};
use crate::clock::ClockSource;
use crate::drain::Counters;
use crate::priority;
use crate::snapshot::{SnapshotJob, SnapshotPart};
use crate::stream::Streams;
use crate::trace_dir::DiskDir;

use super::access::RingAccess;
use super::ring::{PACKET_AGE, Pass, Ring, Totals};
use super::summary::{KernelCause, KernelSummary};

/// Bounds of the time between two looks.
const POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// A look should find an eighth of a ring: later would be near a loss, sooner costs.
const SHARE: usize = 8;

/// An event that is switched on while the thread runs.
#[derive(Debug)]
pub(crate) struct NewEvent {
    /// Its system, as the trace has it.
    pub system: String,
    pub format: EventFormat,
    pub naming: Naming,
    /// Fields to keep.
    pub fields: Option<Vec<String>>,
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Come to an end after one more look at each ring.
    Stop,
    /// Flight recorder: write what the rings hold.
    Snapshot(SnapshotJob),
    /// Go on in another directory.
    Rotate(RotateJob),
    /// Know these events from now on; the answer is that they are known.
    Learn(Vec<NewEvent>, Sender<()>),
}

/// The thread's result.
#[derive(Debug)]
pub(crate) struct Report {
    pub rings: Vec<Totals>,
    pub streams: Streams,
    /// CPU time that the thread took.
    pub cpu_time: Duration,
    /// Sub-buffers that were taken.
    pub pages: u64,
    /// Clock value when the last ring had been emptied.
    pub end: u64,
    /// Rings that were read where they are mapped.
    pub mapped: u64,
    /// Why others are not, where they should be.
    pub unmapped: Option<io::Error>,
}

impl Report {
    /// Adds what the thread found to a summary.
    pub(crate) fn add_to(&self, summary: &mut KernelSummary) {
        (summary.pages, summary.cpu_s) = (self.pages, self.cpu_time.as_secs_f64());
        summary.mapped_rings = self.mapped;
        let unmapped = self.unmapped.iter().map(|error| format!("rings are copied, not mapped: {error}"));
        summary.caveats.extend(unmapped);
        for ring in &self.rings {
            summary.records += ring.records;
            summary.bytes += ring.bytes;
            summary.state.iter_mut().for_each(|state| state.changes += ring.asides);
            let mut lost = ring.lost;
            for cause in KernelCause::ALL {
                *summary.lost.of(cause) += *lost.of(cause);
            }
            summary.losses.extend(ring.losses.iter().cloned());
            summary.damage.extend(ring.damage.iter().cloned());
        }
        summary.losses.sort_by_key(|loss| (loss.from, loss.cpu));
    }
}

/// The directory that a trace is written to at first, and the trace's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracePlace<'a> {
    pub dir: &'a Path,
    pub uuid: [u8; 16],
}

/// Where the records of the kernel go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelSink {
    /// Into stream files, as they come.
    Stream,
    /// The rings are overwritten, and read for snapshots only.
    Flight,
}

/// What the thread is there for.
pub(crate) struct Duty {
    pub orders: Receiver<Order>,
    pub sink: KernelSink,
    /// Real-time priority of the thread; 0: that of the session.
    pub priority: u8,
    /// How it reads the rings. Those of a flight recorder are copied.
    pub access: RingAccess,
}

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct Drain {
    decoder: Decoder,
    source: ClockSource,
    counters: Arc<Counters>,
    rings: Vec<Ring>,
    streams: Streams,
    page: Vec<u8>,
    /// Sub-buffers in an eighth of a ring.
    share: usize,
    orders: Receiver<Order>,
    sink: KernelSink,
    /// Real-time priority of the thread; 0: that of the session.
    priority: u8,
    /// Records in the directories before the present one.
    records_before: u64,
    /// Nothing can be written, as was said.
    is_stopped: bool,
    /// Why a ring is not mapped that should be.
    unmapped: Option<io::Error>,
}

impl Drain {
    pub(crate) fn new(
        instance: &Instance,
        decoder: Decoder,
        source: ClockSource,
        counters: Arc<Counters>,
        into: TracePlace<'_>,
        duty: Duty,
    ) -> Result<Drain, Error> {
        let now = source.read();
        let ring_bytes = instance.ring_bytes()? as usize;
        let ring = |cpu: u32| Ok(Ring::new(cpu, instance.reader(cpu)?, now, ring_bytes));
        let mut rings = instance.cpus().into_iter().map(ring).collect::<Result<Vec<Ring>, Error>>()?;
        let page = vec![0; instance.page_bytes()];
        let share = (ring_bytes / page.len().max(1) / SHARE).max(1);
        let streams = Streams::new(DiskDir::boxed(into.dir), into.uuid, source);
        let Duty { orders, sink, priority, access } = duty;
        let mut unmapped = None;
        if access == RingAccess::Mapped && sink == KernelSink::Stream {
            for ring in &mut rings {
                unmapped = ring.map(&decoder).err().or(unmapped);
            }
        }
        Ok(Drain {
            decoder,
            source,
            counters,
            rings,
            streams,
            page,
            share,
            orders,
            sink,
            priority,
            records_before: 0,
            is_stopped: false,
            unmapped,
        })
    }

    /// Runs until it is told to stop and the rings are empty.
    pub(crate) fn run(mut self) -> Report {
        // A pass takes half of each ring at most and a pause follows, so that no CPU is held for long.
        priority::raise(self.priority);
        let mut pages = 0;
        let mut pause = POLL.0;
        loop {
            let is_last = match self.wait(pause) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => true,
                Ok(Order::Snapshot(job)) => {
                    let part = self.snapshot(&job);
                    // Who asked may have given up.
                    let _ = job.reply.send(part);
                    continue;
                }
                Ok(Order::Rotate(job)) => {
                    self.pass(false, &mut pages);
                    let part = self.rotate(&job);
                    let _ = job.reply.send(part);
                    continue;
                }
                Ok(Order::Learn(events, reply)) => {
                    for NewEvent { system, format, naming, fields } in events {
                        self.decoder.add(&system, &format, naming, fields.as_deref());
                    }
                    let _ = reply.send(());
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => false,
            };
            if is_last && self.sink == KernelSink::Flight {
                break;
            }
            let most = self.pass(is_last, &mut pages);
            if is_last {
                break;
            }
            let now = self.source.nanoseconds(ClockId::Monotonic);
            pause = self.counters.watching.wait(now, next_pause(pause, most, self.share));
        }
        let Drain { decoder, source, rings, streams, page, sink, .. } = &mut self;
        let mut pass = Pass { decoder, source: *source, streams, page, packet_age: PACKET_AGE };
        for ring in rings.iter_mut().filter(|_| *sink == KernelSink::Stream) {
            ring.finish(&mut pass);
        }
        self.streams.finish();
        let end = self.source.read();
        let mapped = self.rings.iter().filter(|ring| ring.is_mapped()).count() as u64;
        // The readers are closed here: an instance with open files cannot be removed.
        let rings = self.rings.into_iter().map(|ring| ring.totals).collect();
        let (streams, unmapped) = (self.streams, self.unmapped);
        Report { rings, streams, cpu_time: own_cpu_time(), pages, end, mapped, unmapped }
    }

    fn wait(&self, pause: Duration) -> Result<Order, RecvTimeoutError> {
        match self.sink {
            KernelSink::Flight => self.orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            KernelSink::Stream => self.orders.recv_timeout(pause),
        }
    }

    /// Writes what the rings hold into a directory of its own.
    fn snapshot(&mut self, job: &SnapshotJob) -> SnapshotPart {
        let mut streams = self.streams.sibling(&job.dir);
        let Drain { decoder, source, rings, page, .. } = self;
        let mut pass = Pass { decoder, source: *source, streams: &mut streams, page, packet_age: PACKET_AGE };
        let mut part = SnapshotPart::default();
        for ring in rings {
            ring.snapshot(&mut pass, job.since, &mut part);
        }
        part.frozen = pass.source.read();
        streams.finish();
        part.error = streams.stopped.map(|(error, _)| error);
        part
    }

    /// What was taken goes into the present directory, what comes into that of `job`.
    fn rotate(&mut self, job: &RotateJob) -> RotatedPart {
        let Drain { decoder, source, rings, streams, page, .. } = self;
        let mut pass = Pass { decoder, source: *source, streams, page, packet_age: PACKET_AGE };
        for ring in rings.iter_mut() {
            ring.leave_file(&mut pass);
        }
        let written = self.streams.go_on_in(&job.dir, job.uuid);
        self.is_stopped = false;
        self.counters.stopped.store(0, Ordering::Relaxed);
        let all = self.rings.iter().map(|ring| ring.totals.records).sum();
        let records = all - std::mem::replace(&mut self.records_before, all);
        RotatedPart { written, records }
    }

    /// Looks at each ring; the largest number of pages that one had. The last look goes on until there is nothing.
    fn pass(&mut self, is_last: bool, pages: &mut u64) -> usize {
        let pages_max = if is_last { usize::MAX } else { 4 * self.share };
        self.streams.look_again(self.source.read());
        let now = self.source.nanoseconds(ClockId::Monotonic);
        let packet_age = Duration::from_nanos(self.counters.watching.age_ns(now, PACKET_AGE.as_nanos() as u64));
        let Drain { decoder, source, rings, streams, page, counters, .. } = self;
        let mut pass = Pass { decoder, source: *source, streams, page, packet_age };
        let mut most = 0;
        for ring in rings {
            let (records, bytes, lost) = (ring.totals.records, ring.totals.bytes, ring.totals.lost.total());
            let taken = ring.look(&mut pass, pages_max, !is_last);
            *pages += taken as u64;
            most = most.max(taken);
            counters.records.fetch_add(ring.totals.records - records, Ordering::Relaxed);
            counters.bytes.fetch_add(ring.totals.bytes - bytes, Ordering::Relaxed);
            counters.lost.fetch_add(ring.totals.lost.total().saturating_sub(lost), Ordering::Relaxed);
        }
        let is_stopped = !pass.streams.is_writing();
        if is_stopped != std::mem::replace(&mut self.is_stopped, is_stopped) {
            counters.stopped.store(is_stopped.into(), Ordering::Relaxed);
        }
        most
    }
}

/// The next pause: such that a look finds `share` pages in the fullest ring, at the rate of the last look.
fn next_pause(pause: Duration, found: usize, share: usize) -> Duration {
    let wanted = pause.mul_f64(share as f64 / found.max(1) as f64);
    // Towards the longer slowly: a burst must not meet a sleeper.
    wanted.min(pause * 2).clamp(POLL.0, POLL.1)
}

fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_the_rate() {
        let ms = Duration::from_millis;
        assert_eq!(next_pause(ms(10), 256, 128), ms(5));
        assert_eq!(next_pause(ms(4), 10, 128), ms(8));
        assert_eq!(next_pause(ms(16), 0, 128), POLL.1);
        assert_eq!(next_pause(ms(1), 100_000, 128), POLL.0);
    }
}
