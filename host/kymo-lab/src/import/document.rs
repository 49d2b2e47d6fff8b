// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of other tools: what is common to them, and texts that were cut.

use serde_json::Value;

use crate::Record;

use super::build::{Draft, caveat, interrupted};
use super::format::Fault;
use super::text::scaled;
use super::time;

/// A JSON text, as far as it goes.
pub(super) struct Document {
    pub(super) root: Value,
    /// The line where it was cut.
    pub(super) cut_at: Option<usize>,
    /// Its last line.
    pub(super) lines: usize,
}

/// Reads a text; one that ends too early is closed behind its last whole member.
pub(super) fn read(bytes: &[u8]) -> Result<Document, Fault> {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    match serde_json::from_slice(bytes) {
        Ok(root) => Ok(Document { root, cut_at: None, lines }),
        Err(error) if error.is_eof() => {
            let root = serde_json::from_slice(&closed(bytes)).map_err(|error| fault(&error))?;
            Ok(Document { root, cut_at: Some(lines), lines })
        }
        Err(error) => Err(fault(&error)),
    }
}

fn fault(error: &serde_json::Error) -> Fault {
    Fault::new(error.line(), error.to_string())
}

/// The text up to its last whole member, and the brackets that are open there.
fn closed(bytes: &[u8]) -> Vec<u8> {
    let (mut open, mut end) = (Vec::new(), 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => (),
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => drop(open.pop()),
            _ => (),
        }
        match byte {
            b',' if !in_text => end = at,
            b'{' | b'[' | b'}' | b']' if !in_text => end = at + 1,
            _ => (),
        }
    }
    let mut text = bytes[..end].to_vec();
    text.extend(open.iter().rev());
    text
}

/// Members of the object `name` of `value`, by name.
pub(super) fn members<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(name).and_then(Value::as_object).into_iter().flatten()
}

/// rt-tests spells two keys with a colon at their end.
fn spelled<'a>(root: &'a Value, name: &str) -> Option<&'a str> {
    root.get(name).or_else(|| root.get(format!("{name}:")))?.as_str()
}

pub(super) fn command_line(root: &Value) -> Option<&str> {
    spelled(root, "cmdline")
}

/// A record with what rt-tests says of the run and the machine.
pub(super) fn rt_tests_record(document: &Document, tool: &str, test: &str) -> Record {
    let root = &document.root;
    let mut record = Record::new(tool, test);
    record.version = spelled(root, "rt_test_version").unwrap_or_default().to_owned();
    if let Some(line) = command_line(root) {
        record.options.insert("command_line".to_owned(), line.into());
    }
    let date = |name: &str| root.get(name).and_then(Value::as_str).and_then(time::mail_date_ns);
    record.started_ns = date("start_time");
    let length = date("end_time").zip(record.started_ns).and_then(|(end, start)| end.checked_sub(start));
    record.duration_s = length.map(|ns| ns as f64 / 1e9);
    system(&mut record, root);
    if root.get("return_code").and_then(Value::as_i64).is_some_and(|code| code != 0) {
        let text = format!("{tool} ended with an error ({})", root["return_code"]);
        caveat(&mut record, "interrupted", crate::Severity::High, &text, "see what it printed, and run it again");
    }
    if let Some(line) = document.cut_at {
        interrupted(&mut record, line, "the end of the JSON text");
    }
    record
}

/// `sysinfo`, under the names of our own snapshots [spec/lab.md 9].
pub(super) fn system(record: &mut Record, root: &Value) {
    let names = [
        ("release", "kernel.release"),
        ("version", "kernel.version"),
        ("machine", "machine"),
        ("nodename", "host"),
        ("cpus_online", "cpu.online"),
    ];
    for (theirs, ours) in names {
        if let Some(value) = root.pointer(&format!("/sysinfo/{theirs}")) {
            record.environment.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(realtime) = root.pointer("/sysinfo/realtime").and_then(Value::as_u64) {
        record.environment.insert("kernel.realtime".to_owned(), (realtime != 0).into());
    }
}

/// Fills a series from `min`, `max`, `avg`, `cpu` and `histogram`, all in units of `unit_ns`. The name of a bucket,
/// less `shift`, is its lowest value.
pub(super) fn fill(draft: &mut Draft, thread: &Value, unit_ns: u64, shift: u64) {
    let number = |name: &str| thread.get(name).and_then(Value::as_f64).filter(|value| value.is_finite());
    let series = &mut draft.series;
    series.cpu = thread.get("cpu").and_then(Value::as_u64).and_then(|cpu| u32::try_from(cpu).ok());
    series.min = number("min").and_then(|value| scaled(value, unit_ns));
    series.max = number("max").and_then(|value| scaled(value, unit_ns));
    series.mean = number("avg").map(|value| value * unit_ns as f64);
    for (value, count) in members(thread, "histogram") {
        if let (Ok(value), Some(count)) = (value.parse::<u64>(), count.as_u64()) {
            draft.bucket(value.saturating_sub(shift).saturating_mul(unit_ns), count);
        }
    }
}
