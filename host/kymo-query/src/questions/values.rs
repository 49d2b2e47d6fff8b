// SPDX-License-Identifier: MIT OR Apache-2.0
//! A numeric field over time [spec/view.md 4.9]: minimum and maximum of each bin, so that no peak vanishes.

use kymo_analyze::{Class, Field, Kind, Record as _, Sink, State};
use kymo_feed::{Payload, Seen, Visit};

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::questions::begin;
use crate::walk::{Gather, Stop, Walk};

/// Values of one bin.
#[derive(Clone, Copy, Debug)]
struct Bin {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    first: f64,
    last: f64,
}

impl Bin {
    fn of(value: f64) -> Bin {
        Bin { count: 1, min: value, max: value, sum: value, first: value, last: value }
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        self.sum += value;
        self.last = value;
    }
}

struct FieldValues {
    bins: Pixels,
    /// By class: the position of the field, and whether it is a float.
    places: Vec<Option<(usize, bool)>>,
    values: Vec<Option<Bin>>,
    not_numbers: u64,
}

impl Sink for FieldValues {}

impl Visit for FieldValues {
    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        let Some((position, is_float)) = self.places.get(seen.class).copied().flatten() else { return };
        if !seen.is_selected {
            return;
        }
        let payload = Payload(seen.record.payload);
        let value = match is_float {
            true => payload.float(position),
            false => payload.integer(position).map(|value| value as f64),
        };
        match value {
            Some(value) if !value.is_nan() => {
                let bin = &mut self.values[self.bins.of(seen.head.time) as usize];
                match bin {
                    Some(bin) => bin.add(value),
                    None => *bin = Some(Bin::of(value)),
                }
            }
            Some(_) => self.not_numbers += 1,
            None => {}
        }
    }
}

impl Gather for FieldValues {}

/// Where the field is, by class.
fn places(classes: &[Class], text: &str) -> Result<Vec<Option<(usize, bool)>>, Error> {
    let wrong = |message: String| Error::parameter("field", message);
    let split = text.rsplit_once('.').filter(|(event, field)| !event.is_empty() && !field.is_empty());
    let (event, field) = split.ok_or_else(|| wrong("an event and a field, as motor:step.position".to_owned()))?;
    let own: Vec<&Class> = classes.iter().filter(|class| class.name == event).collect();
    let Some(first) = own.first() else {
        return Err(wrong(format!("the trace has no event {event:?}; the question schema lists them")));
    };
    let is_numeric = |of: &&Field| matches!(of.kind, Kind::Integer | Kind::Float);
    let find = |class: &Class| {
        let found = class.fields.iter().filter(is_numeric).find(|of| of.name == field);
        found.map(|of| (of.position, of.kind == Kind::Float))
    };
    if !own.iter().any(|class| find(class).is_some()) {
        let names: Vec<&str> = first.fields.iter().filter(is_numeric).map(|of| of.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(wrong(format!("{event} has no numeric field {field:?}; its numeric fields: {names}")));
    }
    Ok(classes.iter().map(|class| find(class).filter(|_| class.name == event)).collect())
}

/// Answers `values`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn values(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let count = parameters.bins()?;
    let field = parameters.text("field")?;
    let field = field
        .ok_or_else(|| Error::parameter("field", "it is missing: an event and a field, as motor:step.position"))?;
    let places = places(&of.classes.list, &field)?;
    let bins = Pixels::new(window, count);
    let mut gather = FieldValues { bins, places, values: vec![None; count as usize], not_numbers: 0 };
    let walked = Walk::new(of, window).filtered(parameters)?.run(&mut gather, stop)?;
    let mut answer = begin("values", of, window);
    answer.set("field", field);
    answer.set("not_numbers", gather.not_numbers);
    let all = gather.values.iter().enumerate();
    let all: Vec<(u32, Bin)> = all.filter_map(|(at, bin)| Some((at as u32, (*bin)?))).collect();
    let table = Table::new("bins")
        .column("bin", all.iter().map(|(at, _)| *at))
        .column("count", all.iter().map(|(_, bin)| bin.count))
        .column("min", all.iter().map(|(_, bin)| bin.min))
        .column("max", all.iter().map(|(_, bin)| bin.max))
        .column("mean", all.iter().map(|(_, bin)| bin.sum / bin.count as f64))
        .column("first", all.iter().map(|(_, bin)| bin.first))
        .column("last", all.iter().map(|(_, bin)| bin.last));
    answer.push(table);
    walked.tell(&mut answer);
    Ok(answer)
}
