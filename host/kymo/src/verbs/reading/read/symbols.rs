// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--symbols`: behind each record the functions and source lines of its addresses. Not for every reading: a name costs
//! more than a record.
//!
//! Text: a line for each frame of a call stack (`    #0 step at motor.c:41`), and for each field that is an address
//! (`    ip: step+0x12`). JSON: a member `symbols` with the fields' names as keys: a text, an array for a call stack,
//! `null` where nothing is known.

use std::io::Write as _;

use kymo_ctf::read::{Loss, Number, Record, Value};
use kymo_export::json::push_text;

use super::Format;
use super::select::Selection;
use crate::verbs::symbols::Symbolizer;

/// Fields that are addresses of code; `true`: of where a call returns to.
const ADDRESSES: [(&str, bool); 11] = [
    ("ip", false),
    ("parent_ip", true),
    ("function", false),
    ("func", false),
    ("addr", false),
    ("caller", true),
    ("call_site", true),
    ("callsite", true),
    ("__probe_ip", false),
    ("__probe_func", false),
    ("__probe_ret_ip", true),
];
/// Fields and contexts that are call stacks.
const STACKS: [&str; 3] = ["callstack", "callstack_user", "callstack_kernel"];
/// Above it is the kernel, in all of Linux' 64-bit address spaces that kymo records.
const KERNEL_BEGIN: u64 = 0xffff_8000_0000_0000;

/// Another form, with names.
pub struct Named<'a> {
    inner: Box<dyn Format + 'a>,
    known: &'a Symbolizer,
    selection: &'a Selection,
    is_json: bool,
}

/// What is known of one field or context.
enum NamedAddresses {
    One(Option<String>),
    Stack(Vec<(u64, Option<String>)>),
}

impl<'a> Named<'a> {
    pub fn new(inner: Box<dyn Format + 'a>, known: &'a Symbolizer, selection: &'a Selection, is_json: bool) -> Self {
        Self { inner, known, selection, is_json }
    }

    /// The function at an address of the record's process, or of the kernel.
    fn name(&self, record: &Record<'_>, address: u64, is_return: bool) -> Option<String> {
        if address >= KERNEL_BEGIN {
            return self.known.of_kernel(address);
        }
        let process = record.vpid.or(record.vtid)?;
        self.known.of_program(Some(record.trace), process, address, is_return)
    }

    fn of_value(&self, record: &Record<'_>, name: &str, value: &Value<'_>) -> Option<NamedAddresses> {
        match value {
            Value::Array(elements) if STACKS.contains(&name) => {
                let addresses: Vec<u64> = elements.iter().filter_map(|element| address(&element)).collect();
                let stack = addresses.into_iter().map(|address| (address, self.name(record, address, true)));
                Some(NamedAddresses::Stack(stack.collect()))
            }
            value => {
                let (_, is_return) = ADDRESSES.iter().find(|(known, _)| *known == name)?;
                let address = address(value).filter(|address| *address != 0)?;
                Some(NamedAddresses::One(self.name(record, address, *is_return)))
            }
        }
    }

    /// All of a record that is shown.
    fn found(&self, record: &Record<'_>) -> Vec<(String, NamedAddresses)> {
        let fields = record.payload.iter().filter(|(name, _)| self.selection.has_field(name));
        let contexts = record.common_context.iter().filter(|(name, _)| self.selection.has_context(name));
        let named = |(name, value): (&str, Value<'_>)| Some((name.to_owned(), self.of_value(record, name, &value)?));
        fields.chain(contexts).filter_map(named).collect()
    }
}

fn address(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(Number::Unsigned(address), _) => Some(*address),
        // Of a class without a sign the reader's number has none; others have the kernel's half below zero.
        Value::Int(Number::Signed(address), _) => Some(*address as u64),
        _ => None,
    }
}

impl Format for Named<'_> {
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
