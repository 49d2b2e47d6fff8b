//! What both metadata formats share: names that cannot clash, and which labels an enumeration field gets.

use std::collections::{HashMap, HashSet};

use kymo_abi::desc::{EnumDesc, EventDesc, Field, FieldType, Scalar};

/// Shape of a number: what the wire needs, without the C type's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    Int { bits: u8, signed: bool, hex: bool },
    Float { bits: u8 },
    Bool,
}

pub(super) fn shape(scalar: Scalar) -> Shape {
    use Scalar as S;
    let int = |bits, signed, hex| Shape::Int { bits, signed, hex };
    match scalar {
        S::U8 => int(8, false, false),
        S::U16 => int(16, false, false),
        S::U32 => int(32, false, false),
        S::U64 => int(64, false, false),
        S::I8 => int(8, true, false),
        S::I16 => int(16, true, false),
        S::I32 => int(32, true, false),
        S::I64 => int(64, true, false),
        S::X8 => int(8, false, true),
        S::X16 => int(16, false, true),
        S::X32 => int(32, false, true),
        S::X64 => int(64, false, true),
        S::F32 => Shape::Float { bits: 32 },
        S::F64 => Shape::Float { bits: 64 },
        S::Bool => Shape::Bool,
    }
}

/// A field with the names that the metadata uses for it.
pub(super) struct Named<'a> {
    pub field: &'a Field,
    pub name: String,
    /// Name of the length in front of a `str`, `bytes` or `seq`; empty for the others.
    pub length: String,
}

/// Names of an event's fields, each used once: descriptions come from outside, and one name twice would make the
/// metadata of the whole trace unreadable.
pub(super) fn named(desc: &EventDesc) -> Vec<Named<'_>> {
    let mut taken: HashSet<String> = HashSet::with_capacity(desc.fields.len() * 2);
    let names: Vec<String> = desc
        .fields
        .iter()
        .map(|field| {
            let mut name = identifier(&field.name);
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        })
        .collect();
    let fields = desc.fields.iter().zip(names);
    fields
        .map(|(field, name)| {
            let has_length = matches!(field.ty, FieldType::Str | FieldType::Bytes | FieldType::Seq { .. });
            let mut length = if has_length { format!("_{name}_length") } else { String::new() };
            while has_length && !taken.insert(length.clone()) {
                length.insert(0, '_');
            }
            Named { field, name, length }
        })
        .collect()
}

/// `text` with every character that no identifier may have replaced by `_`.
pub(super) fn identifier(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Enumerations by name and integer.
pub(super) struct Enums<'a>(HashMap<(String, Scalar), usize>, &'a [EnumDesc]);

impl<'a> Enums<'a> {
    pub fn new(enums: &'a [EnumDesc]) -> Self {
        let mut map = HashMap::with_capacity(enums.len());
        for (index, desc) in enums.iter().enumerate() {
            map.entry((format!("{}:{}", desc.provider, desc.name), desc.scalar)).or_insert(index);
        }
        Self(map, enums)
    }

    /// Position and description of the enumeration of a field, if its labels can be written.
    pub fn find(&self, name: &str, scalar: Scalar) -> Option<(usize, &'a EnumDesc)> {
        let index = *self.0.get(&(name.to_owned(), scalar))?;
        let desc = &self.1[index];
        let usable = matches!(shape(scalar), Shape::Int { .. }) && !desc.labels.is_empty();
        usable.then_some((index, desc))
    }
}

/// A label's value as the integer stores it: an `i64` cut to the integer's size and sign.
pub(super) fn stored(value: i64, scalar: Scalar) -> i128 {
    match shape(scalar) {
        Shape::Int { bits, signed: true, .. } => i128::from(value << (64 - bits) >> (64 - bits)),
        Shape::Int { bits, signed: false, .. } => i128::from((value as u64) << (64 - bits) >> (64 - bits)),
        Shape::Float { .. } | Shape::Bool => i128::from(value),
    }
}

/// A UUID in its usual text form.
pub(super) fn uuid_text(uuid: &[u8; 16]) -> String {
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
