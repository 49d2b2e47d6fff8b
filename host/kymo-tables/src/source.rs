// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opened traces, and what tables they have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::ahead::Ahead;
use crate::asked::TableFunction;
use crate::derived::cpus::{self, CPU_STATE};
use crate::derived::latencies::{self, LATENCIES, LOCKS};
use crate::derived::slices::{self, SLICES};
use crate::derived::threads::{self, THREAD_STATE};
use crate::derived::wakeups::{self, WAKEUPS};
use crate::emit::{self, Emit, Ended};
use crate::error::{Error, near};
use crate::hosts::{self, HOSTS, TRACES};
use crate::in_order::in_order;
use crate::known::{Known, Rows};
use crate::lab::{self, LAB_RESULTS};
use crate::losses::{self, LOSSES};
use crate::marks::{self, MARKS};
use crate::open::{self, Group, OpenOptions};
use crate::partition::{Divides, Partition, partitions};
use crate::people::{self, PROCESSES, THREADS};
use crate::records::{self, RecordScan};
use crate::scan::{Batches, Scan};
use crate::shape::{Shape, is_absolute};

/// A table of a source.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Its name; of an event's table, that of the event.
    pub name: String,
    /// What its rows are.
    pub about: String,
    /// Its columns; each has what it holds in its metadata, as `about`.
    pub schema: SchemaRef,
    /// Whether its rows are the records of an event.
    pub is_event: bool,
}

/// Sends the rows of a group.
pub(crate) type ReadKnown = fn(&Group, &Scan, &mut Rows, &mut Emit) -> Result<(), Ended>;

/// All known tables, how each is read, and how it can be divided by time.
pub(crate) const KNOWN: &[(&Known, ReadKnown, Divides)] = &[
    (&CPU_STATE, cpus::read, Divides::WithStates),
    (&HOSTS, hosts::read, Divides::Never),
    (&LAB_RESULTS, lab::read, Divides::Never),
    (&LATENCIES, latencies::read, Divides::Never),
    (&LOCKS, latencies::locks, Divides::WithStates),
    (&LOSSES, losses::read, Divides::Always),
    (&MARKS, marks::read, Divides::Always),
    (&PROCESSES, people::processes, Divides::Never),
    (&SLICES, slices::read, Divides::Never),
    (&THREADS, people::threads, Divides::Never),
    (&THREAD_STATE, threads::read, Divides::WithStates),
    (&TRACES, hosts::traces, Divides::Never),
    (&WAKEUPS, wakeups::read, Divides::WithStates),
];

/// Parts that a table is read in at most.
const PARTS_MAX: usize = 1 << 16;

/// Opened traces as tables.
pub struct Source(Arc<Opened>);

struct Opened {
    groups: Vec<Group>,
    events: BTreeMap<String, Arc<Shape>>,
    records: Arc<Shape>,
    /// Clocks count from 1970.
    is_absolute: bool,
}

/// A table, found by its name.
enum FoundTable {
    Records(Arc<Shape>),
    Known(&'static Known, ReadKnown),
}

impl Source {
    /// Opens traces, experiments and whatever else the verbs open.
    ///
    /// # Errors
    /// No path; a path that is not there; no trace that can be opened. Damage is none, nor is a bad trace among good
    /// ones: they are in the table `losses`.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Source, Error> {
        let groups = open::open(paths, options)?;
        let events = Shape::of_events(&groups).into_iter().map(|(name, shape)| (name, Arc::new(shape))).collect();
        let (records, is_absolute) = (Arc::new(Shape::of_records(&groups)), is_absolute(&groups));
        Ok(Source(Arc::new(Opened { groups, events, records, is_absolute })))
    }

    /// All tables: those that every trace has, then those of events, by name.
    pub fn tables(&self) -> Vec<TableInfo> {
        let opened = &self.0;
        let info = |name: &str, about: &str, schema, is_event| TableInfo {
            name: name.to_owned(),
            about: about.split_whitespace().collect::<Vec<_>>().join(" "),
            schema,
            is_event,
        };
        let mut all = vec![info("records", "All records of all events", schema_of(&opened.records), false)];
        for (known, ..) in KNOWN {
            all.push(info(
                known.name,
                known.about,
                known.schema(&every(known.columns.len()), opened.is_absolute),
                false,
            ));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        for (name, shape) in &opened.events {
            all.push(info(name, &format!("Records of the event {name}"), schema_of(shape), true));
        }
        all
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// There is none.
    pub fn schema(&self, table: &str) -> Result<SchemaRef, Error> {
        Ok(match self.find(table)? {
            FoundTable::Records(shape) => schema_of(&shape),
            FoundTable::Known(known, _) => known.schema(&every(known.columns.len()), self.0.is_absolute),
        })
    }

    /// Parts of a table that several readers can take: about `wanted` of them.
    ///
    /// # Errors
    /// There is no such table.
    pub fn partitions(&self, table: &str, wanted: usize) -> Result<Vec<Partition>, Error> {
        self.find(table)?;
        let known = KNOWN.iter().find(|(known, ..)| known.name == table);
        let divides = known.map_or(Divides::Always, |(_, _, divides)| *divides);
        Ok(partitions(&self.0.groups, wanted, divides))
    }

    /// Times of the first record and of the last of all traces, ns; none where there are no records.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let bounds = self.0.groups.iter().filter_map(Group::bounds);
        bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The rows of a table.
    ///
    /// # Errors
    /// There is no such table, or no such column; a filter that is none; a partition of other traces.
    pub fn scan(&self, table: &str, scan: &Scan) -> Result<Batches, Error> {
        match self.parts_ahead(table, scan)? {
            Some(parts) => self.scan_ahead(table, scan, parts),
            None => self.scan_at_once(table, scan),
        }
    }

    /// The parts in which several threads read a table, if they do.
    fn parts_ahead(&self, table: &str, scan: &Scan) -> Result<Option<Vec<Partition>>, Error> {
        // A filter may look at what came before.
        let is_all = scan.partition.is_none() && scan.limit.is_none() && scan.filter.is_none();
        if scan.ahead.threads < 2 || !is_all || !self.is_indexed() {
            return Ok(None);
        }
        let wanted = usize::try_from(self.records_indexed() / scan.ahead.records).unwrap_or(usize::MAX);
        let mut parts = self.partitions(table, wanted.min(PARTS_MAX))?;
        // Rows have the times of their ends in a part, and begin before these.
        parts.retain(|part| scan.from.is_none_or(|from| part.to.is_none_or(|to| to > from)));
        if table == "records" || self.is_event(table) {
            parts.retain(|part| scan.to.is_none_or(|to| part.from.is_none_or(|from| from < to)));
        }
        Ok(Some(parts).filter(|parts| parts.len() > 1))
    }

    /// Records of all traces, where indexes tell it.
    fn records_indexed(&self) -> u64 {
        let indexes = self.0.groups.iter().flat_map(|group| group.indexes.traces.iter().flatten());
        indexes.flat_map(|index| &index.streams).fold(0, |sum, stream| stream.records().saturating_add(sum))
    }

    fn scan_ahead(&self, table: &str, scan: &Scan, parts: Vec<Partition>) -> Result<Batches, Error> {
        let part_of = |own: &Scan, partition| Scan { partition, ahead: Ahead::part(), ..own.clone() };
        // What is wrong with the question is said at once.
        let none = Scan { limit: Some(0), ..part_of(scan, parts.first().cloned()) };
        let schema = self.scan_at_once(table, &none)?.schema();
        let (source, table, own) = (Source(Arc::clone(&self.0)), table.to_owned(), scan.clone());
        emit::start(schema, scan, move |emit| {
            in_order(parts, own.ahead.threads, emit, |part| source.scan_at_once(&table, &part_of(&own, Some(part))))
        })
    }

    fn scan_at_once(&self, table: &str, scan: &Scan) -> Result<Batches, Error> {
        if let Some(partition) = scan.partition.as_ref().filter(|partition| partition.trace >= self.0.groups.len()) {
            return Err(Error::Partition(partition.trace));
        }
        match self.find(table)? {
            FoundTable::Records(shape) => self.scan_records(shape, scan),
            FoundTable::Known(known, read) => self.scan_known(known, read, scan),
        }
    }

    /// The columns of a table with arguments.
    pub fn function_schema(&self, function: &TableFunction) -> SchemaRef {
        function.schema(&every(function.known().columns.len()), self.0.is_absolute)
    }

    /// The rows of a table with arguments. It has no partitions.
    ///
    /// # Errors
    /// Events or fields that no trace has; no such column.
    pub fn scan_function(&self, function: &TableFunction, scan: &Scan) -> Result<Batches, Error> {
        function.check(&self.0.groups)?;
        let known = function.known();
        let columns = projected(known.name, known.columns.iter().map(|column| column.name), scan)?;
        let (opened, own, function) = (Arc::clone(&self.0), scan.clone(), function.clone());
        emit::start(known.schema(&columns, opened.is_absolute), scan, move |emit| {
            let mut rows = Rows::of(known, &columns, opened.is_absolute);
            opened.groups.iter().try_for_each(|group| function.read(group, &own, &mut rows, emit))
        })
    }

    /// Whether all traces have an index that holds: conditions on time are cheap then.
    pub fn is_indexed(&self) -> bool {
        self.0.groups.iter().all(|group| group.indexes.whole().is_some())
    }

    /// Whether a table is that of an event.
    pub fn is_event(&self, table: &str) -> bool {
        self.0.events.contains_key(table) && !matches!(self.find(table), Ok(FoundTable::Known(..)))
    }

    /// Records and packets that are missing, where indexes tell it: 0 says that nothing was lost or damaged.
    pub fn known_losses(&self) -> Option<u64> {
        let mut lost = 0u64;
        for group in &self.0.groups {
            let whole = group.indexes.whole()?;
            let streams = whole.iter().flat_map(|index| &index.streams);
            lost = streams.fold(lost, |lost, of| lost.saturating_add(of.lost[0]).saturating_add(of.lost[1]));
        }
        Some(lost)
    }

    /// Traces that could not be opened beside those that were, and why: rows of `losses`.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Path, &str)> {
        let all = self.0.groups.iter().flat_map(|group| &group.unreadable);
        all.map(|(path, why)| (path.as_path(), why.as_str()))
    }

    /// Whether all clocks count from 1970.
    pub fn is_absolute(&self) -> bool {
        self.0.is_absolute
    }

    /// How many rows a table of records has, where indexes tell it.
    pub fn row_count(&self, table: &str) -> Option<u64> {
        let Ok(FoundTable::Records(shape)) = self.find(table) else { return None };
        let mut rows = 0u64;
        for (group, classes) in self.0.groups.iter().zip(&shape.classes) {
            for (trace, index) in group.indexes.whole()?.iter().enumerate() {
                let events = index.streams.iter().flat_map(|stream| &stream.events);
                let own = events.filter(|of| classes.contains_key(&(trace, of.event)));
                rows = own.fold(rows, |rows, of| rows.saturating_add(of.records));
            }
        }
        Some(rows)
    }

    fn scan_records(&self, shape: Arc<Shape>, scan: &Scan) -> Result<Batches, Error> {
        let names = shape.columns.iter().map(|column| column.name.as_str());
        let columns = projected(&shape.name, names, scan)?;
        has_what_chooses(&shape.name, &["time", "cpu", "tid"], scan)?;
        records::check(&self.0.groups, scan)?;
        let (opened, own) = (Arc::clone(&self.0), scan.clone());
        emit::start(shape.schema(&columns), scan, move |emit| {
            let mut table = records::table(&shape, &columns);
            for (position, _) in opened.groups_of(&own) {
                let wanted = RecordScan::new(&opened.groups, position, &shape, &own);
                records::read(&wanted, &columns, &mut table, emit)?;
            }
            Ok(())
        })
    }

    fn scan_known(&self, known: &'static Known, read: ReadKnown, scan: &Scan) -> Result<Batches, Error> {
        if scan.filter.is_some() || scan.events.is_some() || scan.names.is_some() {
            let message = "a filter and a choice of events are of records: it takes neither".to_owned();
            return Err(Error::Scan { table: known.name.to_owned(), message });
        }
        let names: Vec<&str> = known.columns.iter().map(|column| column.name).collect();
        has_what_chooses(known.name, &names, scan)?;
        let columns = projected(known.name, names.into_iter(), scan)?;
        let (opened, own) = (Arc::clone(&self.0), scan.clone());
        emit::start(known.schema(&columns, opened.is_absolute), scan, move |emit| {
            let mut rows = Rows::of(known, &columns, opened.is_absolute);
            for (_, group) in opened.groups_of(&own) {
                read(group, &own, &mut rows, emit)?;
            }
            Ok(())
        })
    }

    fn find(&self, table: &str) -> Result<FoundTable, Error> {
        if table == "records" {
            return Ok(FoundTable::Records(Arc::clone(&self.0.records)));
        }
        if let Some((known, read, _)) = KNOWN.iter().find(|(known, ..)| known.name == table) {
            return Ok(FoundTable::Known(known, *read));
        }
        if let Some(shape) = self.0.events.get(table) {
            return Ok(FoundTable::Records(Arc::clone(shape)));
        }
        let known = KNOWN.iter().map(|(known, ..)| known.name);
        let names = known.chain(["records"]).chain(self.0.events.keys().map(String::as_str));
        Err(Error::UnknownTable { name: table.to_owned(), near: near(table, names) })
    }
}

impl Opened {
    /// Those of the partition.
    fn groups_of(&self, scan: &Scan) -> impl Iterator<Item = (usize, &Group)> {
        let only = scan.partition.as_ref().map(|partition| partition.trace);
        self.groups.iter().enumerate().filter(move |(position, _)| only.is_none_or(|only| only == *position))
    }
}

fn every(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn schema_of(shape: &Shape) -> SchemaRef {
    shape.schema(&every(shape.columns.len()))
}

/// A choice by a column that a table does not have is an error: it would choose nothing.
fn has_what_chooses(table: &str, columns: &[&str], scan: &Scan) -> Result<(), Error> {
    let choices = [
        ("time", scan.from.or(scan.to).is_some()),
        ("end_time", scan.end_from.or(scan.end_to).is_some()),
        ("cpu", scan.cpus.is_some()),
        ("tid", scan.tids.is_some()),
    ];
    match choices.iter().find(|(column, is_asked)| *is_asked && !columns.contains(column)) {
        Some((column, _)) => {
            Err(Error::Scan { table: table.to_owned(), message: format!("it has no column {column}") })
        }
        None => Ok(()),
    }
}

/// Positions of the columns that are asked for.
fn projected<'n>(table: &str, names: impl Iterator<Item = &'n str>, scan: &Scan) -> Result<Vec<usize>, Error> {
    let names: Vec<&str> = names.collect();
    let Some(wanted) = &scan.projection else { return Ok(every(names.len())) };
    let position = |name: &String| {
        let unknown = || Error::UnknownColumn {
            table: table.to_owned(),
            name: name.clone(),
            near: near(name, names.iter().copied()),
        };
        names.iter().position(|known| known == name).ok_or_else(unknown)
    };
    wanted.iter().map(position).collect()
}
