// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that a filter is held against: names, fields, kinds.

use std::fmt;
use std::sync::Arc;

use crate::ast::PathStep;

/// The kind of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// An integer.
    Int {
        /// With a sign.
        signed: bool,
        /// 1 to 127, or 128 with a sign. Programs decide on 64 at most.
        bits: u8,
    },
    /// An integer that 128 bits with a sign cannot hold. Filters see only whether a record has it.
    Wide {
        /// 128 and more.
        bits: u32,
    },
    /// An integer with labels.
    Enum {
        /// With a sign.
        signed: bool,
        /// 1 to 64.
        bits: u8,
        /// `None` where only records tell labels.
        labels: Option<Arc<[Label]>>,
    },
    /// A float of 32 or 64 bits.
    Float {
        /// 32 or 64.
        bits: u8,
    },
    /// True or false, one byte.
    Bool,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// Elements of one kind.
    Array {
        /// Kind of the elements.
        element: Box<ValueType>,
        /// `None` where records differ.
        count: Option<u32>,
    },
    /// Fields within a field.
    Struct(Vec<Field>),
    /// Not known before there is a record.
    Any,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int { .. } => "an integer",
            Self::Wide { .. } => "an integer of more bits than filters calculate with, which is 128 with a sign",
            Self::Enum { .. } => "an enumeration",
            Self::Float { .. } => "a float",
            Self::Bool => "a bool",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Array { .. } => "an array",
            Self::Struct(_) => "a structure",
            Self::Any => "not known",
        })
    }
}

/// A label and the values that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: String,
    /// The least value.
    pub low: i128,
    /// The largest value.
    pub high: i128,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ValueType,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `provider:name`, or what the tracer chose.
    pub name: String,
    /// Fields of the payload, in the order of the record.
    pub fields: Vec<Field>,
}

/// The events of a trace or of a program. An event is known by its position.
pub trait Schema {
    /// How many there are.
    fn count(&self) -> usize;
    /// The event at a position below [`Schema::count`].
    fn event(&self, position: usize) -> &Event;
}

impl Schema for [Event] {
    fn count(&self) -> usize {
        self.len()
    }

    fn event(&self, position: usize) -> &Event {
        &self[position]
    }
}

impl Schema for Vec<Event> {
    fn count(&self) -> usize {
        self.len()
    }

    fn event(&self, position: usize) -> &Event {
        &self[position]
    }
}

/// A field of an event, and the way into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// Position in [`Event::fields`].
    pub field: usize,
    /// The field's name.
    pub name: String,
    /// Further inside.
    pub steps: Vec<PathStep>,
}

impl Event {
    /// Where a path leads, and to what; `None` where the event does not have it.
    pub(crate) fn resolve(&self, name: &str, steps: &[PathStep]) -> Option<(FieldPath, ValueType)> {
        let field = self.fields.iter().position(|field| field.name == name)?;
        let mut kind = &self.fields[field].kind;
        for step in steps {
            kind = match (kind, step) {
                (ValueType::Any, _) => &ValueType::Any,
                (ValueType::Struct(members), PathStep::Member(name)) => {
                    &members.iter().find(|member| member.name == *name)?.kind
                }
                (ValueType::Array { element, count }, PathStep::Element(index))
                    if count.is_none_or(|count| *index < count) =>
                {
                    element
                }
                _ => return None,
            };
        }
        Some((FieldPath { field, name: name.into(), steps: steps.to_vec() }, kind.clone()))
    }
}
