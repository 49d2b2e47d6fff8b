// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads Parquet files of a lake, a few bytes ranges at a time.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::Date32Type;
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use object_store::Error;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataPushDecoder};

use super::manifest::FileEntry;
use super::names::LABEL;
use super::place::Place;
use super::rows::constant;
use crate::day::day_number;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Bytes at the end of a file that are read at first: its metadata mostly fits.
const FOOTER_BYTES: u64 = 16 << 10;

/// A file, with what its rows have that is not in it.
#[derive(Clone, Debug)]
pub struct LakeFile {
    /// What the manifest tells.
    pub entry: FileEntry,
    /// Of its addition.
    pub labels: Arc<BTreeMap<String, String>>,
}

/// A stretch of `time`: from, to (behind it), ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Not before.
    pub from: Option<i64>,
    /// Before.
    pub to: Option<i64>,
}

impl Stretch {
    /// Whether some time from `least` to `greatest` is in it.
    pub fn meets(&self, least: Option<i64>, greatest: Option<i64>) -> bool {
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        // Without a time there is no row for which the condition holds.
        let (Some(least), Some(greatest)) = (least, greatest) else { return false };
        self.from.is_none_or(|from| greatest >= from) && self.to.is_none_or(|to| least < to)
    }
}

/// The rows of a file, with the columns that are asked for.
pub struct FileReader {
    place: Place,
    file: LakeFile,
    schema: SchemaRef,
    decoder: ParquetPushDecoder,
    /// Rows that were read when it was opened.
    first: Option<RecordBatch>,
}

/// Of a file that is not there any more.
pub const GONE: &str = "it is gone: its trace was added anew meanwhile; run the query again";

/// What cannot be read.
fn unreadable(place: &Place, entry: &FileEntry, error: &dyn std::fmt::Display) -> DataFusionError {
    let (path, lake) = (&entry.path, place.text());
    DataFusionError::Execution(format!("cannot read {path} in the lake {lake}: {error}"))
}

async fn ranges(place: &Place, entry: &FileEntry, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let read = place.store().get_ranges(&place.path(&entry.path), ranges).await;
    read.map_err(|error| match error {
        Error::NotFound { .. } => unreadable(place, entry, &GONE),
        error => unreadable(place, entry, &error),
    })
}

/// The metadata of a file.
async fn metadata(place: &Place, entry: &FileEntry) -> Result<ArrowReaderMetadata> {
    let failed = |error: parquet::errors::ParquetError| unreadable(place, entry, &error);
    let decoder = ParquetMetaDataPushDecoder::try_new(entry.bytes).map_err(failed)?;
    let mut decoder = decoder.with_page_index_policy(PageIndexPolicy::Skip);
    let mut wanted = std::iter::once(entry.bytes.saturating_sub(FOOTER_BYTES)..entry.bytes).collect::<Vec<_>>();
    loop {
        let bytes = ranges(place, entry, &wanted).await?;
        decoder.push_ranges(wanted, bytes).map_err(failed)?;
        match decoder.try_decode().map_err(failed)? {
            DecodeResult::NeedsData(more) => wanted = more,
            DecodeResult::Data(metadata) => {
                return ArrowReaderMetadata::try_new(Arc::new(metadata), Default::default()).map_err(failed);
            }
            DecodeResult::Finished => return Err(unreadable(place, entry, &"it has no metadata")),
        }
    }
}

/// Names and types of the columns of a file.
///
/// # Errors
/// It cannot be read.
pub async fn schema_of_file(place: &Place, entry: &FileEntry) -> anyhow::Result<SchemaRef> {
    Ok(Arc::clone(metadata(place, entry).await?.schema()))
}

impl FileReader {
    /// Begins with a file: its first rows are read, too, while others of those before it are worked on.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn open(place: &Place, file: LakeFile, schema: &SchemaRef, stretch: Stretch) -> Result<FileReader> {
        let failed = |error: &dyn std::fmt::Display| unreadable(place, &file.entry, error);
        let metadata = metadata(place, &file.entry).await?;
        let groups = groups(&metadata, stretch).map_err(|error| failed(&error))?;
        let columns = metadata.schema().fields().iter().enumerate();
        let wanted = columns.filter(|(_, field)| schema.column_with_name(field.name()).is_some());
        let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted.map(|(position, _)| position));
        let decoder = ParquetPushDecoderBuilder::new_with_metadata(metadata)
            .with_batch_size(BATCH_ROWS)
            .with_row_groups(groups)
            .with_projection(mask)
            .build()
            .map_err(|error| failed(&error))?;
        let mut reader = FileReader { place: place.clone(), file, schema: Arc::clone(schema), decoder, first: None };
        reader.first = reader.read().await?;
        Ok(reader)
    }

    /// The next rows; none at the end.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let entry = &self.file.entry;
            let failed = |error: parquet::errors::ParquetError| unreadable(&self.place, entry, &error);
            match self.decoder.try_decode().map_err(failed)? {
                DecodeResult::Finished => return Ok(None),
                DecodeResult::Data(batch) => return Ok(Some(self.complete(&batch)?)),
                DecodeResult::NeedsData(wanted) => {
                    let bytes = ranges(&self.place, entry, &wanted).await?;
                    self.decoder.push_ranges(wanted, bytes).map_err(failed)?;
                }
            }
        }
    }

    /// With the columns that are asked for, in their order and of their types.
    fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let own = batch.schema();
        let positions: HashMap<&String, usize> =
            own.fields().iter().enumerate().map(|(position, field)| (field.name(), position)).collect();
        let column = |field: &arrow_schema::FieldRef| -> Result<ArrayRef, ArrowError> {
            if let Some(position) = positions.get(field.name()) {
                return arrow_cast::cast(batch.column(*position), field.data_type());
            }
            Ok(partition(&self.file, field.name(), rows).unwrap_or_else(|| new_null_array(field.data_type(), rows)))
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// A column that all rows of a file have alike; none if it is none of these, or not known.
pub fn partition(file: &LakeFile, name: &str, rows: usize) -> Option<ArrayRef> {
    match name {
        "host" => file.entry.host.as_ref().map(|host| constant(host, rows)),
        "day" => {
            let day = i32::try_from(day_number(file.entry.day.as_deref()?)?).ok()?;
            Some(Arc::new(PrimitiveArray::<Date32Type>::from_value(day, rows)))
        }
        _ => file.labels.get(name.strip_prefix(LABEL)?).map(|value| constant(value, rows)),
    }
}

/// Row groups with times in a stretch; all of a file without times.
fn groups(metadata: &ArrowReaderMetadata, stretch: Stretch) -> Result<Vec<usize>, parquet::errors::ParquetError> {
    let all = metadata.metadata().row_groups();
    let every = (0..all.len()).collect();
    if stretch == Stretch::default() || metadata.schema().column_with_name("time").is_none() {
        return Ok(every);
    }
    let statistics = StatisticsConverter::try_new("time", metadata.schema(), metadata.parquet_schema())?;
    let number = |array: ArrayRef| -> Option<Int64Array> {
        let numbers = arrow_cast::cast(&array, &arrow_schema::DataType::Int64).ok()?;
        numbers.as_any().downcast_ref::<Int64Array>().cloned()
    };
    let (least, greatest) = (number(statistics.row_group_mins(all)?), number(statistics.row_group_maxes(all)?));
    let (Some(least), Some(greatest)) = (least, greatest) else { return Ok(every) };
    let meets = |group: &usize| match (least.iter().nth(*group).flatten(), greatest.iter().nth(*group).flatten()) {
        (Some(least), Some(greatest)) => stretch.meets(Some(least), Some(greatest)),
        // Nothing is known of it.
        _ => true,
    };
    Ok(every.into_iter().filter(meets).collect())
}
