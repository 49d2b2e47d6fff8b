// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heads of a stream's packets, one after the other: where a reader has to begin that wants what is behind a cut.

use std::collections::VecDeque;

use super::{Next, Start, Stream};

/// Goes from head to head, as far ahead as cuts need it.
pub(crate) struct Heads<'t> {
    stream: Stream<'t>,
    /// Packets, and the highest place in the order of a merge that an item of each may have.
    known: VecDeque<(Start, u64)>,
    /// The packet whose head was read last, and its end. Its highest place is known with the next head.
    last: Option<(Start, Option<u64>)>,
    /// The highest place of all packets so far.
    reached: u64,
    is_over: bool,
}

/// What a step from head to head has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes of the file.
    Bytes(u64),
    /// A packet that does not say its whole time. What is behind it cannot be found without what is in front.
    Blind,
}

impl<'t> Heads<'t> {
    pub fn new(stream: Stream<'t>) -> Self {
        Self { stream, known: VecDeque::new(), last: None, reached: 0, is_over: false }
    }

    /// All packets are known.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// No item of the packets that are known has a higher place.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Reads the next head.
    pub fn step(&mut self) -> Step {
        let (from, start) = (self.stream.next, self.stream.start());
        let mut begin = None;
        // What is damaged in front of a packet is read with it.
        while begin.is_none() && self.stream.next < self.stream.data.len() {
            self.stream.open_packet();
            if self.stream.packet.is_some() && !self.stream.has_full_time() {
                return Step::Blind;
            }
            begin = self.stream.packet.map(|packet| packet.begin);
        }
        self.stream.caveats.clear();
        let end = self.stream.packet.take().and_then(|packet| packet.end);
        if let Some((last, end)) = self.last.take() {
            let highest = match (begin, end) {
                // A record whose time is behind its packet's end stands in front of the next packet.
                (Some(next_begin), Some(end)) => end.max(next_begin),
                _ => self.highest(&last),
            };
            self.reached = self.reached.max(highest);
            self.known.push_back((last, highest));
        }
        match begin {
            Some(_) => self.last = Some((start, end)),
            None => self.is_over = true,
        }
        Step::Bytes((self.stream.next - from) as u64)
    }

    /// Of a packet whose head does not tell it: by its records.
    fn highest(&self, start: &Start) -> u64 {
        let known = &self.stream;
        let mut stream = Stream::new(known.metadata, known.layout, known.name, known.content);
        stream.go_to(start, u64::MAX);
        let (mut highest, mut opened) = (0, None);
        loop {
            match stream.advance() {
                Next::Record => highest = highest.max(stream.order),
                Next::Lost(lost) => highest = highest.max(lost.from),
                Next::End => return highest,
            }
            // A loss has the number of the packet that it stands in front of.
            if *opened.get_or_insert(stream.facts.number) != stream.facts.number {
                return highest;
            }
        }
    }

    /// Where a reader begins that wants what is at `cut` and behind it; `None` where there is nothing. Forgets the
    /// packets before that.
    pub fn go_to(&mut self, cut: u64) -> Option<Start> {
        while self.known.front().is_some_and(|&(_, highest)| highest < cut) {
            self.known.pop_front();
        }
        let known = self.known.front().map(|&(start, _)| start);
        known.or(self.last.map(|(start, _)| start))
    }
}
