// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader gives: records, and losses where records are missing.

use std::borrow::Cow;

use super::class::{EventClass, WriterFact};
use super::frame::Frame;
use super::stream::{Lost, PacketFacts};
use super::value::{Fields, Value, small};

/// The next thing that happened.
#[derive(Debug)]
pub enum Item<'a> {
    /// A record.
    Record(Record<'a>),
    /// Records that are not there.
    Loss(Loss<'a>),
}

/// One record. A view: it lasts until the reader moves on.
#[derive(Debug)]
pub struct Record<'a> {
    /// Position of its trace among those given to [`Reader::new`].
    pub trace: usize,
    /// Name of its stream file.
    pub stream: &'a str,
    /// Number of its packet in the file, from 0.
    pub packet: u64,
    /// The full value of the clock.
    pub cycles: u64,
    /// Nanoseconds since 1970-01-01, or since the clock's own origin where it is not absolute. Rounded down.
    pub ns: i128,
    /// Its type.
    pub event: &'a EventClass,
    /// Position of its type in [`super::Metadata::events`].
    pub event_position: usize,
    /// Bits in its stream: head, contexts, payload, and what aligns them.
    pub bits: u64,
    /// The CPU that wrote it.
    pub cpu: Option<u32>,
    /// The process, as it sees itself.
    pub vpid: Option<u32>,
    /// Name of the program; empty where the trace does not have it.
    pub procname: &'a str,
    /// The thread, as it sees itself.
    pub vtid: Option<u32>,
    /// Fields of the packet's context.
    pub packet_context: Fields<'a>,
    /// Fields that all records of the stream have.
    pub common_context: Fields<'a>,
    /// Fields in front of the payload that this event has.
    pub context: Fields<'a>,
    /// The fields of the event.
    pub payload: Fields<'a>,
}

/// Records that were lost on one stream, somewhere between two times.
#[derive(Debug)]
pub struct Loss<'a> {
    /// Position of its trace among those given to [`Reader::new`].
    pub trace: usize,
    /// Name of its stream file.
    pub stream: &'a str,
    /// Number of the packet that tells of it.
    pub packet: u64,
    /// Records lost.
    pub records: u64,
    /// Whole packets that are missing, with records beyond those in `records` or not.
    pub packets: u64,
    /// Clock: not before.
    pub from_cycles: u64,
    /// Clock: not after.
    pub to_cycles: u64,
    /// `from_cycles` as nanoseconds.
    pub from_ns: i128,
    /// `to_cycles` as nanoseconds.
    pub to_ns: i128,
    /// The CPU of the packet that tells of it.
    pub cpu: Option<u32>,
    /// The process of that packet.
    pub vpid: Option<u32>,
    /// Name of its program.
    pub procname: &'a str,
    /// Fields of that packet's context.
    pub packet_context: Fields<'a>,
}

/// When a record was written, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub cycles: u64,
    pub ns: i128,
    pub bits: u64,
}

impl<'a> Record<'a> {
    /// The record of the event at position `event` that lies in `frame`. Always inlined: it is large, and would
    /// be copied once more for each record.
    #[inline(always)]
    pub(super) fn new(
        trace: usize,
        facts: &'a PacketFacts<'a>,
        frame: &'a Frame<'a>,
        event: usize,
        Extent { cycles, ns, bits }: Extent,
    ) -> Self {
        let plan = &facts.layout.plans.events[event];
        let [common_context, context, payload] = plan.parts.each_ref().map(|part| Fields::of_record(frame, part));
        let mut record = Self {
            trace,
            stream: facts.stream,
            packet: facts.number,
            cycles,
            ns,
            event: &frame.metadata.events[event],
            event_position: event,
            bits,
            cpu: facts.cpu,
            vpid: facts.vpid,
            procname: &facts.procname,
            vtid: facts.vtid,
            packet_context: Fields::of_tape(&facts.frame),
            common_context,
            context,
            payload,
        };
        for place in &plan.known {
            match frame.known(place) {
                Some(number) => record.note_number(place.known, number),
                None => record.note(place.part, place.position, place.known),
            }
        }
        record
    }

    /// As [`super::Glance::fields`].
    #[inline]
    pub fn fields(&self) -> Option<&'a [u8]> {
        self.payload.frame()?.fields()
    }

    #[inline]
    fn note_number(&mut self, known: WriterFact, number: Option<u32>) {
        match known {
            WriterFact::Cpu => self.cpu = number,
            WriterFact::Pid => self.vpid = number,
            WriterFact::Tid => self.vtid = number,
            WriterFact::Program => {}
        }
    }

    /// Takes what a field says of where it was written.
    fn note(&mut self, part: usize, position: usize, known: WriterFact) {
        let fields = [&self.common_context, &self.context, &self.payload][part];
        let Some(value) = fields.at(position) else { return };
        match (known, value) {
            (WriterFact::Cpu, value) => self.cpu = small(&value),
            (WriterFact::Pid, value) => self.vpid = small(&value),
            (WriterFact::Tid, value) => self.vtid = small(&value),
            (WriterFact::Program, Value::Text(Cow::Borrowed(text))) => self.procname = text,
            (WriterFact::Program, _) => {}
        }
    }
}

impl<'a> Loss<'a> {
    /// `ns`: of the loss's two times.
    pub(super) fn new(trace: usize, facts: &'a PacketFacts<'a>, lost: Lost, ns: [i128; 2]) -> Self {
        Self {
            trace,
            stream: facts.stream,
            packet: facts.number,
            records: lost.records,
            packets: lost.packets,
            from_cycles: lost.from,
            to_cycles: lost.to,
            from_ns: ns[0],
            to_ns: ns[1],
            cpu: facts.cpu,
            vpid: facts.vpid,
            procname: &facts.procname,
            packet_context: Fields::of_tape(&facts.frame),
        }
    }
}
