// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the rows of one table as Parquet files of a lake: a file for each host and day, in bounded memory
//! [spec/lake.md 1].

use std::collections::BTreeMap;

use anyhow::Context as _;
use arrow_array::RecordBatch;
use kymo_tables::TableInfo;
use parquet::arrow::ArrowWriter;

use super::manifest::FileEntry;
use super::names::{UNKNOWN, escaped, escaped_host, escaped_table};
use super::place::Place;
use super::rows::{Common, Partition, RowLayout};
use super::upload::{Ready, Upload};
use crate::day::day_text;
use crate::properties::properties_of_rows;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 17;

/// Bytes of rows of all files that are not yet written.
const WAITING_BYTES: usize = 64 << 20;

/// Files of a table that are open at once: a damaged trace may have times of many years.
const OPEN_MAX: usize = 64;

/// A run, as its files are named.
#[derive(Clone, Debug)]
pub struct FileNames {
    /// Of its files.
    pub name: String,
    /// Where they are staged.
    pub staging: String,
}

/// The files of a table on their way.
pub struct TableWriter<'a> {
    place: &'a Place,
    names: &'a FileNames,
    common: &'a Common,
    table: String,
    layout: RowLayout,
    open: BTreeMap<Partition, OpenFile>,
    /// Files of each host and day so far.
    numbers: BTreeMap<Partition, usize>,
    done: Vec<(FileEntry, Ready)>,
    clock: u64,
}

struct OpenFile {
    writer: ArrowWriter<Vec<u8>>,
    upload: Upload,
    entry: FileEntry,
    /// When it was last written to.
    used: u64,
}

impl<'a> TableWriter<'a> {
    /// Of a table of the trace.
    pub fn new(place: &'a Place, names: &'a FileNames, common: &'a Common, table: &TableInfo) -> TableWriter<'a> {
        let layout = RowLayout::of(table, common);
        let (open, numbers, done) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        TableWriter { place, names, common, table: table.name.clone(), layout, open, numbers, done, clock: 0 }
    }

    /// How the table's columns are called in files.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Takes some rows of the table.
    ///
    /// # Errors
    /// They cannot be written.
    pub async fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        for (partition, rows) in self.layout.divide(batch, self.common)? {
            self.clock += 1;
            if !self.open.contains_key(&partition) {
                self.make_room().await?;
                let file = self.begin(&partition).await?;
                self.open.insert(partition.clone(), file);
            }
            let Some(file) = self.open.get_mut(&partition) else { continue };
            file.used = self.clock;
            file.take(&rows)?;
            // A row group ends by itself, too.
            file.pass_on().await?;
        }
        self.bound_memory().await
    }

    /// Closes the file that was not written to for longest, if there are too many.
    async fn make_room(&mut self) -> anyhow::Result<()> {
        if self.open.len() < OPEN_MAX {
            return Ok(());
        }
        let oldest = self.open.iter().min_by_key(|(_, file)| file.used).map(|(partition, _)| partition.clone());
        match oldest.and_then(|oldest| self.open.remove(&oldest)) {
            Some(file) => self.close(file).await,
            None => Ok(()),
        }
    }

    async fn bound_memory(&mut self) -> anyhow::Result<()> {
        while self.open.values().map(|file| file.writer.in_progress_size()).sum::<usize>() > WAITING_BYTES {
            let largest = self.open.values_mut().max_by_key(|file| file.writer.in_progress_size());
            match largest {
                Some(file) => file.flush().await?,
                None => break,
            }
        }
        Ok(())
    }

    async fn begin(&mut self, partition: &Partition) -> anyhow::Result<OpenFile> {
        let number = self.numbers.entry(partition.clone()).or_default();
        *number += 1;
        let more = if *number > 1 { format!("-{number}") } else { String::new() };
        let day = partition.day.map(|day| day_text(day.into()));
        let host = partition.host.as_deref().map(escaped_host);
        let path = format!(
            "{}/host={}/day={}/{}{more}.parquet",
            escaped_table(&self.table),
            host.map_or_else(|| UNKNOWN.to_owned(), escaped),
            day.as_deref().unwrap_or(UNKNOWN),
            self.names.name
        );
        let properties = properties_of_rows(self.layout.schema(), GROUP_ROWS).build();
        let writer = ArrowWriter::try_new(Vec::new(), self.layout.schema().clone(), Some(properties))
            .with_context(|| format!("the table {} cannot be written as Parquet", self.table))?;
        let upload = Upload::begin(self.place, &path, &self.names.staging).await?;
        let entry = FileEntry {
            table: self.table.clone(),
            host: host.map(|host| host.to_owned()),
            day,
            path,
            ..FileEntry::default()
        };
        Ok(OpenFile { writer, upload, entry, used: self.clock })
    }

    async fn close(&mut self, mut file: OpenFile) -> anyhow::Result<()> {
        let rest = file.writer.into_inner().with_context(|| format!("cannot write {}", file.entry.path))?;
        file.upload.write(&rest).await?;
        let ready = file.upload.finish().await?;
        file.entry.bytes = ready.bytes;
        self.done.push((file.entry, ready));
        Ok(())
    }

    /// Writes what is left: all files of the table.
    ///
    /// # Errors
    /// They cannot be written.
    pub async fn finish(mut self) -> anyhow::Result<Vec<(FileEntry, Ready)>> {
        for (_, file) in std::mem::take(&mut self.open) {
            self.close(file).await?;
        }
        Ok(self.done)
    }

    /// Gives up what was written.
    pub async fn abort(self) {
        for (_, file) in self.open {
            file.upload.abort().await;
        }
        for (_, ready) in self.done {
            ready.discard().await;
        }
    }
}

impl OpenFile {
    fn take(&mut self, rows: &RecordBatch) -> anyhow::Result<()> {
        self.entry.rows += rows.num_rows() as u64;
        if let Some((from, to)) = RowLayout::times(rows) {
            self.entry.from = Some(self.entry.from.map_or(from, |known| known.min(from)));
            self.entry.to = Some(self.entry.to.map_or(to, |known| known.max(to)));
        }
        self.writer.write(rows).with_context(|| format!("cannot write {}", self.entry.path))
    }

    /// Ends a row group.
    async fn flush(&mut self) -> anyhow::Result<()> {
        self.writer.flush().with_context(|| format!("cannot write {}", self.entry.path))?;
        self.pass_on().await
    }

    /// Hands on the bytes of row groups that are whole.
    async fn pass_on(&mut self) -> anyhow::Result<()> {
        let bytes = std::mem::take(self.writer.inner_mut());
        self.upload.write(&bytes).await
    }
}
