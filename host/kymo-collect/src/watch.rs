//! Triggers [spec/flight.md 3]: looks into the records that came since the last poll, and says when one is what was waited for.
//!
//! The only place of the collector that decodes records of programs; they are copies, and everything in them is checked.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use kymo_abi::desc::EventDesc;
use kymo_abi::desc::shape::{Fields, Raw, Shape, number};
use kymo_abi::ring::Span;
use kymo_ctf::write::{EventClass, FieldClass, Number};
use kymo_filter::{Context, Event, Field, Filter, Kind, Label, Matcher, OPEN_MAX, Place, Record, Step, Value};

use crate::clock::extend;

/// Event by which a program asks for a snapshot.
pub(crate) const REQUEST: &str = "kymo:snapshot";
/// Bytes in front of a payload: header and thread.
const HEAD_BYTES: usize = 12;
/// What has fired and was not dealt with yet; more is dropped, because the limits would drop it too.
pub(crate) const FIRED_MAX: usize = 64;

/// What is done when a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A snapshot into a new directory below that of the session.
    Snapshot,
    /// The session ends.
    Stop,
    /// A mark with the reason.
    Mark,
    /// A command of the shell, with the reason in KYMO_REASON and the newest snapshot in KYMO_SNAPSHOT.
    Run(String),
}

/// What a session watches for, and what then.
#[derive(Clone, Debug)]
pub struct Triggers {
    /// Conditions, each with its text. `kymo_snapshot` of a program is one without being named.
    pub conditions: Vec<Filter>,
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// How much of the past a snapshot has; all where nothing is said.
    pub before: Option<Duration>,
    /// How long a snapshot waits.
    pub after: Duration,
    /// Times that the actions are done.
    pub limit: u64,
    /// Between two times.
    pub pause: Duration,
}

impl Default for Triggers {
    fn default() -> Triggers {
        Triggers {
            conditions: Vec::new(),
            actions: vec![Action::Snapshot],
            before: None,
            after: Duration::ZERO,
            limit: 10,
            pause: Duration::from_secs(1),
        }
    }
}

/// A trigger fired.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    /// What was seen.
    pub reason: String,
    /// Clock value of the record.
    pub record: u64,
    /// Clock value when it was seen.
    pub seen: u64,
}

/// What is known of a lane besides its records.
pub(crate) struct Origin<'a> {
    pub cpu: Option<u32>,
    pub vpid: u32,
    pub procname: &'a str,
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
    /// By id - 1.
    events: Vec<Event>,
    shapes: Vec<Option<Shape>>,
    request_ids: Vec<u16>,
    fired: SyncSender<Fired>,
    /// Clock: cycles per second, and nanoseconds of cycle 0 since 1970.
    frequency_hz: u64,
    origin_ns: i128,
    /// Records that were overwritten before they could be looked at.
    pub unseen: u64,
}

impl Watch {
    pub(crate) fn new(conditions: &[Filter], fired: SyncSender<Fired>, frequency_hz: u64, origin_ns: i128) -> Watch {
        let condition = |filter: &Filter| Condition { filter: filter.clone(), text: filter.to_string(), matcher: None };
        let conditions = conditions.iter().map(condition).collect();
        Watch {
            conditions,
            events: Vec::new(),
            shapes: Vec::new(),
            request_ids: Vec::new(),
            fired,
            frequency_hz,
            origin_ns,
            unseen: 0,
        }
    }

    /// An event was given an id; ids come in their order. Triggers that did not fit the events so far may fit now.
    pub(crate) fn learn(&mut self, class: &EventClass, desc: &EventDesc) {
        self.shapes.push(Shape::new(desc));
        if class.name == REQUEST {
            self.request_ids.push(class.id);
        }
        self.events.push(event(class));
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

    /// Finds the records in `bytes` (whole records of one lane, the oldest first) that are not younger than `until`, and notes
    /// them under `lane`. Returns bytes and records that were taken; what is younger comes with the next poll.
    pub(crate) fn index(&self, bytes: &[u8], lane: usize, (now, until): (u64, u64), found: &mut Vec<Found>) -> Span {
        let mut span = Span::default();
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
            let word = u64::from_le_bytes(head[..8].try_into().unwrap_or_default());
            let time = extend(word >> 16, now);
            let shape = self.shapes.get(usize::from(word as u16).wrapping_sub(1)).and_then(Option::as_ref);
            let Some(fields) = shape.and_then(|shape| shape.fields(&bytes[at + HEAD_BYTES..])) else { break };
            if time > until {
                break;
            }
            found.push(Found { time, lane, at });
            at += HEAD_BYTES + fields.bytes;
            span = Span { bytes: at as u32, records: span.records + 1 };
        }
        span
    }

    /// Asks each trigger of one record, which lies at the begin of `bytes`. Records are given in the order of time.
    pub(crate) fn look(&mut self, bytes: &[u8], time: u64, origin: &Origin<'_>, now: u64) {
        let Some(head) = bytes.get(..HEAD_BYTES) else { return };
        let id = u16::from_le_bytes([head[0], head[1]]);
        let tid = u32::from_le_bytes(head[8..].try_into().unwrap_or_default());
        let event = usize::from(id).wrapping_sub(1);
        let Some(shape) = self.shapes.get(event).and_then(Option::as_ref) else { return };
        let Some(fields) = shape.fields(&bytes[HEAD_BYTES..]) else { return };
        let ns = self.origin_ns + i128::from(time) * 1_000_000_000 / i128::from(self.frequency_hz.max(1));
        let seen = Seen { fields: &fields, event: &self.events[event], ns, tid, origin };
        if self.request_ids.contains(&id) {
            let why = match fields.get(0) {
                Some(Raw::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            report(&self.fired, format!("{}[{}] asked: {why}", origin.procname, origin.vpid), time, now);
        }
        for Condition { text, matcher, .. } in &mut self.conditions {
            if matcher.as_mut().is_some_and(|matcher| matcher.matches(event, &seen)) {
                let who = format!("{}[{}/{tid}]", origin.procname, origin.vpid);
                report(&self.fired, format!("{text}: {} of {who}", seen.event.name), time, now);
            }
        }
    }
}

/// A record that came since the last poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Clock value.
    pub time: u64,
    /// Position in the list of lanes of this poll.
    pub lane: usize,
    /// Offset in the lane's bytes.
    pub at: usize,
}

fn report(fired: &SyncSender<Fired>, reason: String, record: u64, seen: u64) {
    match fired.try_send(Fired { reason, record, seen }) {
        Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
    }
}

/// A record as a filter sees it.
struct Seen<'a> {
    fields: &'a Fields<'a>,
    event: &'a Event,
    ns: i128,
    tid: u32,
    origin: &'a Origin<'a>,
}

impl Record for Seen<'_> {
    fn field(&self, place: &Place) -> Value<'_> {
        let Some(raw) = self.fields.get(place.field) else { return Value::Absent };
        match (raw, &place.steps[..]) {
            (Raw::Array(scalar, bytes), [Step::Element(index)]) => {
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
        }
    }
}

impl Seen<'_> {
    fn value<'a>(&'a self, raw: Raw<'a>, place: &Place) -> Value<'a> {
        match raw {
            Raw::Int(value) => match self.event.fields.get(place.field).map(|field| &field.kind) {
                Some(Kind::Enum { labels: Some(labels), .. }) => {
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

/// An event, as filters know it.
pub(crate) fn event(class: &EventClass) -> Event {
    let fields = class.fields.iter().map(|field| Field { name: field.name.clone(), kind: kind(&field.class) });
    Event { name: class.name.clone(), fields: fields.collect() }
}

/// The kind of a field, as filters know it.
fn kind(class: &FieldClass) -> Kind {
    match class {
        FieldClass::Number(number) => kind_of(*number),
        FieldClass::Enum { number, labels } => {
            let Number::Int { bits, signed, .. } = *number else { return kind_of(*number) };
            let label = |(name, value): &(String, i64)| Label {
                name: name.clone(),
                low: (*value).into(),
                high: (*value).into(),
            };
            Kind::Enum { signed, bits, labels: Some(Arc::from_iter(labels.iter().map(label))) }
        }
        FieldClass::Text | FieldClass::CString | FieldClass::Chars { .. } => Kind::Text,
        FieldClass::Blob => Kind::Bytes,
        FieldClass::Array { element, count } => {
            Kind::Array { element: Box::new(kind_of(*element)), count: Some(*count) }
        }
        FieldClass::Seq { element } => Kind::Array { element: Box::new(kind_of(*element)), count: None },
    }
}

fn kind_of(number: Number) -> Kind {
    match number {
        Number::Int { bits, signed, .. } => Kind::Int { signed, bits },
        Number::Float { bits } => Kind::Float { bits },
        Number::Bool => Kind::Bool,
    }
}
