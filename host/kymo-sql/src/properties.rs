// SPDX-License-Identifier: MIT OR Apache-2.0
//! How all our Parquet files are written [decisions/0012]: encodings by what a column holds, and the compression. The
//! rows are the same with any of them.

use arrow_schema::{DataType, Schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// The column of `records` with a text of its own in nearly each row.
const FIELDS: &str = "fields";

/// Words by whose range a reader can tell that a file has none of the rows that it wants: a file is of one trace.
const OF_FILE: &str = "trace";

/// Properties for files with these columns, with row groups of so many rows.
pub fn properties(schema: &Schema, group_rows: usize) -> WriterPropertiesBuilder {
    let mut builder = WriterProperties::builder()
        // The fastest level: what the next ones save is not worth their time.
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(group_rows))
        .set_created_by(format!("kymo {}", env!("CARGO_PKG_VERSION")));
    for field in schema.fields() {
        let path = || ColumnPath::from(vec![field.name().clone()]);
        // Their differences are small, and hardly any value comes twice: looking for it in a dictionary is in vain.
        if is_increasing(field.name(), field.data_type()) {
            builder = builder
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
        }
        if field.name() == FIELDS && *field.data_type() == DataType::Utf8 {
            builder = builder.set_column_dictionary_enabled(path(), false);
        }
    }
    builder
}

/// The same for rows of one trace, in their order: the range of words tells nothing there, and is found by comparing
/// each of them.
pub fn properties_of_rows(schema: &Schema, group_rows: usize) -> WriterPropertiesBuilder {
    let has_range = |name: &str| name == OF_FILE || name.starts_with("label_");
    let texts = schema.fields().iter().filter(|field| is_text(field.data_type()) && !has_range(field.name()));
    texts.fold(properties(schema, group_rows), |builder, field| {
        builder.set_column_statistics_enabled(ColumnPath::from(vec![field.name().clone()]), EnabledStatistics::None)
    })
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// Times, and durations, whose values are near each other.
fn is_increasing(name: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(..) => true,
        DataType::Int64 | DataType::UInt64 => name.ends_with("_ns"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

    use super::*;

    /// What a file with 10,000 rows says of its columns.
    fn written() -> ParquetMetaData {
        let rows = 0..10_000i64;
        let times: ArrayRef =
            Arc::new(TimestampNanosecondArray::from_iter_values(rows.clone().map(|at| 1_000_000 + at * 1000)));
        let durations: ArrayRef =
            Arc::new(UInt64Array::from_iter_values(rows.clone().map(|at| at as u64 * 7919 % 4096)));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|at| at % 5)));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|at| format!("{{\"axis\":{at}}}"))));
        let columns = [("time", times), ("duration_ns", durations), ("axis", numbers), ("fields", texts)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = properties_of_rows(&batch.schema(), 1 << 17).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn times_and_durations_are_differences_and_texts_are_compressed() {
        let metadata = written();
        let columns: Vec<&ColumnChunkMetaData> = metadata.row_group(0).columns().iter().collect();
        let bytes: Vec<i64> = columns.iter().map(|column| column.compressed_size()).collect();
        for column in &columns[..2] {
            assert!(column.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED), "{column:?}");
            assert!(column.dictionary_page_offset().is_none() && column.statistics().is_some(), "{column:?}");
        }
        // Plain, each of them would have 80,000 bytes. The others have few values, and a text of its own in each row.
        assert!(bytes[0] < 2000 && bytes[1] < 20_000, "{bytes:?}");
        assert!(columns[2].dictionary_page_offset().is_some() && columns[3].dictionary_page_offset().is_none());
        assert!(columns[3].statistics().is_none() && bytes[3] < columns[3].uncompressed_size() / 2, "{bytes:?}");
    }
}
