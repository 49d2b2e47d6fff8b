// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that every trace has: their columns, and rows on their way into batches.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::columns::cells::Cells;
use crate::columns::{BATCH_BYTES, BATCH_ROWS};
use crate::emit::{Emit, Ended};
use crate::scan::is_time;
use crate::shape::field;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A point in time, ns.
    Time,
    /// A number of a CPU, process, thread: 32 bits.
    Id,
    /// A count or a duration: 64 bits without a sign.
    Count,
    /// 64 bits with a sign.
    Signed,
    /// 64 bits.
    Float,
    /// Texts of which there are few.
    Words,
    /// Texts.
    Text,
    /// True or false.
    Bool,
}

/// A column of a known table.
pub(crate) struct Def {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
}

/// A table that every trace has.
pub(crate) struct Known {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [Def],
}

/// A shorter way to write columns down.
macro_rules! columns {
    ($($name:literal $kind:ident $about:literal;)*) => {
        &[$($crate::known::Def { name: $name, kind: $crate::known::Kind::$kind, about: $about }),*]
    };
}
pub(crate) use columns;

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    /// Of all kinds of integers and times: the bits.
    Int(i64),
    Float(f64),
    Text(&'a str),
    Bool(bool),
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Cell::Int(value as i64)
    }
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Cell::Int(value.into())
    }
}

/// Numbers of threads and processes: a negative one is none.
impl From<i32> for Cell<'_> {
    fn from(value: i32) -> Self {
        u32::try_from(value).map_or(Cell::Null, Cell::from)
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Cell::Float(value)
    }
}

/// An empty text is none.
impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        if value.is_empty() { Cell::Null } else { Cell::Text(value) }
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl Known {
    /// Names, types and documentation of some columns.
    pub fn schema(&self, columns: &[usize], is_absolute: bool) -> SchemaRef {
        let of = |column: &usize| {
            let def = &self.columns[*column];
            field(def.name, cells(def.kind, is_absolute).data_type(), def.about)
        };
        Arc::new(Schema::new(columns.iter().map(of).collect::<Vec<Field>>()))
    }
}

fn cells(kind: Kind, is_absolute: bool) -> Cells {
    match kind {
        Kind::Time => Cells::time(is_absolute.then(|| "UTC".into())),
        Kind::Id => Cells::integers(false, 32),
        Kind::Count => Cells::integers(false, 64),
        Kind::Signed => Cells::integers(true, 64),
        Kind::Float => Cells::F64(Float64Builder::new()),
        Kind::Words => Cells::words(),
        Kind::Text => Cells::Text(StringBuilder::new()),
        Kind::Bool => Cells::Bool(BooleanBuilder::new()),
    }
}

/// Rows of a known table that are not yet sent.
pub(crate) struct Rows {
    schema: SchemaRef,
    /// The column of the table, and its values.
    cells: Vec<(usize, Cells)>,
    rows: usize,
}

impl Rows {
    /// With some columns of a table.
    pub fn of(known: &Known, columns: &[usize], is_absolute: bool) -> Rows {
        let cells = columns.iter().map(|column| (*column, cells(known.columns[*column].kind, is_absolute))).collect();
        Rows { schema: known.schema(columns, is_absolute), cells, rows: 0 }
    }

    /// Whether a column is asked for.
    pub fn has(&self, column: usize) -> bool {
        self.cells.iter().any(|(own, _)| *own == column)
    }

    /// Adds a row: a value for each column of the table.
    pub fn push(&mut self, row: &[Cell<'_>]) {
        for (column, cells) in &mut self.cells {
            match (cells, row.get(*column).copied().unwrap_or(Cell::Null)) {
                (Cells::Time { values, .. }, Cell::Int(value)) => values.push_option(Some(value).filter(is_time)),
                (Cells::Int { values, .. }, Cell::Int(value)) => values.push(value),
                (Cells::Words(words), Cell::Text(text)) => words.push(text),
                (Cells::Text(cells), Cell::Text(text)) => cells.append_value(text),
                (Cells::Bool(cells), Cell::Bool(value)) => cells.append_value(value),
                (Cells::F64(cells), Cell::Float(value)) => cells.append_value(value),
                (cells, _) => cells.append(None),
            }
        }
        self.rows += 1;
    }

    /// Whether it is time for [`Rows::send`].
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.cells.iter().map(|(_, cells)| cells.bytes()).sum::<usize>() >= BATCH_BYTES
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let arrays: Result<Vec<_>, _> = self.cells.iter_mut().map(|(_, cells)| cells.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays?, &options)
    }

    /// Hands on all.
    pub fn send(&mut self, emit: &mut Emit) -> Result<(), Ended> {
        let batch = self.take()?;
        emit.send(batch)
    }
}
