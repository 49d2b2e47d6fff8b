// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the rows of tables of records: those of events, and `records`.

use std::collections::HashMap;
use std::sync::Arc;

use kymo_ctf::read::{Item, Loss, Passed, Range, Reader, Record, Start};
use kymo_feed::clamp;
use kymo_index::range;
use kymo_names::event_matches;
use kymo_query::{Filters, Learn};

use crate::columns::{BATCH_ROWS, Table};
use crate::columns::row::{DirectRow, RowOf};
use crate::direct::DirectClass;
use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::open::Group;
use crate::scan::Scan;
use crate::shape::{ClassColumns, Holds, Shape};

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

/// Which rows of a group, as far as it is known before the first record.
pub(crate) struct Wanted<'g> {
    pub group: &'g Group,
    /// Position of the group: of the classes of a shape.
    pub position: usize,
    pub shape: &'g Shape,
    pub scan: &'g Scan,
    /// Both of the scan and of its part, ns.
    from: Option<i64>,
    to: Option<i64>,
    /// By trace and event: whether its records are rows.
    is_wanted: Vec<Vec<bool>>,
}

impl<'g> Wanted<'g> {
    /// Of this group.
    pub fn new(group: &'g Group, position: usize, shape: &'g Shape, scan: &'g Scan) -> Wanted<'g> {
        let (part_from, part_to) = scan.part();
        let to = [part_to, scan.to].into_iter().flatten().min();
        let classes = &shape.classes[position];
        let matches = |name: &str| {
            scan.events.as_ref().is_none_or(|all| all.iter().any(|glob| event_matches(glob, name)))
                && scan.names.as_ref().is_none_or(|all| all.iter().any(|own| own == name))
        };
        let of_trace = |(trace, opened): (usize, &kymo_ctf::read::Trace)| {
            let names = opened.metadata.events.iter().enumerate();
            names.map(|(event, of)| classes.contains_key(&(trace, event)) && matches(&of.name)).collect()
        };
        let is_wanted = group.traces.iter().enumerate().map(of_trace).collect();
        Wanted { group, position, shape, scan, from: part_from.max(scan.from), to, is_wanted }
    }

    fn is_none(&self) -> bool {
        let is_empty = self.from.zip(self.to).is_some_and(|(from, to)| from >= to);
        is_empty || !self.is_wanted.iter().flatten().any(|is_wanted| *is_wanted)
    }

    fn classes(&self) -> &'g HashMap<(usize, usize), ClassColumns> {
        &self.shape.classes[self.position]
    }
}

/// What must see all records, in the order of time, to say something of one.
struct Watching {
    learn: Option<Learn>,
    filters: Filters,
}

impl Watching {
    /// `with_threads`: threads, processes or their names are asked for.
    fn new(wanted: &Wanted<'_>, with_threads: bool, emit: &Emit) -> Result<Watching, Ended> {
        let group = wanted.group;
        let texts: Vec<String> = wanted.scan.filter.iter().cloned().collect();
        let refused = |refused: kymo_query::Refused| Error::Filter(refused.message.trim_start().to_owned());
        let mut filters = Filters::new(&group.traces, &texts).map_err(refused)?;
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

/// A filter that is none is refused before the first row.
pub(crate) fn check(groups: &[Group], scan: &Scan) -> Result<(), Error> {
    let Some(text) = &scan.filter else { return Ok(()) };
    let mut refused = None;
    for group in groups {
        match Filters::new(&group.traces, std::slice::from_ref(text)) {
            // Names that one of the groups has are fine.
            Ok(_) => return Ok(()),
            Err(why) => refused = Some(why),
        }
    }
    refused.map_or(Ok(()), |why| Err(Error::Filter(why.message.trim_start().to_owned())))
}

/// Sends the rows of a group.
pub(crate) fn read(wanted: &Wanted<'_>, columns: &[usize], table: &mut Table, emit: &mut Emit) -> Result<(), Ended> {
    if wanted.is_none() {
        return Ok(());
    }
    let holds = |column: &usize| wanted.shape.columns[*column].holds;
    let is_of_thread = |holds: Holds| matches!(holds, Holds::Pid | Holds::Tid | Holds::Proc);
    let with_threads = columns.iter().map(holds).any(is_of_thread) || wanted.scan.tids.is_some();
    let watching = match Watching::new(wanted, with_threads, emit) {
        // Names that this machine's traces do not have: none of its records is asked for.
        Err(Ended::Failed(Error::Filter(_))) => return Ok(()),
        watching => watching?,
    };
    let mut reading = Reading { wanted, watching, table, passed: 0 };
    let group = wanted.group;
    match reading.watching.is_idle() {
        true if wanted.scan.any_order => reading.streams(emit)?,
        true => {
            let starts = reading.starts(None);
            reading.some(&starts, emit)?;
        }
        false => {
            let (from, to) = (wanted.from.map(i128::from), wanted.to.map(i128::from));
            reading.all(range::reader(&group.traces, &group.indexes, from, to), emit)?;
        }
    }
    let batch = reading.table.take()?;
    emit.send(batch)
}

/// On the way through a group.
struct Reading<'r, 'g> {
    wanted: &'r Wanted<'g>,
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
        while let Some(item) = reader.next() {
            self.passed(emit)?;
            match item {
                Item::Record(mut record) => {
                    let is_row = self.wanted.is_wanted[record.trace][record.event_position];
                    if self.watching.selects(&mut record) && is_row {
                        row(self.wanted, self.table, &record);
                    }
                }
                Item::Loss(loss) => self.watching.loss(&loss),
            }
            self.flush(emit)?;
        }
        Ok(())
    }

    /// Records of other events are passed over.
    fn some(&mut self, starts: &[Start], emit: &mut Emit) -> Result<(), Ended> {
        let wanted = self.wanted;
        let range = Range { from_ns: wanted.from.map(i128::from), to_ns: wanted.to.map(i128::from) };
        let traces = &wanted.group.traces;
        let reader = Reader::between(traces, range, starts).or_else(|| Reader::between(traces, range, &[]));
        let Some(mut reader) = reader else { return Ok(()) };
        while let Some(item) = reader.pass() {
            self.passed(emit)?;
            let Passed::Record { trace, event, .. } = item else { continue };
            if !wanted.is_wanted[trace][event] {
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
    fn streams(&mut self, emit: &mut Emit) -> Result<(), Ended> {
        let all = self.starts(None);
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
            if !wanted.is_wanted[trace][event] {
                return Some(None);
            }
            let opened = &wanted.group.traces[trace];
            let is_constant = wanted.scan.cpus.is_none() || !opened.has_own_cpu(event);
            let class = wanted.classes().get(&(trace, event)).filter(|_| is_constant)?;
            self.table.direct(opened, event, class).map(Some)
        };
        let of_trace =
            |(trace, events): (usize, &Vec<bool>)| (0..events.len()).map(|event| of_event(trace, event)).collect();
        wanted.is_wanted.iter().enumerate().map(of_trace).collect()
    }

    /// One stream, from packet to packet: behind the first record of each, bytes go right into the columns.
    fn fast(&mut self, starts: &[Start], direct: &[Vec<Option<DirectClass>>], emit: &mut Emit) -> Result<(), Ended> {
        let wanted = self.wanted;
        let traces = &wanted.group.traces;
        let range = Range { from_ns: wanted.from.map(i128::from), to_ns: wanted.to.map(i128::from) };
        let reader = Reader::between(traces, range, starts).or_else(|| Reader::between(traces, range, &[]));
        let Some(mut reader) = reader else { return Ok(()) };
        while let Some(item) = reader.pass() {
            self.passed(emit)?;
            let Passed::Record { trace, .. } = item else { continue };
            let Some(Item::Record(record)) = reader.current() else { continue };
            if wanted.is_wanted[trace][record.event_position] {
                row(wanted, self.table, &record);
            }
            let cpu = reader.glance().and_then(|glance| glance.packet_cpu());
            let is_of_cpu = wanted.scan.wants_cpu(cpu);
            let (classes, events) = (&direct[trace], &traces[trace].metadata.events);
            let of = RowOf { host: &wanted.group.host, trace: &traces[trace].label };
            let table = &mut *self.table;
            let room = (BATCH_ROWS as u64).min(emit.left()).saturating_sub(table.rows() as u64);
            reader.pass_fields(room, |event, ns, fields| {
                if let (true, Some(class)) = (is_of_cpu, &classes[event]) {
                    table.push_direct(class, &DirectRow { ns, cpu, event: &events[event].name, of, fields });
                }
            });
            self.flush(emit)?;
        }
        Ok(())
    }

    /// Where to begin with each stream; not at all with those that have no row, as an index tells.
    fn starts(&self, only: Option<usize>) -> Vec<Start> {
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
                if is_empty || only.is_some_and(|only| only != first + stream) {
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

impl Wanted<'_> {
    /// Whether records of an event in one stream may be rows.
    fn has_rows(&self, trace: usize, of: &kymo_index::EventCount) -> bool {
        let is_wanted = self.is_wanted[trace].get(of.event).copied().unwrap_or(true);
        let [clock] = &self.group.traces[trace].metadata.clocks[..] else { return is_wanted };
        let [first, last] = [of.first, of.last].map(|cycles| clamp(clock.nanoseconds(cycles)));
        is_wanted && self.from.is_none_or(|from| last >= from) && self.to.is_none_or(|to| first < to)
    }
}

/// Appends a record, if it is asked for.
#[inline]
fn row(wanted: &Wanted<'_>, table: &mut Table, record: &Record<'_>) {
    let scan = wanted.scan;
    if !scan.wants_cpu(record.cpu) || !scan.wants_tid(record.vtid.map(i64::from)) {
        return;
    }
    let Some(class) = wanted.classes().get(&(record.trace, record.event_position)) else { return };
    let of = RowOf { host: &wanted.group.host, trace: &wanted.group.traces[record.trace].label };
    table.push_row(record, class, of);
}

/// A table of records of its shape.
pub(crate) fn table(shape: &Arc<Shape>, columns: &[usize]) -> Table {
    Table::of(shape, columns)
}
