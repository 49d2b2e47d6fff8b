// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of records, read where they lie: by position of the class for the state, and as a payload for findings.

use std::borrow::Cow;

use kymo_analyze::Name;
use kymo_ctf::read::{Direct, Fields, Glance, Lens, Number, Record, Value};

/// Where a field is, twice: most of them lie in the same place in all records.
pub(crate) struct Sight {
    pub direct: Option<Direct>,
    pub lens: Lens,
}

impl Sight {
    pub(crate) fn new(lens: Lens) -> Sight {
        Sight { direct: lens.direct(), lens }
    }

    /// A plain integer. `fields`: the record's bytes.
    #[inline]
    pub(crate) fn integer(&self, fields: &[u8], record: &impl FieldReader) -> Option<i128> {
        let direct = self.direct.and_then(|direct| direct.read(fields)).map(i128::from);
        if direct.is_some() { direct } else { far_integer(record, &self.lens) }
    }
}

/// The slow way.
#[inline(never)]
fn far_integer(record: &impl FieldReader, lens: &Lens) -> Option<i128> {
    record.integer(lens).or_else(|| integer(&record.value(lens)?))
}

/// What lenses look at.
pub(crate) trait FieldReader {
    /// A plain integer.
    fn integer(&self, lens: &Lens) -> Option<i128>;
    /// Bytes of plain text, and what is behind it in its field.
    fn text(&self, lens: &Lens) -> Option<&[u8]>;
    /// Whatever it is.
    fn value(&self, lens: &Lens) -> Option<Value<'_>>;
}

impl FieldReader for Record<'_> {
    #[inline]
    fn integer(&self, lens: &Lens) -> Option<i128> {
        lens.integer(self)
    }

    #[inline]
    fn text(&self, lens: &Lens) -> Option<&[u8]> {
        lens.text(self)
    }

    fn value(&self, lens: &Lens) -> Option<Value<'_>> {
        lens.value(self)
    }
}

impl FieldReader for Glance<'_> {
    #[inline]
    fn integer(&self, lens: &Lens) -> Option<i128> {
        Glance::integer(self, lens)
    }

    #[inline]
    fn text(&self, lens: &Lens) -> Option<&[u8]> {
        Glance::text(self, lens)
    }

    fn value(&self, lens: &Lens) -> Option<Value<'_>> {
        Glance::value(self, lens)
    }
}

/// The payload of a record, by lenses: what is plain is read where it lies.
pub(crate) struct Sights<'a, L> {
    pub record: &'a L,
    pub bytes: &'a [u8],
    pub fields: &'a [Sight],
}

impl<L: FieldReader> kymo_analyze::Record for Sights<'_, L> {
    #[inline]
    fn integer(&self, position: usize) -> Option<i128> {
        self.fields.get(position)?.integer(self.bytes, self.record)
    }

    fn float(&self, position: usize) -> Option<f64> {
        float(&self.record.value(&self.fields.get(position)?.lens)?)
    }

    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        text(self.record.value(&self.fields.get(position)?.lens)?)
    }

    fn element(&self, position: usize, index: usize) -> Option<i128> {
        element(&self.record.value(&self.fields.get(position)?.lens)?, index)
    }

    #[inline]
    fn name(&self, position: usize) -> Option<Name> {
        let plain = self.record.text(&self.fields.get(position)?.lens).and_then(Name::of_ascii);
        plain.or_else(|| self.text(position).map(|text| Name::new(&text)))
    }
}

/// The payload of a record.
pub struct Payload<'a>(pub Fields<'a>);

impl kymo_analyze::Record for Payload<'_> {
    #[inline]
    fn integer(&self, position: usize) -> Option<i128> {
        integer(&self.0.at(position)?)
    }

    fn float(&self, position: usize) -> Option<f64> {
        float(&self.0.at(position)?)
    }

    #[inline]
    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        text(self.0.at(position)?)
    }

    fn element(&self, position: usize, index: usize) -> Option<i128> {
        element(&self.0.at(position)?, index)
    }
}

#[inline]
fn integer(value: &Value<'_>) -> Option<i128> {
    match *value {
        Value::Int(Number::Unsigned(value), _) | Value::Enum(Number::Unsigned(value), _) => Some(value.into()),
        Value::Int(Number::Signed(value), _) | Value::Enum(Number::Signed(value), _) => Some(value.into()),
        Value::Bool(value) => Some(value.into()),
        _ => None,
    }
}

fn element(value: &Value<'_>, index: usize) -> Option<i128> {
    match value {
        Value::Array(elements) => integer(&elements.iter().nth(index)?),
        _ => None,
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match *value {
        Value::F32(value) => Some(value.into()),
        Value::F64(value) => Some(value),
        _ => None,
    }
}

fn text(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::Text(text) => Some(text),
        Value::Wide(number) => Some(number.to_string().into()),
        _ => None,
    }
}
