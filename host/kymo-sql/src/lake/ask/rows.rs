// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of batches as plain values.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::DataType;
use datafusion::prelude::DataFrame;
use futures::TryStreamExt as _;

use super::error::AskError;

/// Goes through all rows, a batch at a time.
pub async fn each(frame: DataFrame, mut take: impl FnMut(&Batch) -> Result<(), AskError>) -> Result<(), AskError> {
    let mut stream = frame.execute_stream().await?;
    while let Some(batch) = stream.try_next().await? {
        take(&Batch(batch))?;
    }
    Ok(())
}

/// Some rows.
pub struct Batch(RecordBatch);

/// Texts of a column.
pub struct Words(StringArray);

impl Words {
    pub fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Numbers of a column without a sign.
pub struct Counts(UInt64Array);

impl Counts {
    pub fn get(&self, row: usize) -> Option<u64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Numbers of a column.
pub struct Numbers(Int64Array);

impl Numbers {
    pub fn get(&self, row: usize) -> Option<i64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    fn column(&self, name: &str, to: &DataType) -> Result<ArrayRef, AskError> {
        let column = self.0.column_by_name(name);
        let column = column.ok_or_else(|| AskError::Lake(format!("the result has no column {name}")))?;
        let cast = arrow_cast::cast(column, to);
        cast.map_err(|error| AskError::Lake(format!("the column {name} has another type: {error}")))
    }

    pub fn words(&self, name: &str) -> Result<Words, AskError> {
        Ok(Words(self.column(name, &DataType::Utf8)?.as_string::<i32>().clone()))
    }

    pub fn counts(&self, name: &str) -> Result<Counts, AskError> {
        Ok(Counts(self.column(name, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone()))
    }

    pub fn numbers(&self, name: &str) -> Result<Numbers, AskError> {
        Ok(Numbers(self.column(name, &DataType::Int64)?.as_primitive::<Int64Type>().clone()))
    }
}
