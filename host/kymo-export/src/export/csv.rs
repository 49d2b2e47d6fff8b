// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV [spec/exchange.md 2]: one file with common columns, or a file for each event class with a column for each field.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kymo_ctf::read::{FieldKind, Loss, Record, RecordPart, Trace, Value};

use super::exporter::{Done, Exporter};
use super::facts::{Classes, ContextNames, all_fields, column_fields, column_name, part_of};
use super::output::{NewDirectory, Output, is_stdout};
use crate::{Error, json};

/// One file for `-` and names that end with `.csv`, else a directory.
pub fn begin<'t>(traces: &'t [Trace], path: &Path) -> Result<Box<dyn Exporter + 't>, Error> {
    let is_file = is_stdout(path) || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    Ok(if is_file { Box::new(OneFile::new(traces, path)?) } else { Box::new(ByEvent::new(traces, path)?) })
}

/// What all lines begin with.
const COMMON: &str = "time_ns,cpu,proc,pid,tid";

struct OneFile {
    output: Output,
    contexts: ContextNames,
    line: Vec<u8>,
    cell: Vec<u8>,
    done: Done,
}

impl OneFile {
    fn new(traces: &[Trace], path: &Path) -> Result<OneFile, Error> {
        let mut output = Output::create(path)?;
        output.write(format!("{COMMON},event,fields\r\n").as_bytes())?;
        let (line, cell) = (Vec::new(), Vec::new());
        Ok(OneFile {
            output,
            contexts: ContextNames::new(traces),
            line,
            cell,
            done: Done { files: 1, ..Done::default() },
        })
    }
}

impl Exporter for OneFile {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.line.clear();
        push_common(&mut self.line, record);
        self.line.push(b',');
        push_text(&mut self.line, &record.event.name);
        self.line.push(b',');
        self.cell.clear();
        json::push_fields(&mut self.cell, all_fields(record, &self.contexts), json::Wide::Number);
        push_cell(&mut self.line, &self.cell);
        self.line.extend_from_slice(b"\r\n");
        self.output.write(&self.line)
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        leave_out_loss(&mut self.done, loss);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Done, Error> {
        self.output.finish()?;
        Ok(self.done)
    }
}

/// A column of one event class.
struct Column {
    part: RecordPart,
    position: usize,
    is_enum: bool,
}

struct EventFile {
    output: Output,
    columns: Vec<Column>,
}

struct ByEvent<'t> {
    traces: &'t [Trace],
    dir: NewDirectory,
    names: FileNames,
    classes: Classes,
    files: BTreeMap<(usize, usize), EventFile>,
    line: Vec<u8>,
    cell: Vec<u8>,
    done: Done,
}

impl<'t> ByEvent<'t> {
    fn new(traces: &'t [Trace], path: &Path) -> Result<ByEvent<'t>, Error> {
        let (dir, done) = (NewDirectory::create(path)?, Done::default());
        let (line, cell) = (Vec::new(), Vec::new());
        let (names, classes) = (FileNames::default(), Classes::new(traces));
        Ok(ByEvent { traces, dir, names, classes, files: BTreeMap::new(), line, cell, done })
    }

    fn open(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let path = self.names.path(self.dir.path(), &record.event.name, ".csv");
        let metadata = &self.traces[record.trace].metadata;
        let (mut columns, mut head) = (Vec::new(), COMMON.as_bytes().to_vec());
        for (part, info) in column_fields(metadata, record.event_position) {
            let name = column_name(part, &info);
            let is_enum = matches!(info.kind, FieldKind::Enum { .. });
            head.push(b',');
            push_text(&mut head, &name);
            if is_enum {
                head.push(b',');
                push_text(&mut head, &format!("{name}.value"));
            }
            columns.push(Column { part, position: info.position, is_enum });
        }
        head.extend_from_slice(b"\r\n");
        let mut output = Output::create(&path)?;
        output.write(&head)?;
        self.files.insert(self.classes.of(record), EventFile { output, columns });
        self.done.files += 1;
        Ok(())
    }
}

impl Exporter for ByEvent<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let key = self.classes.of(record);
        if !self.files.contains_key(&key) {
            self.open(record)?;
        }
        let Some(file) = self.files.get_mut(&key) else { return Ok(()) };
        self.line.clear();
        push_common(&mut self.line, record);
        for column in &file.columns {
            let fields = part_of(record, column.part);
            let value = fields.at(column.position).unwrap_or(Value::Absent);
            self.line.push(b',');
            match (&value, column.is_enum) {
                (Value::Enum(number, labels), true) => {
                    labels.joined(*number).iter().for_each(|label| push_text(&mut self.line, label));
                    drop(write!(self.line, ",{number}"));
                }
                (_, true) => self.line.push(b','),
                _ => push_value(&mut self.line, &mut self.cell, &value),
            }
        }
        self.line.extend_from_slice(b"\r\n");
        file.output.write(&self.line)
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        leave_out_loss(&mut self.done, loss);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Done, Error> {
        for file in self.files.into_values() {
            file.output.finish()?;
        }
        self.dir.keep();
        Ok(self.done)
    }
}

/// Counts a loss as what a format does not hold.
pub fn leave_out_loss(done: &mut Done, loss: &Loss<'_>) {
    done.leave_out("losses: places", 1);
    done.leave_out("losses: records that were lost there", loss.records);
    done.leave_out("losses: packets that are missing there", loss.packets);
}

/// Names of files, each of one event class.
#[derive(Default)]
pub struct FileNames(HashSet<String>);

impl FileNames {
    /// A path in `dir` that no other class has. File systems that fold cases are not met with two names that differ
    /// in it.
    pub fn path(&mut self, dir: &Path, event: &str, ending: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '+');
        let plain: String = event.chars().map(|c| if is_plain(c) { c } else { '.' }).take(200).collect();
        let plain = format!("{}{}", if plain.starts_with('.') || plain.is_empty() { "_" } else { "" }, plain);
        let mut name = plain.clone();
        let mut number = 2;
        while !self.0.insert(name.to_ascii_lowercase()) {
            name = format!("{plain}.{number}");
            number += 1;
        }
        dir.join(name + ending)
    }
}

fn push_common(line: &mut Vec<u8>, record: &Record<'_>) {
    // Writing to a vector cannot fail.
    drop(write!(line, "{}", record.ns));
    push_option(line, record.cpu);
    line.push(b',');
    if !record.procname.is_empty() {
        push_text(line, record.procname);
    }
    push_option(line, record.vpid);
    push_option(line, record.vtid);
}

fn push_option(line: &mut Vec<u8>, value: Option<u32>) {
    line.push(b',');
    value.iter().for_each(|value| drop(write!(line, "{value}")));
}

/// A value as a cell; `cell` is for what is put together first.
fn push_value(line: &mut Vec<u8>, cell: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Absent => {}
        Value::Text(text) => push_text(line, text),
        // Without the quotes that JSON needs.
        Value::F32(value) if !value.is_finite() => drop(write!(line, "{value:?}")),
        Value::F64(value) if !value.is_finite() => drop(write!(line, "{value:?}")),
        Value::Bytes(bytes) => json::push_hex(line, bytes),
        _ => {
            cell.clear();
            json::push_value(cell, value, json::Wide::Number);
            push_cell(line, cell);
        }
    }
}

/// A text; an empty one is not the same as none.
fn push_text(line: &mut Vec<u8>, text: &str) {
    if text.is_empty() {
        line.extend_from_slice(b"\"\"");
    }
    push_cell(line, text.as_bytes());
}

fn push_cell(line: &mut Vec<u8>, cell: &[u8]) {
    if !cell.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return line.extend_from_slice(cell);
    }
    line.push(b'"');
    for &byte in cell {
        line.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        let check = |value: Value<'_>, expect: &str| {
            let (mut line, mut cell) = (Vec::new(), Vec::new());
            push_value(&mut line, &mut cell, &value);
            assert_eq!(String::from_utf8(line).expect("text"), expect);
        };
        check(Value::Text("plain".into()), "plain");
        check(Value::Text("".into()), "\"\"");
        check(Value::Absent, "");
        check(Value::Text("a,b".into()), "\"a,b\"");
        check(Value::Text("say \"it\"".into()), "\"say \"\"it\"\"\"");
        check(Value::Text("two\nlines".into()), "\"two\nlines\"");
        check(Value::Text("\r".into()), "\"\r\"");
        check(Value::Bytes(&[0, 0xab]), "00ab");
        check(Value::F64(f64::NAN), "NaN");
    }
}
