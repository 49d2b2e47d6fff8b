// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of the samples: every few milliseconds it empties the rings of all CPUs into packets.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::class::{push_map, push_sample};
use super::open::CpuSamples;
use super::parse::{PerfRecord, Records};
use super::summary::SampleSummary;
use super::times::Times;
use crate::Error;
use crate::chunks::{RotateJob, RotatedPart};
use crate::clock::ClockSource;
use crate::priority;
use crate::stream::{Class, Packet, Stream, Streams};
use crate::trace_dir::DiskDir;
use crate::written::Written;

/// Between two looks at the rings.
const POLL: Duration = Duration::from_millis(10);
/// A packet is written when it has so many bytes, or is so old.
const PACKET_BYTES: usize = 64 << 10;
const PACKET_AGE: Duration = Duration::from_millis(200);

/// What the thread is told.
enum SampleOrder {
    /// The trace goes on in another directory; the answer goes to who asked for that.
    Rotate(RotateJob),
    /// Come to an end.
    Stop,
}

/// The samples of a session, while they are taken.
#[derive(Debug)]
pub(crate) struct Sampling {
    orders: Sender<SampleOrder>,
    thread: JoinHandle<(SampleSummary, Written)>,
}

impl Sampling {
    /// Opens and enables an event on each of these CPUs, and starts the thread.
    pub fn start(
        frequency: u32,
        priority: u8,
        cpus: &[u32],
        source: ClockSource,
        dir: &Path,
        uuid: [u8; 16],
    ) -> Result<Sampling, Error> {
        let times = Times::new(source);
        let mut lanes = Vec::new();
        for cpu in cpus {
            let samples = CpuSamples::open(*cpu, frequency, Times::clock_id(source))?;
            lanes.extend(samples.map(|samples| Lane::new(samples, source)));
        }
        for lane in &lanes {
            lane.samples.enable(true).map_err(Error::system("enable samples"))?;
        }
        let streams = Streams::new(DiskDir::boxed(dir), uuid, source);
        let summary = SampleSummary { frequency, ..SampleSummary::default() };
        let maps = MapLane { bytes: Vec::new(), begin: 0, end: 0, slot: None };
        let work = Work { source, times, lanes, maps, streams, summary, buffer: Vec::new(), records_before: 0 };
        let (orders, received) = mpsc::channel();
        let builder = thread::Builder::new().name("kymo-samples".to_owned());
        let thread = builder.spawn(move || work.run(&received, priority)).map_err(Error::system("start a thread"))?;
        Ok(Sampling { orders, thread })
    }

    /// The trace goes on in the directory of `job`; the thread answers by the job's channel.
    pub fn rotate(&self, job: RotateJob) {
        let _ = self.orders.send(SampleOrder::Rotate(job));
    }

    /// Ends it, and says what came of it and what was written into the present directory.
    pub fn finish(self) -> Result<(SampleSummary, Written), Error> {
        let _ = self.orders.send(SampleOrder::Stop);
        self.thread.join().map_err(|_| Error::Thread { thread: "samples" })
    }
}

/// Maps that are not written yet.
struct MapLane {
    bytes: Vec<u8>,
    begin: u64,
    end: u64,
    slot: Option<Stream>,
}

/// One CPU: what was taken from its ring and is not written yet.
struct Lane {
    samples: CpuSamples,
    bytes: Vec<u8>,
    records: u64,
    begin: u64,
    end: u64,
    begun: Instant,
    /// Lost since the packet before.
    lost: u64,
    slot: Option<Stream>,
}

impl Lane {
    fn new(samples: CpuSamples, source: ClockSource) -> Lane {
        let (now, begun) = (source.read(), source.now());
        Lane { samples, bytes: Vec::new(), records: 0, begin: now, end: now, begun, lost: 0, slot: None }
    }

    /// Whether what is there should be written.
    fn is_due(&self, now: Instant) -> bool {
        self.bytes.len() >= PACKET_BYTES
            || (self.records > 0 && now.saturating_duration_since(self.begun) >= PACKET_AGE)
    }
}

/// The state of the thread.
struct Work {
    source: ClockSource,
    times: Times,
    lanes: Vec<Lane>,
    maps: MapLane,
    streams: Streams,
    summary: SampleSummary,
    buffer: Vec<u8>,
    /// Samples in the directories before the present one.
    records_before: u64,
}

impl Work {
    fn run(mut self, orders: &Receiver<SampleOrder>, priority: u8) -> (SampleSummary, Written) {
        priority::raise(priority);
        loop {
            match orders.recv_timeout(POLL) {
                Err(RecvTimeoutError::Timeout) => self.look(false),
                Ok(SampleOrder::Rotate(job)) => {
                    self.look(true);
                    self.release();
                    let written = self.streams.go_on_in(&job.dir, job.uuid);
                    let all = self.summary.records;
                    let records = all - std::mem::replace(&mut self.records_before, all);
                    let _ = job.reply.send(RotatedPart { written, records });
                }
                Ok(SampleOrder::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for lane in &self.lanes {
            let _ = lane.samples.enable(false);
        }
        self.look(true);
        self.count_rest();
        self.release();
        self.streams.finish();
        (self.summary, self.streams.written())
    }

    /// Takes what is in the rings; writes what is due, or all of it.
    fn look(&mut self, all: bool) {
        self.times.refresh();
        while all && !self.times.is_ready() {
            thread::yield_now();
            self.times.refresh();
        }
        if !self.times.is_ready() {
            return;
        }
        self.streams.look_again(self.source.read());
        for at in 0..self.lanes.len() {
            self.take(at);
            if all || self.lanes[at].is_due(self.source.now()) {
                self.write(at);
            }
        }
        self.write_maps();
    }

    /// One ring's records become records of the trace.
    fn take(&mut self, at: usize) {
        let Work { source, lanes, maps, times, summary, buffer, .. } = self;
        let lane = &mut lanes[at];
        buffer.clear();
        if !lane.samples.take(buffer) {
            note(summary, format!("CPU {}: the positions of the ring of samples made no sense", lane.samples.cpu));
        }
        for record in Records(buffer) {
            match record {
                PerfRecord::Sample(sample) => {
                    let cycles = times.of(sample.time_ns).max(lane.end);
                    if lane.records == 0 {
                        (lane.begin, lane.begun) = (cycles, source.now());
                    }
                    (lane.end, lane.records) = (cycles, lane.records + 1);
                    push_sample(&mut lane.bytes, cycles, &sample);
                }
                PerfRecord::Map(map, ns) => {
                    let cycles = times.of(ns).max(maps.end);
                    if maps.bytes.is_empty() {
                        maps.begin = cycles;
                    }
                    maps.end = cycles;
                    summary.maps += 1;
                    push_map(&mut maps.bytes, cycles, &map);
                }
                PerfRecord::Lost(records) => {
                    lane.lost += records;
                    lane.samples.told_lost += records;
                    summary.lost += records;
                }
                PerfRecord::Damaged => note(summary, format!("CPU {}: a damaged record of perf", lane.samples.cpu)),
                PerfRecord::Other => {}
            }
        }
    }

    fn write(&mut self, at: usize) {
        let now = self.source.read();
        let Work { lanes, streams, summary, .. } = self;
        let lane = &mut lanes[at];
        if lane.records == 0 && lane.lost == 0 {
            return;
        }
        let begin = if lane.records == 0 { lane.end } else { lane.begin };
        let end = if lane.records == 0 { now.max(lane.end) } else { lane.end };
        let packet = packet(&lane.bytes, begin, end, lane.lost);
        match streams.append(&mut lane.slot, Class::Samples(lane.samples.cpu), &packet, now) {
            Ok(()) => {
                summary.records += lane.records;
                summary.bytes += lane.bytes.len() as u64;
                lane.lost = 0;
            }
            Err(_) => {
                lane.lost += lane.records;
                summary.lost += lane.records;
            }
        }
        (lane.records, lane.end) = (0, end);
        lane.bytes.clear();
    }

    fn write_maps(&mut self) {
        let now = self.source.read();
        let Work { maps, streams, summary, .. } = self;
        if maps.bytes.is_empty() {
            return;
        }
        let packet = packet(&maps.bytes, maps.begin, maps.end, 0);
        if streams.append(&mut maps.slot, Class::SampleMaps, &packet, now).is_err() {
            note(summary, "maps of processes could not be written: functions of theirs stay addresses".to_owned());
        }
        maps.bytes.clear();
    }

    /// What was lost behind the last record of each ring.
    fn count_rest(&mut self) {
        for at in 0..self.lanes.len() {
            match self.lanes[at].samples.lost() {
                Some(lost) => {
                    self.lanes[at].lost += lost;
                    self.summary.lost += lost;
                    self.write(at);
                }
                None => note(
                    &mut self.summary,
                    "this kernel (before 6.0) does not count samples that are lost at the very end".to_owned(),
                ),
            }
        }
    }

    fn release(&mut self) {
        let slots = self.lanes.iter_mut().map(|lane| &mut lane.slot).chain([&mut self.maps.slot]);
        let open: Vec<Stream> = slots.filter_map(Option::take).collect();
        open.into_iter().for_each(|stream| self.streams.release(stream));
    }
}

/// Says it once.
fn note(summary: &mut SampleSummary, caveat: String) {
    if !summary.caveats.contains(&caveat) {
        summary.caveats.push(caveat);
    }
}

fn packet(bytes: &[u8], begin: u64, end: u64, lost: u64) -> Packet {
    let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    Packet { begin, end, lost, program: None, thread: None, pieces: [piece, nothing] }
}
