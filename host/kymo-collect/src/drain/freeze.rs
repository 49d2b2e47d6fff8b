// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of the programs' rings: all are copied before any copy is written [spec/flight.md 2].

use super::{Drain, MarkRecord, Sink};
use crate::clock::ClockSource;
use crate::flight::Intact;
use crate::lane::Lane;
use crate::priority;
use crate::running::Running;
use crate::snapshot::{SnapshotJob, SnapshotPart};
use crate::stream::Streams;

/// Bytes that are copied of a flight recorder's rings before the copies are written.
const FROZEN_BYTES_MAX: usize = 512 << 20;
/// Memory of copies that is kept for the next snapshot.
const KEPT_BYTES_MAX: usize = 64 << 20;

impl Drain {
    /// Writes what the rings hold, those of programs that have ended too, into a directory of its own.
    pub(super) fn snapshot(&mut self, job: &SnapshotJob) -> SnapshotPart {
        let mut streams = self.report.streams.sibling(&job.dir);
        let mut part = SnapshotPart { rare: self.flush_rare(), ..SnapshotPart::default() };
        let rare = self.running.iter().filter(|running| !running.is_overwritten());
        part.records = self.rare_ended + rare.flat_map(|running| &running.lanes).map(|lane| lane.records).sum::<u64>();
        self.freeze(job.since, &mut streams, &mut part);
        let mut slot = None;
        let mut maps = None;
        if let Some(flight) = self.sink.flight() {
            for (time, bytes) in flight.marks.iter().filter(|(time, _)| job.since.is_none_or(|since| *time >= since)) {
                let mark = MarkRecord { time: *time, lost: 0, bytes };
                part.records += u64::from(mark.write(&mut streams, &mut slot, self.source.read()));
            }
            for records in &flight.maps {
                records.write(&mut streams, &mut maps, self.source.read());
            }
        }
        for stream in [slot, maps].into_iter().flatten() {
            streams.release(stream);
        }
        streams.finish();
        part.error = streams.stopped.map(|(error, _)| error);
        part
    }

    /// Triggers have a latency to keep.
    pub(super) fn be_urgent_for_triggers(&mut self) {
        let has_triggers = self.sink.has_triggers();
        if let Some(flight) = self.sink.flight() {
            flight.take_priority(has_triggers);
        }
    }

    /// Copies all rings, then writes the copies: a ring must not go on while another one is written. Where there is
    /// very much, in several turns.
    fn freeze(&mut self, since: Option<u64>, streams: &mut Streams, part: &mut SnapshotPart) {
        let Sink::Flight(flight) = &mut self.sink else { return };
        flight.take_priority(true);
        let priority = flight.priority;
        let overwritten = |running: &&mut Running| running.is_overwritten();
        let mut all: Vec<&mut Running> = flight.ended.iter_mut().chain(&mut self.running).filter(overwritten).collect();
        let (source, mut buffers) = (self.source, std::mem::take(&mut flight.buffers));
        let mut frozen = Vec::new();
        let mut bytes = 0;
        for at in 0..all.len() {
            all[at].find_lanes();
            for lane in 0..all[at].lanes.len() {
                let mut pass = Drain::pass_of(source, streams, true);
                let copied = all[at].freeze(lane, &mut pass, since, buffers.pop().unwrap_or_default());
                part.frozen = source.read();
                let Some(intact) = copied else { continue };
                bytes += intact.bytes().len();
                frozen.push((at, lane, intact));
                if bytes >= FROZEN_BYTES_MAX {
                    write_frozen(&mut all, &mut frozen, source, streams, part, &mut buffers);
                    bytes = 0;
                }
            }
        }
        priority::lower_from(priority);
        write_frozen(&mut all, &mut frozen, source, streams, part, &mut buffers);
        flight.buffers = buffers;
        self.be_urgent_for_triggers();
    }

    /// Flight recorder: writes what the rings of rare events hold. Returns what their files have then.
    fn flush_rare(&mut self) -> Vec<(String, u64)> {
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
        for running in self.running.iter_mut().filter(|running| !running.is_overwritten()) {
            running.look(&mut pass, &self.counters);
        }
        let lanes = self.running.iter().flat_map(|running| &running.lanes);
        lanes.filter_map(Lane::file).chain(self.report.streams.free_files()).collect()
    }
}

/// Writes what was copied, and keeps the memory for other copies.
fn write_frozen(
    all: &mut [&mut Running],
    frozen: &mut Vec<(usize, usize, Intact)>,
    source: ClockSource,
    streams: &mut Streams,
    part: &mut SnapshotPart,
    buffers: &mut Vec<Vec<u8>>,
) {
    for (at, lane, intact) in frozen.drain(..) {
        let mut pass = Drain::pass_of(source, streams, true);
        all[at].write_frozen(lane, &mut pass, &intact, part);
        let buffer = intact.into_buffer();
        let kept: usize = buffers.iter().map(Vec::capacity).sum();
        if kept + buffer.capacity() <= KEPT_BYTES_MAX {
            buffers.push(buffer);
        }
    }
}
