// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting: how many records of each event there are. No order, no values: each stream for itself, and
//! parts of long ones, on as many threads as asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::error::Caveat;
use super::scan::Scans;
use super::stream::{CAVEATS_MAX, Next, Start, Stream};
use super::trace::Trace;

/// What a trace has, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records by position of their event in [`super::Metadata::events`].
    pub events: Vec<u64>,
    /// Records that were lost.
    pub lost_records: u64,
    /// Whole packets that are missing.
    pub lost_packets: u64,
    /// Places in which something was lost.
    pub lost_places: u64,
    /// What was wrong, file by file in the order of each file.
    pub caveats: Vec<Caveat>,
    /// How much was wrong: more than `caveats` lists where a file has very many.
    pub caveat_count: u64,
    /// How much of it is damage, as [`super::Reader::damage_count`] has it.
    pub damage_count: u64,
}

impl Counts {
    /// Records of all events.
    pub fn records(&self) -> u64 {
        self.events.iter().sum()
    }

    fn add(&mut self, other: Self) {
        self.events.iter_mut().zip(other.events).for_each(|(sum, more)| *sum += more);
        self.lost_records = self.lost_records.saturating_add(other.lost_records);
        self.lost_packets = self.lost_packets.saturating_add(other.lost_packets);
        self.lost_places += other.lost_places;
        self.caveats.extend(other.caveats);
        self.caveat_count += other.caveat_count;
        self.damage_count += other.damage_count;
    }
}

/// Streams are cut into parts of so many bytes, where several threads count.
const PART_BYTES: usize = 8 << 20;

/// What one thread counts at a time: a stream, or some packets of one.
struct CountPart {
    stream: usize,
    /// Where it begins, and the number of the first packet behind it. `None` for the whole stream.
    packets: Option<(Start, u64)>,
}

impl Trace {
    /// Counts the records, on at most `threads` threads. Damage is found as by a [`super::Reader`].
    pub fn count(&self, threads: usize) -> Counts {
        self.count_in_parts(threads, PART_BYTES)
    }

    /// The same, with parts of another size.
    pub(super) fn count_in_parts(&self, threads: usize, part_bytes: usize) -> Counts {
        let parts: Vec<CountPart> =
            (0..self.streams.len()).flat_map(|index| self.parts(index, threads, part_bytes)).collect();
        let all_streams: Vec<(&Trace, usize)> = (0..self.streams.len()).map(|stream| (self, stream)).collect();
        let _pass = Scans::of(&all_streams);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(index) else { return done };
                done.push((index, self.count_part(part)));
            }
        };
        let mut counted = thread::scope(|scope| {
            let others: Vec<_> = (1..threads.clamp(1, parts.len().max(1))).map(|_| scope.spawn(work)).collect();
            let mut counted = work();
            for other in others {
                // A panic there is a defect of ours, and goes on here.
                counted.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            counted
        });
        counted.sort_by_key(|&(index, _)| index);
        let mut by_stream: Vec<Counts> = Vec::new();
        by_stream.resize_with(self.streams.len(), || self.nothing());
        counted.into_iter().for_each(|(index, counts)| by_stream[parts[index].stream].add(counts));
        let mut all = self.nothing();
        for mut counts in by_stream {
            counts.caveats.truncate(CAVEATS_MAX);
            all.add(counts);
        }
        all
    }

    /// What is counted at a time of the stream `index`.
    fn parts(&self, index: usize, threads: usize, part_bytes: usize) -> Vec<CountPart> {
        let whole = || vec![CountPart { stream: index, packets: None }];
        if threads <= 1 || self.streams[index].1.len() < 2 * part_bytes {
            return whole();
        }
        let Some(starts) = self.stream(index).parts(part_bytes) else { return whole() };
        let ends = starts.iter().skip(1).map(|start| start.packet).chain([u64::MAX]);
        let packets = starts.iter().copied().zip(ends);
        packets.map(|packets| CountPart { stream: index, packets: Some(packets) }).collect()
    }

    fn nothing(&self) -> Counts {
        Counts { events: vec![0; self.metadata.events.len()], ..Counts::default() }
    }

    fn stream(&self, index: usize) -> Stream<'_> {
        let (name, content) = &self.streams[index];
        Stream::new(&self.metadata, &self.layout, name, content)
    }

    fn count_part(&self, part: &CountPart) -> Counts {
        let mut stream = self.stream(part.stream);
        stream.watch = self.watcher();
        if let Some((start, end)) = &part.packets {
            stream.go_to(start, *end);
        }
        let mut counts = self.nothing();
        loop {
            stream.count_plain(&mut counts.events);
            match stream.advance() {
                Next::Record => counts.events[stream.event] += 1,
                Next::Lost(lost) => {
                    counts.lost_records = counts.lost_records.saturating_add(lost.records);
                    counts.lost_packets = counts.lost_packets.saturating_add(lost.packets);
                    counts.lost_places += 1;
                }
                Next::End => break,
            }
        }
        stream.forget_from(part.packets.as_ref().map_or(0, |(start, _)| start.next));
        counts.caveat_count = stream.caveats.count();
        counts.damage_count = stream.caveats.damaged;
        counts.caveats = stream.caveats.listed;
        counts
    }
}
