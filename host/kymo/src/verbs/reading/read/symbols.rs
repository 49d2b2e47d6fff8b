// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--symbols`: behind each record the functions and source lines of its addresses. Not for every reading: a name costs
//! more than a record.
//!
//! Text: a line for each frame of a call stack (`    #0 step at motor.c:41`), and for each field that is an address
//! (`    ip: step+0x12`). JSON: a member `symbols` with the fields' names as keys: a text, an array for a call stack,
//! `null` where nothing is known.

use std::io::Write as _;

use kymo_ctf::read::{Loss, Record, Trace, Value};
use kymo_export::json::push_text;

use super::format::Format;
use super::select::Selection;
use crate::verbs::symbols::fields::{self, Meaning};
use crate::verbs::symbols::{Symbolizer, time_of};

/// Fields that are addresses: position, and what an address there is.
type AddressFields = Vec<(usize, Meaning)>;

/// Fields and contexts that are call stacks.
const STACKS: [&str; 3] = ["callstack", "callstack_user", "callstack_kernel"];
/// Another form, with names.
pub struct WithFunctions<'a> {
    inner: Box<dyn Format + 'a>,
    known: &'a Symbolizer,
    selection: &'a Selection,
    is_json: bool,
    /// By trace and event: the fields that can be addresses, of the payload and of the contexts.
    fields: Vec<Vec<[AddressFields; 2]>>,
}

/// What is known of one field or context.
enum NamedAddresses {
    One(Option<String>),
    Stack(Vec<(u64, Option<String>)>),
}

impl<'a> WithFunctions<'a> {
    pub fn new(
        inner: Box<dyn Format + 'a>,
        known: &'a Symbolizer,
        (traces, selection): (&[Trace], &'a Selection),
        is_json: bool,
    ) -> Self {
        let of_trace = |trace: &Trace| {
            let metadata = &trace.metadata;
            let of_event = |(position, event)| {
                [fields::addresses(metadata.fields(event)), fields::addresses(metadata.contexts(position))]
            };
            metadata.events.iter().enumerate().map(of_event).collect()
        };
        Self { inner, known, selection, is_json, fields: traces.iter().map(of_trace).collect() }
    }

    /// The function at an address of the record's process, or of the kernel.
    fn name(&self, record: &Record<'_>, address: u64, meaning: Meaning) -> Option<String> {
        let process = record.vpid.or(record.vtid);
        self.known.of_address(record.trace, process, time_of(record), address, meaning)
    }

    fn stack(&self, record: &Record<'_>, name: &str, value: &Value<'_>) -> Option<NamedAddresses> {
        let Value::Array(elements) = value else { return None };
        if !STACKS.contains(&name) {
            return None;
        }
        let addresses: Vec<u64> = elements.iter().filter_map(|element| fields::address(&element)).collect();
        let named = |address| (address, self.name(record, address, Meaning::Return));
        Some(NamedAddresses::Stack(addresses.into_iter().map(named).collect()))
    }

    fn field(&self, record: &Record<'_>, meaning: Meaning, value: &Value<'_>) -> Option<NamedAddresses> {
        let address = fields::address(value).filter(|address| *address != 0)?;
        let name = self.name(record, address, meaning);
        // What may be a number only is none that is missing.
        (meaning != Meaning::Maybe || name.is_some()).then_some(NamedAddresses::One(name))
    }

    /// All of a record that is shown.
    fn found(&self, record: &Record<'_>) -> Vec<(String, NamedAddresses)> {
        let known = self.fields.get(record.trace).and_then(|events| events.get(record.event_position));
        let Some([of_payload, of_contexts]) = known else { return Vec::new() };
        let mut found = Vec::new();
        let mut take = |known: &[(usize, Meaning)], position: usize, name: &str, value: &Value<'_>| {
            let meaning = known.iter().find(|(known, _)| *known == position).map(|(_, meaning)| *meaning);
            let stack = self.stack(record, name, value);
            let named = stack.or_else(|| self.field(record, meaning?, value));
            found.extend(named.map(|named| (name.to_owned(), named)));
        };
        for (position, (name, is_length, value)) in record.payload.all().enumerate() {
            if !is_length && self.selection.has_field(name) {
                take(of_payload, position, name, &value);
            }
        }
        for (position, (name, is_length, value)) in record.common_context.all().enumerate() {
            if !is_length && self.selection.has_context(name) {
                take(of_contexts, position, name, &value);
            }
        }
        found
    }
}

impl Format for WithFunctions<'_> {
    fn resume(&mut self, before: Option<i128>) {
        self.inner.resume(before);
    }

    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let begin = out.len();
        self.inner.record(out, record);
        if out.len() == begin {
            return;
        }
        let found = self.found(record);
        match self.is_json {
            true => json(out, &found),
            false => text(out, &found),
        }
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>) {
        self.inner.loss(out, loss);
    }
}

/// Lines below that of the record. A stack of which nothing is known stays the numbers that it is.
fn text(out: &mut Vec<u8>, found: &[(String, NamedAddresses)]) {
    for (name, found) in found {
        match found {
            NamedAddresses::One(Some(function)) => drop(writeln!(out, "    {name}: {function}")),
            NamedAddresses::One(None) => {}
            NamedAddresses::Stack(frames) if frames.iter().all(|(_, function)| function.is_none()) => {}
            NamedAddresses::Stack(frames) => {
                for (number, (address, function)) in frames.iter().enumerate() {
                    // Writing to a vector cannot fail.
                    drop(match function {
                        Some(function) => writeln!(out, "    #{number} {function}"),
                        None => writeln!(out, "    #{number} {address:#x}"),
                    });
                }
            }
        }
    }
}

/// Puts a member into the object that ends here.
fn json(out: &mut Vec<u8>, found: &[(String, NamedAddresses)]) {
    if found.is_empty() || !out.ends_with(b"}\n") {
        return;
    }
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"symbols\":{");
    let push = |out: &mut Vec<u8>, function: &Option<String>| match function {
        Some(function) => push_text(out, function),
        None => out.extend_from_slice(b"null"),
    };
    for (position, (name, found)) in found.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b"" } else { b"," });
        push_text(out, name);
        out.push(b':');
        match found {
            NamedAddresses::One(function) => push(out, function),
            NamedAddresses::Stack(frames) => {
                out.push(b'[');
                for (number, (_, function)) in frames.iter().enumerate() {
                    out.extend_from_slice(if number == 0 { b"" } else { b"," });
                    push(out, function);
                }
                out.push(b']');
            }
        }
    }
    out.extend_from_slice(b"}}\n");
}
