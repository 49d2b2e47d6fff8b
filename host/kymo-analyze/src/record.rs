// SPDX-License-Identifier: MIT OR Apache-2.0
//! How records come in: classes described once, then a view of each record with fields by position.

use std::borrow::Cow;

use crate::name::Name;

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Integers, enumerations, truth values.
    Integer,
    /// Floating-point numbers.
    Float,
    /// Text.
    Text,
    /// Anything else, such as an array.
    Other,
}

/// A field of an event class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: ValueKind,
    /// Where [`Record`] finds it.
    pub position: usize,
}

/// An event class of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// `system:event`, `provider:event`, or what the tracer chose.
    pub name: String,
    /// The fields of its records.
    pub fields: Vec<Field>,
}

impl Class {
    /// The first field that has one of these names, the first name first.
    pub fn field(&self, names: &[&str]) -> Option<&Field> {
        names.iter().find_map(|name| self.fields.iter().find(|field| field.name == *name))
    }
}

/// Where and when a record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Nanoseconds of the trace's clock.
    pub time: i64,
    /// The CPU that wrote it.
    pub cpu: Option<u32>,
    /// The thread that ran there, by the machine's own numbers (not those of a container), where records tell it.
    pub tid: Option<i32>,
}

/// The fields of one record, by the positions of its class.
pub trait Record {
    /// An integer. `None` where there is no such field or it is something else.
    fn integer(&self, position: usize) -> Option<i128>;
    /// A floating-point number.
    fn float(&self, position: usize) -> Option<f64>;
    /// Text.
    fn text(&self, position: usize) -> Option<Cow<'_, str>>;
    /// An element of an array of integers. `None` where there is none, or the records have no arrays.
    fn element(&self, _position: usize, _index: usize) -> Option<i128> {
        None
    }
    /// Text as a name.
    #[inline]
    fn name(&self, position: usize) -> Option<Name> {
        self.text(position).map(|text| Name::new(&text))
    }
}
