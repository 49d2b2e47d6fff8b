// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records for the tests: fields by place, and packed payloads of the same values.
#![allow(dead_code, reason = "each test uses a part")]

use kymo_filter::{Context, Event, FieldPath, PathStep, Record, Value, ValueType};

/// A value that owns what it has.
#[derive(Clone, Debug)]
pub enum V {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Label(i128, Option<&'static str>),
    Bytes(Vec<u8>),
    Array(Vec<V>),
    Struct(Vec<(&'static str, V)>),
}

impl V {
    fn value(&self) -> Value<'_> {
        match self {
            V::Int(value) => Value::Int(*value),
            V::Float(value) => Value::Float(*value),
            V::Bool(value) => Value::Bool(*value),
            V::Text(text) => Value::Text(text.as_str().into()),
            V::Label(value, label) => Value::Label(*value, *label),
            V::Bytes(bytes) => Value::Bytes(bytes),
            V::Array(elements) => Value::Array(elements.len()),
            V::Struct(_) => Value::Struct,
        }
    }
}

/// Fields in the order of the event, and contexts.
#[derive(Clone, Debug, Default)]
pub struct Rec {
    pub fields: Vec<V>,
    pub time: i128,
    pub cpu: Option<u32>,
    pub tid: Option<u32>,
    pub proc: String,
}

impl Record for Rec {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        let mut at = self.fields.get(place.field);
        for step in &place.steps {
            at = match (at, step) {
                (Some(V::Array(elements)), PathStep::Element(index)) => elements.get(*index as usize),
                (Some(V::Struct(members)), PathStep::Member(name)) => {
                    members.iter().find(|member| member.0 == name).map(|member| &member.1)
                }
                _ => None,
            };
        }
        at.map_or(Value::Absent, V::value)
    }

    fn context(&self, context: Context) -> Value<'_> {
        let number = |value: Option<u32>| value.map_or(Value::Absent, |value| Value::Int(value.into()));
        match context {
            Context::Time => Value::Int(self.time),
            Context::Cpu => number(self.cpu),
            Context::Tid => number(self.tid),
            Context::Proc => Value::Text(self.proc.as_str().into()),
            _ => Value::Absent,
        }
    }
}

fn pack_one(kind: &ValueType, value: &V, out: &mut Vec<u8>) {
    let mut integer = |value: i128, bits: u8| out.extend_from_slice(&value.to_le_bytes()[..usize::from(bits / 8)]);
    match (kind, value) {
        (ValueType::Int { bits, .. } | ValueType::Enum { bits, .. }, V::Int(value) | V::Label(value, _)) => {
            integer(*value, *bits);
        }
        (ValueType::Bool, V::Bool(value)) => out.push((*value).into()),
        (ValueType::Float { bits: 32 }, V::Float(value)) => out.extend_from_slice(&(*value as f32).to_le_bytes()),
        (ValueType::Float { .. }, V::Float(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (ValueType::Text, V::Text(text)) => {
            integer(text.len() as i128, 16);
            out.extend_from_slice(text.as_bytes());
        }
        (ValueType::Bytes, V::Bytes(bytes)) => {
            integer(bytes.len() as i128, 16);
            out.extend_from_slice(bytes);
        }
        (ValueType::Array { element, count }, V::Array(elements)) => {
            if count.is_none() {
                integer(elements.len() as i128, 16);
            }
            elements.iter().for_each(|value| pack_one(element, value, out));
        }
        _ => panic!("{kind:?} has no value {value:?}"),
    }
}

/// The payload as a program writes it [spec/event.md 2].
pub fn pack(event: &Event, record: &Rec) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in event.fields.iter().zip(&record.fields) {
        pack_one(&field.kind, value, &mut out);
    }
    out
}

/// `motor:step` of the probe's events.
pub fn step() -> Rec {
    Rec {
        fields: vec![
            V::Int(2),
            V::Float(0.75),
            V::Label(1, Some("moving")),
            V::Int(250_000),
            V::Bool(true),
            V::Array(vec![V::Int(-1), V::Int(0), V::Int(300)]),
            V::Text("abc".into()),
            V::Int(0x103),
            V::Bytes(vec![1, 2, 3, 4]),
            V::Array(vec![V::Int(5), V::Int(-6)]),
            V::Float(0.5),
            V::Int(-3),
        ],
        time: 1_000,
        cpu: Some(1),
        tid: Some(7),
        proc: "prog".into(),
    }
}

/// `sched_switch` of the probe's events.
pub fn switch() -> Rec {
    Rec { fields: vec![V::Int(2), V::Text("ab*".into())], tid: Some(7), proc: "".into(), ..Rec::default() }
}
