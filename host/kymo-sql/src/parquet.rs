// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet [spec/exchange.md 2]: `DIR/EVENT/host=HOST/day=YYYY-MM-DD/part-0.parquet`. A data set for each event,
//! because each has columns of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use kymo_ctf::read::{Loss, Record, Trace};
use kymo_export::Error;
use kymo_export::export::{Classes, Done, Exporter, FileNames, NewDirectory, env_text, leave_out_loss, note_wide};
use kymo_tables::columns::Table;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use crate::day::{DAY_NS, day_text};
use crate::properties::properties_of_rows;

/// Rows that are in memory of a file at most, before they are written as a row group.
const GROUP_ROWS: usize = 1 << 16;

/// The table of one event class, and the file of its present day.
struct OfEvent {
    table: Table,
    dir: PathBuf,
    /// Days since 1970.
    day: i128,
    file: Option<(PathBuf, ArrowWriter<File>)>,
}

/// All tables of an export.
pub struct Tables<'t> {
    traces: &'t [Trace],
    dir: NewDirectory,
    names: FileNames,
    classes: Classes,
    tables: BTreeMap<(usize, usize), OfEvent>,
    done: Done,
    /// Records that were lost, and packets that are missing.
    lost: (u64, u64),
}

impl<'t> Tables<'t> {
    /// Begins with the directory `path`.
    ///
    /// # Errors
    /// It is there already and not empty, or cannot be made.
    pub fn new(traces: &'t [Trace], path: &Path) -> Result<Tables<'t>, Error> {
        let (dir, names, classes) = (NewDirectory::create(path)?, FileNames::default(), Classes::new(traces));
        Ok(Tables { traces, dir, names, classes, tables: BTreeMap::new(), done: Done::default(), lost: (0, 0) })
    }

    fn open(&mut self, record: &Record<'_>) -> OfEvent {
        let trace = &self.traces[record.trace];
        let host = env_text(trace, "hostname").filter(|host| !host.is_empty()).unwrap_or("unknown");
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
        let host: String = host.chars().map(plain).take(200).collect();
        let dir = self.names.path(self.dir.path(), &record.event.name, "").join(format!("host={host}"));
        let day = record.ns.div_euclid(i128::from(DAY_NS));
        OfEvent { table: Table::new(&trace.metadata, record.event_position), dir, day, file: None }
    }
}

impl OfEvent {
    /// Writes the rows that there are.
    fn flush(&mut self) -> Result<(), Error> {
        if self.table.rows() == 0 {
            return Ok(());
        }
        let batch = self.table.take();
        let schema = self.table.schema();
        let event = || schema.metadata().get("kymo.event").cloned().unwrap_or_default();
        let batch = batch.map_err(|source| refused(format!("event {}", event()), source))?;
        if self.file.is_none() {
            let path = self.dir.join(format!("day={}", day_text(self.day))).join("part-0.parquet");
            self.file = Some(create(path, &schema)?);
        }
        let Some((path, writer)) = &mut self.file else { return Ok(()) };
        let failed = |source| unwritten(path.as_path(), source);
        writer.write(&batch).map_err(failed)?;
        if writer.in_progress_rows() >= GROUP_ROWS { writer.flush().map_err(failed) } else { Ok(()) }
    }

    fn close(&mut self, (records, packets): (u64, u64)) -> Result<u64, Error> {
        self.flush()?;
        let Some((path, mut writer)) = self.file.take() else { return Ok(0) };
        writer.append_key_value_metadata(KeyValue::new("kymo.lost_records".to_owned(), records.to_string()));
        writer.append_key_value_metadata(KeyValue::new("kymo.missing_packets".to_owned(), packets.to_string()));
        writer.close().map_err(|source| unwritten(&path, source))?;
        Ok(1)
    }
}

/// What a library that writes says of a place.
fn refused(place: String, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Exporter { place, source: Box::new(source) }
}

fn unwritten(path: &Path, source: ParquetError) -> Error {
    refused(path.display().to_string(), source)
}

fn create(path: PathBuf, schema: &arrow_schema::SchemaRef) -> Result<(PathBuf, ArrowWriter<File>), Error> {
    let dir = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let file = File::create(&path).map_err(Error::io(&path))?;
    let event = schema.metadata().get("kymo.event").cloned().unwrap_or_default();
    let properties = properties_of_rows(schema, GROUP_ROWS)
        .set_key_value_metadata(Some(vec![KeyValue::new("kymo.event".to_owned(), event)]))
        .build();
    match ArrowWriter::try_new(file, schema.clone(), Some(properties)) {
        Ok(writer) => Ok((path, writer)),
        Err(source) => Err(unwritten(&path, source)),
    }
}

impl Exporter for Tables<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        if i64::try_from(record.ns).is_err() {
            self.done.leave_out("times before 1677 or after 2262: records that have none", 1);
        }
        let key = self.classes.of(record);
        if !self.tables.contains_key(&key) {
            let table = self.open(record);
            self.tables.insert(key, table);
        }
        let Some(of_event) = self.tables.get_mut(&key) else { return Ok(()) };
        let day = record.ns.div_euclid(i128::from(DAY_NS));
        // Records of one class come in the order of time: a day that is over does not come again.
        if day > of_event.day {
            self.done.files += of_event.close(self.lost)?;
            of_event.day = day;
        }
        of_event.table.push(record);
        if of_event.table.is_full() { of_event.flush() } else { Ok(()) }
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.lost = (self.lost.0.saturating_add(loss.records), self.lost.1.saturating_add(loss.packets));
        leave_out_loss(&mut self.done, loss);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        for of_event in self.tables.values_mut() {
            self.done.files += of_event.close(self.lost)?;
        }
        note_wide(&mut self.done, self.traces);
        self.dir.keep();
        Ok(self.done)
    }
}
