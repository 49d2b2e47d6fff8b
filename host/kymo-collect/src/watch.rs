// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers [spec/flight.md 3]: looks into the records that came since the last poll, and says when one is what was
//! waited for.
//!
//! The only place of the collector that decodes records of programs; they are copies, and everything in them is
//! checked. Records of the kernel are asked about in the form that they have in a trace.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, TrySendError};

use kymo_abi::desc::EventDesc;
use kymo_abi::desc::shape::{Fields, Raw, Shape, number};
use kymo_abi::ring::Span;
use kymo_ctf::write::{EventClass, FieldClass};
use kymo_filter::{Context, Event, Field, FieldPath, Filter, Matcher, OPEN_MAX, PathStep, Record, Value, ValueType};

use crate::clock::extend;
use crate::compact::{Cut, RecordHead};
use crate::condition_fields::event;
use crate::context::Contexts;
use crate::kernel::{ThreadNames, payload};
use crate::trigger::Fired;

/// Event by which a program asks for a snapshot.
pub(crate) const REQUEST: &str = "kymo:snapshot";
/// What has fired and was not dealt with yet; more is dropped, because the limits would drop it too.
pub(crate) const FIRED_MAX: usize = 64;

/// What is known of a lane besides its records.
pub(crate) struct Origin<'a> {
    pub cpu: Option<u32>,
    pub vpid: u32,
    pub procname: &'a str,
}

/// The clock of records, as conditions see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionClock {
    /// Cycles per second.
    pub frequency_hz: u64,
    /// Nanoseconds of cycle 0 since 1970.
    pub origin_ns: i128,
}

/// When a record was written, and when it was looked at.
#[derive(Clone, Copy)]
struct LookTimes {
    record: u64,
    seen: u64,
}

/// One condition, and what it became for the events so far.
#[derive(Debug)]
struct Condition {
    filter: Filter,
    /// As it was written.
    text: String,
    matcher: Option<Matcher>,
}

/// The state of all triggers.
#[derive(Debug)]
pub(crate) struct Watch {
    conditions: Vec<Condition>,
    events: Vec<Event>,
    /// Programs' events by id - 1: position in `events`, and shape.
    of_programs: Vec<(usize, Option<Shape>)>,
    /// The kernel's by its id: position in `events`, and classes of the fields.
    of_kernel: HashMap<u16, (usize, Vec<FieldClass>)>,
    threads: ThreadNames,
    /// What stands in front of every payload of programs.
    contexts: Shape,
    context_fields: Vec<Field>,
    request_ids: Vec<u16>,
    fired: SyncSender<Fired>,
    clock: ConditionClock,
    /// Records that were overwritten before they could be looked at.
    pub unseen: u64,
}

impl Watch {
    pub(crate) fn new(
        conditions: &[Filter],
        contexts: &Contexts,
        fired: SyncSender<Fired>,
        clock: ConditionClock,
    ) -> Watch {
        let condition = |filter: &Filter| Condition { filter: filter.clone(), text: filter.to_string(), matcher: None };
        let conditions = conditions.iter().map(condition).collect();
        Watch {
            conditions,
            events: Vec::new(),
            of_programs: Vec::new(),
            of_kernel: HashMap::new(),
            threads: ThreadNames::new(),
            contexts: contexts.shape(),
            context_fields: contexts.filter_fields().collect(),
            request_ids: Vec::new(),
            fired,
            clock,
            unseen: 0,
        }
    }

    /// An event was given an id; ids come in their order. Triggers that did not fit the events so far may fit now.
    pub(crate) fn learn(&mut self, class: &EventClass, desc: &EventDesc) {
        self.of_programs.push((self.events.len(), Shape::new(desc)));
        if class.name == REQUEST {
            self.request_ids.push(class.id);
        }
        let mut event = event(class);
        event.fields.extend(self.context_fields.iter().cloned());
        self.events.push(event);
        self.fit();
    }

    /// The events of the kernel that are watched; before any of programs.
    pub(crate) fn learn_kernel<'c>(&mut self, classes: impl Iterator<Item = &'c EventClass>) {
        for class in classes {
            let fields = class.fields.iter().map(|field| field.class.clone()).collect();
            self.of_kernel.insert(class.id, (self.events.len(), fields));
            self.events.push(event(class));
        }
        self.fit();
    }

    fn fit(&mut self) {
        for condition in &mut self.conditions {
            if let Ok(checked) = condition.filter.check(&self.events) {
                condition.text = checked.text().to_owned();
                condition.matcher = Some(Matcher::new(checked, OPEN_MAX));
            }
        }
    }

    /// Conditions that no event so far fits, with what is wrong: for the summary.
    pub(crate) fn unfit(&self) -> Vec<String> {
        let open = self.conditions.iter().filter(|condition| condition.matcher.is_none());
        open.filter_map(|condition| condition.filter.check(&self.events).err()).map(|error| error.to_string()).collect()
    }

    /// Finds the records in `bytes` (whole records of one lane, the oldest first) that are not younger than `until`,
    /// and notes them under `lane`. Returns bytes and records that were taken; what is younger comes with the next
    /// poll. `cut`: in front of them, where records are compact; it moves on behind what was taken.
    pub(crate) fn index(
        &self,
        bytes: &[u8],
        lane: usize,
        cut: &mut Option<Cut>,
        now: u64,
        until: u64,
        found: &mut Vec<ConditionRecord>,
    ) -> Span {
        let mut span = Span::default();
        let mut at = 0;
        let mut next = *cut;
        while let Some(head) = RecordHead::at(&bytes[at..], &mut next) {
            let time = extend(head.time, now);
            let known = self.of_programs.get(usize::from(head.id).wrapping_sub(1));
            let shape = known.and_then(|(_, shape)| shape.as_ref());
            let begin = at + head.bytes;
            let Some(contexts) = self.contexts.fields(&bytes[begin..]) else { break };
            let payload = begin + contexts.bytes;
            let Some(fields) = shape.and_then(|shape| shape.fields(&bytes[payload..])) else { break };
            if time > until {
                break;
            }
            found.push(ConditionRecord { time, lane, id: head.id, tid: head.thread, at: begin });
            at = payload + fields.bytes;
            *cut = next;
            span = Span { bytes: at as u32, records: span.records + 1 };
        }
        span
    }

    /// Asks each trigger of one record, whose contexts lie at the begin of `bytes`. Records are given in the order of
    /// time.
    pub(crate) fn look(&mut self, bytes: &[u8], of: &ConditionRecord, origin: &Origin<'_>, now: u64) {
        let ConditionRecord { time, id, tid, .. } = *of;
        let Some((event, Some(shape))) = self.of_programs.get(usize::from(id).wrapping_sub(1)) else { return };
        let event = *event;
        let Some(contexts) = self.contexts.fields(bytes) else { return };
        let Some(fields) = shape.fields(&bytes[contexts.bytes..]) else { return };
        let named =
            |name: &str| self.context_fields.iter().position(|field| field.name.trim_start_matches('$') == name);
        let own_vpid = match named("vpid").and_then(|at| contexts.get(at)) {
            Some(Raw::Int(vpid)) => u32::try_from(vpid).unwrap_or(origin.vpid),
            _ => origin.vpid,
        };
        let own_name = match named("procname").and_then(|at| contexts.get(at)) {
            Some(Raw::Array(_, name)) => String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(),
            _ => origin.procname.to_owned(),
        };
        let origin = &Origin { cpu: origin.cpu, vpid: own_vpid, procname: &own_name };
        let ns = self.ns(time);
        let seen = WatchedRecord { fields: &fields, contexts: &contexts, event: &self.events[event], ns, tid, origin };
        if self.request_ids.contains(&id) {
            let why = match fields.get(0) {
                Some(Raw::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            report(
                &self.fired,
                format!("{}[{}] asked: {why}", origin.procname, origin.vpid),
                LookTimes { record: time, seen: now },
            );
        }
        let who = || format!("{}[{}/{tid}]", origin.procname, origin.vpid);
        ask(
            &mut self.conditions,
            &self.fired,
            event,
            &seen.event.name,
            &seen,
            &who,
            LookTimes { record: time, seen: now },
        );
    }

    /// Bytes of the kernel record at the begin of `bytes`; `None` where it is of no event that is watched, or does not
    /// fit in.
    pub(crate) fn kernel_record_bytes(&self, bytes: &[u8]) -> Option<usize> {
        let (_, classes) = self.of_kernel.get(&u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?))?;
        payload::record_bytes(classes, bytes)
    }

    /// Asks each trigger of one record of the kernel. Records are given in the order of time.
    pub(crate) fn look_kernel(&mut self, bytes: &[u8], time: u64, cpu: u32, now: u64) {
        let Some(id) = bytes.get(..2).map(|id| u16::from_le_bytes([id[0], id[1]])) else { return };
        let Some((event, classes)) = self.of_kernel.get(&id) else { return };
        let (event, ns, threads) = (*event, self.ns(time), &self.threads);
        let seen = KernelSeen { classes, bytes, event: &self.events[event], ns, cpu, threads };
        let who = || seen.who();
        ask(
            &mut self.conditions,
            &self.fired,
            event,
            &seen.event.name,
            &seen,
            &who,
            LookTimes { record: time, seen: now },
        );
    }

    /// Kernel records were lost in front of the next one.
    pub(crate) fn lost(&mut self) {
        self.conditions.iter_mut().filter_map(|condition| condition.matcher.as_mut()).for_each(Matcher::lost);
    }

    fn ns(&self, time: u64) -> i128 {
        let ConditionClock { frequency_hz, origin_ns } = self.clock;
        origin_ns + i128::from(time) * 1_000_000_000 / i128::from(frequency_hz.max(1))
    }
}

/// Asks each condition of a record of the event at a position, with its name; `who` says whose it is.
fn ask<R: Record>(
    conditions: &mut [Condition],
    fired: &SyncSender<Fired>,
    event: usize,
    name: &str,
    record: &R,
    who: &dyn Fn() -> String,
    times: LookTimes,
) {
    for Condition { text, matcher, .. } in conditions {
        let Some(matcher) = matcher.as_mut() else { continue };
        if matcher.matches(event, record) {
            let after = matcher.latency_ns().map_or_else(String::new, |ns| format!(", {:.3} ms", ns as f64 / 1e6));
            report(fired, format!("{text}: {name} of {}{after}", who()), times);
        }
    }
}

/// A record that came since the last poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionRecord {
    /// Clock value.
    pub time: u64,
    /// Position in the list of lanes of this poll.
    pub lane: usize,
    /// Of its event, and its thread.
    pub id: u16,
    pub tid: u32,
    /// Offset of its contexts in the lane's bytes.
    pub at: usize,
}

fn report(fired: &SyncSender<Fired>, reason: String, LookTimes { record, seen }: LookTimes) {
    match fired.try_send(Fired { reason, record, seen }) {
        Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
    }
}

/// A record of the kernel as a filter sees it.
struct KernelSeen<'a> {
    classes: &'a [FieldClass],
    bytes: &'a [u8],
    event: &'a Event,
    ns: i128,
    cpu: u32,
    threads: &'a ThreadNames,
}

impl KernelSeen<'_> {
    fn tid(&self) -> u32 {
        payload::thread(self.bytes)
    }

    fn named(&self, name: &str) -> Option<Value<'_>> {
        let index = self.event.fields.iter().position(|field| field.name == name)?;
        Some(payload::value(self.classes, self.bytes, index, None))
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.named(name)? {
            Value::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// The name of the thread that wrote it: a switch tells it.
    fn thread_name(&self) -> Option<String> {
        self.text("prev_comm").or_else(|| self.threads.of(self.tid()))
    }

    /// The thread and its CPU; of a switch also who runs now.
    fn who(&self) -> String {
        let name = self.thread_name().unwrap_or_else(|| "?".to_owned());
        let next = self.named("next_tid").or_else(|| self.named("next_pid"));
        let to = match (self.text("next_comm"), next) {
            (Some(name), Some(Value::Int(tid))) => format!(" to {name}[{tid}]"),
            _ => String::new(),
        };
        format!("{name}[{}]{to} on CPU {}", self.tid(), self.cpu)
    }
}

impl Record for KernelSeen<'_> {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        match &place.steps[..] {
            [] => payload::value(self.classes, self.bytes, place.field, None),
            [PathStep::Element(index)] => payload::value(self.classes, self.bytes, place.field, Some(*index)),
            _ => Value::Absent,
        }
    }

    fn context(&self, context: Context) -> Value<'_> {
        match context {
            Context::Time => Value::Int(self.ns),
            Context::Cpu => Value::Int(self.cpu.into()),
            // The kernel's records do not tell processes.
            Context::Pid => Value::Absent,
            Context::Tid => Value::Int(self.tid().into()),
            Context::Proc => self.thread_name().map_or(Value::Absent, |name| Value::Text(name.into())),
            Context::Event => Value::Text(self.event.name.as_str().into()),
            // Refused before: `Filter::check_without_state`.
            _ => Value::Absent,
        }
    }
}

/// A record as a filter sees it.
struct WatchedRecord<'a> {
    fields: &'a Fields<'a>,
    /// As fields, they come behind those.
    contexts: &'a Fields<'a>,
    event: &'a Event,
    ns: i128,
    tid: u32,
    origin: &'a Origin<'a>,
}

impl Record for WatchedRecord<'_> {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        let of_payload = self.fields.len();
        let raw = match place.field.checked_sub(of_payload) {
            None => self.fields.get(place.field),
            Some(context) => self.contexts.get(context),
        };
        let Some(raw) = raw else { return Value::Absent };
        match (raw, &place.steps[..]) {
            (Raw::Array(scalar, bytes), [PathStep::Element(index)]) => {
                let size = scalar.bytes() as usize;
                let from = (*index as usize).saturating_mul(size);
                bytes
                    .get(from..)
                    .and_then(|bytes| number(scalar, bytes))
                    .map_or(Value::Absent, |raw| self.value(raw, place))
            }
            (raw, []) => self.value(raw, place),
            _ => Value::Absent,
        }
    }

    fn context(&self, context: Context) -> Value<'_> {
        match context {
            Context::Time => Value::Int(self.ns),
            Context::Cpu => self.origin.cpu.map_or(Value::Absent, |cpu| Value::Int(cpu.into())),
            Context::Pid => Value::Int(self.origin.vpid.into()),
            Context::Tid => Value::Int(self.tid.into()),
            Context::Proc => Value::Text(self.origin.procname.into()),
            Context::Event => Value::Text(self.event.name.as_str().into()),
            // Refused before: `Filter::check_without_state`.
            _ => Value::Absent,
        }
    }
}

impl WatchedRecord<'_> {
    fn value<'a>(&'a self, raw: Raw<'a>, place: &FieldPath) -> Value<'a> {
        match raw {
            Raw::Int(value) => match self.event.fields.get(place.field).map(|field| &field.kind) {
                Some(ValueType::Enum { labels: Some(labels), .. }) => {
                    let label = labels.iter().find(|label| label.low <= value && value <= label.high);
                    Value::Label(value, label.map(|label| label.name.as_str()))
                }
                _ => Value::Int(value),
            },
            Raw::Float(value) => Value::Float(value),
            Raw::Bool(value) => Value::Bool(value),
            Raw::Text(text) => Value::Text(String::from_utf8_lossy(text)),
            Raw::Bytes(bytes) => Value::Bytes(bytes),
            Raw::Array(scalar, bytes) => Value::Array(bytes.len() / scalar.bytes().max(1) as usize),
        }
    }
}
