// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel records as ftrace events, in a bundle for each CPU: what Perfetto knows as its own message, all else as a
//! generic one.

use std::collections::BTreeMap;

use kymo_ctf::read::{Number, Record, Value};

use super::super::exporter::Done;
use super::super::facts::{ContextNames, all_fields};
use super::wire::{Message, time};
use crate::json::{Wide, push_value};

/// Events of a bundle: readers sort bundles of all CPUs, and want them not too long.
const EVENTS_MAX: u32 = 512;

/// Field of FtraceEvent for all events that have none of their own.
const GENERIC: u32 = 327;

/// Bundles that are not yet written.
#[derive(Default)]
pub struct Bundles(BTreeMap<u32, (Message, u32)>);

/// How a field of ours becomes one of Perfetto's message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// A number, or text.
    Same,
    /// A priority: LTTng's name for it is 100 less than the kernel's.
    Priority,
}

/// An event that Perfetto knows: the last part of its name, its field of FtraceEvent, its fields with all their names.
struct PerfettoEvent {
    names: &'static [&'static str],
    field: u32,
    fields: &'static [(&'static [&'static str], u32, How)],
}

const TID: &[&str] = &["tid", "pid"];
const WAKE: &[(&[&str], u32, How)] =
    &[(&["comm"], 1, How::Same), (TID, 2, How::Same), (&["prio"], 3, How::Priority), (&["target_cpu"], 5, How::Same)];
const VEC: &[(&[&str], u32, How)] = &[(&["vec"], 1, How::Same)];
const STATE: &[(&[&str], u32, How)] = &[(&["state"], 1, How::Same), (&["cpu_id"], 2, How::Same)];

const PERFETTO_EVENTS: &[PerfettoEvent] = &[
    PerfettoEvent {
        names: &["sched_switch"],
        field: 4,
        fields: &[
            (&["prev_comm"], 1, How::Same),
            (&["prev_tid", "prev_pid"], 2, How::Same),
            (&["prev_prio"], 3, How::Priority),
            (&["prev_state"], 4, How::Same),
            (&["next_comm"], 5, How::Same),
            (&["next_tid", "next_pid"], 6, How::Same),
            (&["next_prio"], 7, How::Priority),
        ],
    },
    PerfettoEvent { names: &["sched_waking"], field: 20, fields: WAKE },
    PerfettoEvent { names: &["sched_wakeup"], field: 17, fields: WAKE },
    PerfettoEvent { names: &["sched_wakeup_new"], field: 114, fields: WAKE },
    PerfettoEvent {
        names: &["sched_process_free"],
        field: 240,
        fields: &[(&["comm"], 1, How::Same), (TID, 2, How::Same), (&["prio"], 3, How::Priority)],
    },
    PerfettoEvent {
        names: &["irq_handler_entry"],
        field: 36,
        fields: &[(&["irq"], 1, How::Same), (&["name"], 2, How::Same)],
    },
    PerfettoEvent {
        names: &["irq_handler_exit"],
        field: 37,
        fields: &[(&["irq"], 1, How::Same), (&["ret"], 2, How::Same)],
    },
    PerfettoEvent { names: &["irq_softirq_raise", "softirq_raise"], field: 26, fields: VEC },
    PerfettoEvent { names: &["irq_softirq_entry", "softirq_entry"], field: 24, fields: VEC },
    PerfettoEvent { names: &["irq_softirq_exit", "softirq_exit"], field: 25, fields: VEC },
    PerfettoEvent { names: &["power_cpu_idle", "cpu_idle"], field: 13, fields: STATE },
    PerfettoEvent { names: &["power_cpu_frequency", "cpu_frequency"], field: 11, fields: STATE },
    PerfettoEvent { names: &["lttng_logger", "print"], field: 3, fields: &[(&["msg", "buf"], 2, How::Same)] },
];

impl Bundles {
    /// Appends a record to the bundle of its CPU.
    pub fn push(&mut self, record: &Record<'_>, contexts: &ContextNames, done: &mut Done) {
        let mut event = Message::default();
        event.uint(1, time(record.ns));
        event.uint(2, record.vtid.unwrap_or(0).into());
        let (field, body) = match known(record) {
            Some(known) => {
                done.leave_out("irq_flags and preempt_count of records that Perfetto has a message of its own for", 1);
                known
            }
            None => (GENERIC, generic(record, contexts)),
        };
        event.message(field, &body);
        if record.cpu.is_none() {
            done.change("kernel records without a CPU, shown on CPU 0", 1);
        }
        let (bundle, count) = self.0.entry(record.cpu.unwrap_or(0)).or_insert_with_key(|cpu| {
            let mut bundle = Message::default();
            bundle.uint(1, (*cpu).into());
            (bundle, 0)
        });
        bundle.message(2, &event);
        *count += 1;
    }

    /// A bundle that is long enough, or any.
    pub fn take(&mut self, all: bool) -> Option<Message> {
        let cpu = *self.0.iter().find(|(_, (_, count))| all || *count >= EVENTS_MAX)?.0;
        self.0.remove(&cpu).map(|(bundle, _)| bundle)
    }
}

/// The message that Perfetto has for an event, where it can hold all of the record's fields.
fn known(record: &Record<'_>) -> Option<(u32, Message)> {
    let name = record.event.name.rsplit(':').next()?;
    let row = PERFETTO_EVENTS.iter().find(|row| row.names.contains(&name))?;
    let has_lttng_names = !record.event.name.contains(':');
    let mut body = Message::default();
    let mut held = 0;
    for (names, number, how) in row.fields {
        let Some(value) = names.iter().find_map(|name| record.payload.get(name)) else { continue };
        match value {
            Value::Int(value, _) | Value::Enum(value, _) => {
                let value = i128::from(value) + if *how == How::Priority && has_lttng_names { 100 } else { 0 };
                body.int(*number, value as i64);
            }
            Value::Text(text) => body.text(*number, &text),
            _ => return None,
        }
        held += 1;
    }
    (held == record.payload.iter().count()).then_some((row.field, body))
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
