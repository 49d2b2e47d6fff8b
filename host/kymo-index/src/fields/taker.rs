// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the values of numeric fields while the streams of programs are scanned [spec/index.md 4.1].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kymo_analyze::{Class, ValueKind};
use kymo_ctf::read::{Clock, Direct, DirectFloat, Lens, Number, RecordPart, Scan, Seconds, Trace, Value};
use kymo_feed::{Classes, LossAt, clamp};

use crate::counts::account::StreamCounts;
use crate::error::Error;
use crate::fields::bytes::{put_field, put_losses};
use crate::fields::columns::{ColumnTable, EventColumns};
use crate::fields::head::{FieldPiece, FieldsHead, LOSSES_MAX};
use crate::fields::sums::FieldValue;
use crate::file::Writer;
use crate::file::identity::clocks;
use crate::open::only_clock;

/// Sums of a field in a column: of so many bytes of a trace one, and of so many of a stream while it is scanned; no
/// fewer than these, and no more than some 200 MB, which all threads share while they scan.
const BYTES_OF_CELL: u64 = 8192;
const BYTES_OF_CELL_SCANNED: u64 = 1024;
const CELLS_MIN: u64 = 4096;
const CELLS_MAX: u64 = 1 << 21;
/// Bytes of all pieces: of so many of the trace one, and no fewer than these.
const SHARE: u64 = 256;
const BYTES_MIN: u64 = 64 << 10;

/// A loss, with the cycles of its begin and its stream: so losses have the order in which they are read.
pub(crate) type OrderedLoss = (u64, u32, LossAt);

/// Where a field of an event lies.
#[derive(Clone, Copy, Debug)]
enum FieldPlace {
    Integer(Option<Direct>, Lens),
    Float(Option<DirectFloat>, Lens),
}

impl FieldPlace {
    fn is_direct(&self) -> bool {
        matches!(self, FieldPlace::Integer(Some(_), _) | FieldPlace::Float(Some(_), _))
    }

    /// The value, where it always lies in the same place; `fields`: the bytes from the record's first field on.
    #[inline]
    fn direct(&self, fields: &[u8]) -> Option<FieldValue> {
        match self {
            FieldPlace::Integer(direct, _) => (*direct)?.read(fields).map(|number| FieldValue::Integer(number.into())),
            FieldPlace::Float(direct, _) => (*direct)?.read(fields).map(FieldValue::Float),
        }
    }

    /// The value, wherever it lies.
    fn value(&self, scan: &Scan<'_>) -> Option<FieldValue> {
        let integer = |number: Number| Some(FieldValue::Integer(number.into()));
        match self {
            FieldPlace::Integer(_, lens) => match scan.value(lens)? {
                Value::Int(number, _) | Value::Enum(number, _) => integer(number),
                Value::Bool(value) => integer(Number::Unsigned(value.into())),
                _ => None,
            },
            FieldPlace::Float(_, lens) => match scan.value(lens)? {
                Value::F32(value) => Some(FieldValue::Float(value.into())),
                Value::F64(value) => Some(FieldValue::Float(value)),
                _ => None,
            },
        }
    }
}

/// The numeric fields of all events of a name.
#[derive(Debug, Default)]
struct NamedEvent {
    name: String,
    fields: Vec<String>,
    /// By event of the trace.
    events: Vec<usize>,
    /// Records of it may be of a kernel: those are not scanned.
    is_of_kernel: bool,
}

/// Where the values of an event's records belong.
#[derive(Debug)]
struct EventFields {
    /// The number of its name.
    name: usize,
    /// By field of that name.
    places: Vec<Option<FieldPlace>>,
    is_direct: bool,
}

/// Takes values of all streams of a trace that are scanned.
pub(crate) struct FieldTaker<'t> {
    trace: &'t Trace,
    clock: &'t Clock,
    names: Vec<NamedEvent>,
    /// By event.
    events: Vec<Option<EventFields>>,
    bytes: u64,
    all: Mutex<(ColumnTable, Vec<OrderedLoss>)>,
    /// Something was damaged, or out of order.
    is_off: AtomicBool,
}

/// Sums of a field in a column that a trace of so many bytes may have.
fn cells_of(bytes: u64) -> usize {
    (bytes / BYTES_OF_CELL).clamp(CELLS_MIN, CELLS_MAX) as usize
}

/// The same of a stream while it is scanned.
fn cells_of_stream(bytes: u64) -> usize {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    (bytes / BYTES_OF_CELL_SCANNED).clamp(CELLS_MIN, (CELLS_MAX / threads).max(CELLS_MIN)) as usize
}

/// The fields of an event that are numbers: of several of one name the first.
fn numeric(class: &Class) -> Vec<(&str, ValueKind, usize)> {
    let mut fields: Vec<(&str, ValueKind, usize)> = Vec::new();
    for field in class.fields.iter().filter(|of| matches!(of.kind, ValueKind::Integer | ValueKind::Float)) {
        if !fields.iter().any(|(name, ..)| *name == field.name) {
            fields.push((&field.name, field.kind, field.position));
        }
    }
    fields
}

impl<'t> FieldTaker<'t> {
    /// Of a trace. `None`: nothing can be taken, or there is nothing.
    pub fn new(trace: &'t Trace, classes: &Classes) -> Option<FieldTaker<'t>> {
        let clock = only_clock(trace)?;
        let (mut names, mut events) = (Vec::<NamedEvent>::new(), Vec::new());
        let mut numbers = HashMap::<&str, usize>::new();
        for event in 0..trace.metadata.events.len() {
            let class = &classes.list[classes.at(0, event)?];
            let name = *numbers.entry(&class.name).or_insert(names.len());
            if name == names.len() {
                names.push(NamedEvent { name: class.name.clone(), ..NamedEvent::default() });
            }
            names[name].events.push(event);
            names[name].is_of_kernel |= classes.is_of_kernel(0, event);
            let mut places = Vec::new();
            for (field, kind, position) in numeric(class) {
                let fields = &mut names[name].fields;
                let at = fields.iter().position(|known| known == field).unwrap_or(fields.len());
                if at == fields.len() {
                    fields.push(field.to_owned());
                }
                let lens = trace.lens(event, RecordPart::Payload, position);
                places.resize(places.len().max(at + 1), None);
                places[at] = Some(match kind {
                    ValueKind::Float => FieldPlace::Float(lens.direct_float(), lens),
                    _ => FieldPlace::Integer(lens.direct(), lens),
                });
            }
            let is_direct = places.iter().flatten().all(FieldPlace::is_direct);
            events.push((!places.is_empty()).then_some(EventFields { name, places, is_direct }));
        }
        for of in &mut events {
            *of = of.take().filter(|of| !names[of.name].is_of_kernel);
        }
        let bytes = trace.streams().map(|(_, bytes)| bytes as u64).sum();
        let all = Mutex::new((ColumnTable::new(names.len(), cells_of(bytes)), Vec::new()));
        Some(FieldTaker { trace, clock, names, events, bytes, all, is_off: AtomicBool::new(false) })
    }

    /// Whether records of an event can be passed over as bytes.
    #[inline]
    pub fn is_plain(&self, event: usize) -> bool {
        self.events[event].as_ref().is_none_or(|of| of.is_direct)
    }

    /// Takes those of one stream.
    pub fn stream(&self, stream: usize) -> StreamValues<'_> {
        let bytes = self.trace.streams().nth(stream).map_or(0, |(_, bytes)| bytes as u64);
        StreamValues {
            of: self,
            stream: stream as u32,
            seconds: Seconds::new(self.clock),
            newest: 0,
            is_off: false,
            table: ColumnTable::new(self.names.len(), cells_of_stream(bytes)),
            losses: Vec::new(),
        }
    }

    /// Writes what all streams have. `scanned`: which of them were scanned, by stream; `losses`: those of streams that
    /// were merged. `None`: nothing can be said.
    pub fn finish(
        self,
        counts: &[StreamCounts],
        scanned: &[bool],
        losses: Vec<OrderedLoss>,
        to: &mut Writer<'_>,
    ) -> Result<Option<FieldsHead>, Error> {
        let is_damaged = counts.iter().any(|of| of.damaged > 0);
        let (mut table, mut all_losses) = self.all.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Streams that were scanned may have been merged as well.
        let is_scanned = |stream: u32| scanned.get(stream as usize) == Some(&true);
        all_losses.extend(losses.into_iter().filter(|(_, stream, _)| !is_scanned(*stream)));
        if is_damaged || self.is_off.into_inner() || all_losses.len() > LOSSES_MAX {
            return Ok(None);
        }
        all_losses.sort_by_key(|(from, stream, _)| (*from, *stream));
        // Records that were merged and not scanned are not in the columns.
        let unscanned = counts.iter().zip(scanned).filter(|(_, is_scanned)| !**is_scanned);
        let mut is_elsewhere = vec![false; self.events.len()];
        unscanned.flat_map(|(of, _)| &of.events).for_each(|of| is_elsewhere[of.event] = true);
        for (name, columns) in self.names.iter().zip(&mut table.events) {
            if name.events.iter().any(|event| is_elsewhere[*event]) {
                *columns = None;
            }
        }
        let mut list = Vec::new();
        for (event, pieces) in encoded(&mut table, (self.bytes / SHARE).max(BYTES_MIN)).into_iter().enumerate() {
            let (Some(columns), name) = (&table.events[event], &self.names[event]) else { continue };
            for (field, bytes) in pieces.into_iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
                let (event, field) = (name.name.clone(), name.fields[field].clone());
                list.push(FieldPiece { event, field, shift: columns.shift, piece: to.piece(&bytes)? });
            }
        }
        let losses: Vec<LossAt> = all_losses.into_iter().map(|(.., loss)| loss).collect();
        let losses = to.piece(&put_losses(&losses))?;
        Ok(Some(FieldsHead { clocks: clocks(std::slice::from_ref(self.trace)), losses, list }))
    }
}

/// The pieces of all fields, by event and field; empty where one has no value. Columns become longer where the pieces
/// have more bytes than there may be.
fn encoded(table: &mut ColumnTable, bytes_max: u64) -> Vec<Vec<Vec<u8>>> {
    let pieces = |columns: &EventColumns| -> Vec<Vec<u8>> {
        (0..columns.fields).map(|field| put_field(columns.shift, columns.of_field(field))).collect()
    };
    let bytes_of = |pieces: &[Vec<u8>]| pieces.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
    let mut all: Vec<Vec<Vec<u8>>> =
        table.events.iter().map(|columns| columns.as_ref().map_or_else(Vec::new, pieces)).collect();
    loop {
        let sizes: Vec<u64> = all.iter().map(|pieces| bytes_of(pieces)).collect();
        if sizes.iter().sum::<u64>() <= bytes_max {
            return all;
        }
        let can_shrink = |event: &usize| table.events[*event].as_ref().is_some_and(|of| of.numbers.len() > 1);
        let Some(largest) = (0..all.len()).filter(can_shrink).max_by_key(|event| sizes[*event]) else { return all };
        if let Some(columns) = &mut table.events[largest] {
            let before = columns.numbers.len();
            columns.fold_below(before / 2);
            all[largest] = pieces(columns);
            if columns.numbers.len() == before {
                return all;
            }
        }
    }
}

/// Takes the values of one stream.
pub(crate) struct StreamValues<'f> {
    of: &'f FieldTaker<'f>,
    stream: u32,
    seconds: Seconds<'f>,
    /// Cycles.
    newest: u64,
    is_off: bool,
    table: ColumnTable,
    losses: Vec<OrderedLoss>,
}

impl StreamValues<'_> {
    /// A record of which there are bytes, from the first field on, up to the end of the file at most.
    #[inline]
    pub fn bytes(&mut self, event: usize, cycles: u64, fields: &[u8]) {
        self.take(event, cycles, |place| place.direct(fields).or_else(|| at_end_of_file(place, fields)));
    }

    /// The record that a scan gave last.
    pub fn record(&mut self, event: usize, cycles: u64, scan: &Scan<'_>) {
        self.take(event, cycles, |place| place.value(scan));
    }

    #[inline]
    fn take(&mut self, event: usize, cycles: u64, value: impl Fn(&FieldPlace) -> Option<FieldValue>) {
        let Some(of) = &self.of.events[event] else { return };
        let ns = self.seconds.nanoseconds(cycles);
        let Some(time) = i64::try_from(ns).ok().filter(|_| cycles >= self.newest) else {
            self.is_off = true;
            return;
        };
        self.newest = cycles;
        let sums = self.table.at(of.name, self.of.names[of.name].fields.len(), time);
        for (sums, place) in sums.iter_mut().zip(&of.places) {
            if let Some(value) = place.as_ref().and_then(&value) {
                sums.add(value, (cycles, self.stream));
            }
        }
    }

    /// A loss, by the packet that a scan is in.
    #[cold]
    pub fn loss(&mut self, (records, packets): (u64, u64), (from, to): (u64, u64), scan: &Scan<'_>) {
        let [begin, end] = [from, to].map(|cycles| clamp(self.of.clock.nanoseconds(cycles)));
        let loss = LossAt { from: begin, to: end, cpu: scan.cpu(), process: scan.vpid(), records, packets };
        match self.losses.len() <= LOSSES_MAX {
            true => self.losses.push((from, self.stream, loss)),
            false => self.is_off = true,
        }
    }

    /// All of the stream was taken.
    pub fn finish(self) {
        if self.is_off {
            self.of.is_off.store(true, Ordering::Relaxed);
            return;
        }
        let mut all = self.of.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.merge(self.table);
        all.1.extend(self.losses);
    }
}

/// A field near the end of a file: it is read as if more came behind.
#[cold]
fn at_end_of_file(place: &FieldPlace, fields: &[u8]) -> Option<FieldValue> {
    place.direct(&[fields, &[0; 8]].concat())
}
