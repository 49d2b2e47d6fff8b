// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event classes of a text, and its records in them: one class for each event and list of keys, with the widest kind
//! that each key has.

use std::collections::HashMap;

use kymo_ctf::write::{EventClass, Field, FieldClass, Number};
use kymo_ftrace::{Convert, Naming};

use super::super::trace::push_head;
use super::fields::{self, ImportedType};
use super::line::Line;

/// Classes at most; records of further ones keep their event and text.
const CLASSES_MAX: usize = 4096;

/// Id of the class for what has no other.
const OTHER: u16 = 1;

/// A record of the text, or the loss in front of one.
#[derive(Clone, Copy)]
pub struct Sample<'s> {
    pub line: Line<'s>,
    /// Addresses and symbols, innermost first.
    pub chain: &'s [(u64, String)],
    /// Records that were lost there; the record is the next one then.
    pub lost: u64,
    /// About how many bytes of the text end with it.
    pub at: usize,
}

/// All classes.
#[derive(Default)]
pub struct Classes {
    by_key: HashMap<Key, usize>,
    list: Vec<Class>,
    has_other: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    system: String,
    event: String,
    fields: Vec<String>,
    has_period: bool,
    has_chain: bool,
}

struct Class {
    key: Key,
    kinds: Vec<ImportedType>,
    /// Values that are negative cannot be in a field of hexadecimal ones.
    has_negative: Vec<bool>,
}

/// The kernel's systems of events that are printed without, by how the events begin.
const SYSTEMS: [(&str, &str); 34] = [
    ("sched_", "sched"),
    ("irq_handler_", "irq"),
    ("softirq_", "irq"),
    ("tasklet_", "irq"),
    ("hrtimer_", "timer"),
    ("timer_", "timer"),
    ("tick_stop", "timer"),
    ("itimer_", "timer"),
    ("workqueue_", "workqueue"),
    ("block_", "block"),
    ("net_dev_", "net"),
    ("netif_", "net"),
    ("napi_", "napi"),
    ("kfree_skb", "skb"),
    ("consume_skb", "skb"),
    ("mm_page_", "kmem"),
    ("kmalloc", "kmem"),
    ("kfree", "kmem"),
    ("kmem_cache_", "kmem"),
    ("rss_stat", "kmem"),
    ("mm_vmscan_", "vmscan"),
    ("cpu_idle", "power"),
    ("cpu_frequency", "power"),
    ("page_fault_", "exceptions"),
    ("local_timer_", "irq_vectors"),
    ("reschedule_", "irq_vectors"),
    ("call_function_", "irq_vectors"),
    ("irq_work_", "irq_vectors"),
    ("irq_disable", "preemptirq"),
    ("irq_enable", "preemptirq"),
    ("preempt_", "preemptirq"),
    ("signal_", "signal"),
    ("task_", "task"),
    ("kvm_", "kvm"),
];

impl Key {
    fn of(sample: &Sample<'_>, fields: &[(String, &str)]) -> Key {
        let event = sample.line.event;
        let system = sample.line.system.or_else(|| {
            let known = SYSTEMS.iter().find(|(start, _)| event.starts_with(start));
            known.map(|(_, system)| *system)
        });
        let system = match event {
            "sys_enter" | "sys_exit" => "raw_syscalls",
            "print" | "tracing_mark_write" => "ftrace",
            _ => system.unwrap_or(""),
        };
        // A system call's entry and its exit have one name in ftrace's text.
        let is_exit = system == "syscalls" && fields.first().is_some_and(|(name, _)| name == "ret");
        let event = match event.strip_prefix("sys_") {
            Some(call) if system == "syscalls" && !call.starts_with("enter_") && !call.starts_with("exit_") => {
                format!("sys_{}_{call}", if is_exit { "exit" } else { "enter" })
            }
            _ if event == "tracing_mark_write" => "print".to_owned(),
            _ => event.to_owned(),
        };
        Key {
            system: system.to_owned(),
            event,
            fields: fields.iter().map(|(name, _)| name.clone()).collect(),
            has_period: sample.line.period.is_some(),
            has_chain: !sample.chain.is_empty(),
        }
    }

    /// Name in the trace [spec/trace.md 8.2].
    fn name(&self) -> String {
        match (self.system.as_str(), self.event.as_str()) {
            ("", event) => event.to_owned(),
            ("ftrace", event) if event != "print" => format!("ftrace:{event}"),
            ("raw_syscalls", event) => event.to_owned(),
            (system, event) => Naming::Lttng.event(system, event),
        }
    }

    /// Name and conversion of a field.
    fn field(&self, name: &str) -> (String, Convert) {
        let name = match (self.event.as_str(), name) {
            // The kernel prints other names than it records.
            ("sched_process_fork", "comm") => "parent_comm",
            ("sched_process_fork", "pid") => "parent_pid",
            _ => name,
        };
        let plain = || (name.to_owned(), Convert::Plain);
        if self.system.is_empty() || (self.system == "ftrace" && self.event != "print") {
            return plain();
        }
        Naming::Lttng.field(&self.system, name).unwrap_or_else(plain)
    }
}

/// What a sample says beside its chain: of a chain's first frame perf may have put it on the line itself.
fn fields_of<'s>(sample: &Sample<'s>) -> Vec<(String, &'s str)> {
    let is_in_chain = !sample.chain.is_empty() && sample.line.body.ends_with(')');
    if is_in_chain { Vec::new() } else { fields::of(sample.line.event, sample.line.body) }
}

impl Classes {
    /// Sees a record, before any is written.
    pub fn learn(&mut self, sample: &Sample<'_>) {
        if sample.lost > 0 {
            return;
        }
        let values = fields_of(sample);
        let key = Key::of(sample, &values);
        let position = match self.by_key.get(&key) {
            Some(position) => *position,
            None if self.list.len() >= CLASSES_MAX => {
                self.has_other = true;
                return;
            }
            None => {
                let (kinds, has_negative) = (vec![ImportedType::Decimal; values.len()], vec![false; values.len()]);
                self.by_key.insert(key.clone(), self.list.len());
                self.list.push(Class { key, kinds, has_negative });
                self.list.len() - 1
            }
        };
        let class = &mut self.list[position];
        for (at, (_, value)) in values.iter().enumerate() {
            class.kinds[at] = fields::widest(class.kinds[at], fields::kind_of(value));
            class.has_negative[at] |= value.starts_with('-');
        }
    }

    /// Appends a record.
    pub fn record(&self, sample: &Sample<'_>, out: &mut Vec<u8>) {
        let values = fields_of(sample);
        let position = self.by_key.get(&Key::of(sample, &values)).copied();
        let id = position.map_or(OTHER, id_of);
        let line = &sample.line;
        push_head(out, id, line.time, line.tid, line.flags, line.preempt_count);
        let Some(position) = position else {
            push_text(out, line.event);
            return push_text(out, line.body);
        };
        let class = &self.list[position];
        for (at, (name, value)) in values.iter().enumerate() {
            let is_priority = class.key.field(name).1 == Convert::Priority;
            match class.kind(at) {
                ImportedType::Text => push_text(out, value),
                ImportedType::Hex => {
                    let number = fields::hex(value).or_else(|| value.parse().ok()).unwrap_or(0);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                ImportedType::Decimal => {
                    let number: i64 = value.parse().unwrap_or(0);
                    let number = number.wrapping_sub(if is_priority { 100 } else { 0 });
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
        if let Some(period) = line.period {
            out.extend_from_slice(&period.to_le_bytes());
        }
        if !sample.chain.is_empty() {
            out.extend_from_slice(&(sample.chain.len().min(u16::MAX.into()) as u16).to_le_bytes());
            sample.chain.iter().for_each(|(address, _)| out.extend_from_slice(&address.to_le_bytes()));
            let names: Vec<&str> = sample.chain.iter().map(|(_, name)| name.as_str()).collect();
            push_text(out, &names.join(";"));
        }
    }

    /// The classes, for the metadata.
    pub fn events(&self) -> Vec<EventClass> {
        let text = |name: &str| Field { name: name.to_owned(), class: FieldClass::CString };
        let event = |id, name, fields| EventClass { id, name, file: String::new(), line: 0, fields };
        let mut events: Vec<EventClass> = self
            .list
            .iter()
            .enumerate()
            .map(|(at, class)| event(id_of(at), class.key.name(), class.fields()))
            .collect();
        if self.has_other {
            events.push(event(OTHER, "import_other".to_owned(), vec![text("event"), text("text")]));
        }
        events
    }
}

/// There are fewer than [`CLASSES_MAX`].
fn id_of(position: usize) -> u16 {
    position as u16 + OTHER + 1
}

impl Class {
    fn kind(&self, at: usize) -> ImportedType {
        if self.kinds[at] == ImportedType::Hex && self.has_negative[at] { ImportedType::Text } else { self.kinds[at] }
    }

    fn fields(&self) -> Vec<Field> {
        let field = |(at, name): (usize, &String)| {
            let class = match self.kind(at) {
                ImportedType::Decimal => FieldClass::Number(Number::signed(64)),
                ImportedType::Hex => FieldClass::Number(Number::hex(64)),
                ImportedType::Text => FieldClass::CString,
            };
            Field { name: self.key.field(name).0, class }
        };
        let mut fields: Vec<Field> = self.key.fields.iter().enumerate().map(field).collect();
        if self.key.has_period {
            fields.push(Field { name: "period".to_owned(), class: FieldClass::Number(Number::unsigned(64)) });
        }
        if self.key.has_chain {
            fields.push(Field { name: "callstack".to_owned(), class: FieldClass::Seq { element: Number::hex(64) } });
            fields.push(Field { name: "frames".to_owned(), class: FieldClass::CString });
        }
        fields
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
    out.push(0);
}
