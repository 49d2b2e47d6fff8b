// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel records as ftrace events, in a bundle for each CPU: what Perfetto knows as its own message, all else as a
//! generic one.

mod calls;
mod message;
mod table;

use std::collections::BTreeMap;

use kymo_ctf::read::{Number, Record, Trace, Value};

use super::super::exporter::Done;
use super::super::facts::{ContextNames, all_fields};
use super::super::names::ThreadNames;
use super::wire::{Message, time};
use crate::json::{Wide, push_value};
use calls::Calls;
use message::OwnMessage;
use table::{FtraceEvent, GENERIC, How};

/// Events of a bundle: readers sort bundles of all CPUs, and want them not too long.
const EVENTS_MAX: u32 = 512;

/// Bundles that are not yet written.
pub struct Bundles {
    calls: Calls,
    by_cpu: BTreeMap<u32, (Message, u32)>,
}

impl Bundles {
    pub fn new(traces: &[Trace]) -> Bundles {
        Bundles { calls: Calls::new(traces), by_cpu: BTreeMap::new() }
    }

    /// The machine whose numbers system calls have.
    pub fn machine(&self) -> Option<&str> {
        self.calls.machine()
    }

    /// Appends a record to the bundle of its CPU.
    pub fn push(&mut self, record: &Record<'_>, names: &ThreadNames<'_>, contexts: &ContextNames, done: &mut Done) {
        let mut event = Message::default();
        event.uint(1, time(record.ns));
        event.uint(2, record.vtid.unwrap_or(0).into());
        if record.vtid.is_none() {
            done.change("kernel records of unknown threads, shown as of thread 0", 1);
        }
        match self.calls.message(record, done).or_else(|| of_table(record, names)) {
            Some(own) => {
                leave_out(record, &own.left, contexts, done);
                event.message(own.number, &own.body);
            }
            None => event.message(GENERIC, &generic(record, contexts)),
        }
        if record.cpu.is_none() {
            done.change("kernel records without a CPU, shown on CPU 0", 1);
        }
        let (bundle, count) = self.by_cpu.entry(record.cpu.unwrap_or(0)).or_insert_with_key(|cpu| {
            let mut bundle = Message::default();
            bundle.uint(1, (*cpu).into());
            (bundle, 0)
        });
        bundle.message(2, &event);
        *count += 1;
    }

    /// A bundle that is long enough, or any.
    pub fn take(&mut self, all: bool) -> Option<Message> {
        let cpu = *self.by_cpu.iter().find(|(_, (_, count))| all || *count >= EVENTS_MAX)?.0;
        self.by_cpu.remove(&cpu).map(|(bundle, _)| bundle)
    }
}

/// Tells what a message of Perfetto's own does not hold of a record that has it.
fn leave_out(record: &Record<'_>, left: &[String], contexts: &ContextNames, done: &mut Done) {
    for field in left {
        done.leave_out(&format!("the field {field} of {}", record.event.name), 1);
    }
    let own = record.context.iter().filter(|(name, _)| record.common_context.get(name).is_none());
    for (name, _) in record.common_context.iter().chain(own) {
        if contexts.get(name).is_some() {
            done.leave_out(&format!("the context {name} of records that Perfetto has a message of its own for"), 1);
        }
    }
}

/// The message that Perfetto has for an event, where the record has what it is about.
fn of_table(record: &Record<'_>, names: &ThreadNames<'_>) -> Option<OwnMessage> {
    let known = table::known(&record.event.name)?;
    let mut body = Message::default();
    let mut taken: Vec<&str> = Vec::with_capacity(known.fields.len());
    for field in known.fields {
        let found = field.names.iter().find_map(|name| record.payload.get(name).map(|value| (*name, value)));
        let has = match (found, field.how) {
            (Some((name, value)), how) => {
                let is_held = put(&mut body, field.number, &value, how, has_lttng_names(record));
                if is_held {
                    taken.push(name);
                }
                is_held
            }
            (None, How::OwnThread) => put_own_thread(&mut body, field.number, record, names),
            (None, _) => false,
        };
        if !has && field.is_needed {
            return None;
        }
    }
    let left = left_of(record, known, &taken);
    (known.is_understood || left.is_empty()).then_some(OwnMessage { number: known.number, body, left })
}

/// Whether a record has LTTng's names, and so its priorities.
fn has_lttng_names(record: &Record<'_>) -> bool {
    !record.event.name.contains(':')
}

/// A thread renames itself: newer kernels do not tell whom the event is about.
fn put_own_thread(body: &mut Message, number: u32, record: &Record<'_>, names: &ThreadNames<'_>) -> bool {
    let Some(Value::Text(new)) = record.payload.get("newcomm") else { return false };
    let Some(tid) = record.vtid.filter(|_| names.thread == new) else { return false };
    body.int(number, tid.into());
    true
}

/// Puts a value where it has the kind that the message wants.
fn put(body: &mut Message, number: u32, value: &Value<'_>, how: How, has_lttng_names: bool) -> bool {
    match (value, how) {
        (Value::Text(text), How::Text) => body.text(number, text),
        (Value::Int(value, _) | Value::Enum(value, _), How::Number | How::OwnThread) => {
            body.int(number, i128::from(*value) as i64);
        }
        (Value::Int(value, _) | Value::Enum(value, _), How::Priority) => {
            let offset = if has_lttng_names { 100 } else { 0 };
            body.int(number, (i128::from(*value) + offset) as i64);
        }
        (Value::Bool(value), How::Number) => body.uint(number, u64::from(*value)),
        _ => return false,
    }
    true
}

/// Fields that have no place in a message. What says that it is not known is not missed.
fn left_of(record: &Record<'_>, known: &FtraceEvent, taken: &[&str]) -> Vec<String> {
    let is_unknown = |value: &Value<'_>| matches!(value, Value::Int(number, _) if i128::from(*number) == -1);
    let is_fork = known.names.contains(&"sched_process_fork");
    let left = record.payload.iter().filter(|(name, value)| !(taken.contains(name) || is_fork && is_unknown(value)));
    left.filter(|(_, value)| !matches!(value, Value::Absent)).map(|(name, _)| name.to_owned()).collect()
}

fn generic(record: &Record<'_>, contexts: &ContextNames) -> Message {
    let mut body = Message::default();
    body.text(1, &record.event.name);
    for (name, value) in all_fields(record, contexts) {
        let mut field = Message::default();
        field.text(1, name);
        match value {
            Value::Int(Number::Unsigned(number), _) => field.uint(5, number),
            Value::Int(Number::Signed(number), _) => field.int(4, number),
            Value::Bool(value) => field.uint(5, u64::from(value)),
            Value::Text(text) => field.text(3, &text),
            Value::Absent => continue,
            value => {
                let mut text = Vec::new();
                push_value(&mut text, &value, Wide::Number);
                field.text(3, &String::from_utf8_lossy(&text));
            }
        }
        body.message(2, &field);
    }
    body
}
