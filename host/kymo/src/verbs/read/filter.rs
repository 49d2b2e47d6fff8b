//! `--filter`: the filter language [spec/filter.md] over the records of traces.
//!
//! A trace's metadata tells the names of fields; their kinds show in the first record of each event. So names are held
//! against the metadata before anything is printed, and kinds when they show.

use kymo_ctf::read::{self, Fields, Trace};
use kymo_filter::{Checked, Context, Event, Field, Filter, Kind, Matcher, OPEN_MAX, Place, Step, Value};

/// All filters of a run.
#[derive(Default)]
pub struct Filters {
    filters: Vec<One>,
    /// By trace: position of its first event among those of all traces.
    first: Vec<usize>,
    /// Events of all traces. Kinds are `Any` where no record was seen.
    events: Vec<Event>,
    seen: Vec<bool>,
    failure: Option<kymo_filter::Error>,
}

struct One {
    filter: Filter,
    matcher: Matcher,
    /// Notes that were shown.
    notes: Vec<kymo_filter::Error>,
}

impl Filters {
    /// Errors: an expression that is none, and names that no trace has.
    pub fn new(traces: &[Trace], texts: &[String]) -> anyhow::Result<Self> {
        if texts.is_empty() {
            return Ok(Self::default());
        }
        let mut all = Self::default();
        for trace in traces {
            all.first.push(all.events.len());
            for event in &trace.metadata.events {
                let fields = trace.metadata.field_names(event);
                let fields = fields.map(|name| Field { name: name.into(), kind: Kind::Any }).collect();
                all.events.push(Event { name: event.name.clone(), fields });
            }
        }
        all.seen = vec![false; all.events.len()];
        for text in texts {
            let filter = kymo_filter::parse(text).map_err(refused)?;
            let checked = filter.check(&all.events).map_err(refused)?;
            let mut one = One { filter, matcher: Matcher::new(checked.clone(), OPEN_MAX), notes: Vec::new() };
            one.show_notes(&checked);
            all.filters.push(one);
        }
        Ok(all)
    }

    /// Whether it matters in which process a record was written.
    pub fn have_threads(&self) -> bool {
        let contexts = [Context::Pid, Context::Tid, Context::Proc];
        self.filters.iter().any(|one| contexts.iter().any(|context| one.filter.uses(*context)))
    }

    /// Whether all filters hold for a record; all records must be given, in the order of time. `is_shown`: whether the
    /// answer matters.
    pub fn matches(&mut self, record: &read::Record<'_>, is_shown: bool) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let event = self.first[record.trace] + record.event_position;
        if !self.seen[event] {
            self.look(event, record);
        }
        let view = View(record);
        let mut holds = true;
        for one in &mut self.filters {
            if is_shown && holds || one.matcher.checked().has_latency() {
                holds &= one.matcher.matches(event, &view);
            }
        }
        holds
    }

    /// Tells that records were lost before the next one.
    pub fn lost(&mut self) {
        self.filters.iter_mut().for_each(|one| one.matcher.lost());
    }

    /// Learns the kinds of an event from its first record, and holds the filters against them.
    fn look(&mut self, event: usize, record: &read::Record<'_>) {
        self.seen[event] = true;
        for (field, (_, value)) in self.events[event].fields.iter_mut().zip(record.payload.iter()) {
            field.kind = kind(&value);
        }
        for one in &mut self.filters {
            if one.matcher.checked().reads_payload(event) {
                match one.filter.check(&self.events) {
                    Ok(checked) => one.show_notes(&checked),
                    Err(error) => self.failure = Some(error),
                }
            }
        }
    }

    /// Whether a filter turned out to make no sense; then reading ends.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The error of a filter that turned out to make no sense, and on standard error what pairs did not find.
    pub fn conclude(&mut self) -> anyhow::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(refused(failure));
        }
        for pair in self.filters.iter().flat_map(|one| one.matcher.pairs()) {
            if pair.counts.dropped > 0 {
                let dropped = pair.counts.dropped;
                eprintln!("kymo: --filter: {dropped} openings of a pair were dropped: more than {OPEN_MAX} were open");
            }
        }
        Ok(())
    }
}

impl One {
    fn show_notes(&mut self, checked: &Checked) {
        for note in checked.notes() {
            if !self.notes.contains(note) {
                eprintln!("kymo: --filter: note:\n{note}");
                self.notes.push(note.clone());
            }
        }
    }
}

fn refused(error: kymo_filter::Error) -> anyhow::Error {
    anyhow::anyhow!("--filter:\n{error}")
}

fn kind(value: &read::Value<'_>) -> Kind {
    match value {
        read::Value::Int(number, _) => Kind::Int { signed: matches!(number, read::Number::Signed(_)), bits: 64 },
        // Which labels there are does not show in a record.
        read::Value::Enum(number, _) => {
            Kind::Enum { signed: matches!(number, read::Number::Signed(_)), bits: 64, labels: None }
        }
        read::Value::Bool(_) => Kind::Bool,
        read::Value::F32(_) => Kind::Float { bits: 32 },
        read::Value::F64(_) => Kind::Float { bits: 64 },
        read::Value::Text(_) => Kind::Text,
        read::Value::Bytes(_) => Kind::Bytes,
        read::Value::Array(elements) => {
            let element = elements.iter().next().map_or(Kind::Any, |element| kind(&element));
            Kind::Array { element: element.into(), count: None }
        }
        // Variants and optional fields inside may differ from record to record.
        read::Value::Struct(_) | read::Value::Absent => Kind::Any,
    }
}

/// A record as filters see it.
struct View<'r, 'a>(&'r read::Record<'a>);

impl kymo_filter::Record for View<'_, '_> {
    fn field(&self, place: &Place) -> Value<'_> {
        let Some(mut value) = self.0.payload.get(&place.name) else { return Value::Absent };
        for step in &place.steps {
            let inner = match (&value, step) {
                (read::Value::Struct(fields), Step::Member(name)) => Fields::get(fields, name),
                (read::Value::Array(elements), Step::Element(index)) => elements.iter().nth(*index as usize),
                _ => None,
            };
            let Some(inner) = inner else { return Value::Absent };
            value = inner;
        }
        seen(value)
    }

    fn context(&self, context: Context) -> Value<'_> {
        let number = |value: Option<u32>| value.map_or(Value::Absent, |value| Value::Int(value.into()));
        match context {
            Context::Time => Value::Int(self.0.ns),
            Context::Cpu => number(self.0.cpu),
            Context::Pid => number(self.0.vpid),
            Context::Tid => number(self.0.vtid),
            Context::Proc if self.0.procname.is_empty() => Value::Absent,
            Context::Proc => Value::Text(self.0.procname.into()),
            Context::Event => Value::Text(self.0.event.name.as_str().into()),
        }
    }
}

fn seen(value: read::Value<'_>) -> Value<'_> {
    match value {
        read::Value::Int(number, _) => Value::Int(number.into()),
        read::Value::Enum(number, label) => Value::Label(number.into(), label),
        read::Value::Bool(value) => Value::Bool(value),
        read::Value::F32(value) => Value::Float(value.into()),
        read::Value::F64(value) => Value::Float(value),
        read::Value::Text(text) => Value::Text(text),
        read::Value::Bytes(bytes) => Value::Bytes(bytes),
        read::Value::Array(elements) => Value::Array(elements.len()),
        read::Value::Struct(_) => Value::Struct,
        read::Value::Absent => Value::Absent,
    }
}
