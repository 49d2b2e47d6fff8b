// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records with random values of all kinds, and what must come back of them. For the tests of kymo-sql, too.

use kymo_abi::record_head;
use kymo_ctf::read::{Item, Memory, Reader, Trace};
use kymo_ctf::write::{
    ClockMeta, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind, TraceMeta,
    metadata_ctf18,
};
use kymo_export::export::Exporter;
use proptest::prelude::*;
use serde_json::{Value, json};

/// One record's values.
#[derive(Clone, Debug)]
pub struct Row {
    u8: u8,
    i64: i64,
    u64: u64,
    f32: f32,
    f64: f64,
    bool: bool,
    kind: i8,
    text: String,
    blob: Vec<u8>,
    array: [u16; 3],
    seq: Vec<i32>,
}

fn text() -> impl Strategy<Value = String> {
    // What quoting is for, and what no tool likes.
    prop_oneof!["[ -~]{0,12}", "[\"',;\r\n\t\\\\]{0,6}", "\\PC{0,8}", Just(String::new())]
}

prop_compose! {
    pub fn row()(
        (u8, i64, u64) in (any::<u8>(), any::<i64>(), any::<u64>()),
        (f32, f64) in (proptest::num::f32::ANY, proptest::num::f64::ANY),
        (bool, kind) in (any::<bool>(), -2i8..3),
        text in text(),
        blob in proptest::collection::vec(any::<u8>(), 0..9),
        array in any::<[u16; 3]>(),
        seq in proptest::collection::vec(any::<i32>(), 0..5),
    ) -> Row {
        Row { u8, i64, u64, f32, f64, bool, kind, text, blob, array, seq }
    }
}

fn fields() -> Vec<Field> {
    let number = |number| FieldClass::Number(number);
    let field = |name: &str, class| Field { name: name.to_owned(), class };
    let labels = vec![("off".to_owned(), 0), ("on,\"x\"".to_owned(), 1)];
    vec![
        field("u8", number(Number::unsigned(8))),
        field("i64", number(Number::signed(64))),
        field("u64", number(Number::hex(64))),
        field("f32", number(Number::Float { bits: 32 })),
        field("f64", number(Number::Float { bits: 64 })),
        field("bool", number(Number::Bool)),
        field("kind", FieldClass::Enum { number: Number::signed(8), labels }),
        field("text", FieldClass::Text),
        field("blob", FieldClass::Blob),
        field("array", FieldClass::Array { element: Number::unsigned(16), count: 3 }),
        field("seq", FieldClass::Seq { element: Number::signed(32) }),
    ]
}

fn bytes_of(row: &Row, time: u64) -> Vec<u8> {
    let mut out = record_head(1, time).to_vec();
    out.extend_from_slice(&7u32.to_le_bytes());
    out.push(row.u8);
    out.extend_from_slice(&row.i64.to_le_bytes());
    out.extend_from_slice(&row.u64.to_le_bytes());
    out.extend_from_slice(&row.f32.to_le_bytes());
    out.extend_from_slice(&row.f64.to_le_bytes());
    out.push(row.bool.into());
    out.push(row.kind as u8);
    for bytes in [row.text.as_bytes(), &row.blob] {
        out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    row.array.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out.extend_from_slice(&(row.seq.len() as u16).to_le_bytes());
    row.seq.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out
}

/// When the first record was written.
pub const START_S: i64 = 1_700_000_000;

fn trace(rows: &[Row]) -> Trace {
    let event = EventClass { id: 1, name: "a:b".to_owned(), file: String::new(), line: 0, fields: fields() };
    let clock = ClockMeta {
        name: "c".to_owned(),
        uuid: [1; 16],
        description: String::new(),
        frequency_hz: 1_000_000_000,
        offset_s: START_S,
        offset_cycles: 0,
        precision_cycles: 0,
        absolute: true,
    };
    let streams = vec![StreamClass { kind: StreamKind::User, contexts: Vec::new(), events: vec![event] }];
    let meta = TraceMeta { uuid: [2; 16], env: Vec::new(), clock, streams };
    let content: Vec<u8> = rows.iter().enumerate().flat_map(|(at, row)| bytes_of(row, at as u64 * 1001)).collect();
    let mut procname = [0; 16];
    procname[..3].copy_from_slice(b"p,q");
    let head = PacketHead {
        uuid: meta.uuid,
        stream_instance: 0,
        begin: 0,
        end: rows.len() as u64 * 1001,
        content_bytes: content.len() as u64,
        seq: 0,
        discarded: 0,
        cpu: 3,
        program: Some(Program { vpid: 5, lane: 0, procname }),
    };
    let bytes = [head.encode(), content].concat();
    let files = Memory { metadata: metadata_ctf18(&meta).into_bytes(), streams: vec![("s".to_owned(), bytes)] };
    Trace::from_files(&files).unwrap().value
}

/// Writes the records by the exporter that `begin` makes.
pub fn export(rows: &[Row], begin: impl for<'t> FnOnce(&'t [Trace]) -> Box<dyn Exporter + 't>) {
    let traces = [trace(rows)];
    let mut exporter = begin(&traces);
    let mut reader = Reader::new(&traces);
    let mut count = 0;
    while let Some(item) = reader.next() {
        exporter.item(&item).unwrap();
        count += usize::from(matches!(item, Item::Record(_)));
    }
    assert_eq!(count, rows.len());
    assert_eq!(exporter.finish().unwrap().left_out, Default::default());
}

/// A float as text that tells all values apart but those of NaN.
pub fn bits(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{:x}", value.to_bits()) }
}

/// A row as it must come back.
pub fn expected(row: &Row) -> Value {
    let label = [None, Some("off"), Some("on,\"x\"")][usize::from(row.kind == 0) + 2 * usize::from(row.kind == 1)];
    json!({
        "u8": row.u8, "i64": row.i64, "u64": row.u64, "f32": bits(row.f32.into()), "f64": bits(row.f64), "bool": row.bool,
        "kind": label, "kind.value": row.kind, "text": shown(&row.text), "blob": row.blob, "array": row.array, "seq": row.seq,
    })
}

/// Text of a counted length ends at a NUL, as the reader has it.
fn shown(text: &str) -> &str {
    text.split('\0').next().unwrap_or("")
}
