// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys that tell which records of several hosts belong together: the values of fields that the user names. Keys within
//! a host are kymo-filter's.

use anyhow::{Context as _, bail};
use kymo_analyze::{Class, Record as _, ValueKind};
use kymo_feed::Payload;
use kymo_names::{Containing, Near};

/// What counts as a mistyped name of a field.
const NEAR: Near = Near { edits_max: |characters| 1 + characters / 3, containing: Containing::AtLimit, count: 1 };

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// An integer.
    Integer(i128),
    /// Text.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(value) => value.fmt(f),
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// The fields of a class that make a key: their positions, and whether they are text.
#[derive(Clone, Debug)]
pub struct KeyFields(Vec<(usize, bool)>);

impl KeyFields {
    /// By their names. An error where the class does not have them, or they cannot be compared.
    pub fn new(class: &Class, names: &[&str]) -> anyhow::Result<Self> {
        let place = |name: &&str| {
            let field = class.field(&[name]).with_context(|| {
                let fields: Vec<_> = class.fields.iter().map(|field| field.name.as_str()).collect();
                format!("{} has no field {name:?}{}; it has {}", class.name, meant(name, &fields), fields.join(", "))
            })?;
            match field.kind {
                ValueKind::Integer | ValueKind::Text => Ok((field.position, field.kind == ValueKind::Text)),
                _ => bail!("{}.{name} is neither an integer nor text, and so cannot be a key", class.name),
            }
        };
        Ok(Self(names.iter().map(place).collect::<anyhow::Result<_>>()?))
    }

    /// The key of a record; `None` where it lacks a part of it.
    pub fn of(&self, payload: &Payload<'_>) -> Option<Vec<Value>> {
        let value = |&(position, is_text): &(usize, bool)| match is_text {
            true => payload.text(position).map(|text| Value::Text(text.into_owned())),
            false => payload.integer(position).map(Value::Integer),
        };
        self.0.iter().map(value).collect()
    }
}

/// `; did you mean axis?`: of the known names the one that a mistyped one is near to; nothing where there is none.
pub fn meant(name: &str, known: &[&str]) -> String {
    let near = NEAR.of(name, known.iter().map(|known| (*known, [*known])));
    near.first().map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// Names separated by commas, and behind `by=` those of fields: `A, B, by=K, L`.
pub fn split(text: &str) -> (Vec<&str>, Vec<&str>) {
    match text.split_once("by=") {
        Some((events, key)) => (names_of(events), names_of(key)),
        None => (names_of(text), Vec::new()),
    }
}

fn names_of(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}
