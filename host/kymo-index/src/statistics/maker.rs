// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts records by who wrote them while an index is built, and adds up who ran, by parts [spec/index.md 5.6].

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_analyze::compact::Put;
use kymo_analyze::usage::{PartUsage, tells_of_cpus};
use kymo_analyze::{Head, Name, State};
use kymo_ctf::read::{Glance, TidPlace, Trace};
use kymo_feed::{Classes, is_by_writer};

use crate::build::worker::Worker;
use crate::file::{Piece, Writer};
use crate::statistics::head::StatisticsHead;
use crate::statistics::names::{WriterName, WriterNames};
use crate::statistics::part::{CountedRecords, StatisticsPart};

/// Parts of a level that are one of the next.
pub(crate) const STATISTICS_FAN_OUT: usize = 16;
/// CPUs at most.
const CPUS_MAX: u32 = 8192;
/// Runs that are handed on at once.
const RUNS_MAX: usize = 1 << 16;

/// What matters of a class.
#[derive(Clone, Copy, Debug)]
struct KnownClass {
    /// Its records may say who wrote them, beside the kernel's number of the thread.
    has_own: bool,
    tells_of_cpus: bool,
    is_followed: bool,
}

/// Records of a writer on a CPU that no other one there lies between, and the place of the last one among all.
#[derive(Clone, Copy, Debug)]
struct WrittenRun {
    writer: WriterName,
    counted: CountedRecords,
    order: u64,
}

/// A CPU: who writes there, and the records of the part.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    run: Option<WrittenRun>,
    /// Those in front of the run.
    records: Option<CountedRecords>,
}

/// What a part of the lowest level has, or a piece of it.
#[derive(Default)]
struct GatheredPart {
    runs: Vec<WrittenRun>,
    cpus: Vec<(Option<u32>, CountedRecords)>,
    /// `None`: the part goes on.
    usage: Option<PartUsage>,
}

/// A level that is not complete yet.
#[derive(Default)]
struct Level {
    /// `None`: one of the parts is of no use.
    part: Option<StatisticsPart>,
    parts: usize,
}

/// A part of a level, in the order of time.
struct MadeStatistics {
    level: usize,
    /// `None`: there was too much, or records must be read.
    bytes: Option<Vec<u8>>,
}

/// Makes parts of what is gathered, on a thread of its own.
struct PartMaker {
    /// Shared with who writes them when all parts are made.
    names: Arc<Mutex<WriterNames>>,
    /// The part that goes on.
    lowest: StatisticsPart,
    levels: Vec<Level>,
}

impl PartMaker {
    fn take(&mut self, gathered: &mut GatheredPart, done: &Sender<MadeStatistics>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for run in gathered.runs.drain(..) {
            self.lowest.writers.add_at(names.number(run.writer), &run.counted, run.order);
        }
        self.lowest.cpus.extend(gathered.cpus.drain(..));
        let Some(usage) = gathered.usage.take() else { return };
        let mut part = Some(StatisticsPart { usage, ..std::mem::take(&mut self.lowest) });
        for at in 0.. {
            let bytes = part.as_ref().and_then(|part| part.encode(&mut names));
            part = part.filter(|_| bytes.is_some());
            if done.send(MadeStatistics { level: at, bytes }).is_err() {
                return;
            }
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
                return;
            }
            level.parts = 0;
            part = level.part.take();
        }
    }
}

/// Counts records, and hands on those of each part.
pub(crate) struct StatisticsMaker {
    classes: Vec<KnownClass>,
    /// By stream, where it is known: whether its records are written by the threads that they name.
    streams: Vec<Option<bool>>,
    has_switches: bool,
    pub usage: PartUsage,
    /// Who wrote a record of the part is not known.
    is_unfit: bool,
    /// By CPU, behind the one that is not known.
    slots: Vec<Slot>,
    runs: Vec<WrittenRun>,
    records: u64,
    names: Arc<Mutex<WriterNames>>,
    maker: Worker<GatheredPart, MadeStatistics>,
    head: StatisticsHead,
}

/// What matters of the classes of all traces.
fn known_classes(traces: &[Trace], classes: &Classes) -> Vec<KnownClass> {
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
    known
}

impl StatisticsMaker {
    pub fn start(traces: &[Trace], classes: &Classes) -> io::Result<StatisticsMaker> {
        let names = Arc::new(Mutex::new(WriterNames::default()));
        let mut maker = PartMaker { names: Arc::clone(&names), lowest: StatisticsPart::default(), levels: Vec::new() };
        let maker = Worker::start("kymo-statistics", move |mut gathered: GatheredPart, done| {
            maker.take(&mut gathered, done);
            gathered
        })?;
        Ok(StatisticsMaker {
            classes: known_classes(traces, classes),
            streams: Vec::new(),
            has_switches: classes.vocabulary.facts().switches,
            usage: PartUsage::default(),
            is_unfit: false,
            slots: Vec::new(),
            runs: Vec::new(),
            records: 0,
            names,
            maker,
            head: StatisticsHead::default(),
        })
    }

    /// A record, before the state moves by it.
    #[inline]
    pub fn record(&mut self, (stream, head): (usize, &Head), record: &Glance<'_>, of: &Classes, state: &State) {
        let known = of.at(record.trace, record.event).and_then(|class| self.classes.get(class)).copied();
        let Some(known) = known.filter(|_| head.cpu.is_none_or(|cpu| cpu < CPUS_MAX)) else {
            self.is_unfit = true;
            return;
        };
        let by_writer = self.by_writer(stream, record);
        self.usage.is_odd |= known.tells_of_cpus;
        let thread = match head.tid {
            Some(tid) => {
                let thread = state.thread(tid);
                match by_writer {
                    true => self.usage.written(head, thread, state),
                    // Only an event of these is held against the state.
                    false => self.usage.is_odd |= known.is_followed,
                }
                thread
            }
            None => {
                let packet = record.packet_writer();
                self.is_unfit |= known.has_own || packet.pid.is_some() || packet.tid.is_some();
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
        let slot = &mut self.slots[at];
        self.records += 1;
        match &mut slot.run {
            Some(run) if run.writer == writer => {
                run.counted.plus(&CountedRecords::of(head.time));
                run.order = self.records;
            }
            run => {
                let begun = WrittenRun { writer, counted: CountedRecords::of(head.time), order: self.records };
                if let Some(ended) = run.replace(begun) {
                    slot.records = Some(ended.counted.with(slot.records));
                    self.runs.push(ended);
                    if self.runs.len() >= RUNS_MAX {
                        self.give(Vec::new(), None);
                    }
                }
            }
        }
    }

    /// Hands on what was counted.
    fn give(&mut self, cpus: Vec<(Option<u32>, CountedRecords)>, usage: Option<PartUsage>) {
        let runs = std::mem::take(&mut self.runs);
        self.runs = self.maker.give(GatheredPart { runs, cpus, usage }).runs;
    }

    /// A part is over.
    pub fn end_part(&mut self, to: &mut Writer<'_>) -> io::Result<()> {
        let mut cpus = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let cpu = at.checked_sub(1).and_then(|cpu| u32::try_from(cpu).ok());
            let Slot { run: Some(run), records } = std::mem::take(slot) else { continue };
            cpus.push((cpu, run.counted.with(records)));
            self.runs.push(run);
        }
        let mut next = PartUsage::default();
        // The next part has about as many.
        next.threads.reserve(self.usage.threads.len());
        let mut usage = std::mem::replace(&mut self.usage, next);
        if !self.has_switches {
            // Nobody asks who ran, and what does not fit together does not matter.
            usage = PartUsage::default();
        }
        usage.is_odd |= std::mem::take(&mut self.is_unfit);
        self.give(cpus, Some(usage));
        for made in self.maker.made() {
            self.head.levels.add(made.level, piece(&made, to)?);
        }
        Ok(())
    }

    /// Where all of it is.
    pub fn finish(self, to: &mut Writer<'_>) -> io::Result<StatisticsHead> {
        let mut head = self.head;
        for made in self.maker.finish() {
            head.levels.add(made.level, piece(&made, to)?);
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_over {
            return Ok(StatisticsHead::default());
        }
        let mut put = Put::default();
        names.put(&mut put);
        head.names = Some(to.piece(&put.0)?);
        Ok(head)
    }
}

fn piece(made: &MadeStatistics, to: &mut Writer<'_>) -> io::Result<Option<Piece>> {
    made.bytes.as_ref().map(|bytes| to.piece(bytes)).transpose()
}
