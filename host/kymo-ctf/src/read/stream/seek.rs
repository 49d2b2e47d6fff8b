// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in a stream to which a reader can go without reading what is in front of them.

use super::place::{Inside, PacketMark, PacketPlace, PreviousPacket};
use super::{Cursor, FORGET_BYTES, Next, Previous, Start, Stream, Until};

/// Where a slice of a stream begins: at a packet, or in front of a record in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct SliceBegin {
    pub packet: Start,
    pub inside: Option<Inside>,
}

impl<'t> Stream<'t> {
    /// Goes to a place. False where the file has no such place: then the stream is of no use any more.
    pub fn go_to_place(&mut self, place: &PacketPlace) -> bool {
        let mark = &place.packet;
        let fits = |at: u64| usize::try_from(at).ok().filter(|&at| at <= self.data.len());
        let (Some(next), Some(content_end)) = (fits(mark.offset), fits(mark.content_end)) else { return false };
        if mark.class as usize >= self.metadata.streams.len() || mark.number > mark.offset {
            return false;
        }
        (self.next, self.content_end, self.class) = (next, content_end, mark.class as usize);
        self.forgotten = next.next_multiple_of(FORGET_BYTES);
        self.told = next;
        (self.packets_met, self.reference) = (mark.number, mark.time);
        self.previous = mark.previous.map(|previous| Previous {
            end: previous.end,
            discarded: previous.discarded,
            sequence: previous.sequence,
        });
        place.inside.is_none_or(|inside| self.enter(&inside))
    }

    /// Goes to a place inside the next packet.
    fn enter(&mut self, inside: &Inside) -> bool {
        self.open_packet();
        let Some(packet) = &mut self.packet else { return false };
        [packet.said_outside, packet.said_backwards] = inside.said;
        if inside.bits < self.cursor.at || !self.cursor.reaches(inside.bits) {
            return false;
        }
        (self.cursor.at, self.reference) = (inside.bits, inside.time);
        if self.layout.plans.threads[self.class].is_some() {
            self.set_thread(inside.thread);
        }
        true
    }

    /// Keeps all memory: who reads the slices gives it back.
    pub(in crate::read) fn keep_memory(&mut self) {
        self.forgotten = usize::MAX;
    }

    /// Goes to where a slice begins, which [`Heads`](super::Heads) has found. What was wrong up to there has been told
    /// by the slices in front.
    pub(in crate::read) fn begin_slice(&mut self, begin: &SliceBegin) {
        self.go_to(&begin.packet, u64::MAX);
        self.forgotten = begin.packet.next;
        if let Some(inside) = &begin.inside {
            self.enter(inside);
            (self.time, self.order) = (inside.time, inside.time);
            self.caveats.clear();
            self.forgotten = self.forgotten.max(self.cursor.byte() as usize);
        }
    }

    /// The slice ends here: gives back the memory of all that it has read. Other slices may want a page at its ends
    /// again.
    pub(in crate::read) fn end_slice(&mut self) {
        let end = self.cursor.byte() as usize;
        if end > self.forgotten {
            self.content.forget(self.forgotten..end);
            self.forgotten = end;
        }
    }

    /// Where the next record of the open packet begins.
    pub(super) fn inside(&self) -> Option<Inside> {
        self.packet.map(|packet| Inside {
            bits: self.cursor.at,
            time: self.reference,
            said: [packet.said_outside, packet.said_backwards],
            thread: self.facts.vtid,
        })
    }

    /// What is known in front of the next packet.
    pub(super) fn mark(&self) -> PacketMark {
        PacketMark {
            offset: self.next as u64,
            number: self.packets_met,
            class: self.class as u32,
            time: self.reference,
            content_end: self.content_end as u64,
            previous: self.previous.map(|previous| PreviousPacket {
                end: previous.end,
                discarded: previous.discarded,
                sequence: previous.sequence,
            }),
        }
    }

    /// The packet of the current item.
    #[inline]
    pub fn packet_mark(&self) -> &PacketMark {
        &self.opened
    }

    /// In front of the current item. Reads the packet again up to there.
    pub fn place_of_current(&self) -> PacketPlace {
        let packet = self.opened;
        let mut again = Stream::new(self.metadata, self.layout, self.name, self.content);
        again.go_to_place(&PacketPlace { packet, inside: None });
        let begin = self.cursor.at.saturating_sub(self.bits);
        loop {
            // Records in front of the current one. It passes over none where no packet is open yet.
            again.pass_plain(Until { bits: begin, ..Until::END }, |_, _| {});
            let place = again.place();
            match again.advance() {
                Next::Record if again.cursor.at < self.cursor.at && again.opened == packet => {}
                // The first of a packet may be its loss, and then the first record.
                Next::Lost(_) if again.cursor.at < self.cursor.at && again.opened == packet => {}
                _ => return place,
            }
        }
    }

    /// In front of what [`Stream::advance`] gives next.
    fn place(&self) -> PacketPlace {
        match self.inside() {
            Some(inside) => PacketPlace { packet: self.opened, inside: Some(inside) },
            None => PacketPlace { packet: self.mark(), inside: None },
        }
    }

    /// Behind the last item.
    pub fn end(&self) -> PacketPlace {
        PacketPlace { packet: self.mark(), inside: None }
    }
}

impl Cursor<'_> {
    /// Whether so many bits from the packet's first are in it.
    fn reaches(&self, bits: u64) -> bool {
        self.check(bits.saturating_sub(self.at)).is_ok()
    }
}
