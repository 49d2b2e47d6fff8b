// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record of which nothing is decoded but the fields that somebody asks for, by their lenses.

use super::class::WriterFact;
use super::frame::Frame;
use super::lens::Lens;
use super::stream::PacketFacts;
use super::value::{Fields, Value, small};

/// One record, as little of it as can be: for who looks at one or two fields of very many. Lasts until the reader moves
/// on.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// As [`super::Record::trace`].
    pub trace: usize,
    /// As [`super::Record::event_position`].
    pub event: usize,
    /// As [`super::Record::ns`].
    pub ns: i128,
    facts: &'a PacketFacts<'a>,
    frame: &'a Frame<'a>,
}

/// What a packet says of who wrote its records.
#[derive(Clone, Copy, Debug)]
pub struct PacketWriter<'a> {
    /// As [`super::Record::vpid`].
    pub pid: Option<u32>,
    /// As [`super::Record::vtid`]: of compact records, up to the next one's thread record.
    pub tid: Option<u32>,
    /// As [`super::Record::procname`].
    pub name: &'a str,
}

impl<'a> Glance<'a> {
    #[inline]
    pub(super) fn new(trace: usize, event: usize, ns: i128, facts: &'a PacketFacts<'a>, frame: &'a Frame<'a>) -> Self {
        Self { trace, event, ns, facts, frame }
    }

    /// As [`super::Record::stream`].
    #[inline]
    pub fn stream(&self) -> &'a str {
        self.facts.stream
    }

    /// As [`super::Record::cpu`]: of the packet, where the record itself does not say it.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        let known = &self.facts.layout.plans.events[self.event].known;
        let mut cpu = self.facts.cpu;
        for place in known.iter().filter(|place| place.known == WriterFact::Cpu) {
            let value = || self.part(place.part).at(place.position).map(|value| small(&value));
            if let Some(known) = self.frame.known(place).or_else(value) {
                cpu = known;
            }
        }
        cpu
    }

    /// The CPU of the packet, whatever the record itself says.
    #[inline]
    pub fn packet_cpu(&self) -> Option<u32> {
        self.facts.cpu
    }

    /// Process and thread of the packet, and what the process is called there, whatever the record itself says.
    #[inline]
    pub fn packet_writer(&self) -> PacketWriter<'a> {
        PacketWriter { pid: self.facts.vpid, tid: self.facts.vtid, name: &self.facts.procname }
    }

    /// The bytes from the record's first field on, for [`super::Direct`]: also those of the records behind. `None`
    /// where it begins within a byte.
    #[inline]
    pub fn fields(&self) -> Option<&'a [u8]> {
        self.frame.fields()
    }

    /// The integer that the lens shows, where it is a plain one.
    #[inline]
    pub fn integer(&self, lens: &Lens) -> Option<i128> {
        lens.integer_of(self.frame)
    }

    /// The bytes of the text that the lens shows, where it is a plain one: with what is behind a byte of 0 in its
    /// field.
    #[inline]
    pub fn text(&self, lens: &Lens) -> Option<&'a [u8]> {
        lens.text_of(self.frame)
    }

    /// As [`Lens::value`].
    pub fn value(&self, lens: &Lens) -> Option<Value<'a>> {
        let (part, position) = lens.place();
        self.part(part as usize).at(position)
    }

    fn part(&self, part: usize) -> Fields<'a> {
        Fields::of_record(self.frame, &self.facts.layout.plans.events[self.event].parts[part])
    }
}
