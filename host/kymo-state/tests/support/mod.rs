// SPDX-License-Identifier: MIT OR Apache-2.0
//! For the tests: records decoded by their classes, and made-up trees.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod machine;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use kymo_ctf::write::{Base, EventClass, FieldClass, Number};
use kymo_state::{Event, Maps, Options, Phase, Program, Report, Root, classes, dump};
use tempfile::TempDir;

pub const FIRST_ID: u16 = 40;

/// A decoded field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i128),
    Hex(u64),
    Label(String),
    Text(String),
    Bytes(Vec<u8>),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(out, "{value}"),
            Value::Hex(value) => write!(out, "{value:#x}"),
            Value::Label(label) => write!(out, "{label}"),
            Value::Text(text) => write!(out, "{text:?}"),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

/// A decoded record.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub tid: u32,
    pub fields: Vec<(String, Value)>,
}

impl Row {
    pub fn get(&self, field: &str) -> &Value {
        let found = self.fields.iter().find(|(name, _)| name == field);
        &found.unwrap_or_else(|| panic!("{} has no {field}", self.name)).1
    }

    pub fn int(&self, field: &str) -> i128 {
        match self.get(field) {
            Value::Int(value) => *value,
            Value::Hex(value) => i128::from(*value),
            other => panic!("{field} is {other}"),
        }
    }

    pub fn text(&self, field: &str) -> &str {
        match self.get(field) {
            Value::Text(text) | Value::Label(text) => text,
            other => panic!("{field} is {other}"),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}:", self.name, self.tid)?;
        self.fields.iter().try_for_each(|(name, value)| write!(out, " {name}={value}"))
    }
}

/// Takes bytes off the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, back) = rest.split_at_checked(count).expect("the payload is long enough for its class");
    *rest = back;
    front
}

fn unsigned(rest: &mut &[u8], bytes: usize) -> u64 {
    take(rest, bytes).iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn number(rest: &mut &[u8], number: Number) -> Value {
    let Number::Int { bits, signed, base } = number else { panic!("no class has a {number:?}") };
    let value = unsigned(rest, usize::from(bits) / 8);
    if base == Base::Hexadecimal {
        Value::Hex(value)
    } else if signed {
        let shift = 64 - u32::from(bits);
        Value::Int(i128::from((value << shift) as i64 >> shift))
    } else {
        Value::Int(i128::from(value))
    }
}

fn decode(rest: &mut &[u8], class: &FieldClass) -> Value {
    let utf8 = |bytes: &[u8]| Value::Text(String::from_utf8(bytes.to_vec()).expect("text is UTF-8"));
    match class {
        FieldClass::Number(of) => number(rest, *of),
        FieldClass::Enum { number: of, labels } => {
            let value = number(rest, *of);
            let label = labels.iter().find(|(_, number)| value == Value::Int(i128::from(*number)));
            label.map_or(value, |(label, _)| Value::Label(label.clone()))
        }
        FieldClass::Text => {
            let length = unsigned(rest, 2) as usize;
            utf8(take(rest, length))
        }
        FieldClass::Blob => {
            let length = unsigned(rest, 2) as usize;
            Value::Bytes(take(rest, length).to_vec())
        }
        FieldClass::CString => {
            let length = rest.iter().position(|&b| b == 0).expect("the text ends");
            let text = utf8(take(rest, length));
            take(rest, 1);
            text
        }
        FieldClass::Chars { count } => {
            let chars = take(rest, *count as usize);
            let length = chars.iter().position(|&b| b == 0).expect("the text ends");
            assert!(chars[length..].iter().all(|&b| b == 0), "padded with NUL");
            Value::Text(String::from_utf8_lossy(&chars[..length]).into_owned())
        }
        FieldClass::Array { element, count } => {
            assert_eq!(element.bytes(), 1);
            Value::Bytes(take(rest, *count as usize).to_vec())
        }
        other => panic!("no class has a {other:?}"),
    }
}

fn row(classes: &BTreeMap<u16, EventClass>, event: Event<'_>) -> Row {
    let class = &classes[&event.id];
    let mut rest = event.payload;
    let fields = class.fields.iter().map(|field| (field.name.clone(), decode(&mut rest, &field.class))).collect();
    assert!(rest.is_empty(), "{} has {} bytes too many", class.name, rest.len());
    Row { name: class.name.clone(), tid: event.tid, fields }
}

/// A dump, every record of it decoded.
pub fn rows(options: &Options) -> (Vec<Row>, Report) {
    let classes = classes(FIRST_ID).into_iter().map(|class| (class.id, class)).collect();
    let mut rows = Vec::new();
    let report = dump(options, FIRST_ID, &mut |event| rows.push(row(&classes, event)));
    let is = |row: Option<&Row>, name| row.is_some_and(|row| row.name == name);
    assert!(is(rows.first(), "lttng_statedump_start") && is(rows.last(), "lttng_statedump_end"));
    (rows, report)
}

/// What a look at one program tells, every record of it decoded.
pub fn look(maps: &mut Maps, program: &Program, phase: Phase) -> Vec<String> {
    let classes = classes(FIRST_ID).into_iter().map(|class| (class.id, class)).collect();
    let mut rows = Vec::new();
    maps.look(program, phase, FIRST_ID, &mut |event| rows.push(row(&classes, event).to_string()));
    rows
}

/// The rows of one class.
pub fn of<'a>(rows: &'a [Row], name: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.name == name).collect()
}

/// The row of a thread.
pub fn thread(rows: &[Row], tid: u32) -> Option<&Row> {
    rows.iter().find(|row| row.name == "lttng_statedump_process_state" && row.tid == tid)
}

/// A made-up /proc and /sys.
pub struct Tree(TempDir);

impl Tree {
    /// Makes the files: pairs of a path such as `proc/1/stat` and the content.
    pub fn new(files: &[(&str, &[u8])]) -> Tree {
        let tree = Tree(TempDir::new().expect("a folder"));
        for top in ["proc", "sys"] {
            fs::create_dir(tree.0.path().join(top)).expect("a folder");
        }
        for (path, content) in files {
            tree.write(path, content);
        }
        tree
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, path: &str, content: &[u8]) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("has a folder")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    pub fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("has a folder")).expect("folders");
        std::os::unix::fs::symlink(target, path).expect("a link");
    }

    /// Options that look at everything in this tree.
    pub fn options(&self) -> Options {
        let root = Root { proc: self.0.path().join("proc"), sys: self.0.path().join("sys") };
        Options { files: true, maps: true, pids: None, root }
    }
}
