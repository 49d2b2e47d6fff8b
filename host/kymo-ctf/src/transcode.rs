// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of any trace, written again as CTF 1.8 that every reader reads [spec/exchange.md 2.1].
//!
//! Whatever the source has (bits, big endian, compact heads, CTF 2) becomes whole bytes, little endian: integers of 8,
//! 16, 32 and 64 bits, floats of 32 and 64, text up to a NUL character, lengths and tags of 32 bits. Nothing here opens
//! a file; which records make a packet is for others.

mod encode;
mod layout;
mod text;

use std::collections::HashMap;

use crate::read::{Fields, Loss, Metadata, Record, Trace};
use crate::write::{EnvValue, PACKET_MAGIC};
use layout::{Member, Planner};

/// A record that is not what its metadata says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} of {of} has no value that its class can have")]
pub struct Unfit {
    /// The event, or `a packet`.
    pub of: String,
    /// The field, as it would be written.
    pub field: String,
}

/// Who wrote a record: a context that is added where the source says it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Process,
    Thread,
    Program,
}

/// A stream class as it is written.
struct StreamLayout {
    /// The source's own fields behind those that all packets have.
    packet: Vec<Member>,
    common: Vec<Member>,
    added: Vec<Writer>,
    /// Programs see themselves: `vpid` and `vtid`. Otherwise `pid` and `tid`.
    is_of_program: bool,
    /// Bytes of an event's id.
    id_bytes: usize,
    /// Positions of the events in the source's metadata, by their new ids.
    events: Vec<usize>,
}

/// An event class as it is written.
#[derive(Default)]
struct EventLayout {
    stream: usize,
    id: u32,
    context: Vec<Member>,
    payload: Vec<Member>,
}

/// Writes records of one trace again.
pub struct Transcoder<'t> {
    metadata: &'t Metadata,
    streams: Vec<StreamLayout>,
    /// By position in the source's metadata.
    events: Vec<EventLayout>,
    /// Fields that have another name, because the one they have cannot be written in CTF 1.8, or is there twice.
    pub renamed: u64,
    /// Texts so far that had bytes that are not text, which were replaced by U+FFFD.
    pub replaced_texts: u64,
}

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The trace.
    pub uuid: [u8; 16],
    /// Position of the stream class, as of [`Transcoder::stream_of`].
    pub stream: usize,
    /// The stream file: distinct in its stream class.
    pub instance: u64,
    /// Clock: its first record or earlier.
    pub begin: u64,
    /// Clock: its last record or later.
    pub end: u64,
    /// Number of the packet in the file, missing ones counted.
    pub seq: u64,
    /// Records lost up to `end`, cumulative over the file.
    pub discarded: u64,
}

impl Packet {
    /// Bytes in front of the source's own fields.
    const BYTES: usize = 32 + 6 * 8;

    /// Everything in front of the records: `context` is what [`Transcoder::packet_context`] gave, `content_bytes` what the
    /// records have.
    pub fn encode(&self, context: &[u8], content_bytes: usize) -> Vec<u8> {
        let bits = (Self::BYTES + context.len() + content_bytes) as u64 * 8;
        let mut out = Vec::with_capacity(Self::BYTES + context.len());
        out.extend_from_slice(&PACKET_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&(self.stream as u32).to_le_bytes());
        for word in [self.instance, self.begin, self.end, bits, bits, self.seq, self.discarded] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(context);
        out
    }
}

impl<'t> Transcoder<'t> {
    /// For records of `trace`. `learns`: records are given with threads and processes that they do not have themselves,
    /// but that somebody has found out.
    pub fn new(trace: &'t Trace, learns: bool) -> Self {
        let metadata = &trace.metadata;
        let mut planner = Planner::new(metadata);
        let mut events: Vec<EventLayout> = metadata.events.iter().map(|_| EventLayout::default()).collect();
        let mut streams = Vec::with_capacity(metadata.streams.len());
        for (position, class) in metadata.streams.iter().enumerate() {
            let mut own: Vec<usize> = class.events.positions().map(|event| event as usize).collect();
            own.sort_unstable();
            for (id, event) in own.iter().enumerate() {
                let source = &metadata.events[*event];
                events[*event] = EventLayout {
                    stream: position,
                    id: id as u32,
                    context: planner.fields(source.context),
                    payload: planner.fields(source.payload),
                };
            }
            let packet = planner.packet_context(class.packet_context);
            let common = planner.fields(class.common_context);
            let (added, is_of_program) = writers(metadata, &packet, &common, learns);
            let id_bytes = if own.len() > 1 << 16 { 4 } else { 2 };
            streams.push(StreamLayout { packet, common, added, is_of_program, id_bytes, events: own });
        }
        Self { metadata, streams, events, renamed: planner.renamed, replaced_texts: 0 }
    }

    /// The file `metadata`. Keys of the environment are distinct.
    pub fn metadata(&self, uuid: &[u8; 16], env: &[(String, EnvValue)]) -> String {
        text::metadata(self, uuid, env)
    }

    /// Position of the stream class of an event, which is given by its position.
    pub fn stream_of(&self, event: usize) -> usize {
        self.events.get(event).map_or(0, |event| event.stream)
    }

    /// Position of the stream class of a loss.
    pub fn stream_of_loss(&self, loss: &Loss<'_>) -> usize {
        let class = loss.packet_context.class();
        self.metadata.streams.iter().position(|stream| stream.packet_context == class).unwrap_or(0)
    }

    /// Appends the fields of a packet's context that the source's tracer has put there.
    ///
    /// # Errors
    /// The fields are of another stream class.
    pub fn packet_context(&mut self, stream: usize, fields: &Fields<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let Some(layout) = self.streams.get(stream) else { return Ok(()) };
        let replaced =
            encode::fields(&layout.packet, fields, out).map_err(|field| Unfit { of: "a packet".into(), field })?;
        self.replaced_texts += replaced;
        Ok(())
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The record is of another trace.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let unfit = |field| Unfit { of: record.event.name.clone(), field };
        let Some(event) = self.events.get(record.event_position) else { return Err(unfit(String::new())) };
        let Some(stream) = self.streams.get(event.stream) else { return Err(unfit(String::new())) };
        out.extend_from_slice(&event.id.to_le_bytes()[..stream.id_bytes]);
        out.extend_from_slice(&record.cycles.to_le_bytes());
        let mut replaced = encode::fields(&stream.common, &record.common_context, out).map_err(unfit)?;
        stream.added.iter().for_each(|writer| writer.encode(record, out));
        replaced += encode::fields(&event.context, &record.context, out).map_err(unfit)?;
        replaced += encode::fields(&event.payload, &record.payload, out).map_err(unfit)?;
        self.replaced_texts += replaced;
        Ok(())
    }
}

impl Writer {
    fn encode(self, record: &Record<'_>, out: &mut Vec<u8>) {
        // What is not known is -1, and an empty name.
        let number = |number: Option<u32>| number.map_or(-1, |number| number as i32).to_le_bytes();
        match self {
            Writer::Process => out.extend_from_slice(&number(record.vpid)),
            Writer::Thread => out.extend_from_slice(&number(record.vtid)),
            Writer::Program => {
                out.extend(record.procname.bytes().filter(|byte| *byte != 0));
                out.push(0);
            }
        }
    }

    /// Type and name in the metadata.
    fn declaration(self, is_of_program: bool) -> &'static str {
        match (self, is_of_program) {
            (Writer::Process, true) => "int32_t _vpid",
            (Writer::Process, false) => "int32_t _pid",
            (Writer::Thread, true) => "int32_t _vtid",
            (Writer::Thread, false) => "int32_t _tid",
            (Writer::Program, _) => "string { encoding = UTF8; } _procname",
        }
    }
}

/// Contexts that records of a stream class need besides their own, and whether programs wrote them.
fn writers(metadata: &Metadata, packet: &[Member], common: &[Member], learns: bool) -> (Vec<Writer>, bool) {
    let env: HashMap<&str, &EnvValue> = metadata.env.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let has = |members: &[Member], names: &[&str]| members.iter().any(|member| names.contains(&member.shown()));
    let virtual_ids = ["vpid", "vtid"];
    let is_of_program = has(packet, &virtual_ids) || has(common, &virtual_ids) || env.contains_key("vpid");
    let learns = learns && !is_of_program;
    let mut added = Vec::new();
    if !has(common, &["pid", "vpid"]) && (learns || has(packet, &["pid", "vpid"]) || env.contains_key("vpid")) {
        added.push(Writer::Process);
    }
    if !has(common, &["tid", "vtid"]) && learns {
        added.push(Writer::Thread);
    }
    if !has(common, &["procname"]) && (learns || has(packet, &["procname"]) || env.contains_key("procname")) {
        added.push(Writer::Program);
    }
    (added, is_of_program)
}
