// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as JSON. Integers are exact; who reads numbers as doubles asks for [`Wide::Text`].

use std::io::Write as _;

use kymo_ctf::read::{Number, Value, WideInt};

pub use crate::digits::push_hex;
use crate::digits::push_u64;

/// How integers beyond 2^53 are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// As the numbers that they are.
    Number,
    /// As text.
    Text,
}

/// Largest integer up to which each one is a double.
const EXACT_MAX: u128 = 1 << 53;

/// By byte: it stands in a text in JSON as it is.
const IS_PLAIN: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7F {
        all[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    all
};

/// A text with its quotes.
#[inline]
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().fold(true, |is_plain, b| is_plain & IS_PLAIN[usize::from(b)]) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to a vector cannot fail.
        drop(serde_json::to_writer(out, text));
    }
}

/// An object of fields.
pub fn push_fields<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a str, Value<'a>)>, wide: Wide) {
    out.push(b'{');
    for (position, (name, value)) in fields.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        push_text(out, name);
        out.push(b':');
        push_value(out, &value, wide);
    }
    out.push(b'}');
}

/// One value, of any kind: enumerations as `{"value":1,"label":"on"}`, with `labels` where ranges of several labels
/// have the value; bytes in base 16, NaN and infinities as text.
pub fn push_value(out: &mut Vec<u8>, value: &Value<'_>, wide: Wide) {
    match value {
        Value::Int(number, _) => push_number(out, *number, wide),
        Value::Enum(number, labels) => {
            out.extend_from_slice(b"{\"value\":");
            push_number(out, *number, wide);
            push_labels(out, labels.first(), &labels.others(*number));
            out.push(b'}');
        }
        Value::Wide(number) => match number.labels() {
            None => push_wide(out, number, wide),
            Some(labels) => {
                out.extend_from_slice(b"{\"value\":");
                push_wide(out, number, wide);
                push_labels(out, labels.first().copied(), labels.get(1..).unwrap_or_default());
                out.push(b'}');
            }
        },
        Value::Bool(value) => drop(write!(out, "{value}")),
        Value::F32(value) if value.is_finite() => drop(serde_json::to_writer(out, value)),
        Value::F32(value) => drop(write!(out, "\"{value:?}\"")),
        Value::F64(value) if value.is_finite() => drop(serde_json::to_writer(out, value)),
        Value::F64(value) => drop(write!(out, "\"{value:?}\"")),
        Value::Text(text) => push_text(out, text),
        Value::Bytes(bytes) => {
            out.push(b'"');
            push_hex(out, bytes);
            out.push(b'"');
        }
        Value::Array(elements) => {
            out.push(b'[');
            for (position, element) in elements.iter().enumerate() {
                out.extend_from_slice(if position == 0 { b"" } else { b"," });
                push_value(out, &element, wide);
            }
            out.push(b']');
        }
        Value::Struct(fields) => push_fields(out, fields.iter(), wide),
        Value::Absent => out.extend_from_slice(b"null"),
    }
}

/// The first label, and all of them where there are several.
fn push_labels(out: &mut Vec<u8>, first: Option<&str>, others: &[&str]) {
    out.extend_from_slice(b",\"label\":");
    match first {
        Some(label) => push_text(out, label),
        None => out.extend_from_slice(b"null"),
    }
    if !others.is_empty() {
        out.extend_from_slice(b",\"labels\":[");
        for (position, label) in first.iter().chain(others).enumerate() {
            out.extend_from_slice(if position == 0 { b"" } else { b"," });
            push_text(out, label);
        }
        out.push(b']');
    }
}

/// An integer of more than 64 bits: all of its digits.
fn push_wide(out: &mut Vec<u8>, number: &WideInt<'_>, wide: Wide) {
    let is_text = wide == Wide::Text && number.to_i128().is_none_or(|number| number.unsigned_abs() > EXACT_MAX);
    let quote = if is_text { "\"" } else { "" };
    drop(write!(out, "{quote}{number}{quote}"));
}

fn push_number(out: &mut Vec<u8>, number: Number, wide: Wide) {
    let is_text = wide == Wide::Text && i128::from(number).unsigned_abs() > EXACT_MAX;
    let quote: &[u8] = if is_text { b"\"" } else { b"" };
    out.extend_from_slice(quote);
    match number {
        Number::Unsigned(value) => push_u64(out, value),
        Number::Signed(value) => {
            out.extend_from_slice(if value < 0 { b"-" } else { b"" });
            push_u64(out, value.unsigned_abs());
        }
    }
    out.extend_from_slice(quote);
}
