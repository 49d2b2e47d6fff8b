// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto's protobuf [spec/exchange.md 2]: kernel records as ftrace bundles, programs' records as track events.

mod ftrace;
mod people;
mod wire;

use std::path::Path;

use kymo_ctf::read::{Loss, Number, Record, Trace, Value};

use super::exporter::{Done, Exporter, note_wide};
use super::facts::{ContextNames, Domains, TimeOrder, all_fields, env_text, is_absolute, is_state};
use super::names::{KnownThread, ThreadNames};
use super::output::Output;
use super::slices::{Edge, Own, Slices, Track, UNKNOWN_THREAD};
use super::stacks::Symbols;
use crate::{Error, json};
use ftrace::Bundles;
use people::{People, Told};
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

/// Categories: of programs' and of the kernel's records, and of what goes on where a slice is shown in parts. An end
/// has none: a reader that compares categories finds none that differs.
const USER: &str = "user";
const KERNEL: &str = "kernel";
const PART: &str = "part";

/// The track of losses and of all that makes records doubtful.
const LOSSES: u64 = 1;

/// The file: a `Trace` message, which is packets one behind the other.
pub struct Perfetto<'t> {
    traces: &'t [Trace],
    output: Output,
    slices: Slices,
    contexts: ContextNames,
    domains: Domains,
    symbols: Symbols,
    bundles: Bundles,
    people: People,
    /// Threads that exist when the trace begins, until the first record is there.
    known: Vec<KnownThread>,
    order: TimeOrder,
    is_begun: bool,
    has_losses: bool,
    done: Done,
}

impl<'t> Perfetto<'t> {
    pub fn new(traces: &'t [Trace], path: &Path, symbols: Symbols) -> Result<Perfetto<'t>, Error> {
        Ok(Perfetto {
            traces,
            output: Output::create(path)?,
            slices: Slices::new(traces),
            contexts: ContextNames::new(traces),
            domains: Domains::new(traces),
            symbols,
            bundles: Bundles::new(traces),
            people: People::new(LOSSES),
            known: Vec::new(),
            order: TimeOrder::default(),
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
        for (field, key) in [(1, "sysname"), (2, "kernel_version"), (3, "kernel_release")] {
            env_text(trace, key).iter().for_each(|text| utsname.text(field, text));
        }
        // By which Perfetto names system calls.
        let machine = env_text(trace, "architecture").or_else(|| self.bundles.machine());
        machine.iter().for_each(|machine| utsname.text(4, machine));
        let mut system = Message::default();
        system.message(1, &utsname);
        env_text(trace, "hostname").iter().for_each(|host| system.text(17, host));
        let mut second = Message::default();
        second.message(packet::SYSTEM_INFO, &system);
        self.packet(second)?;
        let known = std::mem::take(&mut self.known);
        self.people.begin(&known).into_iter().try_for_each(|tree| self.tree(ns, &tree))
    }

    fn tree(&mut self, ns: i128, tree: &Message) -> Result<(), Error> {
        let mut packet = self.timed(ns);
        packet.message(packet::PROCESS_TREE, tree);
        self.packet(packet)
    }

    /// A packet with its time.
    fn timed(&self, ns: i128) -> Message {
        let mut packet = Message::default();
        packet.uint(packet::TIMESTAMP, time(ns));
        packet.uint(packet::TIMESTAMP_CLOCK, BOOTTIME);
        packet
    }

    fn track_event(&mut self, record: &Record<'_>, names: &ThreadNames<'_>, is_kernel: bool) -> Result<(), Error> {
        let seen = self.slices.track(record, is_kernel);
        self.track(seen, names, record.ns)?;
        let steps = self.slices.steps(record, is_kernel);
        steps.before.iter().try_for_each(|edge| self.edge(edge))?;
        let (phase, title) = match steps.own {
            Own::Begin(title) => (SLICE_BEGIN, Some(title)),
            Own::End(title) => (SLICE_END, Some(title)),
            Own::Instant => (INSTANT, None),
        };
        let mut event = Message::default();
        event.uint(9, phase);
        event.uint(11, self.people.uuid(steps.track));
        event.text(23, title.map_or(record.event.name.as_str(), |title| self.slices.title(title)));
        if phase != SLICE_END {
            event.text(22, if is_kernel { KERNEL } else { USER });
        }
        let mut told: Vec<Message> = Vec::new();
        told.extend(all_fields(record, &self.contexts).map(|(name, value)| annotation(Some(name), &value)));
        for (name, function) in self.symbols.of_fields(record) {
            told.push(annotation(Some(&name), &Value::Text(function.into())));
        }
        if phase != INSTANT {
            // The whole name, of which a slice's name is only a part.
            told.push(annotation(Some("$event"), &Value::Text(record.event.name.as_str().into())));
        }
        told.extend(record.cpu.map(|cpu| annotation(Some("$cpu"), &unsigned(cpu.into()))));
        if steps.ns != record.ns {
            told.push(annotation(Some("$time"), &signed(record.ns)));
        }
        if phase == SLICE_END {
            // Viewers put what both ends of a slice say into one place.
            let mut end = Message::default();
            end.text(10, "end");
            told.iter().for_each(|entry| end.message(11, entry));
            told = vec![end];
        }
        told.iter().for_each(|annotation| event.message(4, annotation));
        let mut packet = self.timed(steps.ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)?;
        steps.after.iter().try_for_each(|edge| self.edge(edge))
    }

    /// A begin or end without a record of its own.
    fn edge(&mut self, edge: &Edge) -> Result<(), Error> {
        let mut event = Message::default();
        event.uint(9, if edge.begins { SLICE_BEGIN } else { SLICE_END });
        event.uint(11, self.people.uuid(edge.track));
        event.text(23, self.slices.title(edge.title));
        if edge.begins {
            event.text(22, PART);
        }
        if let Some(why) = edge.why.text() {
            event.message(4, &annotation(Some("$end"), &Value::Text(why.into())));
        }
        let mut packet = self.timed(edge.ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)
    }

    /// Describes the track of a thread where it is new or has another name. A new name is told on it.
    fn track(&mut self, track: Track, names: &ThreadNames<'_>, ns: i128) -> Result<(), Error> {
        let told = match track {
            Track::Thread(0, UNKNOWN_THREAD) => {
                self.people.describe(track, &ThreadNames { thread: "unknown threads", ..ThreadNames::default() })
            }
            _ => self.people.describe(track, names),
        };
        let Told { descriptors, renamed } = told;
        for descriptor in descriptors {
            self.describe(descriptor)?;
        }
        let Some(before) = renamed else { return Ok(()) };
        let mut event = Message::default();
        event.uint(9, INSTANT);
        event.uint(11, self.people.uuid(track));
        event.text(23, "renamed");
        event.text(22, "name");
        for (name, text) in [("from", before.as_str()), ("to", names.thread)] {
            event.message(4, &annotation(Some(name), &Value::Text(text.into())));
        }
        let mut packet = self.timed(ns);
        packet.message(packet::TRACK_EVENT, &event);
        self.packet(packet)
    }

    fn describe(&mut self, descriptor: Message) -> Result<(), Error> {
        let mut packet = Message::default();
        packet.message(packet::TRACK_DESCRIPTOR, &descriptor);
        self.packet(packet)
    }

    /// An instant on the track of losses.
    fn doubt(&mut self, ns: i128, name: &str, numbers: &[(&str, i128)], stream: Option<&str>) -> Result<(), Error> {
        if !std::mem::replace(&mut self.has_losses, true) {
            let mut descriptor = Message::default();
            descriptor.uint(1, LOSSES);
            descriptor.text(2, "lost records");
            self.describe(descriptor)?;
        }
        let mut event = Message::default();
        event.uint(9, INSTANT);
        event.uint(11, LOSSES);
        event.text(23, name);
        for &(name, value) in numbers {
            event.message(4, &annotation(Some(name), &signed(value)));
        }
        stream.iter().for_each(|stream| event.message(4, &annotation(Some("stream"), &Value::Text((*stream).into()))));
        let mut packet = self.timed(ns);
        packet.message(packet::TRACK_EVENT, &event);
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
        self.tree(record.ns, &tree)
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
        Value::Enum(number, labels) => {
            out.message(11, &annotation(Some("value"), &Value::Int(*number, kymo_ctf::read::Base::Decimal)));
            let label = labels.joined(*number).map(Value::Text);
            label.iter().for_each(|label| out.message(11, &annotation(Some("label"), label)));
        }
        Value::Wide(number) => out.text(6, &number.in_base()),
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

fn unsigned(value: u64) -> Value<'static> {
    Value::Int(Number::Unsigned(value), kymo_ctf::read::Base::Decimal)
}

fn signed(value: i128) -> Value<'static> {
    let value = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
    Value::Int(Number::Signed(value), kymo_ctf::read::Base::Decimal)
}

impl Perfetto<'_> {
    /// A kernel record: an ftrace event, and what it says of threads.
    fn kernel(&mut self, record: &Record<'_>, names: &ThreadNames<'_>) -> Result<(), Error> {
        if is_state(record.event) {
            self.dumped(record)?;
        }
        let track = self.slices.track(record, true);
        // A thread whose process is not known has only the names that its events give it.
        let tree = match (track, record.vpid) {
            (Track::Thread(pid, tid), Some(_)) => self.people.of_kernel((pid, tid), names),
            _ => None,
        };
        if let Some(tree) = tree {
            self.tree(record.ns, &tree)?;
        }
        self.bundles.push(record, names, &self.contexts, &mut self.done);
        self.write_bundles(false)?;
        if self.slices.is_end_of_others(record) {
            let steps = self.slices.steps(record, true);
            steps.before.iter().try_for_each(|edge| self.edge(edge))?;
        }
        // A call of a probed function is a slice, too: ftrace events are none.
        if self.slices.is_probe(record) && matches!(track, Track::Thread(..)) {
            return self.track_event(record, names, true);
        }
        Ok(())
    }
}

impl Exporter for Perfetto<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let names = ThreadNames::of(record, self.domains.is_kernel(record));
        self.named_record(record, &names)
    }

    fn named_record(&mut self, record: &Record<'_>, names: &ThreadNames<'_>) -> Result<(), Error> {
        self.begin(record.ns)?;
        if record.ns < 0 {
            self.done.leave_out("times before the clock's origin: records that are shown at it", 1);
        }
        if self.order.goes_back(record.ns) {
            self.done.change("records with a time before that of the record in front of them (track of losses)", 1);
            let number = |number: Option<u32>| number.map_or(-1, i128::from);
            let numbers = [("cpu", number(record.cpu)), ("tid", number(record.vtid))];
            self.doubt(record.ns, "time before an earlier record", &numbers, Some(record.stream))?;
        }
        match self.domains.is_kernel(record) {
            true => self.kernel(record, names),
            false => self.track_event(record, names, false),
        }
    }

    fn threads(&mut self, threads: &[KnownThread]) -> Result<(), Error> {
        self.known = threads.to_vec();
        Ok(())
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.begin(loss.from_ns)?;
        let name = if loss.records == 0 { "packets missing" } else { "lost" };
        let number = |number: Option<u32>| number.map_or(-1, i128::from);
        let numbers = [
            ("records", i128::from(loss.records)),
            ("packets", i128::from(loss.packets)),
            ("to_ns", loss.to_ns),
            ("cpu", number(loss.cpu)),
            ("pid", number(loss.vpid)),
        ];
        self.doubt(loss.from_ns, name, &numbers, Some(loss.stream))
    }

    fn doubts(&mut self, doubts: &[(&str, u64)]) -> Result<(), Error> {
        let numbers: Vec<(&str, i128)> = doubts.iter().map(|(what, count)| (*what, i128::from(*count))).collect();
        match self.order.latest().filter(|_| numbers.iter().any(|(_, count)| *count > 0)) {
            Some(ns) => self.doubt(ns, "the whole trace", &numbers, None),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        self.write_bundles(true)?;
        let last = self.order.latest().unwrap_or(0);
        let open = self.slices.finish(last, &mut self.done);
        open.iter().try_for_each(|edge| self.edge(edge))?;
        self.output.finish()?;
        note_wide(&mut self.done, self.traces);
        Ok(self.done)
    }
}
