//! Records of all streams in the order of time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::Trace;
use super::class::{Clock, EventClass, Known};
use super::error::Caveat;
use super::stream::{Lost, Next, Stream, small};
use super::value::{Fields, Value};

/// Order of the heap: nanoseconds since the origin, then cycles, which separate records within a nanosecond, then the
/// position of the stream, so that the order is always the same.
type Key = Reverse<(i128, u64, usize)>;

/// Goes through the records of one or more traces in the order of time.
pub struct Reader<'t> {
    streams: Vec<Source<'t>>,
    heap: BinaryHeap<Key>,
    /// The stream whose item was given last; it moves on when the next one is asked for.
    given: bool,
}

struct Source<'t> {
    stream: Stream<'t>,
    trace: usize,
    /// A loss that is the stream's next item; otherwise that is the record in the stream's buffer.
    lost: Option<Lost>,
}

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
}

impl<'t> Reader<'t> {
    /// At the first record of `traces`, which are merged by time.
    pub fn new(traces: &'t [Trace]) -> Self {
        let mut reader = Self { streams: Vec::new(), heap: BinaryHeap::new(), given: false };
        for (index, trace) in traces.iter().enumerate() {
            for (name, content) in &trace.streams {
                let stream = Stream::new(&trace.metadata, &trace.layout, name, content);
                let mut source = Source { stream, trace: index, lost: None };
                if let Some(key) = source.advance() {
                    reader.heap.push(Reverse((key.0, key.1, reader.streams.len())));
                }
                reader.streams.push(source);
            }
        }
        reader
    }

    /// The next record or loss; `None` at the end of all streams.
    #[expect(clippy::should_implement_trait, reason = "an item borrows the reader, which an Iterator cannot say")]
    pub fn next(&mut self) -> Option<Item<'_>> {
        if std::mem::take(&mut self.given) {
            if let Some(mut top) = self.heap.peek_mut() {
                let index = top.0.2;
                match self.streams[index].advance() {
                    Some((ns, cycles)) => top.0 = (ns, cycles, index),
                    None => drop(PeekMut::pop(top)),
                }
            }
        }
        let &Reverse((ns, cycles, index)) = self.heap.peek()?;
        self.given = true;
        Some(self.streams[index].item(ns, cycles))
    }

    /// What was wrong so far, file by file in the order of each file: position of the trace among those given to
    /// [`Reader::new`], and the caveat.
    pub fn caveats(&self) -> impl Iterator<Item = (usize, &Caveat)> {
        self.streams.iter().flat_map(|source| source.stream.caveats.iter().map(|caveat| (source.trace, caveat)))
    }

    /// How much was wrong so far, more than [`Reader::caveats`] lists where a file has very many.
    pub fn caveat_count(&self) -> u64 {
        self.streams.iter().map(|source| source.stream.caveats.len() as u64 + source.stream.caveats_beyond).sum()
    }
}

impl Source<'_> {
    fn clock(&self) -> &Clock {
        // There is always a clock; `finish` of the builder sees to it.
        &self.stream.metadata.clocks[self.stream.stream_class().clock]
    }

    /// Moves on; the time of what comes next.
    fn advance(&mut self) -> Option<(i128, u64)> {
        let cycles = match self.stream.advance() {
            Next::End => return None,
            Next::Record => {
                self.lost = None;
                self.stream.time
            }
            Next::Lost(lost) => {
                self.lost = Some(lost);
                lost.from
            }
        };
        Some((self.clock().nanoseconds(cycles), cycles))
    }

    fn item(&self, ns: i128, cycles: u64) -> Item<'_> {
        let stream = &self.stream;
        match self.lost {
            None => Item::Record(self.record(ns, cycles)),
            Some(lost) => Item::Loss(Loss {
                trace: self.trace,
                stream: stream.name,
                packet: stream.packet_number,
                records: lost.records,
                packets: lost.packets,
                from_cycles: lost.from,
                to_cycles: lost.to,
                from_ns: ns,
                to_ns: self.clock().nanoseconds(lost.to),
                cpu: stream.place.cpu,
                vpid: stream.place.vpid,
                procname: &stream.place.procname,
            }),
        }
    }

    fn record(&self, ns: i128, cycles: u64) -> Record<'_> {
        let stream = &self.stream;
        let fields = |nodes| Fields::new(stream.metadata, stream.data, nodes);
        let nodes = stream.decoder.nodes.as_slice();
        let parts = stream.parts;
        let common = fields(&nodes[parts.common..parts.specific]);
        let mut record = Record {
            trace: self.trace,
            stream: stream.name,
            packet: stream.packet_number,
            cycles,
            ns,
            event: &stream.metadata.events[stream.event],
            event_position: stream.event,
            cpu: stream.place.cpu,
            vpid: stream.place.vpid,
            procname: &stream.place.procname,
            vtid: None,
            packet_context: fields(&stream.context),
            common_context: common,
            context: fields(&nodes[parts.specific..parts.payload]),
            payload: fields(&nodes[parts.payload..]),
        };
        for &(position, known) in &stream.stream_class().known {
            let Some(value) = common.at(position) else { continue };
            match (known, value) {
                (Known::Cpu, value) => record.cpu = small(&value),
                (Known::Pid, value) => record.vpid = small(&value),
                (Known::Tid, value) => record.vtid = small(&value),
                (Known::Program, Value::Text(Cow::Borrowed(text))) => record.procname = text,
                (Known::Program, _) => {}
            }
        }
        record
    }
}
