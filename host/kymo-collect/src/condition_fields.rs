// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of an event, as conditions name them.

use std::sync::Arc;

use kymo_ctf::write::{EventClass, FieldClass, Number};
use kymo_filter::{Event, Field, Label, ValueType};

/// An event, as filters know it.
pub(crate) fn event(class: &EventClass) -> Event {
    let fields = class.fields.iter().map(|field| Field { name: field.name.clone(), kind: kind(&field.class) });
    Event { name: class.name.clone(), fields: fields.collect() }
}

/// The kind of a field, as filters know it.
pub(crate) fn kind(class: &FieldClass) -> ValueType {
    match class {
        FieldClass::Number(number) => kind_of(*number),
        FieldClass::Enum { number, labels } => {
            let Number::Int { bits, signed, .. } = *number else { return kind_of(*number) };
            let label = |(name, value): &(String, i64)| Label {
                name: name.clone(),
                low: (*value).into(),
                high: (*value).into(),
            };
            ValueType::Enum { signed, bits, labels: Some(Arc::from_iter(labels.iter().map(label))) }
        }
        FieldClass::Text | FieldClass::CString | FieldClass::Chars { .. } => ValueType::Text,
        FieldClass::Blob => ValueType::Bytes,
        FieldClass::Array { element, count } => {
            ValueType::Array { element: Box::new(kind_of(*element)), count: Some(*count) }
        }
        FieldClass::Seq { element } => ValueType::Array { element: Box::new(kind_of(*element)), count: None },
    }
}

fn kind_of(number: Number) -> ValueType {
    match number {
        Number::Int { bits, signed, .. } => ValueType::Int { signed, bits },
        Number::Float { bits } => ValueType::Float { bits },
        Number::Bool => ValueType::Bool,
    }
}
