// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference of tables in spec/tables.md, from the definitions.

use std::fmt::Write as _;

use arrow_schema::{DataType, Field, Schema};

use crate::asked::CRITICAL_PATH;
use crate::known::Known;
use crate::shape::{ABOUT, Shape};
use crate::source::KNOWN;

/// All tables and columns that every trace has, as Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    let records = Shape::of_records(&[]);
    let all: Vec<usize> = (0..records.columns.len()).collect();
    table(&mut text, "records", "All records of all events", &records.schema(&all));
    for (known, ..) in KNOWN {
        of_known(&mut text, known);
    }
    of_known(&mut text, &CRITICAL_PATH);
    text
}

fn of_known(text: &mut String, known: &Known) {
    let all: Vec<usize> = (0..known.columns.len()).collect();
    table(text, known.name, known.about, &known.schema(&all, true));
}

fn table(text: &mut String, name: &str, about: &str, schema: &Schema) {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "### {name}\n{}.\n\n| column | type | holds |\n|---|---|---|", wrapped(&about));
    for field in schema.fields() {
        let about = field.metadata().get(ABOUT).map_or("", String::as_str);
        let _ = writeln!(text, "| `{}` | {} | {} |", field.name(), type_of(field), about.replace('|', "\\|"));
    }
    text.push('\n');
}

/// Lines of at most 119 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 118 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

fn type_of(field: &Field) -> String {
    match field.data_type() {
        DataType::Timestamp(..) => "timestamp, ns".to_owned(),
        DataType::Dictionary(..) => "dictionary(i32, utf8)".to_owned(),
        DataType::UInt32 => "u32".to_owned(),
        DataType::UInt64 => "u64".to_owned(),
        DataType::Int64 => "i64".to_owned(),
        DataType::Float64 => "f64".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}
