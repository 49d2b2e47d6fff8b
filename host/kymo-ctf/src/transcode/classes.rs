// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams and events as they are written again, and who is to be named in their records.

use std::collections::HashMap;

use super::layout::{Member, Planner};
use crate::read::{Metadata, Record};
use crate::write::EnvValue;

/// All classes of a trace.
pub(super) struct Classes {
    pub streams: Vec<StreamLayout>,
    /// By position in the source's metadata.
    pub events: Vec<EventLayout>,
    /// Fields that have another name than in the source.
    pub renamed: u64,
}

/// Who wrote a record: a context that is added where the source says it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Process,
    Thread,
    Program,
}

/// A stream class as it is written.
pub(super) struct StreamLayout {
    /// The source's own fields behind those that all packets have.
    pub packet: Vec<Member>,
    pub common: Vec<Member>,
    pub added: Vec<Writer>,
    /// Programs see themselves: `vpid` and `vtid`. Otherwise `pid` and `tid`.
    pub is_of_program: bool,
    /// Bytes of an event's id.
    pub id_bytes: usize,
    /// Positions of the events in the source's metadata, by their new ids.
    pub events: Vec<usize>,
}

/// An event class as it is written.
#[derive(Default)]
pub(super) struct EventLayout {
    pub stream: usize,
    pub id: u32,
    pub context: Vec<Member>,
    pub payload: Vec<Member>,
}

impl Classes {
    /// `learns`: records come with threads and processes that they do not have themselves.
    pub fn new(metadata: &Metadata, learns: bool) -> Self {
        let mut planner = Planner::new(metadata);
        let mut events: Vec<EventLayout> = metadata.events.iter().map(|_| EventLayout::default()).collect();
        let mut streams = Vec::with_capacity(metadata.streams.len());
        for (position, class) in metadata.streams.iter().enumerate() {
            let mut own: Vec<usize> = class.events.positions().map(|event| event as usize).collect();
            own.sort_unstable();
            for (id, event) in own.iter().enumerate() {
                let source = &metadata.events[*event];
                let (context, payload) = (planner.fields(source.context), planner.fields(source.payload));
                events[*event] = EventLayout { stream: position, id: id as u32, context, payload };
            }
            let packet = planner.packet_context(class.packet_context);
            let common = planner.fields(class.common_context);
            // Of compact records the thread is known, but no field of theirs.
            let has_threads = metadata.thread_event(class).is_some();
            let (added, is_of_program) = writers(metadata, (&packet, &common), learns, has_threads);
            let id_bytes = if own.len() > 1 << 16 { 4 } else { 2 };
            streams.push(StreamLayout { packet, common, added, is_of_program, id_bytes, events: own });
        }
        Self { streams, events, renamed: planner.renamed }
    }
}

impl Writer {
    pub fn encode(self, record: &Record<'_>, out: &mut Vec<u8>) {
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
    pub fn declaration(self, is_of_program: bool) -> &'static str {
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
fn writers(
    metadata: &Metadata,
    (packet, common): (&[Member], &[Member]),
    learns: bool,
    has_threads: bool,
) -> (Vec<Writer>, bool) {
    let env: HashMap<&str, &EnvValue> = metadata.env.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let has = |members: &[Member], names: &[&str]| members.iter().any(|member| names.contains(&member.shown()));
    let virtual_ids = ["vpid", "vtid"];
    let is_of_program = has(packet, &virtual_ids) || has(common, &virtual_ids) || env.contains_key("vpid");
    let learns = learns && !is_of_program;
    let mut added = Vec::new();
    if !has(common, &["pid", "vpid"]) && (learns || has(packet, &["pid", "vpid"]) || env.contains_key("vpid")) {
        added.push(Writer::Process);
    }
    if !has(common, &["tid", "vtid"]) && (learns || has_threads) {
        added.push(Writer::Thread);
    }
    if !has(common, &["procname"]) && (learns || has(packet, &["procname"]) || env.contains_key("procname")) {
        added.push(Writer::Program);
    }
    (added, is_of_program)
}
