// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers as columns [spec/view.md 2]: tables of typed arrays, and a head that describes them; as one binary frame or
//! as JSON. Knows nothing of traces.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// The first bytes of a frame.
const MAGIC: &[u8; 8] = b"KYMOCOL1";

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Bytes in front of the head.
const BEFORE_HEAD: usize = 16;

/// A text of an answer, by its position among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(u32);

/// The texts of an answer, each once.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    list: Vec<String>,
    by_text: HashMap<String, u32>,
}

impl Texts {
    /// The text as a value of a column.
    pub fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.by_text.get(text) {
            return Text(*known);
        }
        let number = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.by_text.insert(text.to_owned(), number);
        Text(number)
    }

    /// The same; null where it is empty.
    pub fn name(&mut self, text: &str) -> Option<Text> {
        (!text.is_empty()).then(|| self.text(text))
    }
}

macro_rules! kinds {
    ($($kind:ident $type:ty, $name:literal, $null:expr, $json:expr;)*) => {
        /// Values of a column.
        #[derive(Clone, Debug)]
        enum Values {
            $($kind(Vec<$type>),)*
            Text(Vec<u32>),
        }

        impl Values {
            fn type_name(&self) -> &'static str {
                match self {
                    $(Values::$kind(_) => $name,)*
                    Values::Text(_) => "text",
                }
            }

            fn len(&self) -> usize {
                match self {
                    $(Values::$kind(values) => values.len(),)*
                    Values::Text(values) => values.len(),
                }
            }

            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $(Values::$kind(values) => put_all(to, values, |value| value.to_le_bytes()),)*
                    Values::Text(values) => put_all(to, values, |value| value.to_le_bytes()),
                }
            }

            fn json(&self, texts: &[String]) -> Value {
                match self {
                    $(Values::$kind(values) => values.iter().map($json).collect(),)*
                    Values::Text(values) => {
                        values.iter().map(|&text| Value::from(texts.get(text as usize).cloned())).collect()
                    }
                }
            }
        }

        $(
            impl Cell for $type {
                fn column(values: impl Iterator<Item = $type>) -> Column {
                    Column(Values::$kind(values.collect()))
                }
            }

            impl Cell for Option<$type> {
                fn column(values: impl Iterator<Item = Option<$type>>) -> Column {
                    Column(Values::$kind(values.map(|value| value.unwrap_or($null)).collect()))
                }
            }
        )*
    };
}

kinds! {
    I64 i64, "i64", i64::MIN, |&value| or_null(value, i64::MIN);
    U64 u64, "u64", u64::MAX, |&value| or_null(value, u64::MAX);
    I32 i32, "i32", i32::MIN, |&value| or_null(value, i32::MIN);
    U32 u32, "u32", u32::MAX, |&value| or_null(value, u32::MAX);
    U16 u16, "u16", u16::MAX, |&value| or_null(value, u16::MAX);
    U8 u8, "u8", u8::MAX, |&value| or_null(value, u8::MAX);
    F64 f64, "f64", f64::NAN, |&value| Value::from(value);
    F32 f32, "f32", f32::NAN, |&value| Value::from(value);
}

/// In one go: the room is made once.
fn put_all<T: Copy, const N: usize>(to: &mut Vec<u8>, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let begin = to.len();
    to.resize(begin + N * values.len(), 0);
    for (into, value) in to[begin..].chunks_exact_mut(N).zip(values) {
        into.copy_from_slice(&bytes(*value));
    }
}

fn or_null<T: PartialEq + Into<Value>>(value: T, null: T) -> Value {
    if value == null { Value::Null } else { value.into() }
}

/// What a column can be made of.
pub trait Cell: Sized {
    /// The column.
    fn column(values: impl Iterator<Item = Self>) -> Column;
}

impl Cell for Text {
    fn column(values: impl Iterator<Item = Text>) -> Column {
        Column(Values::Text(values.map(|text| text.0).collect()))
    }
}

impl Cell for Option<Text> {
    fn column(values: impl Iterator<Item = Option<Text>>) -> Column {
        Column(Values::Text(values.map(|text| text.map_or(u32::MAX, |text| text.0)).collect()))
    }
}

/// A column of values of one type.
#[derive(Clone, Debug)]
pub struct Column(Values);

/// Columns of one length.
#[derive(Clone, Debug)]
pub struct Table {
    name: &'static str,
    columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// Without columns.
    pub fn new(name: &'static str) -> Table {
        Table { name, columns: Vec::new() }
    }

    /// With a column more, which has as many rows as the others.
    #[must_use]
    pub fn column<T: Cell>(mut self, name: &'static str, values: impl IntoIterator<Item = T>) -> Table {
        let column = T::column(values.into_iter());
        debug_assert!(self.columns.is_empty() || column.0.len() == self.rows(), "{name} has another length");
        self.columns.push((name, column));
        self
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.0.len())
    }

    fn head(&self, end: &mut usize) -> Value {
        let mut columns = Vec::new();
        for (name, column) in &self.columns {
            columns.push(json!({ "name": name, "type": column.0.type_name(), "offset": *end }));
            *end = (*end + bytes_of(&column.0)).next_multiple_of(8);
        }
        json!({ "name": self.name, "rows": self.rows(), "columns": columns })
    }

    fn json(&self, texts: &[String]) -> Value {
        let columns = self.columns.iter().map(|(name, column)| ((*name).to_owned(), column.0.json(texts)));
        Value::Object(columns.collect())
    }
}

fn bytes_of(values: &Values) -> usize {
    let width = match values {
        Values::I64(_) | Values::U64(_) | Values::F64(_) => 8,
        Values::I32(_) | Values::U32(_) | Values::F32(_) | Values::Text(_) => 4,
        Values::U16(_) => 2,
        Values::U8(_) => 1,
    };
    width * values.len()
}

/// What was lost in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Records that were counted.
    pub records: u64,
    /// Packets that are missing.
    pub packets: u64,
    /// Losses.
    pub places: u64,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    question: &'static str,
    /// ns since 1970: all times of the answer are after this.
    base: i64,
    window: (i64, i64),
    /// Of the window.
    pub lost: Lost,
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// What belongs to the question.
    pub info: Map<String, Value>,
    /// Texts of the columns.
    pub texts: Texts,
    tables: Vec<Table>,
}

impl Answer {
    /// It is about this window, though less of it was read.
    pub fn about(&mut self, window: (i64, i64)) {
        self.window = window;
    }

    /// To a question about a window, ns since 1970.
    pub fn new(question: &'static str, base: i64, window: (i64, i64)) -> Answer {
        Answer {
            question,
            base,
            window,
            lost: Lost::default(),
            notes: Vec::new(),
            info: Map::new(),
            texts: Texts::default(),
            tables: Vec::new(),
        }
    }

    /// A time as columns have it: ns after the base.
    pub fn time(&self, ns: i64) -> i64 {
        ns.saturating_sub(self.base)
    }

    /// Sets a value of `info`.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.info.insert(key.to_owned(), value.into());
    }

    /// Adds a table.
    pub fn push(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// A table that was added.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    fn head(&self) -> Map<String, Value> {
        let (from, to) = (self.time(self.window.0), self.time(self.window.1));
        let Lost { records, packets, places } = self.lost;
        let entries = [
            ("question", json!(self.question)),
            ("version", json!(VERSION)),
            ("base", json!(self.base.to_string())),
            ("from", json!(from)),
            ("to", json!(to)),
            ("lost", json!({ "records": records, "packets": packets, "places": places })),
            ("notes", json!(self.notes)),
            ("info", Value::Object(self.info.clone())),
        ];
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// As JSON, for people and tests.
    pub fn json(&self) -> Value {
        let mut head = self.head();
        let tables = self.tables.iter().map(|table| (table.name.to_owned(), table.json(&self.texts.list)));
        head.insert("tables".to_owned(), Value::Object(tables.collect()));
        Value::Object(head)
    }

    /// As a frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut head = self.head();
        let mut end = 0;
        let tables: Vec<Value> = self.tables.iter().map(|table| table.head(&mut end)).collect();
        head.insert("texts".to_owned(), json!(self.texts.list));
        head.insert("tables".to_owned(), Value::Array(tables));
        let head = Value::Object(head).to_string();
        let begin = (BEFORE_HEAD + head.len()).next_multiple_of(8);
        let mut frame = Vec::with_capacity(begin + end);
        frame.extend(MAGIC);
        frame.extend((head.len() as u32).to_le_bytes());
        frame.extend((begin as u32).to_le_bytes());
        frame.extend(head.as_bytes());
        frame.resize(begin, 0);
        for (_, column) in self.tables.iter().flat_map(|table| &table.columns) {
            column.0.put(&mut frame);
            let padded = (frame.len() - begin).next_multiple_of(8);
            frame.resize(begin + padded, 0);
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let mut answer = Answer::new("cpus", 1_700_000_000_000_000_000, (1_700_000_000_000_000_005, i64::MAX));
        let names = ["a\u{1b}<b>", "", "a\u{1b}<b>"].map(|name| answer.texts.name(name));
        let table = Table::new("rows")
            .column("cpu", [1u8, 2, 255])
            .column("at", [Some(5i64), None, Some(-7)])
            .column("share", [0.5f32, f32::NAN, 1.0])
            .column("name", names);
        answer.push(table);
        answer.push(Table::new("none").column("x", std::iter::empty::<u64>()));
        answer
    }

    #[test]
    fn a_frame_describes_itself() {
        let frame = answer().frame();
        let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(&frame[..8], MAGIC);
        let (bytes, begin) = (word(8), word(12));
        assert_eq!((begin % 8, frame.len() % 8), (0, 0));
        let head: Value = serde_json::from_slice(&frame[16..16 + bytes]).unwrap();
        assert_eq!(head["base"], "1700000000000000000");
        assert_eq!(head["from"], 5);
        assert_eq!(head["texts"], json!(["a\u{1b}<b>"]));
        let column = |name: &str| {
            let columns = head["tables"][0]["columns"].as_array().unwrap();
            let found = columns.iter().find(|column| column["name"] == name).unwrap();
            begin + found["offset"].as_u64().unwrap() as usize
        };
        assert_eq!(frame[column("cpu")..][..3], [1, 2, 255]);
        assert_eq!(i64::from_le_bytes(frame[column("at") + 8..][..8].try_into().unwrap()), i64::MIN);
        assert_eq!(f32::from_le_bytes(frame[column("share")..][..4].try_into().unwrap()), 0.5);
        assert_eq!([word(column("name")), word(column("name") + 4)], [0, u32::MAX as usize]);
        assert_eq!(
            head["tables"][1],
            json!({ "name": "none", "rows": 0, "columns": [{ "name": "x", "type": "u64",
            "offset": head["tables"][1]["columns"][0]["offset"] }] })
        );
    }

    #[test]
    fn json_has_the_same() {
        let json = answer().json();
        let rows = json!({
            "cpu": [1, 2, null], "at": [5, null, -7], "share": [0.5, null, 1.0],
            "name": ["a\u{1b}<b>", null, "a\u{1b}<b>"],
        });
        assert_eq!(json["tables"], json!({ "rows": rows, "none": { "x": [] } }));
        assert_eq!((&json["question"], &json["version"]), (&json!("cpus"), &json!(1)));
        assert!(json.get("texts").is_none());
    }
}
