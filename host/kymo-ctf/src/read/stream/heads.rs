// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heads of a stream's packets, one after the other: where a reader has to begin that wants what is behind a cut.
//!
//! Of a large packet also places between its records: a reader that could begin only at the packet would read most of
//! it in vain. To find them, somebody has to go through the packet's records. That takes a fraction of what it takes to
//! make lines of them, and is done only in large packets.

use std::collections::VecDeque;

use super::{Next, SliceBegin, Stream};

/// Packets of at most so many pieces are not gone through.
const PIECES_MIN: u64 = 4;

/// Goes from head to head, and from piece to piece of large packets, as far ahead as cuts need it.
pub(crate) struct Heads<'t> {
    stream: Stream<'t>,
    /// Bits between two places inside of a packet.
    piece_bits: u64,
    /// Where readers may begin, and the highest place in the order of a merge that an item from there up to the next
    /// one may have.
    known: VecDeque<(SliceBegin, u64)>,
    /// Where the last piece begins, and the end of its packet. Its highest place is known when it is passed, or with
    /// the next head.
    last: Option<(SliceBegin, Option<u64>)>,
    /// The highest place of all pieces so far.
    reached: u64,
    /// Bytes of the file that steps have told of.
    told: u64,
    is_over: bool,
}

/// What a step from head to head has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadStep {
    /// So many bytes of the file.
    Bytes(u64),
    /// A packet that does not say its whole time. What is behind it cannot be found without what is in front.
    Blind,
}

impl<'t> Heads<'t> {
    /// `piece_bytes`: what should lie between two places at which readers may begin.
    pub fn new(mut stream: Stream<'t>, piece_bytes: u64) -> Self {
        stream.keep_memory();
        let (piece_bits, known) = (piece_bytes.max(1).saturating_mul(8), VecDeque::new());
        Self { stream, piece_bits, known, last: None, reached: 0, told: 0, is_over: false }
    }

    /// All packets are known.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// No item of what is known has a higher place.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Reads the next head, or the next piece of a large packet.
    pub fn step(&mut self) -> HeadStep {
        let is_inside = self.stream.packet.is_some();
        if is_inside {
            self.pass_piece();
        } else if self.next_head().is_none() {
            return HeadStep::Blind;
        }
        self.stream.caveats.clear();
        let at = if self.stream.packet.is_some() { self.stream.cursor.byte() } else { self.stream.next as u64 };
        let bytes = at.saturating_sub(self.told);
        self.told += bytes;
        HeadStep::Bytes(bytes)
    }

    /// `None` where the packet does not say its whole time.
    fn next_head(&mut self) -> Option<()> {
        let start = self.stream.start();
        let mut begin = None;
        // What is damaged in front of a packet is read with it.
        while begin.is_none() && self.stream.next < self.stream.data.len() {
            self.stream.open_packet();
            if self.stream.packet.is_some() && !self.stream.has_full_time() {
                return None;
            }
            begin = self.stream.packet.map(|packet| packet.begin);
        }
        let end = self.stream.packet.and_then(|packet| packet.end);
        if let Some((last, end)) = self.last.take() {
            let highest = match (begin, end) {
                // A record whose time is behind its packet's end stands in front of the next packet.
                (Some(next_begin), Some(end)) => end.max(next_begin),
                _ => self.highest(&last),
            };
            self.add(last, highest);
        }
        match begin {
            Some(_) => self.last = Some((SliceBegin { packet: start, inside: None }, end)),
            None => self.is_over = true,
        }
        self.leave_if_short();
        Some(())
    }

    /// Goes through a piece of the packet that is open: it is known then, and the next one is the last.
    fn pass_piece(&mut self) {
        let until = self.stream.cursor.at.saturating_add(self.piece_bits);
        let passed = self.stream.pass_to(until);
        match (passed, self.stream.inside(), self.last) {
            (Some(highest), inside @ Some(_), Some((last, end))) => {
                self.add(last, highest);
                self.last = Some((SliceBegin { inside, ..last }, end));
                self.leave_if_short();
            }
            // The rest of the packet is one piece, whatever is in it.
            _ => self.stream.packet = None,
        }
    }

    fn add(&mut self, begin: SliceBegin, highest: u64) {
        self.reached = self.reached.max(highest);
        self.known.push_back((begin, highest));
    }

    /// Leaves the packet, or what is left of it, to readers, if that is little.
    fn leave_if_short(&mut self) {
        let cursor = &self.stream.cursor;
        if cursor.end().saturating_sub(cursor.at) <= self.piece_bits.saturating_mul(PIECES_MIN) {
            self.stream.packet = None;
        }
    }

    /// Of a piece of a packet whose head does not tell it: by its records.
    fn highest(&self, begin: &SliceBegin) -> u64 {
        let known = &self.stream;
        let mut stream = Stream::new(known.metadata, known.layout, known.name, known.content);
        stream.begin_slice(begin);
        stream.keep_memory();
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

    /// Where a reader begins that wants what is at `cut` and behind it; `None` where there is nothing. Forgets what is
    /// before that.
    pub fn go_to(&mut self, cut: u64) -> Option<SliceBegin> {
        while self.known.front().is_some_and(|&(_, highest)| highest < cut) {
            self.known.pop_front();
        }
        let known = self.known.front().map(|&(begin, _)| begin);
        known.or(self.last.map(|(begin, _)| begin))
    }
}
