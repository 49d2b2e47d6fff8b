// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the rows of tables of records: those of events, and `records`.

use std::sync::Arc;

use kymo_ctf::read::{Item, Loss, PacketWriter, Passed, Range, Reader, Record, Start, Trace};
use kymo_feed::clamp;
use kymo_index::range;
use kymo_names::event_matches;
use kymo_query::{Filters, Learn};

use crate::columns::row::{DirectRow, RowOf};
use crate::columns::{BATCH_ROWS, Table};
use crate::direct::DirectClass;
use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::open::Group;
use crate::scan::Scan;
use crate::shape::{ClassColumns, Holds, Shape};

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

/// Which rows of a group, as far as it is known before the first record.
pub(crate) struct RecordScan<'g> {
    /// All of them: a filter may name what only others have.
    groups: &'g [Group],
    pub group: &'g Group,
    /// Position of the group: of the classes of a shape.
    pub position: usize,
    pub shape: &'g Shape,
    pub scan: &'g Scan,
    /// Both of the scan and of its part, ns.
    from: Option<i64>,
    to: Option<i64>,
    /// By trace and event, where its records are rows: where these have the columns.
    wanted: Vec<Vec<Option<&'g ClassColumns>>>,
}

impl<'g> RecordScan<'g> {
    /// Of the group at this position.
    pub fn new(groups: &'g [Group], position: usize, shape: &'g Shape, scan: &'g Scan) -> RecordScan<'g> {
        let group = &groups[position];
        let (part_from, part_to) = scan.part();
        let to = [part_to, scan.to].into_iter().flatten().min();
        let classes = &shape.classes[position];
        let matches = |name: &str| {
            scan.events.as_ref().is_none_or(|all| all.iter().any(|glob| event_matches(glob, name)))
                && scan.names.as_ref().is_none_or(|all| all.iter().any(|own| own == name))
        };
        let of_trace = |(trace, opened): (usize, &Trace)| {
            let names = opened.metadata.events.iter().enumerate();
            names.map(|(event, of)| classes.get(&(trace, event)).filter(|_| matches(&of.name))).collect()
        };
        let wanted = group.traces.iter().enumerate().map(of_trace).collect();
        RecordScan { groups, group, shape, position, scan, from: part_from.max(scan.from), to, wanted }
    }

    /// What the reader is asked for: of a trace whose times went back all that comes behind.
    fn range(&self) -> Range {
        Range { from_ns: self.from.map(i128::from), to_ns: self.group.read_to(self.to).map(i128::from) }
    }

    /// Whether a record is asked for that the reader gives. Its time may be one that no column can hold.
    #[inline]
    fn wants_time(&self, ns: i128) -> bool {
        self.to.is_none_or(|to| ns < to.into()) && (self.from.is_none() || ns <= i64::MAX.into())
    }

    fn is_none(&self) -> bool {
        let is_empty = self.from.zip(self.to).is_some_and(|(from, to)| from >= to);
        is_empty || !self.wanted.iter().flatten().any(Option::is_some)
    }

    /// Where records of an event have the columns, if they are rows.
    #[inline]
    fn class(&self, trace: usize, event: usize) -> Option<&'g ClassColumns> {
        self.wanted[trace][event]
    }
}

/// What must see all records, in the order of time, to say something of one.
struct Watching {
    learn: Option<Learn>,
    filters: Filters,
}

impl Watching {
    /// `with_threads`: threads, processes or their names are asked for.
    fn new(wanted: &RecordScan<'_>, with_threads: bool, emit: &Emit) -> Result<Watching, Ended> {
        let group = wanted.group;
        let mut filters = filters(wanted.groups, wanted.position, wanted.scan)?;
        let needs = with_threads || filters.have_threads();
        let mut learn = if needs { Learn::new(&group.traces) } else { None };
        if let Some(from) = wanted.from.filter(|_| learn.is_some() || filters.have_state()) {
            let goes_on = || emit.goes_on();
            let before = range::state_before_while(&group.traces, &group.classes, &group.indexes, from, &goes_on);
            let Some(before) = before else { return emit.check().and(Err(Ended::Enough)) };
            learn.iter_mut().for_each(|learn| learn.begin(&before.state));
            filters.begin(&before.state);
        }
        Ok(Watching { learn, filters })
    }

    fn is_idle(&self) -> bool {
        self.learn.is_none() && self.filters.is_empty()
    }

    fn selects<'a>(&'a mut self, record: &mut Record<'a>) -> bool {
        if let Some(learn) = &mut self.learn {
            learn.whole_record(record);
        }
        self.filters.matches(record, true)
    }

    fn loss(&mut self, loss: &Loss<'_>) {
        self.filters.lost(loss);
        self.learn.iter_mut().for_each(|learn| learn.loss(loss));
    }
}

/// The filter of a scan for the records of one group. Names that another group has are fine.
fn filters(groups: &[Group], position: usize, scan: &Scan) -> Result<Filters, Error> {
    let others = groups.iter().enumerate().filter(|(other, _)| *other != position);
    let others = others.flat_map(|(_, group)| &group.traces);
    let filters = Filters::beside(&groups[position].traces, others, scan.filter.as_slice());
    filters.map_err(|why| Error::Filter(why.message.trim_start().to_owned()))
}

/// A filter that is none is refused before the first row.
pub(crate) fn check(groups: &[Group], scan: &Scan) -> Result<(), Error> {
    if groups.is_empty() { Ok(()) } else { filters(groups, 0, scan).map(drop) }
}

/// Sends the rows of a group.
pub(crate) fn read(
    wanted: &RecordScan<'_>,
    columns: &[usize],
    table: &mut Table,
    emit: &mut Emit,
) -> Result<(), Ended> {
    if wanted.is_none() {
        return Ok(());
    }
    let holds = |column: &usize| wanted.shape.columns[*column].holds;
    let is_of_thread = |holds: Holds| matches!(holds, Holds::Pid | Holds::Tid | Holds::Proc);
    let with_threads = columns.iter().map(holds).any(is_of_thread) || wanted.scan.tids.is_some();
    let watching = Watching::new(wanted, with_threads, emit)?;
    let mut reading = Reading { wanted, watching, table, passed: 0 };
    let group = wanted.group;
    match reading.watching.is_idle() {
        true => {
            let starts = reading.starts();
            // One stream has its own order.
            let is_one = starts.iter().filter(|start| **start != Start::Skip).count() <= 1;
            match is_one || wanted.scan.any_order {
                true => reading.streams(&starts, emit)?,
                false => reading.some(&starts, emit)?,
            }
        }
        false => {
            let Range { from_ns, to_ns } = wanted.range();
            reading.all(range::reader(&group.traces, &group.indexes, from_ns, to_ns), emit)?;
        }
    }
    let batch = reading.table.take()?;
    emit.send(batch)
}

/// On the way through a group.
struct Reading<'r, 'g> {
    wanted: &'r RecordScan<'g>,
    watching: Watching,
    table: &'r mut Table,
    passed: u32,
}

impl Reading<'_, '_> {
    fn passed(&mut self, emit: &Emit) -> Result<(), Ended> {
        self.passed = self.passed.wrapping_add(1);
        if self.passed % ASK_EVERY == 0 { emit.check() } else { Ok(()) }
    }

    /// Every record is looked at.
    fn all(&mut self, mut reader: Reader<'_>, emit: &mut Emit) -> Result<(), Ended> {
        while let Some(mut item) = reader.next() {
            self.passed(emit)?;
            // Not moved: it is large.
            match &mut item {
                Item::Record(record) => {
                    if self.watching.selects(record) {
                        row(self.wanted, self.table, record);
                    }
                }
                Item::Loss(loss) => self.watching.loss(loss),
            }
            self.flush(emit)?;
        }
        Ok(())
    }

    /// Records of other events are passed over.
    fn some(&mut self, starts: &[Start], emit: &mut Emit) -> Result<(), Ended> {
        let wanted = self.wanted;
        let Some(mut reader) = between(&wanted.group.traces, wanted.range(), starts) else { return Ok(()) };
        while let Some(item) = reader.pass() {
            self.passed(emit)?;
            let Passed::Record { trace, event, .. } = item else { continue };
            if wanted.class(trace, event).is_none() {
                continue;
            }
            if let Some(Item::Record(record)) = reader.current() {
                row(wanted, self.table, &record);
            }
            self.flush(emit)?;
        }
        Ok(())
    }

    /// One stream behind the other.
    fn streams(&mut self, all: &[Start], emit: &mut Emit) -> Result<(), Ended> {
        let direct = self.direct();
        for (stream, start) in all.iter().enumerate().filter(|(_, start)| **start != Start::Skip) {
            let mut starts = vec![Start::Skip; all.len()];
            starts[stream] = *start;
            match &direct {
                Some(direct) => self.fast(&starts, direct, emit)?,
                None => self.some(&starts, emit)?,
            }
        }
        Ok(())
    }

    /// How records of each class get into columns the fast way: by trace and event, where it is asked for. `None` where
    /// one of them does not.
    fn direct(&self) -> Option<Vec<Vec<Option<DirectClass>>>> {
        let wanted = self.wanted;
        if wanted.scan.tids.is_some() {
            return None;
        }
        let of_event = |trace: usize, event: usize| {
            let Some(class) = wanted.class(trace, event) else { return Some(None) };
            let opened = &wanted.group.traces[trace];
            let is_constant = wanted.scan.cpus.is_none() || !opened.has_own_cpu(event);
            if is_constant { self.table.direct(opened, event, class).map(Some) } else { None }
        };
        let of_trace =
            |(trace, events): (usize, &Vec<_>)| (0..events.len()).map(|event| of_event(trace, event)).collect();
        wanted.wanted.iter().enumerate().map(of_trace).collect()
    }

    /// One stream, from packet to packet: behind the first record of each, bytes go right into the columns.
    fn fast(&mut self, starts: &[Start], direct: &[Vec<Option<DirectClass>>], emit: &mut Emit) -> Result<(), Ended> {
        let wanted = self.wanted;
        let traces = &wanted.group.traces;
        let Some(mut reader) = between(traces, wanted.range(), starts) else { return Ok(()) };
        let has_times = wanted.from.is_some()
            || wanted.to.is_some()
            || direct.iter().flatten().flatten().any(DirectClass::has_times);
        while let Some(item) = reader.pass() {
            self.passed(emit)?;
            let Passed::Record { trace, .. } = item else { continue };
            let Some(Item::Record(record)) = reader.current() else { continue };
            row(wanted, self.table, &record);
            let Some(glance) = reader.glance() else { continue };
            let (cpu, writer) = (glance.packet_cpu(), glance.packet_writer());
            // The reader goes on, and the packet with it.
            let (pid, tid, name) = (writer.pid, writer.tid, writer.name.to_owned());
            let writer = PacketWriter { pid, tid, name: &name };
            let is_of_cpu = wanted.scan.wants_cpu(cpu);
            let (classes, events) = (&direct[trace], &traces[trace].metadata.events);
            let of = RowOf { host: &wanted.group.host, trace: &traces[trace].label };
            let table = &mut *self.table;
            let room = (BATCH_ROWS as u64).min(emit.left()).saturating_sub(table.rows() as u64);
            reader.pass_fields(room, has_times, |event, ns, fields| {
                if let (true, Some(class)) = (is_of_cpu && wanted.wants_time(ns), &classes[event]) {
                    table.push_direct(class, &DirectRow { ns, cpu, writer, event: &events[event].name, of, fields });
                }
            });
            self.flush(emit)?;
        }
        Ok(())
    }

    /// Where to begin with each stream; not at all with those that have no row, as an index tells.
    fn starts(&self) -> Vec<Start> {
        let (wanted, group) = (self.wanted, self.wanted.group);
        let streams: usize = group.traces.iter().map(|trace| trace.streams().count()).sum();
        let mut starts = match wanted.from {
            Some(from) => group.indexes.starts(&group.traces, from.into()),
            None => vec![Start::Begin; streams],
        };
        let mut first = 0;
        for (trace, opened) in group.traces.iter().enumerate() {
            let index = group.indexes.traces.get(trace).and_then(Option::as_ref);
            for stream in 0..opened.streams().count() {
                let counts = index.and_then(|index| index.streams.get(stream));
                let is_empty = counts.is_some_and(|counts| {
                    counts.damaged == 0 && !counts.events.iter().any(|of| wanted.has_rows(trace, of))
                });
                if is_empty {
                    starts[first + stream] = Start::Skip;
                }
            }
            first += opened.streams().count();
        }
        starts
    }

    fn flush(&mut self, emit: &mut Emit) -> Result<(), Ended> {
        if self.table.is_full() || self.table.rows() as u64 >= emit.left() {
            let batch = self.table.take()?;
            emit.send(batch)?;
        }
        Ok(())
    }
}

impl RecordScan<'_> {
    /// Whether records of an event in one stream may be rows.
    fn has_rows(&self, trace: usize, of: &kymo_index::EventCount) -> bool {
        let is_wanted = self.wanted[trace].get(of.event).is_none_or(Option::is_some);
        let [clock] = &self.group.traces[trace].metadata.clocks[..] else { return is_wanted };
        let [first, last] = [of.first, of.last].map(|cycles| clamp(clock.nanoseconds(cycles)));
        is_wanted && self.from.is_none_or(|from| last >= from) && self.to.is_none_or(|to| first < to)
    }
}

/// Appends a record, if it is asked for.
#[inline]
fn row(wanted: &RecordScan<'_>, table: &mut Table, record: &Record<'_>) {
    let Some(class) = wanted.class(record.trace, record.event_position) else { return };
    let scan = wanted.scan;
    let is_wanted = wanted.wants_time(record.ns) && scan.wants_cpu(record.cpu);
    if !is_wanted || !scan.wants_tid(record.vtid.map(i64::from)) {
        return;
    }
    let of = RowOf { host: &wanted.group.host, trace: &wanted.group.traces[record.trace].label };
    table.push_row(record, class, of);
}

/// A reader of some streams. Where one has no such place as its index tells, all of them are read from their begin.
fn between<'t>(traces: &'t [Trace], range: Range, starts: &[Start]) -> Option<Reader<'t>> {
    let begin = |start: &Start| if *start == Start::Skip { Start::Skip } else { Start::Begin };
    Reader::between(traces, range, starts)
        .or_else(|| Reader::between(traces, range, &starts.iter().map(begin).collect::<Vec<_>>()))
}

/// A table of records of its shape.
pub(crate) fn table(shape: &Arc<Shape>, columns: &[usize]) -> Table {
    Table::of(shape, columns)
}
