// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto's protobuf [spec/exchange.md 2]: kernel records as ftrace bundles, programs' records as track events.

mod ftrace;
mod wire;

use std::collections::HashMap;
use std::path::Path;

use kymo_ctf::read::{Loss, Number, Record, Trace, Value};

use super::csv::leave_out_contexts;
use super::exporter::{Done, Exporter};
use super::facts::{ContextNames, all_fields, env_text, is_absolute, is_kernel, is_state};
use super::output::Output;
use super::pairs::{Pairs, Phase, Track, track_of};
use super::stacks::Symbols;
use crate::{Error, json};
use ftrace::Bundles;
use wire::{Message, time};

/// Fields of TracePacket.
mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const SYSTEM_INFO: u32 = 45;
    pub const TIMESTAMP_CLOCK: u32 = 58;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}

/// Clocks of ClockSnapshot.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// The one writer of packets in the file.
const SEQUENCE: u64 = 1;

/// Kinds of TrackEvent.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// Category of what ends and goes on where a slice is shown in parts.
const PART: &str = "part";

/// The track of losses.
const LOSSES: u64 = 1;

/// The file: a `Trace` message, which is packets one behind the other.
pub struct Perfetto<'t> {
    traces: &'t [Trace],
    output: Output,
    pairs: Pairs,
    contexts: ContextNames,
    symbols: Symbols,
    bundles: Bundles,
    /// By process and thread: its track, and the name that was written last.
    threads: HashMap<(u32, u32), (u64, String)>,
    /// By process: its track.
    processes: HashMap<u32, u64>,
    tracks: u64,
    is_begun: bool,
    has_losses: bool,
    done: Done,
}

impl<'t> Perfetto<'t> {
    pub fn new(traces: &'t [Trace], path: &Path, symbols: Symbols) -> Result<Perfetto<'t>, Error> {
        Ok(Perfetto {
            traces,
            output: Output::create(path)?,
            pairs: Pairs::new(traces),
            contexts: ContextNames::new(traces),
            symbols,
            bundles: Bundles::default(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            tracks: LOSSES,
            is_begun: false,
            has_losses: false,
            done: Done { files: 1, ..Done::default() },
        })
    }

    fn packet(&mut self, mut packet: Message) -> Result<(), Error> {
        packet.uint(packet::SEQUENCE_ID, SEQUENCE);
        let mut file = Message::default();
        // Field 1 of the message Trace.
        file.message(1, &packet);
        self.output.write(file.bytes())
    }

    /// What stands in front of all records.
    fn begin(&mut self, ns: i128) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let mut snapshot = Message::default();
        let clocks = [BOOTTIME, REALTIME];
        for clock in clocks.into_iter().filter(|clock| *clock == BOOTTIME || is_absolute(self.traces)) {
            let mut entry = Message::default();
            entry.uint(1, clock);
            entry.uint(2, time(ns));
            snapshot.message(1, &entry);
        }
        snapshot.uint(2, BOOTTIME);
        let mut first = Message::default();
        first.uint(packet::TIMESTAMP, time(ns));
        first.message(packet::CLOCK_SNAPSHOT, &snapshot);
        // 1: what was interned before is gone, as at the begin of every sequence.
        first.uint(packet::SEQUENCE_FLAGS, 1);
        self.packet(first)?;
        let Some(trace) = self.traces.first() else { return Ok(()) };
        let mut utsname = Message::default();
        for (field, key) in [(1, "sysname"), (2, "kernel_version"), (3, "kernel_release"), (4, "architecture")] {
            env_text(trace, key).iter().for_each(|text| utsname.text(field, text));
        }
        let mut system = Message::default();
        system.message(1, &utsname);
        env_text(trace, "hostname").iter().for_each(|host| system.text(17, host));
        let mut second = Message::default();
        second.message(packet::SYSTEM_INFO, &system);
        self.packet(second)
    }

    /// A packet with its time.
    fn timed(&self, ns: i128) -> Message {
        let mut packet = Message::default();
        packet.uint(packet::TIMESTAMP, time(ns));
        packet.uint(packet::TIMESTAMP_CLOCK, BOOTTIME);
        packet
    }

    fn user(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let track = track_of(record, false);
        let (pid, tid) = if let Track::Thread(pid, tid) = track { (pid, tid) } else { (0, 0) };
        let uuid = self.thread(pid, tid, record.procname)?;
        let (phase, inner) = match self.pairs.phase(record, track) {
            Phase::Begin => (SLICE_BEGIN, Vec::new()),
            Phase::End(inner) => (SLICE_END, inner),
            Phase::Instant => (INSTANT, Vec::new()),
        };
        for pair in &inner {
            self.part(record.ns, uuid, *pair, SLICE_END)?;
        }
        let mut event = Message::default();
        event.uint(9, phase);
        event.uint(11, uuid);
        let name = if phase == INSTANT { None } else { self.pairs.name(record) };
        event.text(23, name.unwrap_or(&record.event.name));
        // The whole name of the event, which a slice's name is only a part of.
        event.text(22, &record.event.name);
        for (name, value) in all_fields(record, &self.contexts) {
            event.message(4, &annotation(Some(name), &value));
        }
        for (name, function) in self.symbols.of_fields(record) {
            event.message(4, &annotation(Some(&name), &Value::Text(function.into())));
        }
        if let Some(cpu) = record.cpu {
            let mut message = Message::default();
            message.text(10, "$cpu");
            message.uint(3, cpu.into());
            event.message(4, &message);
        }
        let mut packet = self.timed(record.ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)?;
        inner.iter().rev().try_for_each(|pair| self.part(record.ns, uuid, *pair, SLICE_BEGIN))
    }

    /// Ends or goes on with a slice that is shown in parts.
    fn part(&mut self, ns: i128, track: u64, pair: u32, phase: u64) -> Result<(), Error> {
        let mut event = Message::default();
        event.uint(9, phase);
        event.uint(11, track);
        event.text(23, self.pairs.slice_name(pair));
        event.text(22, PART);
        let mut packet = self.timed(ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)
    }

    /// The track of a thread, described where it is new or has another name.
    fn thread(&mut self, pid: u32, tid: u32, name: &str) -> Result<u64, Error> {
        let known = self.threads.get(&(pid, tid));
        if let Some((uuid, _)) = known.filter(|(_, known)| known == name || name.is_empty()) {
            return Ok(*uuid);
        }
        if !self.processes.contains_key(&pid) {
            self.tracks += 1;
            self.processes.insert(pid, self.tracks);
            let mut process = Message::default();
            process.int(1, pid.into());
            process.text(6, name);
            let mut descriptor = Message::default();
            descriptor.uint(1, self.tracks);
            descriptor.message(3, &process);
            self.describe(descriptor)?;
        }
        let uuid = match self.threads.get(&(pid, tid)) {
            Some((uuid, _)) => *uuid,
            None => {
                self.tracks += 1;
                self.tracks
            }
        };
        self.threads.insert((pid, tid), (uuid, name.to_owned()));
        let mut thread = Message::default();
        thread.int(1, pid.into());
        thread.int(2, tid.into());
        thread.text(5, name);
        let mut descriptor = Message::default();
        descriptor.uint(1, uuid);
        descriptor.uint(5, self.processes[&pid]);
        descriptor.message(4, &thread);
        self.describe(descriptor)?;
        Ok(uuid)
    }

    fn describe(&mut self, descriptor: Message) -> Result<(), Error> {
        let mut packet = Message::default();
        packet.message(packet::TRACK_DESCRIPTOR, &descriptor);
        self.packet(packet)
    }

    /// What a state dump says of a thread.
    fn dumped(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let number = |name: &str| match record.payload.get(name) {
            Some(Value::Int(number, _)) => i64::try_from(i128::from(number)).ok(),
            _ => None,
        };
        let Some(tid) = number("tid").filter(|_| record.event.name.starts_with("lttng_statedump_process_state")) else {
            return Ok(());
        };
        let Some(Value::Text(name)) = record.payload.get("name") else { return Ok(()) };
        let (mut tree, mut entry) = (Message::default(), Message::default());
        let pid = number("pid").unwrap_or(tid);
        if pid == tid {
            entry.int(1, tid);
            entry.int(2, number("ppid").unwrap_or(0).max(0));
            entry.text(3, &name);
            tree.message(1, &entry);
        } else {
            entry.int(1, tid);
            entry.text(2, &name);
            entry.int(3, pid);
            tree.message(2, &entry);
        }
        let mut packet = self.timed(record.ns);
        packet.message(packet::PROCESS_TREE, &tree);
        self.packet(packet)
    }

    fn write_bundles(&mut self, all: bool) -> Result<(), Error> {
        while let Some(bundle) = self.bundles.take(all) {
            let mut packet = Message::default();
            packet.message(packet::FTRACE_EVENTS, &bundle);
            self.packet(packet)?;
        }
        Ok(())
    }
}

/// A value under its name, or as an element of an array.
fn annotation(name: Option<&str>, value: &Value<'_>) -> Message {
    let mut out = Message::default();
    name.iter().for_each(|name| out.text(10, name));
    match value {
        Value::Int(Number::Unsigned(number), kymo_ctf::read::Base::Hexadecimal) => out.uint(7, *number),
        Value::Int(Number::Unsigned(number), _) => out.uint(3, *number),
        Value::Int(Number::Signed(number), _) => out.int(4, *number),
        Value::Enum(number, label) => {
            out.message(11, &annotation(Some("value"), &Value::Int(*number, kymo_ctf::read::Base::Decimal)));
            label.iter().for_each(|label| out.message(11, &annotation(Some("label"), &Value::Text((*label).into()))));
        }
        Value::Bool(value) => out.uint(2, u64::from(*value)),
        Value::F32(value) => out.double(5, f64::from(*value)),
        Value::F64(value) => out.double(5, *value),
        Value::Text(text) => out.text(6, text),
        Value::Bytes(bytes) => {
            let mut hex = Vec::new();
            json::push_hex(&mut hex, bytes);
            out.text(6, &String::from_utf8_lossy(&hex));
        }
        Value::Array(elements) => elements.iter().for_each(|value| out.message(12, &annotation(None, &value))),
        Value::Struct(fields) => {
            fields.iter().for_each(|(name, value)| out.message(11, &annotation(Some(name), &value)))
        }
        Value::Absent => {}
    }
    out
}

impl Exporter for Perfetto<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.begin(record.ns)?;
        leave_out_contexts(&mut self.done, record);
        if record.ns < 0 {
            self.done.leave_out("times before the clock's origin: records that are shown at it", 1);
        }
        if !is_kernel(record) {
            return self.user(record);
        }
        if is_state(record.event) {
            self.dumped(record)?;
        }
        self.bundles.push(record, &self.contexts, &mut self.done);
        self.write_bundles(false)?;
        // A call of a probed function is a slice, too: ftrace events are none.
        let is_of_thread = matches!(track_of(record, true), Track::Thread(..));
        if is_of_thread && self.pairs.is_probe(record) { self.user(record) } else { Ok(()) }
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.begin(loss.from_ns)?;
        if !std::mem::replace(&mut self.has_losses, true) {
            let mut descriptor = Message::default();
            descriptor.uint(1, LOSSES);
            descriptor.text(2, "lost records");
            self.describe(descriptor)?;
        }
        let mut event = Message::default();
        event.uint(9, INSTANT);
        event.uint(11, LOSSES);
        event.text(23, "lost");
        let to = i64::try_from(loss.to_ns).unwrap_or(i64::MAX);
        let [records, packets] = [loss.records, loss.packets].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        for (name, value) in [("records", records), ("packets", packets), ("to_ns", to)] {
            let value = Value::Int(Number::Signed(value), kymo_ctf::read::Base::Decimal);
            event.message(4, &annotation(Some(name), &value));
        }
        let mut packet = self.timed(loss.from_ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        self.write_bundles(true)?;
        self.output.finish()?;
        self.pairs.finish(&mut self.done);
        Ok(self.done)
    }
}
