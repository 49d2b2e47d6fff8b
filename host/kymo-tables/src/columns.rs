// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as columns [spec/tables.md 2]: a [`Table`] takes records of one event, or of several with the same name, and
//! is emptied as Arrow record batches.
//!
//! ```
//! use kymo_ctf::read::{Item, Memory, Reader, Trace};
//! use kymo_tables::columns::Table;
//!
//! let metadata = "typealias integer { size = 8; } := u8;
//!     clock { name = c; freq = 1000; absolute = true; };
//!     stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
//!     event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; string note; }; };";
//! let stream = vec![7, 1, 2, b'u', b'p', 0, 7, 5, 3, b'o', b'n', 0];
//! let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
//! let traces = [Trace::from_files(&files)?.value];
//!
//! let mut table = Table::new(&traces[0].metadata, 0);
//! let mut reader = Reader::new(&traces);
//! while let Some(item) = reader.next() {
//!     if let Item::Record(record) = item {
//!         table.push(&record);
//!     }
//! }
//! let batch = table.take()?;
//! assert_eq!(batch.num_rows(), 2);
//! let axis = batch.column_by_name("axis").unwrap();
//! assert_eq!(axis.as_any().downcast_ref::<arrow_array::UInt8Array>().unwrap().values(), &[2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod cells;
pub(crate) mod json;
pub(crate) mod row;
pub(crate) mod words;

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use kymo_ctf::read::{Fields, Metadata, Record, Trace, Value};
use kymo_export::export::part_of;
use kymo_export::json::{Wide, push_text, push_value};

use crate::direct::DirectClass;
use crate::shape::{ClassColumns, Holds, Shape};
use cells::Cells;
use row::{Column, DirectRow, RowOf};

/// Rows of a batch: who pushes looks at [`Table::is_full`].
pub const BATCH_ROWS: usize = 8192;

/// Bytes of texts, bytes and arrays of a batch: the record that comes to more is the last one of it. Arrow's arrays
/// hold less than 2^31.
pub const BATCH_BYTES: usize = 16 << 20;

/// Records that are not yet taken as a batch.
pub struct Table {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// Positions of those of which a row may have any number of bytes.
    growing: Vec<usize>,
    /// Of the class of [`Table::new`].
    class: ClassColumns,
    rows: usize,
}

impl Table {
    /// An empty table for the event class at the position `event` of [`Metadata::events`]: all its columns but the
    /// host, of which there is one.
    pub fn new(metadata: &Metadata, event: usize) -> Table {
        let (shape, class) = Shape::of_one(metadata, event);
        let all: Vec<usize> = (0..shape.columns.len()).filter(|at| shape.columns[*at].holds != Holds::Host).collect();
        Table { class, ..Table::of(&shape, &all) }
    }

    /// An empty table with some columns of a shape.
    pub(crate) fn of(shape: &Shape, columns: &[usize]) -> Table {
        let cells = columns.iter().map(|column| &shape.columns[*column]);
        let cells = cells.map(|column| Column { holds: column.holds, cells: column.cells.fresh() });
        let cells: Vec<Column> = cells.collect();
        let growing = (0..cells.len()).filter(|at| cells[*at].cells.is_growing()).collect();
        Table { schema: shape.schema(columns), columns: cells, growing, class: ClassColumns::default(), rows: 0 }
    }

    /// Types and names of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Records that are not yet taken.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it is time for [`Table::take`].
    pub fn is_full(&self) -> bool {
        let bytes = || self.growing.iter().map(|at| self.columns[*at].cells.bytes()).sum::<usize>();
        self.rows >= BATCH_ROWS || bytes() >= BATCH_BYTES
    }

    /// Appends a record of the event class.
    pub fn push(&mut self, record: &Record<'_>) {
        let class = std::mem::take(&mut self.class);
        self.push_row(record, &class, RowOf { host: "", trace: "" });
        self.class = class;
    }

    /// Appends a record of one of several classes.
    pub(crate) fn push_row(&mut self, record: &Record<'_>, class: &ClassColumns, of: RowOf<'_>) {
        for column in &mut self.columns {
            match column.holds {
                Holds::Field(place) => {
                    let place = class.0.get(place).copied().flatten();
                    let value = place.and_then(|(part, position)| part_of(record, part).at(position));
                    column.cells.append(value.as_ref());
                }
                Holds::Fields => column.cells.append(Some(&Value::Struct(record.payload))),
                Holds::Contexts => match &mut column.cells {
                    Cells::Json(cells) => cells.append(|out| push_contexts(out, record)),
                    cells => cells.append(None),
                },
                holds => column.head(holds, record, of),
            }
        }
        self.rows += 1;
    }

    /// How records of a class get into it the fast way, if they do.
    pub(crate) fn direct(&self, trace: &Trace, event: usize, class: &ClassColumns) -> Option<DirectClass> {
        DirectClass::new(trace, event, class, &self.columns)
    }

    /// Appends a record the fast way.
    #[inline]
    pub(crate) fn push_direct(&mut self, class: &DirectClass, row: &DirectRow<'_>) {
        class.push(&mut self.columns, row);
        self.rows += 1;
    }

    /// All that was pushed since the last time.
    ///
    /// # Errors
    /// Arrow's own, where its arrays cannot hold what was pushed (2^31 bytes of text in one batch).
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let arrays: Result<Vec<_>, _> = self.columns.iter_mut().map(|column| column.cells.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), arrays?, &options)
    }
}

/// Contexts of a record as an object in JSON; nothing where there are none.
fn push_contexts(out: &mut Vec<u8>, record: &Record<'_>) {
    let begin = out.len();
    let mut fields = |fields: Fields<'_>| {
        for (name, value) in fields.iter() {
            out.push(if out.len() == begin { b'{' } else { b',' });
            push_text(out, name);
            out.push(b':');
            push_value(out, &value, Wide::Number);
        }
    };
    fields(record.common_context);
    fields(record.context);
    if out.len() > begin {
        out.push(b'}');
    }
}
