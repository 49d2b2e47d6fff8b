// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of a trace may have any bytes: what is not UTF-8 is U+FFFD in each form of a result [spec/tables.md 2].

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::DataType;
use kymo_command::sql::SqlFormat;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::common::{Made, NICE, small};
use crate::queries::Sql;

/// A byte that no text has, one that begins no character, half a character, a surrogate, and what is valid.
const BYTES: &[u8] = b"a\xff\x80 \xe2\x82 \xed\xa0\x80 \xc3\xa9\0";
const TEXT: &str = "a\u{fffd}\u{fffd} \u{fffd} \u{fffd}\u{fffd}\u{fffd} \u{e9}";

/// Names of threads have 15 bytes, as in the kernel.
const NAME: &str = "a\u{fffd}\u{fffd} \u{fffd} \u{fffd}";

/// As a field, and as the name of a thread.
fn made() -> Made {
    let mut made = small();
    let (tid, prio) = (40i32.to_le_bytes(), NICE.to_le_bytes());
    made.record(0, 2100, 11, &[&2.0f64.to_le_bytes(), &2i32.to_le_bytes(), BYTES])
        .record(0, 2200, 1, &[&0i32.to_le_bytes(), &prio, &0i64.to_le_bytes(), BYTES, &tid, &prio])
        .step(0, 2300, 3.0)
        .switch(0, 2400, (40, 1), (0, "swapper/0", NICE));
    made
}

/// Queries of one row with one text, and what it is.
fn questions() -> [(&'static str, String); 5] {
    [
        ("SELECT note AS text FROM motor.step WHERE position = 2.0", TEXT.to_owned()),
        (
            "SELECT fields AS text FROM records WHERE event = 'motor:step' AND time = at('+1100ns')",
            format!("{{\"position\":2.0,\"axis\":2,\"note\":\"{TEXT}\"}}"),
        ),
        ("SELECT name AS text FROM threads WHERE tid = 40", NAME.to_owned()),
        ("SELECT name AS text FROM thread_state WHERE tid = 40 AND state = 'running'", NAME.to_owned()),
        ("SELECT upper(note) AS text FROM motor.step WHERE octet_length(note) = 24", TEXT.to_uppercase()),
    ]
}

/// The text of the only row.
fn only(batches: &[RecordBatch]) -> String {
    let batches: Vec<&RecordBatch> = batches.iter().filter(|batch| batch.num_rows() > 0).collect();
    let [batch] = batches[..] else { panic!("{batches:?}") };
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 1));
    let text = arrow_cast::cast(batch.column(0), &DataType::Utf8).unwrap();
    assert!(text.is_valid(0));
    text.as_string::<i32>().value(0).to_owned()
}

#[test]
fn bytes_that_are_no_text_are_replaced_in_each_form() {
    let dir = tempfile::tempdir().unwrap();
    made().write(dir.path());
    let sql = Sql::trace(dir.path());
    for (query, expect) in questions() {
        let written = |format| sql.write(query, format).unwrap_or_else(|error| panic!("{query}: {error:#}"));
        let text = |format| String::from_utf8(written(format)).unwrap();
        assert_eq!(sql.rows(query), [json!({ "text": expect })], "{query}");
        let lines = text(SqlFormat::Jsonl);
        assert_eq!(serde_json::from_str::<Value>(&lines).unwrap(), json!({ "text": expect }), "{query}");
        let quoted = if expect.contains('"') { format!("\"{}\"", expect.replace('"', "\"\"")) } else { expect.clone() };
        assert_eq!(text(SqlFormat::Csv), format!("text\n{quoted}\n"), "{query}");
        assert!(text(SqlFormat::Table).contains(&format!("| {expect} |")), "{query}: {}", text(SqlFormat::Table));
        let file = bytes::Bytes::from(written(SqlFormat::Parquet));
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        assert_eq!(only(&reader.map(|batch| batch.unwrap()).collect::<Vec<_>>()), expect, "{query}");
        let file = std::io::Cursor::new(written(SqlFormat::Arrow));
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        assert_eq!(only(&reader.map(|batch| batch.unwrap()).collect::<Vec<_>>()), expect, "{query}");
    }
}
