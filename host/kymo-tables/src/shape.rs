// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of tables of records: those that all records have, then those of the event. Where traces have events of
//! one name with other fields, the table has the columns of all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use kymo_ctf::read::{FieldInfo, FieldKind, Metadata, RecordPart};
use kymo_export::export::{column_fields, column_name};

use crate::columns::cells::Cells;
use crate::open::Group;

/// The key of a field's documentation in its metadata.
pub(crate) const ABOUT: &str = "about";

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Time,
    Cpu,
    Pid,
    Tid,
    Proc,
    Host,
    Trace,
    Stream,
    Event,
    Bits,
    /// The payload in JSON.
    Fields,
    /// The contexts in JSON.
    Contexts,
    /// A field: its position in [`ClassColumns`].
    Field(usize),
}

/// A column.
pub(crate) struct ShapeColumn {
    pub name: String,
    pub about: String,
    pub holds: Holds,
    /// Without values: for those of a batch.
    pub cells: Cells,
}

/// Where the records of one class have the fields of a table; none where the class has none such.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassColumns(pub Vec<Option<(RecordPart, usize)>>);

/// Classes of a group: by trace and event.
pub(crate) type GroupClasses = HashMap<(usize, usize), ClassColumns>;

/// The columns of a table of records.
pub(crate) struct Shape {
    pub name: String,
    pub columns: Vec<ShapeColumn>,
    /// Whose records are its rows: by group, then by trace and event. Of `records`: all.
    pub classes: Vec<GroupClasses>,
}

/// Columns that all tables of records have, in front of the fields.
fn heads(is_absolute: bool) -> Vec<ShapeColumn> {
    let zone = is_absolute.then(|| "UTC".into());
    let column = |name: &str, holds, cells, about: &str| ShapeColumn {
        name: name.to_owned(),
        about: about.to_owned(),
        holds,
        cells,
    };
    let id = || Cells::integers(false, 32);
    vec![
        column("time", Holds::Time, Cells::time(zone), "When the record was written, ns"),
        column("cpu", Holds::Cpu, id(), "CPU that wrote it"),
        column("pid", Holds::Pid, id(), "Process that wrote it"),
        column("tid", Holds::Tid, id(), "Thread that wrote it"),
        column("proc", Holds::Proc, Cells::words(), "Name of that thread, or of its process where only that is known"),
        column("host", Holds::Host, Cells::words(), "Machine that the trace is of"),
    ]
}

impl Shape {
    /// Of one event class.
    pub fn of_one(metadata: &Metadata, event: usize) -> (Shape, ClassColumns) {
        let is_absolute = metadata.clocks.iter().all(|clock| clock.absolute);
        let name = metadata.events.get(event).map_or("", |event| event.name.as_str());
        let mut making = Making::new(name, is_absolute);
        let class = making.add(metadata, event);
        (making.finish(), class)
    }

    /// Of all events of all traces, by name.
    pub fn of_events(groups: &[Group]) -> BTreeMap<String, Shape> {
        let is_absolute = is_absolute(groups);
        let mut all: BTreeMap<String, (Making, Vec<GroupClasses>)> = BTreeMap::new();
        for (position, group) in groups.iter().enumerate() {
            for (trace, opened) in group.traces.iter().enumerate() {
                for (event, class) in opened.metadata.events.iter().enumerate() {
                    let begin = || (Making::new(&class.name, is_absolute), vec![GroupClasses::new(); groups.len()]);
                    let (making, classes) = all.entry(class.name.clone()).or_insert_with(begin);
                    let columns = making.add(&opened.metadata, event);
                    classes[position].insert((trace, event), columns);
                }
            }
        }
        let shape = |(making, classes): (Making, _)| Shape { classes, ..making.finish() };
        all.into_iter().map(|(name, of)| (name, shape(of))).collect()
    }

    /// Of `records`: what all have, and the rest as JSON.
    pub fn of_records(groups: &[Group]) -> Shape {
        let mut columns = heads(is_absolute(groups));
        let more = [
            ("trace", Holds::Trace, Cells::words(), "Directory of its trace"),
            ("stream", Holds::Stream, Cells::words(), "File of its stream"),
            ("event", Holds::Event, Cells::words(), "Name of its event, which is that of the event's own table"),
            (
                "bits",
                Holds::Bits,
                Cells::integers(false, 64),
                "Bits that it takes in the trace, with head and contexts",
            ),
            ("fields", Holds::Fields, Cells::json(), "Its fields, as an object in JSON"),
            ("contexts", Holds::Contexts, Cells::json(), "Its contexts, as an object in JSON"),
        ];
        columns.extend(more.map(|(name, holds, cells, about)| ShapeColumn {
            name: name.to_owned(),
            about: about.to_owned(),
            holds,
            cells,
        }));
        let all = |group: &Group| {
            let of_trace =
                |trace: usize| (0..group.traces[trace].metadata.events.len()).map(move |event| (trace, event));
            (0..group.traces.len()).flat_map(of_trace).map(|class| (class, ClassColumns::default())).collect()
        };
        Shape { name: "records".to_owned(), columns, classes: groups.iter().map(all).collect() }
    }

    /// Names, types and documentation of some columns.
    pub fn schema(&self, columns: &[usize]) -> SchemaRef {
        let field = |column: &usize| {
            let column = &self.columns[*column];
            field(&column.name, column.cells.data_type(), &column.about)
        };
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let about = HashMap::from([("kymo.event".to_owned(), self.name.clone())]);
        Arc::new(Schema::new_with_metadata(fields, about))
    }
}

/// A field with its documentation.
pub(crate) fn field(name: &str, data_type: arrow_schema::DataType, about: &str) -> Field {
    Field::new(name, data_type, true).with_metadata(HashMap::from([(ABOUT.to_owned(), about.to_owned())]))
}

/// Whether all clocks count from 1970.
pub(crate) fn is_absolute(groups: &[Group]) -> bool {
    let clocks = groups.iter().flat_map(|group| &group.traces).flat_map(|trace| &trace.metadata.clocks);
    clocks.clone().next().is_some() && clocks.into_iter().all(|clock| clock.absolute)
}

/// A shape on its way.
struct Making {
    name: String,
    columns: Vec<ShapeColumn>,
    names: Names,
    /// By part, name and suffix: the field's number, which is its place in [`ClassColumns`].
    known: HashMap<(u8, String, &'static str), usize>,
}

impl Making {
    fn new(name: &str, is_absolute: bool) -> Making {
        let columns = heads(is_absolute);
        let mut names = Names::default();
        columns.iter().for_each(|column| drop(names.unique(&column.name)));
        Making { name: name.to_owned(), columns, names, known: HashMap::new() }
    }

    /// Adds the columns of a class that are not there yet.
    fn add(&mut self, metadata: &Metadata, event: usize) -> ClassColumns {
        let mut class = ClassColumns::default();
        for (part, info) in column_fields(metadata, event) {
            for (suffix, cells) in cells_of(&info) {
                let key = (part as u8, info.name.to_owned(), suffix);
                let number = match self.known.get(&key) {
                    Some(number) => {
                        let is_it = |column: &&mut ShapeColumn| column.holds == Holds::Field(*number);
                        self.columns.iter_mut().find(is_it).into_iter().for_each(|of| of.cells = of.cells.or(&cells));
                        *number
                    }
                    None => {
                        let number = self.known.len();
                        let name = self.names.unique(&(column_name(part, &info) + suffix));
                        let about = about(part, &info, suffix);
                        self.columns.push(ShapeColumn { name, about, holds: Holds::Field(number), cells });
                        self.known.insert(key, number);
                        number
                    }
                };
                if class.0.len() <= number {
                    class.0.resize(number + 1, None);
                }
                class.0[number] = Some((part, info.position));
            }
        }
        class
    }

    fn finish(self) -> Shape {
        Shape { name: self.name, columns: self.columns, classes: Vec::new() }
    }
}

/// The columns of a field, each with what is behind its name.
fn cells_of(info: &FieldInfo<'_>) -> Vec<(&'static str, Cells)> {
    match &info.kind {
        FieldKind::Enum { .. } => vec![("", Cells::words()), (".value", Cells::of(&info.kind))],
        kind => vec![("", Cells::of(kind))],
    }
}

fn about(part: RecordPart, info: &FieldInfo<'_>, suffix: &str) -> String {
    let of = match part {
        RecordPart::Payload => "Field of the event",
        RecordPart::CommonContext | RecordPart::Context => "Context of the record",
    };
    let kind = match (&info.kind, suffix) {
        (FieldKind::Enum { .. }, "") => "label of an enumeration",
        (FieldKind::Enum { .. }, _) => "number of an enumeration",
        (FieldKind::Int { .. }, _) => "integer",
        (FieldKind::Wide { .. }, _) => "digits of an integer of more than 64 bits",
        (FieldKind::Bool, _) => "true or false",
        (FieldKind::Float { .. }, _) => "floating point",
        (FieldKind::Text, _) => "text",
        (FieldKind::Bytes, _) => "bytes",
        (FieldKind::Array { .. }, _) => "array",
        (FieldKind::Struct(_), _) => "structure",
        (FieldKind::Varying, _) => "value whose type differs between records, in JSON",
    };
    format!("{of}: {kind}")
}

/// Names of columns, each used once.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{name}.{number}");
            number += 1;
        }
        unique
    }
}
