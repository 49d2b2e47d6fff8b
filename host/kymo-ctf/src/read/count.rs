//! Counting: how many records of each event there are. No order, no values: each stream for itself, on as many threads as asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Trace;
use super::error::Caveat;
use super::stream::{Next, Stream};

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
    }
}

impl Trace {
    /// Counts the records, on at most `threads` threads. Damage is found as by a [`super::Reader`].
    pub fn count(&self, threads: usize) -> Counts {
        let workers = threads.clamp(1, self.streams.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.streams.len() {
                    return done;
                }
                done.push((index, self.count_stream(index)));
            }
        };
        let mut parts = thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut parts = work();
            for other in others {
                // A panic there is a defect of ours, and goes on here.
                parts.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            parts
        });
        parts.sort_by_key(|&(index, _)| index);
        let mut counts = Counts { events: vec![0; self.metadata.events.len()], ..Counts::default() };
        parts.into_iter().for_each(|(_, part)| counts.add(part));
        counts
    }

    fn count_stream(&self, index: usize) -> Counts {
        let (name, content) = &self.streams[index];
        let mut stream = Stream::new(&self.metadata, &self.layout, name, content);
        let mut counts = Counts { events: vec![0; self.metadata.events.len()], ..Counts::default() };
        loop {
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
        counts.caveat_count = stream.caveats.len() as u64 + stream.caveats_beyond;
        counts.caveats = stream.caveats;
        counts
    }
}
