// SPDX-License-Identifier: MIT OR Apache-2.0
//! A numeric field or context over time [spec/view.md 4.9]: minimum and maximum of each bin, so that no peak vanishes.

pub(super) mod index;

use kymo_analyze::{Class, Field, Record as _, Sink, State, ValueKind};
use kymo_ctf::read::{FieldKind, Value};
use kymo_feed::{Payload, Seen, Visit};
use kymo_index::{DamagedFields, FieldValue, ValueSums};

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::questions::begun::begin;
use crate::questions::latencies::bins;
use crate::questions::values::index::indexed;
use crate::walk::{Few, Gather, LOSSES_MAX, LossLog, Stop, Walk};

/// Where a value is in the records of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// An integer of the payload, by its position.
    Integer(usize),
    /// A floating-point number of the payload.
    Float(usize),
    /// A number in front of the payload of all events of a stream.
    Context(usize),
    /// The same of this event alone.
    OwnContext(usize),
}

impl Place {
    fn value(self, seen: &Seen<'_, '_>) -> Option<FieldValue> {
        let payload = Payload(seen.record.payload);
        match self {
            Place::Integer(position) => payload.integer(position).map(FieldValue::Integer),
            Place::Float(position) => payload.float(position).map(FieldValue::Float),
            Place::Context(position) => seen.record.common_context.at(position).as_ref().and_then(number),
            Place::OwnContext(position) => seen.record.context.at(position).as_ref().and_then(number),
        }
    }
}

fn number(value: &Value<'_>) -> Option<FieldValue> {
    match value {
        Value::Int(number, _) | Value::Enum(number, _) => Some(FieldValue::Integer((*number).into())),
        Value::F32(number) => Some(FieldValue::Float((*number).into())),
        Value::F64(number) => Some(FieldValue::Float(*number)),
        _ => None,
    }
}

struct FieldValues {
    bins: Pixels,
    /// By class.
    places: Vec<Option<Place>>,
    values: Vec<ValueSums>,
}

impl FieldValues {
    /// The records that have the field.
    fn few(&self) -> Few {
        Few::by_fields(self.places.iter().map(Option::is_some).collect())
    }
}

impl Sink for FieldValues {}

impl Visit for FieldValues {
    fn looks_at(&self, class: usize) -> bool {
        self.places.get(class).is_some_and(Option::is_some)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        let Some(place) = self.places.get(seen.class).copied().flatten() else { return };
        if !seen.is_selected {
            return;
        }
        if let Some(value) = place.value(seen) {
            self.values[self.bins.of(seen.head.time) as usize].add(value);
        }
    }
}

impl Gather for FieldValues {}

/// Where a context of an event's records is, by class; the event `*` is any.
fn context_places(of: &Opened, event: &str, name: &str) -> Result<Vec<Option<Place>>, Error> {
    let mut places = vec![None; of.classes.list.len()];
    for (trace, opened) in of.traces.iter().enumerate() {
        for (position, known) in opened.metadata.events.iter().enumerate() {
            let Some(class) = of.classes.at(trace, position).filter(|_| event == "*" || known.name == event) else {
                continue;
            };
            let find = |fields: &[kymo_ctf::read::FieldInfo<'_>]| {
                let found = fields.iter().find(|field| field.name == name && is_number(&field.kind));
                found.map(|field| field.position)
            };
            let own = find(&opened.metadata.own_contexts(position)).map(Place::OwnContext);
            places[class] = own.or_else(|| find(&opened.metadata.contexts(position)).map(Place::Context));
        }
    }
    match places.iter().any(Option::is_some) {
        true => Ok(places),
        false => Err(Error::parameter(
            "field",
            format!("no record of {event:?} has a numeric context {name:?}; the question schema lists them"),
        )),
    }
}

/// Whether values of a context can be drawn.
pub(super) fn is_number(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Int { .. } | FieldKind::Enum { .. } | FieldKind::Float { .. })
}

/// Where the field is, by class.
fn places(of: &Opened, text: &str) -> Result<Vec<Option<Place>>, Error> {
    let classes: &[Class] = &of.classes.list;
    if let Some((event, name)) = text.rsplit_once(".$") {
        return context_places(of, event, name);
    }
    let wrong = |message: String| Error::parameter("field", message);
    let split = text.rsplit_once('.').filter(|(event, field)| !event.is_empty() && !field.is_empty());
    let (event, field) = split.ok_or_else(|| wrong("an event and a field, as motor:step.position".to_owned()))?;
    let own: Vec<&Class> = classes.iter().filter(|class| class.name == event).collect();
    let Some(first) = own.first() else {
        return Err(wrong(format!("the trace has no event {event:?}; the question schema lists them")));
    };
    let is_numeric = |of: &&Field| matches!(of.kind, ValueKind::Integer | ValueKind::Float);
    let find = |class: &Class| {
        let found = class.fields.iter().filter(is_numeric).find(|of| of.name == field);
        found
            .map(|of| if of.kind == ValueKind::Float { Place::Float(of.position) } else { Place::Integer(of.position) })
    };
    if !own.iter().any(|class| find(class).is_some()) {
        let names: Vec<&str> = first.fields.iter().filter(is_numeric).map(|of| of.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(wrong(format!("{event} has no numeric field {field:?}; its numeric fields: {names}")));
    }
    Ok(classes.iter().map(|class| find(class).filter(|_| class.name == event)).collect())
}

/// Bins with their values, and the losses beside them.
struct Binned {
    values: Vec<ValueSums>,
    losses: LossLog,
    notes: Vec<String>,
    source: &'static str,
}

/// Without a look at what other streams have: from the columns of the index, or from the records of streams that have
/// the field. `None`: the index does not tell of losses, or something is damaged.
fn alone(of: &Opened, walk: &Walk<'_>, gather: &mut FieldValues, field: &str, stop: &Stop) -> Result<Alone, Error> {
    let losses = match walk.known_losses() {
        Ok(Some(losses)) if walk.is_all() => losses,
        Ok(_) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    };
    match indexed(of, &gather.bins, field) {
        Ok(Some(values)) => gather.values = values,
        Ok(None) if walk.run_alone(&gather.few(), gather, stop)? => {}
        Ok(None) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(Some(losses)))
}

type Alone = Result<Option<LossLog>, DamagedFields>;

/// From the index where it has them.
fn binned(of: &Opened, walk: Walk<'_>, bins: Pixels, field: &str, stop: &Stop) -> Result<Binned, Error> {
    let places = places(of, field)?;
    let make = || {
        let values = vec![ValueSums::default(); bins.count() as usize];
        FieldValues { bins, places: places.clone(), values }
    };
    let (mut gather, mut notes) = (make(), Vec::new());
    match alone(of, &walk, &mut gather, field, stop)? {
        Ok(Some(losses)) => return Ok(Binned { values: gather.values, losses, notes, source: "index" }),
        Ok(None) => {}
        Err(error) => notes.push(format!("{error}: this was answered from records")),
    }
    // What was begun may have got a part of the window already.
    gather = make();
    let (walked, source) = match walk.run_few(&gather.few(), &mut gather, stop)? {
        Some(walked) => (walked, "index"),
        None => {
            gather = make();
            (walk.run(&mut gather, stop)?, "records")
        }
    };
    notes.extend(walked.notes);
    Ok(Binned { values: gather.values, losses: walked.losses, notes, source })
}

/// Answers `values`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn values(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let bins = bins(of, parameters)?;
    let field = parameters.text("field")?;
    let missing = "it is missing: an event and a field, as motor:step.position, or a context, as motor:step.$cycles";
    let field = field.ok_or_else(|| Error::parameter("field", missing))?;
    let walk = Walk::new(of, bins.window()).filtered(parameters)?;
    let Binned { values, losses, notes, source } = binned(of, walk, bins, &field, stop)?;
    let mut answer = begin("values", of, bins.window());
    answer.notes.extend(notes);
    answer.set("field", field);
    answer.set("source", source);
    answer.set("not_numbers", values.iter().map(|of| of.not_numbers).fold(0, u64::saturating_add));
    if bins.shift().is_some() {
        let (from, to) = bins.frame();
        answer.set("bins", bins.count());
        answer.set("frame", [answer.time(from), answer.time(to)]);
    }
    let all = values.iter().enumerate().filter(|(_, of)| of.count > 0);
    let all: Vec<(u32, &ValueSums)> = all.map(|(at, of)| (at as u32, of)).collect();
    let table = Table::new("bins")
        .column("bin", all.iter().map(|(at, _)| *at))
        .column("count", all.iter().map(|(_, of)| of.count))
        .column("min", all.iter().map(|(_, of)| of.min))
        .column("max", all.iter().map(|(_, of)| of.max))
        .column("mean", all.iter().map(|(_, of)| of.mean()))
        .column("first", all.iter().map(|(_, of)| of.first))
        .column("last", all.iter().map(|(_, of)| of.last));
    answer.push(table);
    losses.tell(&mut answer, LOSSES_MAX);
    Ok(answer)
}
