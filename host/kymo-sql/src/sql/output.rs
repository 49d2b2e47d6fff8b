// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as text, JSON, CSV, Parquet and Arrow, batch by batch: the whole is never in memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::display::FormatOptions;
use arrow_cast::pretty::pretty_format_batches_with_options;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use kymo_command::sql::SqlFormat;
use parquet::arrow::ArrowWriter;

use super::plan::INTERRUPTED;
use super::session::message;
use crate::properties::properties;

/// Rows of one table of text: longer results are several tables, one below the other.
const TABLE_ROWS: usize = 1000;

/// Rows of a group of Parquet.
const GROUP_ROWS: usize = 1 << 17;

/// Whoever reads standard output has closed it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether a write has failed because whoever reads standard output has closed it, as `head` does: that is no error to
/// speak of.
pub fn is_stdout_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Standard output.
struct Stdout(io::Stdout);

impl Stdout {
    fn note<T>(result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            IS_CLOSED.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stdout::note(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout::note(self.0.flush())
    }
}

/// Where results go.
type Sink = Box<dyn Write + Send>;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
}

/// A result on its way out.
pub struct Output(Form);

enum Form {
    Table {
        sink: Sink,
        waiting: Vec<RecordBatch>,
        rows: usize,
        schema: SchemaRef,
        is_begun: bool,
    },
    Json(arrow_json::writer::ArrayWriter<Sink>),
    Jsonl(arrow_json::writer::LineDelimitedWriter<Sink>),
    Csv {
        writer: Box<arrow_csv::Writer<Sink>>,
        /// Its names are not written yet: they come with the first row, or at the end.
        names: Option<SchemaRef>,
    },
    Parquet(Box<ArrowWriter<Sink>>),
    /// Its dictionaries cannot be replaced from batch to batch: texts are written out, with these types.
    ArrowFile(Box<arrow_ipc::writer::FileWriter<Sink>>, SchemaRef),
    ArrowStream(Box<arrow_ipc::writer::StreamWriter<Sink>>),
}

/// A column whose texts, also those inside of its values, are written out.
fn without_dictionary(field: &FieldRef) -> Field {
    let inner = |field: &FieldRef| Arc::new(without_dictionary(field));
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => (**value).clone(),
        DataType::List(of) => DataType::List(inner(of)),
        DataType::LargeList(of) => DataType::LargeList(inner(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(inner(of), *size),
        DataType::Map(of, is_sorted) => DataType::Map(inner(of), *is_sorted),
        DataType::Struct(of) => DataType::Struct(of.iter().map(inner).collect()),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
}

impl Output {
    /// To standard output.
    ///
    /// # Errors
    /// A format that does not have such columns.
    pub fn stdout(format: SqlFormat, schema: SchemaRef) -> anyhow::Result<Output> {
        Output::new(Box::new(BufWriter::new(Stdout(io::stdout()))), format, schema, false)
    }

    /// To a file, which is replaced.
    ///
    /// # Errors
    /// It cannot be made; a format that does not have such columns.
    pub fn file(path: &Path, format: SqlFormat, schema: SchemaRef) -> anyhow::Result<Output> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Output::new(Box::new(BufWriter::new(file)), format, schema, true)
    }

    /// To anything.
    ///
    /// # Errors
    /// A format that does not have such columns.
    pub fn new(sink: Sink, format: SqlFormat, schema: SchemaRef, is_file: bool) -> anyhow::Result<Output> {
        Ok(Output(match format {
            SqlFormat::Table => Form::Table { sink, waiting: Vec::new(), rows: 0, schema, is_begun: false },
            SqlFormat::Json => {
                let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
                Form::Json(builder.build::<_, arrow_json::writer::JsonArray>(sink))
            }
            SqlFormat::Jsonl => {
                let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
                Form::Jsonl(builder.build::<_, arrow_json::writer::LineDelimited>(sink))
            }
            SqlFormat::Csv => {
                let writer = arrow_csv::WriterBuilder::new().with_header(true).build(sink);
                Form::Csv { writer: Box::new(writer), names: Some(schema) }
            }
            SqlFormat::Parquet => {
                let properties = properties(&schema, GROUP_ROWS).build();
                Form::Parquet(Box::new(ArrowWriter::try_new(sink, schema, Some(properties))?))
            }
            SqlFormat::Arrow if is_file => {
                let fields: Vec<Field> = schema.fields().iter().map(without_dictionary).collect();
                let plain = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
                Form::ArrowFile(Box::new(arrow_ipc::writer::FileWriter::try_new(sink, &plain)?), plain)
            }
            SqlFormat::Arrow => Form::ArrowStream(Box::new(arrow_ipc::writer::StreamWriter::try_new(sink, &schema)?)),
        }))
    }

    /// Takes all of a stream, as long as `is_over` is false, which is asked after each batch.
    ///
    /// # Errors
    /// The query fails; the output cannot be written; [`is_over`].
    pub async fn write_all(
        &mut self,
        mut stream: SendableRecordBatchStream,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> anyhow::Result<Written> {
        let mut written = Written::default();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| anyhow::anyhow!(message(&error)))?;
            written.rows += batch.num_rows() as u64;
            self.write(batch)?;
            anyhow::ensure!(!is_over(), INTERRUPTED);
        }
        Ok(written)
    }

    /// Takes some rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, batch: RecordBatch) -> anyhow::Result<()> {
        match &mut self.0 {
            Form::Table { waiting, rows, .. } => {
                *rows += batch.num_rows();
                waiting.push(batch);
                if *rows >= TABLE_ROWS {
                    self.flush_table()?;
                }
            }
            Form::Json(writer) => writer.write(&batch)?,
            Form::Jsonl(writer) => writer.write(&batch)?,
            Form::Csv { writer, names } if batch.num_rows() > 0 => {
                names.take();
                writer.write(&batch)?;
            }
            Form::Csv { .. } => {}
            Form::Parquet(writer) => writer.write(&batch)?,
            Form::ArrowFile(writer, plain) => {
                let columns = batch.columns().iter().zip(plain.fields());
                let columns = columns.map(|(column, field)| arrow_cast::cast(column, field.data_type()));
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                writer.write(&RecordBatch::try_new_with_options(Arc::clone(plain), columns, &options)?)?;
            }
            Form::ArrowStream(writer) => writer.write(&batch)?,
        }
        Ok(())
    }

    fn flush_table(&mut self) -> anyhow::Result<()> {
        let Form::Table { sink, waiting, rows, schema, is_begun } = &mut self.0 else { return Ok(()) };
        // A result without a row has its names.
        if waiting.is_empty() {
            waiting.push(RecordBatch::new_empty(Arc::clone(schema)));
        }
        let options = FormatOptions::default().with_display_error(true);
        let text = pretty_format_batches_with_options(waiting, &options)?;
        writeln!(sink, "{text}")?;
        (*rows, *is_begun) = (0, true);
        waiting.clear();
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// What is left cannot be written.
    pub fn close(mut self) -> anyhow::Result<()> {
        let has_more = matches!(&self.0, Form::Table { waiting, is_begun, .. } if !waiting.is_empty() || !is_begun);
        if has_more {
            self.flush_table()?;
        }
        match self.0 {
            Form::Table { mut sink, .. } => sink.flush()?,
            Form::Json(mut writer) => {
                writer.finish()?;
                let mut sink = writer.into_inner();
                sink.write_all(b"\n")?;
                sink.flush()?;
            }
            Form::Jsonl(mut writer) => {
                writer.finish()?;
                writer.into_inner().flush()?;
            }
            Form::Csv { mut writer, names } => {
                if let Some(schema) = names {
                    writer.write(&RecordBatch::new_empty(schema))?;
                }
                writer.into_inner().flush()?;
            }
            Form::Parquet(writer) => writer.into_inner()?.flush()?,
            Form::ArrowFile(writer, _) => writer.into_inner()?.flush()?,
            Form::ArrowStream(writer) => writer.into_inner()?.flush()?,
        }
        Ok(())
    }
}
