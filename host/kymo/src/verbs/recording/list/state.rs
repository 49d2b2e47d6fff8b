// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo list --state`: the events of the state dump and their fields. They are the same on every machine.

use std::process::ExitCode;

use kymo_ctf::write::{EventClass, Field, FieldClass, Number};
use serde_json::{Value, json};

/// What the types do not say.
const UNITS: &str = "\
runtime, deadline and period are in ns; start_time in clock ticks since boot; pgoff in bytes.
prio is the kernel's priority minus 100: -100 is FIFO 99, 20 is nice 0. dev is major << 20 | minor.
count is the number of interrupts since boot, on all CPUs.";

/// Runs `kymo list --state`.
pub(super) fn run(is_json: bool) -> ExitCode {
    let classes = kymo_state::classes(0);
    if is_json {
        println!("{:#}", classes.iter().map(to_json).collect::<Value>());
        return ExitCode::SUCCESS;
    }
    for class in &classes {
        println!("{}", class.name);
        for field in &class.fields {
            println!("    {} {}{}", type_text(&field.class), field.name, labels_text(&field.class));
        }
    }
    println!("\n{UNITS}");
    ExitCode::SUCCESS
}

fn to_json(class: &EventClass) -> Value {
    let field = |field: &Field| {
        let mut value = json!({ "name": field.name, "type": type_text(&field.class) });
        if let FieldClass::Enum { labels, .. } = &field.class {
            value["labels"] = labels.iter().map(|(label, number)| (label.clone(), json!(number))).collect();
        }
        value
    };
    json!({ "name": class.name, "fields": class.fields.iter().map(field).collect::<Value>() })
}

/// ` = other 0, fifo 1` behind an enumeration's field.
fn labels_text(class: &FieldClass) -> String {
    let FieldClass::Enum { labels, .. } = class else { return String::new() };
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label} {value}")).collect();
    format!(" = {}", labels.join(", "))
}

fn type_text(class: &FieldClass) -> String {
    match class {
        FieldClass::Number(number) | FieldClass::Enum { number, .. } => number_text(*number).to_owned(),
        FieldClass::Text | FieldClass::CString => "text".to_owned(),
        FieldClass::Chars { count } => format!("text[{count}]"),
        FieldClass::Blob => "bytes".to_owned(),
        FieldClass::Array { element, count } => format!("{}[{count}]", number_text(*element)),
        FieldClass::Seq { element } => format!("{}[]", number_text(*element)),
    }
}

/// As in the names of our own types: `u32`, `i64`, `x64` in base 16, `f64`, `bool`.
fn number_text(number: Number) -> &'static str {
    number.name().unwrap_or("number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        for (class, expect) in [
            (FieldClass::Number(Number::unsigned(8)), "u8"),
            (FieldClass::Number(Number::signed(32)), "i32"),
            (FieldClass::Number(Number::hex(64)), "x64"),
            (FieldClass::Enum { number: Number::unsigned(32), labels: vec![] }, "u32"),
            (FieldClass::Chars { count: 16 }, "text[16]"),
            (FieldClass::Array { element: Number::unsigned(8), count: 4 }, "u8[4]"),
            (FieldClass::Seq { element: Number::Float { bits: 64 } }, "f64[]"),
        ] {
            assert_eq!(type_text(&class), expect);
        }
    }

    #[test]
    fn labels() {
        let labels = vec![("on".into(), 1), ("off".into(), 0)];
        let class = FieldClass::Enum { number: Number::unsigned(8), labels };
        assert_eq!(labels_text(&class), " = on 1, off 0");
        assert_eq!(labels_text(&FieldClass::Text), "");
        let field = Field { name: "state".into(), class };
        let event = EventClass { id: 1, name: "e".into(), file: String::new(), line: 0, fields: vec![field] };
        let labels = json!({ "on": 1, "off": 0 });
        assert_eq!(to_json(&event)["fields"], json!([{ "name": "state", "type": "u8", "labels": labels }]));
    }

    #[test]
    fn units_are_said_of_fields_that_exist() {
        let classes = kymo_state::classes(0);
        let has = |name: &str| classes.iter().any(|class| class.fields.iter().any(|field| field.name == name));
        for name in ["runtime", "deadline", "period", "start_time", "pgoff", "prio", "dev", "count"] {
            assert!(has(name) && UNITS.contains(name), "{name}");
        }
    }
}
