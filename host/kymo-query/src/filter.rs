// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--filter`: the filter language [spec/filter.md] over the records of traces.
//!
//! A trace's metadata tells names and kinds of fields, so an expression that makes no sense is refused before anything
//! is printed.

use kymo_analyze::State;
use kymo_ctf::read::{self, FieldInfo, FieldKind, Fields, Loss, Trace};
use kymo_filter::{
    Context, Event, Field, FieldPath, Filter, Label, Matcher, OPEN_MAX, PathStep, Value, ValueType, context_field,
};

use crate::error::Refused;
use crate::machines::{Machines, Now};

/// All filters of a run or a question.
#[derive(Default)]
pub struct Filters {
    filters: Vec<One>,
    /// By trace: position of its first event among those of all traces.
    first: Vec<usize>,
    /// The machines' states, where a filter asks for them.
    machines: Option<Machines>,
}

struct One {
    filter: Filter,
    matcher: Matcher,
}

impl Filters {
    /// Errors: an expression that is none, and names that no trace has.
    pub fn new(traces: &[Trace], texts: &[String]) -> Result<Self, Refused> {
        Self::beside(traces, std::iter::empty(), texts)
    }

    /// The same, where names that only other traces have are fine: records of `traces` do not have them.
    ///
    /// # Errors
    /// An expression that is none, and names that neither has.
    pub fn beside<'t>(
        traces: &[Trace],
        others: impl Iterator<Item = &'t Trace>,
        texts: &[String],
    ) -> Result<Self, Refused> {
        if texts.is_empty() {
            return Ok(Self::default());
        }
        let (mut all, mut events) = (Self::default(), Vec::new());
        for trace in traces {
            all.first.push(events.len());
            events.extend(events_of(trace));
        }
        events.extend(others.flat_map(events_of));
        for text in texts {
            let filter = kymo_filter::parse_of_trace(text).map_err(Refused::filter)?;
            let checked = filter.check(&events).map_err(Refused::filter)?;
            all.filters.push(One { filter, matcher: Matcher::new(checked, OPEN_MAX) });
        }
        all.machines = all.filters.iter().any(|one| one.filter.uses_state()).then(|| Machines::new(traces));
        Ok(all)
    }

    /// Whether the machine's state in front of the first record matters; see [`Filters::begin`].
    pub fn have_state(&self) -> bool {
        self.machines.is_some()
    }

    /// Begins with the state in front of the first record that comes.
    pub fn begin(&mut self, state: &State) {
        self.machines.iter_mut().for_each(|machines| machines.begin(state));
    }

    /// There are none: all records are wanted.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
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
        let view = View { record, now: self.machines.as_ref().and_then(|machines| machines.now(record)) };
        let mut holds = true;
        for one in &mut self.filters {
            if is_shown && holds || one.matcher.checked().has_latency() {
                holds &= one.matcher.matches(event, &view);
            }
        }
        self.machines.iter_mut().for_each(|machines| machines.record(record));
        holds
    }

    /// Tells that records were lost before the next one.
    pub fn lost(&mut self, loss: &Loss<'_>) {
        self.filters.iter_mut().for_each(|one| one.matcher.lost());
        self.machines.iter_mut().for_each(|machines| machines.lost(loss));
    }

    /// What is odd about the expressions themselves, for the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.filters.iter().flat_map(|one| one.matcher.checked().notes()) {
            let text = format!("note:\n{note}");
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
        notes
    }

    /// What pairs did not find, for the user.
    pub fn conclude(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for pair in self.filters.iter().flat_map(|one| one.matcher.pairs()) {
            let counts = pair.counts();
            if counts.dropped > 0 {
                let dropped = counts.dropped;
                lines.push(format!("{dropped} begins of a pair were dropped: more than {OPEN_MAX} were open"));
            }
            if counts.without_key > 0 {
                let count = counts.without_key;
                lines.push(format!("{count} records of a pair are in none: the trace does not have their key"));
            }
        }
        lines
    }
}

/// The events of a trace, as filters see them, in its order.
pub fn events_of(trace: &Trace) -> Vec<Event> {
    let event = |(position, event): (usize, &read::EventClass)| {
        let mut fields = fields(trace.metadata.fields(event));
        let contexts = [trace.metadata.contexts(position), trace.metadata.own_contexts(position)].concat();
        // The others are the record's CPU, process, thread and program.
        let others = self::fields(contexts).into_iter().filter(|context| Context::by_name(&context.name).is_none());
        fields.extend(others.map(|Field { name, kind }| Field { name: context_field(&name), kind }));
        Event { name: event.name.clone(), fields }
    };
    trace.metadata.events.iter().enumerate().map(event).collect()
}

/// Fields without lengths, which filters do not see.
fn fields(infos: Vec<FieldInfo<'_>>) -> Vec<Field> {
    let shown = infos.into_iter().filter(|info| !info.is_length);
    shown.map(|info| Field { name: info.name.into(), kind: kind(info.kind) }).collect()
}

fn kind(kind: FieldKind<'_>) -> ValueType {
    match kind {
        FieldKind::Int { signed, bits, .. } => ValueType::Int { signed, bits },
        FieldKind::Enum { signed, bits, labels } => {
            let label = |(name, low, high): (&str, i128, i128)| Label { name: name.into(), low, high };
            ValueType::Enum { signed, bits, labels: Some(labels.into_iter().map(label).collect()) }
        }
        // Filters calculate with 128 bits and a sign.
        FieldKind::Wide { signed, bits, .. } => match u8::try_from(bits) {
            Ok(bits) if bits < 128 || bits == 128 && signed => ValueType::Int { signed, bits },
            _ => ValueType::Wide { bits },
        },
        FieldKind::Bool => ValueType::Bool,
        FieldKind::Float { bits } => ValueType::Float { bits },
        FieldKind::Text => ValueType::Text,
        FieldKind::Bytes => ValueType::Bytes,
        FieldKind::Array { element, count } => {
            let count = count.and_then(|count| u32::try_from(count).ok());
            ValueType::Array { element: self::kind(*element).into(), count }
        }
        FieldKind::Struct(inner) => ValueType::Struct(fields(inner)),
        FieldKind::Varying => ValueType::Any,
    }
}

/// A record as filters see it.
pub struct View<'r, 'a> {
    /// The record; its thread is the one that is to be seen.
    pub record: &'r read::Record<'a>,
    /// The state of its machine, where that is asked for.
    pub now: Option<Now<'r>>,
}

impl kymo_filter::Record for View<'_, '_> {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        let found = match place.name.strip_prefix('$') {
            Some(context) => self.record.common_context.get(context).or_else(|| self.record.context.get(context)),
            None => self.record.payload.get(&place.name),
        };
        let Some(mut value) = found else { return Value::Absent };
        for step in &place.steps {
            let inner = match (&value, step) {
                (read::Value::Struct(fields), PathStep::Member(name)) => Fields::get(fields, name),
                (read::Value::Array(elements), PathStep::Element(index)) => elements.iter().nth(*index as usize),
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
            Context::Time => Value::Int(self.record.ns),
            Context::Cpu => number(self.record.cpu),
            Context::Pid => number(self.record.vpid),
            Context::Tid => number(self.record.vtid),
            Context::Proc if self.record.procname.is_empty() => Value::Absent,
            Context::Proc => Value::Text(self.record.procname.into()),
            Context::Event => Value::Text(self.record.event.name.as_str().into()),
            _ => self.now.as_ref().map_or(Value::Absent, |now| now.value(context)),
        }
    }
}

fn seen(value: read::Value<'_>) -> Value<'_> {
    match value {
        read::Value::Int(number, _) => Value::Int(number.into()),
        read::Value::Enum(number, labels) => Value::Label(number.into(), labels.first()),
        read::Value::Wide(number) => Value::Int(number.saturated()),
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
