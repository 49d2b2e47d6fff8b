// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of events and fields, for completion [spec/view.md 4.14].

use kymo_analyze::{ValueKind, What};
use kymo_filter::Context;

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::pairs;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::begin;
use crate::questions::values::is_number;
use crate::walk::Stop;

/// Answers `schema`.
///
/// # Errors
/// None.
pub fn schema(of: &Opened, _: &mut Parameters, _: &Stop) -> Result<Answer, Error> {
    let (from, to) = of.whole();
    let mut answer = begin("schema", of, Window { from, to });
    let (mut events, mut fields) = (Vec::new(), Vec::new());
    for (trace, opened) in of.traces.iter().enumerate() {
        for event in 0..opened.metadata.events.len() {
            let Some(class) = of.classes.at(trace, event).and_then(|class| of.classes.list.get(class)) else {
                continue;
            };
            let row = events.len() as u32;
            events.push((answer.texts.text(&class.name), u8::from(of.classes.is_of_kernel(trace, event))));
            for field in &class.fields {
                let kind = match field.kind {
                    ValueKind::Integer => "integer",
                    ValueKind::Float => "float",
                    ValueKind::Text => "text",
                    ValueKind::Other => "other",
                };
                fields.push((row, answer.texts.text(&field.name), answer.texts.text(kind)));
            }
        }
    }
    let table = Table::new("events")
        .column("name", events.iter().map(|(name, _)| *name))
        .column("is_kernel", events.iter().map(|(_, is_kernel)| *is_kernel));
    answer.push(table);
    let table = Table::new("fields")
        .column("event", fields.iter().map(|(event, ..)| *event))
        .column("name", fields.iter().map(|(_, name, _)| *name))
        .column("kind", fields.iter().map(|(.., kind)| *kind));
    answer.push(table);
    let table = recorded_contexts(&mut answer, of);
    answer.push(table);
    let contexts = Context::ALL.map(|(name, _)| answer.texts.text(&format!("${name}")));
    answer.push(Table::new("contexts").column("name", contexts));
    let kinds: Vec<_> = What::ALL.iter().map(|(_, name)| answer.texts.text(name)).collect();
    answer.push(Table::new("latencies").column("name", kinds));
    let spans: Vec<_> = pairs::spans(of).iter().map(|span| answer.texts.text(span)).collect();
    answer.push(Table::new("pairs").column("span", spans));
    Ok(answer)
}

/// Numbers that records have in front of their payload, such as counters: what `values` draws as `EVENT.$NAME`.
fn recorded_contexts(answer: &mut Answer, of: &Opened) -> Table {
    let (mut events, mut names) = (Vec::new(), Vec::new());
    let mut row = 0u32;
    for (trace, opened) in of.traces.iter().enumerate() {
        for event in 0..opened.metadata.events.len() {
            // As in the table of events.
            if of.classes.at(trace, event).and_then(|class| of.classes.list.get(class)).is_none() {
                continue;
            }
            let (own, common) = (opened.metadata.own_contexts(event), opened.metadata.contexts(event));
            let all = own.iter().chain(&common).filter(|field| is_number(&field.kind));
            let mut known: Vec<&str> = Vec::new();
            for field in all.filter(|field| !field.is_length) {
                if !known.contains(&field.name) {
                    known.push(field.name);
                    events.push(row);
                    names.push(answer.texts.text(field.name));
                }
            }
            row += 1;
        }
    }
    Table::new("recorded_contexts").column("event", events).column("name", names)
}
