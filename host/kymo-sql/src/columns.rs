// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as columns [spec/exchange.md 1]: one [`Table`] for each event class, emptied as Arrow record batches.
//!
//! ```
//! use kymo_ctf::read::{Item, Memory, Reader, Trace};
//! use kymo_sql::columns::Table;
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

mod cells;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::{PrimitiveBuilder, StringDictionaryBuilder};
use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt32Type};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use kymo_ctf::read::{FieldInfo, FieldKind, Metadata, Record, RecordPart};
use kymo_export::export::{column_fields, column_name, part_of};

use cells::Cells;

/// Rows of a batch: who pushes looks at [`Table::is_full`].
pub const BATCH_ROWS: usize = 8192;

/// Records of one event class, not yet taken as a batch.
pub struct Table {
    schema: SchemaRef,
    time: PrimitiveBuilder<TimestampNanosecondType>,
    /// `cpu`, `pid`, `tid`.
    where_: [PrimitiveBuilder<UInt32Type>; 3],
    proc: StringDictionaryBuilder<Int32Type>,
    columns: Vec<Column>,
    rows: usize,
}

struct Column {
    part: RecordPart,
    /// For `Fields::at`.
    position: usize,
    cells: Cells,
}

impl Table {
    /// An empty table for the event class at the position `event` of [`Metadata::events`].
    pub fn new(metadata: &Metadata, event: usize) -> Table {
        let zone = metadata.clocks.iter().all(|clock| clock.absolute).then(|| "UTC".into());
        let time = DataType::Timestamp(TimeUnit::Nanosecond, zone);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let mut names = Names::default();
        let mut fields = vec![names.field("time", time.clone())];
        fields.extend(["cpu", "pid", "tid"].map(|name| names.field(name, DataType::UInt32)));
        fields.push(names.field("proc", dictionary));
        let mut columns = Vec::new();
        for (part, info) in column_fields(metadata, event) {
            for (suffix, cells) in cells_of(&info) {
                let name = column_name(part, &info) + suffix;
                fields.push(names.field(&name, cells.data_type()));
                columns.push(Column { part, position: info.position, cells });
            }
        }
        let about = [("kymo.event".to_owned(), metadata.events[event].name.clone())];
        Table {
            schema: Arc::new(Schema::new_with_metadata(fields, HashMap::from(about))),
            time: PrimitiveBuilder::new().with_data_type(time),
            where_: Default::default(),
            proc: StringDictionaryBuilder::new(),
            columns,
            rows: 0,
        }
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
        self.rows >= BATCH_ROWS
    }

    /// Appends a record of the event class.
    pub fn push(&mut self, record: &Record<'_>) {
        self.time.append_option(i64::try_from(record.ns).ok());
        for (column, value) in self.where_.iter_mut().zip([record.cpu, record.vpid, record.vtid]) {
            column.append_option(value);
        }
        self.proc.append_option(Some(record.procname).filter(|name| !name.is_empty()));
        for column in &mut self.columns {
            let fields = part_of(record, column.part);
            column.cells.append(fields.at(column.position).as_ref());
        }
        self.rows += 1;
    }

    /// All that was pushed since the last time.
    ///
    /// # Errors
    /// Arrow's own, where its arrays cannot hold what was pushed (2^31 bytes of text in one batch).
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let mut arrays: Vec<arrow_array::ArrayRef> = vec![Arc::new(self.time.finish())];
        arrays.extend(self.where_.iter_mut().map(|column| Arc::new(column.finish()) as arrow_array::ArrayRef));
        arrays.push(Arc::new(self.proc.finish()));
        for column in &mut self.columns {
            arrays.push(column.cells.finish()?);
        }
        RecordBatch::try_new(self.schema(), arrays)
    }
}

/// The columns of a field, each with what is behind its name.
fn cells_of(info: &FieldInfo<'_>) -> Vec<(&'static str, Cells)> {
    match &info.kind {
        FieldKind::Enum { .. } => vec![("", Cells::labels()), (".value", Cells::of(&info.kind))],
        kind => vec![("", Cells::of(kind))],
    }
}

/// Names of columns, each used once.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn field(&mut self, name: &str, data_type: DataType) -> Field {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{name}.{number}");
            number += 1;
        }
        Field::new(unique, data_type, true)
    }
}
