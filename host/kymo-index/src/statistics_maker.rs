// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts records by who wrote them while an index is built, and adds up who ran, by parts [spec/index.md 5.6].

use std::io;

use kymo_analyze::compact::Put;
use kymo_analyze::usage::tells_of_cpus;
use kymo_analyze::{Head, Name, State};
use kymo_ctf::read::{Glance, TidPlace, Trace};
use kymo_feed::{Classes, is_by_writer};

use crate::file::{Piece, Writer};
use crate::statistics_head::StatisticsHead;
use crate::statistics_names::{WriterName, WriterNames};
use crate::statistics_part::{CountedRecords, StatisticsPart};

/// Parts of a level that are one of the next.
pub(crate) const STATISTICS_FAN_OUT: usize = 16;
/// CPUs at most.
const CPUS_MAX: u32 = 8192;

/// What matters of a class.
#[derive(Clone, Copy, Debug)]
struct KnownClass {
    /// Its records may say who wrote them, beside the kernel's number of the thread.
    has_own: bool,
    tells_of_cpus: bool,
    is_followed: bool,
}

/// A CPU: who wrote its last record, and the records of the part.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    writer: Option<(WriterName, usize)>,
    records: Option<CountedRecords>,
}

/// A level that is not complete yet.
#[derive(Default)]
struct Level {
    /// `None`: one of the parts is of no use.
    part: Option<StatisticsPart>,
    parts: usize,
}

/// Makes parts.
pub(crate) struct StatisticsMaker {
    classes: Vec<KnownClass>,
    /// By stream, where it is known: whether its records are written by the threads that they name.
    streams: Vec<Option<bool>>,
    names: WriterNames,
    pub part: StatisticsPart,
    /// By CPU, behind the one that is not known.
    slots: Vec<Slot>,
    levels: Vec<Level>,
    head: StatisticsHead,
}

impl StatisticsMaker {
    pub fn new(traces: &[Trace], classes: &Classes) -> StatisticsMaker {
        let mut known = Vec::with_capacity(classes.list.len());
        for (at, trace) in traces.iter().enumerate() {
            for event in 0..trace.metadata.events.len() {
                let has_own = trace.has_own_process(event) || !matches!(trace.tid_place(event), TidPlace::Packet);
                let class = classes.at(at, event);
                let tells_of_cpus = class.is_some_and(|class| tells_of_cpus(&classes.list[class]));
                let is_followed = class.is_some_and(|class| classes.is_followed(class));
                known.push(KnownClass { has_own, tells_of_cpus, is_followed });
            }
        }
        StatisticsMaker {
            classes: known,
            streams: Vec::new(),
            names: WriterNames::default(),
            part: StatisticsPart::default(),
            slots: Vec::new(),
            levels: Vec::new(),
            head: StatisticsHead::default(),
        }
    }

    /// A record, before the state moves by it.
    #[inline]
    pub fn record(&mut self, (stream, head): (usize, &Head), record: &Glance<'_>, of: &Classes, state: &State) {
        let known = of.at(record.trace, record.event).and_then(|class| self.classes.get(class)).copied();
        let Some(known) = known.filter(|_| head.cpu.is_none_or(|cpu| cpu < CPUS_MAX)) else {
            self.part.usage.is_odd = true;
            return;
        };
        let by_writer = self.by_writer(stream, record);
        self.part.usage.is_odd |= known.tells_of_cpus;
        let thread = match head.tid {
            Some(tid) => {
                let thread = state.thread(tid);
                match by_writer {
                    true => self.part.usage.written(head, thread, state),
                    // Only an event of these is held against the state.
                    false => self.part.usage.is_odd |= known.is_followed,
                }
                thread
            }
            None => {
                let packet = record.packet_writer();
                self.part.usage.is_odd |= known.has_own || packet.pid.is_some() || packet.tid.is_some();
                None
            }
        };
        let running = || head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
        let tid = head.tid.or_else(running);
        let thread = thread.or_else(|| tid.and_then(|tid| state.thread(tid)));
        let name = if tid == Some(0) { Name::new("swapper") } else { thread.map(|of| of.name).unwrap_or_default() };
        self.count(head, WriterName { process: thread.and_then(|of| of.process), tid, name });
    }

    #[inline]
    fn by_writer(&mut self, stream: usize, record: &Glance<'_>) -> bool {
        if let Some(Some(known)) = self.streams.get(stream) {
            return *known;
        }
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, None);
        }
        let is_by_writer = is_by_writer(record.stream());
        self.streams[stream] = Some(is_by_writer);
        is_by_writer
    }

    #[inline]
    fn count(&mut self, head: &Head, writer: WriterName) {
        let at = head.cpu.map_or(0, |cpu| cpu as usize + 1);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, Slot::default());
        }
        let (slot, one) = (&mut self.slots[at], CountedRecords::of(head.time));
        match &mut slot.records {
            Some(records) => records.plus(&one),
            None => slot.records = Some(one),
        }
        match &slot.writer {
            Some((known, place)) if *known == writer => self.part.writers.add_to(*place, head.time),
            _ => {
                let number = self.names.number(writer);
                slot.writer = Some((writer, self.part.writers.add(number, &one)));
            }
        }
    }

    /// A part is over.
    pub fn end_part(&mut self, to: &mut Writer<'_>) -> io::Result<()> {
        // The next part has about as much.
        let next = StatisticsPart::like(&self.part);
        let mut ended = std::mem::replace(&mut self.part, next);
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let cpu = at.checked_sub(1).and_then(|cpu| u32::try_from(cpu).ok());
            ended.cpus.extend(slot.records.map(|records| (cpu, records)));
            *slot = Slot::default();
        }
        let mut part = Some(ended);
        for at in 0.. {
            let bytes = part.as_ref().and_then(|part| part.encode(&mut self.names));
            part = part.filter(|_| bytes.is_some());
            self.head.levels.add(at, bytes.map(|bytes| to.piece(&bytes)).transpose()?);
            if self.levels.len() == at {
                self.levels.push(Level::default());
            }
            let level = &mut self.levels[at];
            match (&mut level.part, &part) {
                _ if level.parts == 0 => level.part = part,
                (Some(longer), Some(part)) => longer.append(part),
                (longer, _) => *longer = None,
            }
            level.parts += 1;
            if level.parts < STATISTICS_FAN_OUT {
                break;
            }
            level.parts = 0;
            part = level.part.take();
        }
        Ok(())
    }

    /// Where all of it is.
    pub fn finish(mut self, to: &mut Writer<'_>) -> io::Result<StatisticsHead> {
        if self.names.is_over {
            return Ok(StatisticsHead::default());
        }
        self.head.names = Some(names_piece(&self.names, to)?);
        Ok(self.head)
    }
}

fn names_piece(names: &WriterNames, to: &mut Writer<'_>) -> io::Result<Piece> {
    let mut put = Put::default();
    names.put(&mut put);
    to.piece(&put.0)
}
