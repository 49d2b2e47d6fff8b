// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as `kymo read --json` gives them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Map, Value};

use crate::{Lab, paths};

/// In place of a process or thread id that the trace does not say.
pub const NOT_KNOWN: u64 = u64::MAX;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Value of the trace clock.
    pub cycles: u64,
    /// CPU, where it is known.
    pub cpu: Option<u64>,
    /// Name of the process.
    pub proc: String,
    /// Process id.
    pub pid: u64,
    /// Thread id.
    pub tid: u64,
    /// `provider:name`.
    pub event: String,
    /// The payload.
    pub fields: Map<String, Value>,
    /// What the session asked for besides; empty where it asked for nothing.
    pub contexts: Map<String, Value>,
}

impl Record {
    /// A context that is an integer.
    #[track_caller]
    pub fn context(&self, name: &str) -> i64 {
        self.contexts.get(name).and_then(Value::as_i64).unwrap_or_else(|| panic!("no context {name} in {self:?}"))
    }

    /// A field that is an unsigned integer.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        self.fields.get(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number {name} in {self:?}"))
    }
}

/// A loss: records between two values in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// How many.
    pub records: u64,
    /// Not before this time.
    pub from: u64,
    /// Not after this time.
    pub to: u64,
    /// File of the stream.
    pub stream: String,
}

/// A trace that was read.
#[derive(Debug)]
pub struct Read {
    /// Exit status of `kymo read`.
    pub code: i32,
    /// What it said on standard error.
    pub stderr: String,
    /// All records, in the order of time.
    pub records: Vec<Record>,
    /// All losses.
    pub losses: Vec<Loss>,
}

/// Reads a trace.
#[track_caller]
pub fn read(lab: &Lab, dir: &Path, args: &[&str]) -> Read {
    let mut command = lab.command(paths::kymo());
    command.arg("read").arg("--json").args(args).arg(dir);
    let outcome = lab.start(command).wait();
    parse(outcome.code, &outcome.stdout, outcome.stderr)
}

/// Hands the records of a trace on one by one, so that it may be larger than memory, and gives its losses. Fails if the
/// trace is damaged.
#[track_caller]
pub fn each(lab: &Lab, dir: &Path, mut take: impl FnMut(Record)) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut command = lab.command(paths::kymo());
    let mut reader = command.arg("read").arg("--json").arg(dir).stdout(Stdio::piped()).spawn().expect("kymo read");
    for line in BufReader::new(reader.stdout.take().expect("its output")).lines() {
        match parse_line(&line.expect("its output")) {
            Line::Record(record) => take(record),
            Line::Loss(loss) => losses.push(loss),
        }
    }
    let status = reader.wait().expect("its status");
    assert!(status.success(), "kymo read found damage: {status}");
    losses
}

/// From the output of `kymo read --json`.
#[track_caller]
pub fn parse(code: i32, stdout: &str, stderr: String) -> Read {
    let mut read = Read { code, stderr, records: Vec::new(), losses: Vec::new() };
    for line in stdout.lines() {
        match parse_line(line) {
            Line::Record(record) => read.records.push(record),
            Line::Loss(loss) => read.losses.push(loss),
        }
    }
    read
}

enum Line {
    Record(Record),
    Loss(Loss),
}

#[track_caller]
fn parse_line(line: &str) -> Line {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error} in {line}"));
    let number = |name: &str| value[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {line}"));
    let text = |name: &str| value[name].as_str().unwrap_or_else(|| panic!("no text {name} in {line}")).to_owned();
    if value.get("lost").is_some() {
        return Line::Loss(Loss {
            records: number("lost"),
            from: number("from"),
            to: number("to"),
            stream: text("stream"),
        });
    }
    Line::Record(Record {
        time: number("time"),
        cycles: number("cycles"),
        cpu: value["cpu"].as_u64(),
        proc: text("proc"),
        pid: value["pid"].as_u64().unwrap_or(NOT_KNOWN),
        tid: value["tid"].as_u64().unwrap_or(NOT_KNOWN),
        event: text("event"),
        fields: value["fields"].as_object().cloned().unwrap_or_else(|| panic!("no fields in {line}")),
        contexts: value["contexts"].as_object().cloned().unwrap_or_default(),
    })
}

impl Read {
    /// This trace, if nothing in it is damaged and its records are in the order of time.
    #[track_caller]
    pub fn whole(self) -> Read {
        assert_eq!(self.code, 0, "kymo read found damage:\n{}", self.stderr);
        self.ordered()
    }

    /// This trace, if its records are in the order of time.
    #[track_caller]
    pub fn ordered(self) -> Read {
        for pair in self.records.windows(2) {
            assert!(pair[0].cycles <= pair[1].cycles, "time runs backwards: {pair:?}");
        }
        self
    }

    /// Records of one event.
    pub fn of<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.event == event)
    }

    /// Values of one field of one event, in the order of time.
    #[track_caller]
    pub fn numbers(&self, event: &str, field: &str) -> Vec<u64> {
        self.of(event).map(|record| record.number(field)).collect()
    }

    /// Records that the trace says were lost.
    pub fn lost(&self) -> u64 {
        self.losses.iter().map(|loss| loss.records).sum()
    }
}

/// Fails unless `numbers` are 0, 1, 2, ... `count` of them.
#[track_caller]
pub fn assert_counts_up(numbers: &[u64], count: u64) {
    if let Some((at, number)) = numbers.iter().enumerate().find(|(at, number)| *at as u64 != **number) {
        panic!("record {at} has number {number}, of {} records; {count} were written", numbers.len());
    }
    assert_eq!(numbers.len() as u64, count, "records in the trace, and records written");
}
