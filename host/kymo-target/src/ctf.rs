// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a target as a CTF 1.8 trace [spec/target.md 7, trace.md]: a stream file for each epoch, one clock for
//! all.

use std::collections::HashMap;

use kymo_abi::record_head;
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind,
    TraceMeta, metadata_ctf18,
};

use crate::content::Record;
use crate::receiver::{Batch, Epoch};

/// There is one process on a target.
const PROCESS: u32 = 1;
/// A packet's records lie no further apart than a reader can tell by 48 bits of a stamp.
const STEP_NS_MAX: u64 = 1 << 47;
/// Ids that a record can carry.
const EVENTS_MAX: usize = 65_000;
const OTHER: &str = "event_without_number";

/// Name of an epoch's stream file.
pub fn file_name(epoch: usize) -> String {
    format!("user_t_{epoch}")
}

/// Where an epoch's file stands.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    /// Nanoseconds since 1970 at stamp 0: may lie before 1970.
    base_ns: i128,
    packets: u64,
    discarded: u64,
    /// Of its last packet.
    end_ns: u64,
}

/// Makes packets of batches, and the metadata to them.
#[derive(Debug)]
pub struct Trace {
    uuid: [u8; 16],
    hostname: String,
    ids: HashMap<String, u16>,
    /// In the order of their ids, from 1.
    names: Vec<String>,
    files: Vec<File>,
    /// Events that `metadata` does not know yet.
    has_news: bool,
}

impl Trace {
    /// A trace without a packet.
    pub fn new(uuid: [u8; 16], hostname: &str) -> Self {
        let (ids, names, files) = (HashMap::new(), Vec::new(), Vec::new());
        Self { uuid, hostname: hostname.to_owned(), ids, names, files, has_news: true }
    }

    /// Whether the metadata has to be written again before packets that were made are.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The packets of a batch, for the end of its epoch's file. Batches come in the order of their epochs.
    pub fn packets(&mut self, batch: &Batch, epochs: &[Epoch]) -> Vec<u8> {
        let Some(epoch) = epochs.get(batch.epoch) else { return Vec::new() };
        let mut out = Vec::new();
        let first = batch.records.first().map(|record| record.stamp);
        self.open(batch.epoch, epoch, first.unwrap_or(epoch.anchor_stamp));
        if batch.lost > 0 && (self.files[batch.epoch].packets == 0 || batch.records.is_empty()) {
            self.loss(batch, epoch, first, &mut out);
        } else {
            self.files[batch.epoch].discarded += batch.lost;
        }
        let mut rest = &batch.records[..];
        while !rest.is_empty() {
            let near = rest.windows(2).take_while(|two| {
                let ns = |record: &Record| self.files[batch.epoch].ns(epoch, record.stamp);
                ns(&two[1]) - ns(&two[0]) < STEP_NS_MAX
            });
            let (now, later) = rest.split_at(1 + near.count());
            self.packet(batch.epoch, epoch, now, &mut out);
            rest = later;
        }
        out
    }

    /// Its time 0. An epoch does not begin before the one in front of it has ended.
    fn open(&mut self, index: usize, epoch: &Epoch, first_stamp: u64) {
        while self.files.len() <= index {
            let before = self.files.last().map_or(0, |file| file.end_ns);
            let mut file = File::default();
            let wanted = i128::from(epoch.anchor_ns.unwrap_or(before)) - scaled(epoch.anchor_stamp, epoch.rate());
            let first_ns = wanted + scaled(first_stamp, epoch.rate());
            file.base_ns = wanted + (i128::from(before) + 1 - first_ns).max(0);
            file.end_ns = before;
            self.files.push(file);
        }
    }

    /// A packet without records: a reader dates what it counts between the packet before and this one.
    fn loss(&mut self, batch: &Batch, epoch: &Epoch, first: Option<u64>, out: &mut Vec<u8>) {
        let file = &mut self.files[batch.epoch];
        let at = first.map_or(file.end_ns, |stamp| file.ns(epoch, stamp)).max(file.end_ns);
        if file.packets == 0 {
            self.head(batch.epoch, epoch, at, at, 0, out);
        }
        self.files[batch.epoch].discarded += batch.lost;
        self.head(batch.epoch, epoch, at, at, 0, out);
    }

    fn packet(&mut self, index: usize, epoch: &Epoch, records: &[Record], out: &mut Vec<u8>) {
        let mut content = Vec::new();
        let file = self.files[index];
        let mut last = file.end_ns;
        let begin = records.first().map_or(last, |record| file.ns(epoch, record.stamp).max(last));
        for record in records {
            last = file.ns(epoch, record.stamp).max(last);
            let id = self.id(&epoch.name_of(record.id));
            content.extend_from_slice(&record_head(id, last));
            content.extend_from_slice(&record.thread.to_le_bytes());
            content.extend_from_slice(&record.address.to_le_bytes());
            content.push(u8::from(record.is_truncated));
            content.extend_from_slice(&(record.data.len() as u16).to_le_bytes());
            content.extend_from_slice(&record.data);
        }
        self.head(index, epoch, begin, last, content.len(), out);
        out.extend_from_slice(&content);
    }

    fn head(&mut self, index: usize, epoch: &Epoch, begin: u64, end: u64, content_bytes: usize, out: &mut Vec<u8>) {
        let mut procname = [0; 16];
        let name = epoch.name.as_bytes();
        let length = (0..=name.len().min(16)).rev().find(|&at| epoch.name.is_char_boundary(at)).unwrap_or(0);
        procname[..length].copy_from_slice(&name[..length]);
        let file = &mut self.files[index];
        let head = PacketHead {
            uuid: self.uuid,
            stream_instance: index as u64,
            begin,
            end,
            content_bytes: content_bytes as u64,
            seq: file.packets,
            discarded: file.discarded,
            cpu: 0,
            program: Some(Program { vpid: PROCESS, lane: 0, procname }),
        };
        file.packets += 1;
        file.end_ns = end;
        out.extend_from_slice(&head.encode());
    }

    /// The id of a name, of whatever epoch. Ids are as many as there are; names beyond share one.
    fn id(&mut self, name: &str) -> u16 {
        let name = if self.names.len() < EVENTS_MAX { name } else { OTHER };
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.names.push(name.to_owned());
        let id = self.names.len() as u16;
        self.ids.insert(name.to_owned(), id);
        self.has_news = true;
        id
    }

    /// The file `metadata`, for all packets so far.
    pub fn metadata(&self) -> String {
        let text = |text: &str| EnvValue::Text(text.to_owned());
        let env = [
            ("hostname", text(&self.hostname)),
            ("domain", text("bare")),
            ("tracer_name", text("kymo-target")),
            ("tracer_major", EnvValue::Int(1)),
            ("tracer_minor", EnvValue::Int(0)),
            ("clock_source", text("target")),
        ];
        let events = self.names.iter().zip(1..).map(|(name, id)| event(id, name)).collect();
        metadata_ctf18(&TraceMeta {
            uuid: self.uuid,
            env: env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            clock: ClockMeta {
                name: "target".to_owned(),
                uuid: self.uuid,
                description: "The target's clock, from the host's time at its first head on".to_owned(),
                frequency_hz: 1_000_000_000,
                offset_s: 0,
                offset_cycles: 0,
                precision_cycles: 0,
                absolute: true,
            },
            streams: vec![StreamClass { kind: StreamKind::User, contexts: Vec::new(), events }],
        })
    }
}

impl File {
    /// Nanoseconds since 1970.
    fn ns(&self, epoch: &Epoch, stamp: u64) -> u64 {
        u64::try_from((self.base_ns + scaled(stamp, epoch.rate())).max(0)).unwrap_or(u64::MAX)
    }
}

/// Counts of a clock in nanoseconds.
fn scaled(stamp: u64, hz: u32) -> i128 {
    i128::from(stamp) * 1_000_000_000 / i128::from(hz)
}

fn event(id: u16, name: &str) -> EventClass {
    let field = |name: &str, class| Field { name: name.to_owned(), class };
    let fields = vec![
        field("address", FieldClass::Number(Number::hex(32))),
        field("truncated", FieldClass::Number(Number::Bool)),
        field("data", FieldClass::Blob),
    ];
    EventClass { id, name: name.to_owned(), file: String::new(), line: 0, fields }
}
