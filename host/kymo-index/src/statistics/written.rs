// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts records of programs by who wrote them, while their streams are scanned [spec/index.md 5.6].

use std::sync::{Mutex, PoisonError};

use kymo_analyze::Name;
use kymo_analyze::hash::Map;
use kymo_analyze::usage::tells_of_cpus;
use kymo_ctf::read::{Clock, Direct, Lens, Scan, TidPlace, Trace, Value};
use kymo_feed::{Classes, clamp};

use crate::open::only_clock;
use crate::statistics::names::{NAMES_MAX, WriterName};
use crate::statistics::part::CountedRecords;
use crate::statistics::written_bytes::{StreamWriters, Stretch, WrittenRow};

/// Records of a stretch at least, and for each row of it.
const RECORDS_MIN: u64 = 2048;
const RECORDS_FOR_ROW: u64 = 64;

/// Where the thread of an event's records is.
#[derive(Clone, Copy, Debug)]
enum TidOf {
    Packet,
    Record(Option<Direct>, Lens),
}

/// Counts those of all streams of a trace that are scanned.
pub(crate) struct WrittenTaker<'t> {
    clock: &'t Clock,
    /// By event; `None`: its records do not say who wrote them, or not so simply.
    events: Vec<Option<TidOf>>,
    /// With the position of the stream; `None`: something is not known, or out of order.
    all: Mutex<Vec<(usize, Option<StreamWriters>)>>,
}

impl<'t> WrittenTaker<'t> {
    /// Of a trace. `None`: it has several clocks.
    pub fn new(trace: &'t Trace, classes: &Classes) -> Option<WrittenTaker<'t>> {
        let clock = only_clock(trace)?;
        let tid_of = |event: usize| {
            let class = classes.at(0, event)?;
            let is_of_kernel = classes.says_something(class) || tells_of_cpus(&classes.list[class]);
            if is_of_kernel || trace.has_own_cpu(event) || trace.has_own_process(event) {
                return None;
            }
            match trace.tid_place(event) {
                TidPlace::Packet => Some(TidOf::Packet),
                TidPlace::Record(lens) => Some(TidOf::Record(lens.direct(), lens)),
                TidPlace::Several => None,
            }
        };
        let events = (0..trace.metadata.events.len()).map(tid_of).collect();
        Some(WrittenTaker { clock, events, all: Mutex::new(Vec::new()) })
    }

    /// Whether records of an event can be passed over as bytes.
    #[inline]
    pub fn is_plain(&self, event: usize) -> bool {
        !matches!(self.events.get(event), Some(Some(TidOf::Record(None, _))))
    }

    /// Takes those of one stream.
    pub fn stream(&self, stream: usize) -> StreamCounter<'_> {
        StreamCounter {
            of: self,
            stream,
            process: None,
            packet_tid: None,
            name: Name::default(),
            cpu: None,
            last_tid: None,
            last_row: None,
            newest: 0,
            is_off: false,
            writers: Vec::new(),
            places: Map::default(),
            rows: Vec::new(),
            row_of: Map::default(),
            records: 0,
            stretches: Vec::new(),
        }
    }

    /// What all streams have. `scanned`: by stream, whether nobody else has counted it. `None`: nothing can be said.
    pub fn finish(self, scanned: &[bool]) -> Option<Vec<StreamWriters>> {
        let mut all = self.all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(stream, _)| scanned.get(*stream) == Some(&true));
        all.sort_by_key(|(stream, _)| *stream);
        all.into_iter().map(|(_, of)| of).collect()
    }
}

/// Records of a writer in a stretch.
struct StretchRow {
    /// Its number.
    writer: u32,
    records: u64,
    first_cycles: u64,
    last_cycles: u64,
    /// Of the last record among those of the stretch.
    order: u64,
}

/// Counts the records of one stream.
pub(crate) struct StreamCounter<'f> {
    of: &'f WrittenTaker<'f>,
    stream: usize,
    process: Option<i32>,
    packet_tid: Option<u32>,
    name: Name,
    cpu: Option<u32>,
    last_tid: Option<u32>,
    /// Position in `rows`, of the last thread.
    last_row: Option<usize>,
    /// Cycles.
    newest: u64,
    is_off: bool,
    writers: Vec<(WriterName, Option<u32>)>,
    places: Map<(WriterName, Option<u32>), u32>,
    /// Of the stretch.
    rows: Vec<StretchRow>,
    row_of: Map<u32, usize>,
    records: u64,
    stretches: Vec<Stretch>,
}

/// A number as the records of a program have it.
fn own(number: Option<u32>) -> Option<i32> {
    number.and_then(|number| i32::try_from(number).ok())
}

impl StreamCounter<'_> {
    /// A packet begins.
    #[cold]
    pub fn packet(&mut self, scan: &Scan<'_>) {
        let writer = scan.packet_writer();
        (self.process, self.name, self.cpu) = (own(writer.pid), Name::new(writer.name), scan.cpu());
        // What is behind a loss at its begin is passed as bytes.
        self.packet_tid = writer.tid;
        self.last_row = None;
    }

    /// The record that a scan gave last.
    pub fn record(&mut self, event: usize, cycles: u64, scan: &Scan<'_>) {
        self.packet_tid = scan.packet_writer().tid;
        let tid = match self.of.events.get(event) {
            Some(Some(TidOf::Record(_, lens))) => match scan.value(lens) {
                // As readers have it: the largest number is none.
                Some(Value::Int(number, _)) => u32::try_from(i128::from(number)).ok().filter(|tid| *tid != u32::MAX),
                _ => None,
            },
            _ => self.packet_tid,
        };
        self.count(event, cycles, tid);
    }

    /// A record of which there are bytes, from the first field on, up to the end of the file at most.
    #[inline]
    pub fn bytes(&mut self, event: usize, cycles: u64, fields: &[u8]) {
        let tid = match self.of.events.get(event) {
            Some(Some(TidOf::Record(Some(direct), _))) => {
                direct.read_id(fields).or_else(|| direct.read_id(&[fields, &[0; 8]].concat()))
            }
            _ => self.packet_tid,
        };
        self.count(event, cycles, tid);
    }

    #[inline]
    fn count(&mut self, event: usize, cycles: u64, tid: Option<u32>) {
        // A record that says nothing of its thread was written by whoever ran.
        let is_known = matches!(self.of.events.get(event), Some(Some(_))) && tid.is_some();
        self.is_off |= cycles < self.newest || !is_known;
        if self.is_off {
            return;
        }
        let is_full = self.records >= RECORDS_MIN.max(RECORDS_FOR_ROW * self.rows.len() as u64);
        if is_full && self.ns(cycles) > self.ns(self.newest) {
            self.end_stretch();
        }
        self.newest = cycles;
        self.records += 1;
        let at = match self.last_row.filter(|_| tid == self.last_tid) {
            Some(at) => at,
            None => self.row(tid, cycles),
        };
        let row = &mut self.rows[at];
        row.records += 1;
        (row.last_cycles, row.order) = (cycles, self.records);
    }

    fn row(&mut self, tid: Option<u32>, cycles: u64) -> usize {
        let writer = (WriterName { process: self.process, tid: own(tid), name: self.name }, self.cpu);
        let next = self.writers.len() as u32;
        let number = *self.places.entry(writer).or_insert(next);
        if number == next {
            self.writers.push(writer);
            self.is_off |= self.writers.len() > NAMES_MAX;
        }
        let next = self.rows.len();
        let at = *self.row_of.entry(number).or_insert(next);
        if at == next {
            self.rows.push(StretchRow {
                writer: number,
                records: 0,
                first_cycles: cycles,
                last_cycles: cycles,
                order: 0,
            });
        }
        (self.last_tid, self.last_row) = (tid, Some(at));
        at
    }

    fn ns(&self, cycles: u64) -> i64 {
        clamp(self.of.clock.nanoseconds(cycles))
    }

    fn end_stretch(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by_key(|row| row.order);
        let row = |row: StretchRow| WrittenRow {
            writer: row.writer,
            counted: CountedRecords {
                records: row.records,
                first: self.ns(row.first_cycles),
                last: self.ns(row.last_cycles),
            },
        };
        let rows: Vec<WrittenRow> = rows.into_iter().map(row).collect();
        self.stretches.extend(Stretch::of(rows));
        self.row_of.clear();
        (self.records, self.last_row) = (0, None);
    }

    /// All of the stream was taken.
    pub fn finish(mut self) {
        self.end_stretch();
        let of = StreamWriters { stream: self.stream, writers: self.writers, stretches: self.stretches };
        let of = (!self.is_off).then_some(of);
        self.of.all.lock().unwrap_or_else(PoisonError::into_inner).push((self.stream, of));
    }
}
