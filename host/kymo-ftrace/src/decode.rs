// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages to CTF records [spec/trace.md 8.1]: the kernel's records, each with our header and context in front.

use kymo_abi::record_head;
use kymo_ctf::write::EventClass;

use crate::format::{ByteRange, Common, EventFormat, PageFormat};
use crate::names::Naming;
use crate::page::{Missed, Page, PageError, Parts, RawRecord, Records};
use crate::plan::{FtracePlan, compile};

/// A record of the trace keeps the low 48 bits of its time; a reader knows the rest as long as no gap is longer than
/// this.
const GAP_MAX: u64 = 1 << 47;

/// Bytes in front of a payload: id and time, thread, flags, preempt count.
const HEAD_BYTES: usize = 14;

/// Records of one CPU that follow each other, as they go into a packet.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// CTF records.
    pub bytes: Vec<u8>,
    /// How many.
    pub records: u64,
    /// How many of them are of events that were added with [`Decoder::add_aside`].
    pub asides: u64,
    /// Clock value of the first one; means nothing while there is none.
    pub begin: u64,
    /// Clock value of the last one.
    pub end: u64,
}

impl Batch {
    /// Forgets the records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records = 0;
        self.asides = 0;
    }
}

/// What a page's records came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records of events that were never described: written for somebody else.
    pub unknown: u64,
    /// Records that are shorter than their event.
    pub short: u64,
    /// What ended the page before its end.
    pub damage: Option<PageError>,
}

/// A page that is being turned into records.
#[derive(Debug)]
pub struct Pending<'a> {
    records: Records<'a>,
    held: Option<RawRecord<'a>>,
    /// What was missed in front of the page.
    pub missed: Missed,
    /// Bytes of the page's records as the kernel wrote them, heads included.
    pub data_bytes: usize,
    /// So far.
    pub outcome: Outcome,
    page_time: u64,
    /// Bytes of records up to the end of the page, those that were taken earlier included.
    end: usize,
    /// Damage in front of these records: their times are unknown, so that they are skipped.
    is_undated: bool,
}

/// How far the records of a sub-buffer were taken that the kernel may be adding to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time stamp of the page: another one is another page.
    page_time: u64,
    /// Bytes of records.
    taken: usize,
    /// Of the last record; `None` behind damage.
    time: Option<u64>,
}

impl<'a> Pending<'a> {
    fn whole(page: &Page<'a>) -> Pending<'a> {
        Pending {
            records: page.records(),
            held: None,
            missed: page.missed(),
            data_bytes: page.data_bytes(),
            outcome: Outcome::default(),
            page_time: page.time(),
            end: page.data_bytes(),
            is_undated: false,
        }
    }

    /// How far the page was taken, once it is decoded: for [`Decoder::open_parts`].
    pub fn progress(&self) -> Progress {
        let is_dated = !self.is_undated && self.outcome.damage.is_none();
        Progress { page_time: self.page_time, taken: self.end, time: is_dated.then(|| self.records.time()) }
    }
}

/// Turns the pages of one kernel into records.
#[derive(Debug)]
pub struct Decoder {
    page: PageFormat,
    common: Option<Common>,
    /// By the kernel's id: position in `plans` + 1, 0 for none.
    by_id: Vec<u16>,
    plans: Vec<FtracePlan>,
    /// By position in `plans`: nobody asked for the event.
    is_aside: Vec<bool>,
    least_bytes: usize,
}

impl Decoder {
    /// A decoder that knows no event yet.
    pub fn new(page: PageFormat) -> Decoder {
        Decoder { page, common: None, by_id: Vec::new(), plans: Vec::new(), is_aside: Vec::new(), least_bytes: 0 }
    }

    /// Adds an event of `system` and gives its class in the trace; its id is the kernel's. `only`: the fields to keep,
    /// by the kernel's names. An event that is added twice keeps its first class.
    pub fn add(&mut self, system: &str, format: &EventFormat, naming: Naming, only: Option<&[String]>) -> EventClass {
        let (class, plan) = compile(system, format, naming, only);
        let common = format.common;
        let places = [Some(common.type_), common.pid, common.flags, common.preempt_count];
        let end = |place: &ByteRange| usize::from(place.offset) + usize::from(place.size.max(4));
        self.least_bytes = self.least_bytes.max(places.iter().flatten().map(end).max().unwrap_or(0).max(8));
        self.common.get_or_insert(common);
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        if self.by_id[id] == 0 {
            self.plans.push(plan);
            self.is_aside.push(false);
            self.by_id[id] = self.plans.len() as u16;
        }
        class
    }

    /// As [`Decoder::add`], of an event that nobody asked for, under the name `name`: its records are counted apart.
    pub fn add_aside(&mut self, system: &str, format: &EventFormat, naming: Naming, name: &str) -> EventClass {
        let known = self.plans.len();
        let class = self.add(system, format, naming, None);
        self.is_aside[known..].fill(true);
        EventClass { name: name.to_owned(), ..class }
    }

    /// Begins with a page.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<Pending<'a>, PageError> {
        Ok(Pending::whole(&Page::parse(bytes, &self.page)?))
    }

    /// Begins with a sub-buffer that is mapped, or goes on with it behind `progress`, unless it `is_new`. What was
    /// missed in front of it is reported once, and damage ends it.
    pub fn open_parts<'a>(&self, parts: Parts<'a>, is_new: bool, progress: Progress) -> Result<Pending<'a>, PageError> {
        let page = Page::of_parts(parts, &self.page)?;
        let mut pending = Pending::whole(&page);
        if is_new || page.time() != progress.page_time || page.data_bytes() < progress.taken {
            return Ok(pending);
        }
        pending.missed = Missed::None;
        pending.is_undated = progress.time.is_none();
        let taken = if pending.is_undated { page.data_bytes() } else { progress.taken };
        pending.records = page.records_behind(taken, progress.time.unwrap_or(progress.page_time));
        pending.data_bytes = page.data_bytes() - progress.taken;
        Ok(pending)
    }

    /// Where the records of a sub-buffer begin, bytes.
    pub fn data_offset(&self) -> usize {
        self.page.data_offset.into()
    }

    /// Appends records of the page to `batch`. True when the page is at its end; false when the next record lies so far
    /// in the future that it belongs into another packet: empty the batch and come again.
    pub fn decode(&self, pending: &mut Pending<'_>, batch: &mut Batch) -> bool {
        let Some(common) = &self.common else {
            pending.outcome.unknown += pending.records.by_ref().count() as u64;
            return true;
        };
        let places = Places::of(common);
        loop {
            let record = match pending.held.take().map(Ok).or_else(|| pending.records.next()) {
                None => return true,
                Some(Err(error)) => {
                    pending.outcome.damage = Some(error);
                    return true;
                }
                Some(Ok(record)) => record,
            };
            if batch.records > 0 && record.time.wrapping_sub(batch.end) > GAP_MAX {
                if record.time < batch.end {
                    // Time does not run backwards along a CPU: such a page is damaged.
                    pending.outcome.damage = Some(PageError::Time { offset: record.offset as u32 });
                    return true;
                }
                pending.held = Some(record);
                return false;
            }
            self.append(&record, places, batch, &mut pending.outcome);
        }
    }

    #[inline]
    fn append(&self, record: &RawRecord<'_>, places: Places, batch: &mut Batch, outcome: &mut Outcome) {
        let data = record.data;
        if data.len() < self.least_bytes {
            outcome.short += 1;
            return;
        }
        let id = places.id(data);
        let position = match self.by_id.get(usize::from(id)) {
            Some(position @ 1..) => usize::from(*position) - 1,
            _ => {
                outcome.unknown += 1;
                return;
            }
        };
        let length = batch.bytes.len();
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&record_head(id, record.time));
        head[8..12].copy_from_slice(&places.word(data, places.pid).to_le_bytes());
        head[12] = places.byte(data, places.flags);
        head[13] = places.byte(data, places.preempt_count);
        batch.bytes.extend_from_slice(&head);
        if self.plans[position].run(data, &mut batch.bytes).is_err() {
            batch.bytes.truncate(length);
            outcome.short += 1;
            return;
        }
        if batch.records == 0 {
            batch.begin = record.time;
        }
        batch.end = record.time;
        batch.records += 1;
        batch.asides += u64::from(self.is_aside[position]);
    }
}

/// Offsets of the common fields; all are within a record's least bytes.
#[derive(Clone, Copy)]
struct Places {
    id: usize,
    pid: Option<usize>,
    flags: Option<usize>,
    preempt_count: Option<usize>,
}

impl Places {
    fn of(common: &Common) -> Places {
        let offset = |place: Option<ByteRange>| place.map(|place| usize::from(place.offset));
        Places {
            id: common.type_.offset.into(),
            pid: offset(common.pid.filter(|place| place.size == 4)),
            flags: offset(common.flags),
            preempt_count: offset(common.preempt_count),
        }
    }

    fn id(self, data: &[u8]) -> u16 {
        data.get(self.id..self.id + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn word(self, data: &[u8], at: Option<usize>) -> i32 {
        let bytes = at.and_then(|at| data.get(at..at + 4));
        bytes.map_or(-1, |bytes| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn byte(self, data: &[u8], at: Option<usize>) -> u8 {
        at.and_then(|at| data.get(at)).copied().unwrap_or(0)
    }
}
