// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both metadata formats share: names that cannot clash, and values as an integer stores them.

use std::collections::HashSet;

use super::class::{Field, Number};

/// A field with the names that the metadata uses for it.
pub(super) struct Named<'a> {
    pub field: &'a Field,
    pub name: String,
    /// Name of the length in front of a text, blob or sequence; empty for the others.
    pub length: String,
}

/// Names of an event's fields, each used once: descriptions come from outside, and one name twice would make the
/// metadata of the whole trace unreadable.
pub(super) fn named(fields: &[Field]) -> Vec<Named<'_>> {
    let mut taken: HashSet<String> = HashSet::with_capacity(fields.len() * 2);
    let names: Vec<String> = fields
        .iter()
        .map(|field| {
            let mut name = identifier(&field.name);
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        })
        .collect();
    let fields = fields.iter().zip(names);
    fields
        .map(|(field, name)| {
            let has_length = field.class.has_length();
            let mut length = if has_length { format!("_{name}_length") } else { String::new() };
            while has_length && !taken.insert(length.clone()) {
                length.insert(0, '_');
            }
            Named { field, name, length }
        })
        .collect()
}

/// `text` with every character that no identifier may have replaced by `_`.
pub(crate) fn identifier(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// A label's value as the integer stores it: an `i64` cut to the integer's size and sign.
pub(super) fn stored(value: i64, number: Number) -> i128 {
    match number {
        Number::Int { bits, signed: true, .. } => i128::from(value << (64 - bits) >> (64 - bits)),
        Number::Int { bits, signed: false, .. } => i128::from((value as u64) << (64 - bits) >> (64 - bits)),
        Number::Float { .. } | Number::Bool => i128::from(value),
    }
}

/// A UUID in its usual text form.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(36);
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out
}
