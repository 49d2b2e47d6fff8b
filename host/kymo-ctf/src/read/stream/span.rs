// SPDX-License-Identifier: MIT OR Apache-2.0
//! From when to when a stream has packets, by their heads: no record is decoded where these tell it.

use super::super::class::Role;
use super::{Next, PacketMark, PacketPlace, Stream};

/// What the head of a packet tells.
#[derive(Clone, Copy, Debug)]
struct SpanHead {
    mark: PacketMark,
    class: usize,
    instance: Option<u64>,
    /// Cycles; `None` where it has no such field.
    begin: Option<u64>,
    end: Option<u64>,
    /// Its times have all their bits.
    is_whole: bool,
}

/// A moment of a stream: position of the stream class whose clock counts, and cycles.
pub(in crate::read) type Moment = (usize, u64);

/// Where a stream begins and ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Ends {
    pub begin: Moment,
    pub end: Moment,
    pub instance: Option<u64>,
}

impl<'t> Stream<'t> {
    /// Begin of the first packet, and end of the last. What heads do not tell is that of records. `near_end`: a packet
    /// from which on heads are read to find the last one. `None` where there is no packet, or no time at all.
    pub(in crate::read) fn ends(&self, near_end: Option<&PacketMark>) -> Option<Ends> {
        let first = self.anew().next_head()?;
        if !first.is_whole && first.begin.is_some() {
            return self.ends_of_short_times(&first);
        }
        let last = near_end.and_then(|mark| self.last_head(Some(mark))).or_else(|| self.last_head(None))?;
        let instance = first.instance;
        let (Some(begin), Some(_)) = (first.begin, last.begin) else { return self.ends_of_records(instance) };
        // A tracer that was killed leaves its last packet without an end.
        let end = last.end.or_else(|| self.last_time(&last)).or(last.begin)?;
        Some(Ends { begin: (first.class, begin), end: (last.class, end), instance })
    }

    /// The same file, from its begin.
    fn anew(&self) -> Stream<'t> {
        Stream::new(self.metadata, self.layout, self.name, self.content)
    }

    /// The head of the next packet that is one; its records are passed over.
    fn next_head(&mut self) -> Option<SpanHead> {
        while self.next < self.data.len() && !self.content.is_damaged() {
            self.open_packet();
            let roles = &self.decoder.roles;
            let (begin, instance) = (roles.get(Role::Begin), roles.get(Role::StreamInstance));
            if let Some(packet) = self.packet.take() {
                let (begin, is_whole) = (begin.map(|_| packet.begin), self.has_full_time());
                let (mark, class, end) = (self.opened, self.class, packet.end);
                return Some(SpanHead { mark, class, instance, begin, end, is_whole });
            }
        }
        None
    }

    fn last_head(&self, from: Option<&PacketMark>) -> Option<SpanHead> {
        let mut stream = self.anew();
        if from.is_some_and(|mark| !stream.go_to_place(&PacketPlace { packet: *mark, inside: None })) {
            return None;
        }
        let mut last = None;
        while let Some(head) = stream.next_head() {
            last = Some(head);
        }
        last
    }

    /// The highest time of the records of a packet and those behind it.
    fn last_time(&self, head: &SpanHead) -> Option<u64> {
        let mut stream = self.anew();
        stream.go_to_place(&PacketPlace { packet: head.mark, inside: None });
        let mut last = None;
        loop {
            match stream.advance() {
                Next::Record => last = last.max(Some(stream.time)),
                Next::Lost(_) => {}
                Next::End => return last,
            }
        }
    }

    /// Where heads have times of few bits: only records tell how often these wrapped.
    fn ends_of_short_times(&self, first: &SpanHead) -> Option<Ends> {
        let mut stream = self.anew();
        let mut end = None;
        loop {
            match stream.advance() {
                Next::Record => end = end.max(stream.packet.and_then(|packet| packet.end)).max(Some(stream.time)),
                Next::Lost(_) => {}
                Next::End => break,
            }
        }
        let end = end.max(stream.previous.and_then(|previous| previous.end))?;
        Some(Ends { begin: (first.class, first.begin?), end: (stream.class, end), instance: first.instance })
    }

    /// Lowest and highest time of all records.
    fn ends_of_records(&self, instance: Option<u64>) -> Option<Ends> {
        let mut stream = self.anew();
        let mut ends: Option<Ends> = None;
        loop {
            match stream.advance() {
                Next::Record => {
                    let now = (stream.class, stream.time);
                    let ends = ends.get_or_insert(Ends { begin: now, end: now, instance });
                    ends.begin = if now.1 < ends.begin.1 { now } else { ends.begin };
                    ends.end = if now.1 > ends.end.1 { now } else { ends.end };
                }
                Next::Lost(_) => {}
                Next::End => return ends,
            }
        }
    }
}
