// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the metadata says of fields, for those who look before there is a record.

use super::class::{Base, ClassId, ClassKind, EventClass, Len, Member, Metadata, View};

/// A field of an event class, or of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo<'m> {
    /// Its name, as in [`super::Fields::get`].
    pub name: &'m str,
    /// For [`super::Fields::at`].
    pub position: usize,
    /// Only says how long the next field is.
    pub is_length: bool,
    /// What its values are.
    pub kind: FieldKind<'m>,
}

/// What the values of a field are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind<'m> {
    /// [`super::Value::Int`].
    Int {
        /// With a sign.
        signed: bool,
        /// 1 to 64; 64 where the length differs from record to record.
        bits: u8,
        /// To show it in.
        base: Base,
    },
    /// [`super::Value::Wide`].
    Wide {
        /// With a sign.
        signed: bool,
        /// More than 64.
        bits: u32,
        /// To show it in.
        base: Base,
    },
    /// [`super::Value::Enum`].
    Enum {
        /// With a sign.
        signed: bool,
        /// As of an integer.
        bits: u8,
        /// Each label with the lowest and the highest value of a range.
        labels: Vec<(&'m str, i128, i128)>,
    },
    /// [`super::Value::Bool`].
    Bool,
    /// [`super::Value::F32`] or [`super::Value::F64`].
    Float {
        /// 32 or 64, as of the values that are given.
        bits: u8,
    },
    /// [`super::Value::Text`].
    Text,
    /// [`super::Value::Bytes`].
    Bytes,
    /// [`super::Value::Array`].
    Array {
        /// Of all elements.
        element: Box<FieldKind<'m>>,
        /// How many; `None` where it differs from record to record.
        count: Option<u64>,
    },
    /// [`super::Value::Struct`].
    Struct(Vec<FieldInfo<'m>>),
    /// A variant or an optional field: its kind differs from record to record.
    Varying,
}

impl Metadata {
    /// The payload fields of an event.
    pub fn fields(&self, event: &EventClass) -> Vec<FieldInfo<'_>> {
        event.payload.map_or_else(Vec::new, |class| self.infos(self.members(class)))
    }

    /// What all records of an event's stream have in front of the payload; the event by its position.
    pub fn contexts(&self, event: usize) -> Vec<FieldInfo<'_>> {
        self.infos(self.context_members(event))
    }

    /// What records of this event alone have in front of the payload; the event by its position.
    pub fn own_contexts(&self, event: usize) -> Vec<FieldInfo<'_>> {
        let class = self.events.get(event).and_then(|event| event.context);
        class.map_or_else(Vec::new, |class| self.infos(self.members(class)))
    }

    fn infos<'m>(&'m self, members: &'m [Member]) -> Vec<FieldInfo<'m>> {
        let info = |(position, member): (usize, &'m Member)| FieldInfo {
            name: &member.name,
            position,
            is_length: member.hidden,
            kind: self.kind(member.class),
        };
        members.iter().enumerate().map(info).collect()
    }

    fn kind(&self, class: ClassId) -> FieldKind<'_> {
        match &self.classes[class as usize].kind {
            ClassKind::Int(int) if int.view != View::Number => FieldKind::Bool,
            ClassKind::Int(int) => {
                let (signed, bits) = (int.signed, if int.bits == 0 { 64 } else { int.bits });
                match &int.labels {
                    Some(labels) => FieldKind::Enum { signed, bits, labels: labels.iter().collect() },
                    None => FieldKind::Int { signed, bits, base: int.base },
                }
            }
            ClassKind::Wide(wide) if wide.view == View::Bool => FieldKind::Bool,
            ClassKind::Wide(wide) => FieldKind::Wide { signed: wide.signed, bits: wide.bits, base: wide.base },
            ClassKind::Float { bits, .. } => FieldKind::Float { bits: (*bits).max(32) },
            ClassKind::WideFloat { .. } => FieldKind::Float { bits: 64 },
            ClassKind::NulText(_) | ClassKind::Text { .. } => FieldKind::Text,
            ClassKind::Bytes { .. } => FieldKind::Bytes,
            ClassKind::Array { len, element } => {
                let count = if let Len::Fixed(count) = len { Some(*count) } else { None };
                FieldKind::Array { element: self.kind(*element).into(), count }
            }
            ClassKind::Struct { members } => FieldKind::Struct(self.infos(members)),
            ClassKind::Variant { .. } | ClassKind::Optional { .. } => FieldKind::Varying,
        }
    }
}
