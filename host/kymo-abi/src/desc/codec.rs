// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of descriptions [spec/event.md 3.1 and 3.2]: parse one, walk a section, encode (tests and fakes need that).

use std::collections::HashSet;

use super::{Desc, EnumDesc, EventDesc, Field, FieldType, Form, Scalar};
use crate::Error;
use crate::bytes::Reader;
use crate::ring::{RECORD_MAX, RECORD_MIN};

/// "KYMO", little endian.
pub const MAGIC: u32 = 0x4f4d_594b;
/// Descriptions in a section stand at multiples of this.
pub const ALIGN: usize = 8;
/// No description is longer.
pub const BYTES_MAX: usize = 16_384;
/// Bytes of `struct kymo_desc`.
pub const HEAD_BYTES: usize = 24;
/// Bytes of `struct kymo_field`, and of an enumeration's value.
pub const ENTRY_BYTES: usize = 8;
/// Fields that an event may have.
pub const FIELDS_MAX: usize = 32;
/// Labels that an enumeration may have.
pub const LABELS_MAX: usize = 4096;
/// Bytes of the longest identifier.
pub const NAME_BYTES_MAX: usize = 255;

const KIND_EVENT: u16 = 1;
const KIND_ENUM: u16 = 2;
const T_STR: u8 = 32;
const T_BYTES: u8 = 33;
const T_ARRAY: u8 = 34;
const T_SEQ: u8 = 35;

/// The scalar with this `enum kymo_type` code.
fn scalar(code: u8) -> Result<Scalar, Error> {
    Scalar::by_code(code).ok_or(Error::Value { what: "scalar type", value: code.into() })
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_BYTES_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn identifier(what: &'static str, name: String) -> Result<String, Error> {
    if is_identifier(&name) { Ok(name) } else { Err(Error::Identifier { what, name: name.chars().take(64).collect() }) }
}

/// One entry of a description as it stands in the bytes, before its text is known.
struct RawField {
    ty: u8,
    element: u8,
    is_enum: u8,
    count: u32,
}

impl RawField {
    fn read(entries: &mut Reader<'_>) -> Result<RawField, Error> {
        let (ty, element, is_enum, _) = (entries.u8()?, entries.u8()?, entries.u8()?, entries.u8()?);
        Ok(RawField { ty, element, is_enum, count: entries.u32()? })
    }

    fn resolve(self, enum_name: String) -> Result<FieldType, Error> {
        if self.is_enum > 1 {
            return Err(Error::Value { what: "is_enum", value: self.is_enum.into() });
        }
        if self.is_enum == 1 {
            let integer = scalar(self.ty)?;
            let named =
                enum_name.split_once(':').is_some_and(|(left, right)| is_identifier(left) && is_identifier(right));
            return match (integer.is_integer(), named) {
                (false, _) => Err(Error::Value { what: "integer type of an enumeration", value: self.ty.into() }),
                (_, false) => {
                    Err(Error::Identifier { what: "enumeration", name: enum_name.chars().take(64).collect() })
                }
                _ => Ok(FieldType::Enum { scalar: integer, name: enum_name }),
            };
        }
        if !enum_name.is_empty() {
            return Err(Error::Identifier {
                what: "enumeration of a plain field",
                name: enum_name.chars().take(64).collect(),
            });
        }
        Ok(match self.ty {
            T_STR => FieldType::Str,
            T_BYTES => FieldType::Bytes,
            T_ARRAY => FieldType::Array { element: scalar(self.element)?, count: self.count },
            T_SEQ => FieldType::Seq { element: scalar(self.element)? },
            code => FieldType::Scalar(scalar(code)?),
        })
    }
}

/// Fewest payload bytes that a field of this type can have in a record.
fn bytes_min(ty: &FieldType) -> u64 {
    match ty {
        FieldType::Scalar(scalar) | FieldType::Enum { scalar, .. } => scalar.bytes().into(),
        FieldType::Str | FieldType::Bytes | FieldType::Seq { .. } => 2,
        FieldType::Array { element, count } => u64::from(*count) * u64::from(element.bytes()),
    }
}

/// Parses one description, which begins at the first byte. Bytes behind its own length are not looked at.
///
/// Nothing is trusted: see [spec/event.md 4] for what is checked.
pub fn parse(bytes: &[u8]) -> Result<Desc, Error> {
    let mut head = Reader::new("description", bytes);
    let magic = head.u32()?;
    if magic != MAGIC {
        return Err(Error::Value { what: "magic word of a description", value: magic.into() });
    }
    let said = head.u32()? as usize;
    let (kind, count, line) = (head.u16()?, usize::from(head.u16()?), head.u32()?);
    let (text_bytes, ty) = (usize::from(head.u16()?), head.u8()?);
    head.take(5)?;
    if said > BYTES_MAX {
        return Err(Error::TooMany { what: "bytes of a description", value: said as u64, max: BYTES_MAX as u64 });
    }
    let needed = HEAD_BYTES + count * ENTRY_BYTES + text_bytes;
    if said > bytes.len() || needed > said {
        return Err(Error::Length { what: "description", said: said as u64, got: bytes.len().min(needed) as u64 });
    }
    let mut entries = Reader::new("entries of a description", head.take(count * ENTRY_BYTES)?);
    let mut text = Reader::new("text of a description", &bytes[said - text_bytes..said]);
    let provider = identifier("provider", text.string("provider")?)?;
    let name = identifier("event or enumeration", text.string("name")?)?;
    let file = text.string("source file")?;
    let desc = match kind {
        KIND_EVENT => {
            let fields = parse_fields(&mut entries, &mut text, count)?;
            Desc::Event(EventDesc { provider, name, file, line, fields })
        }
        KIND_ENUM => {
            let scalar = scalar(ty)?;
            let labels = parse_labels(&mut entries, &mut text, count, scalar)?;
            Desc::Enum(EnumDesc { provider, name, file, line, scalar, labels })
        }
        _ => return Err(Error::Value { what: "kind of a description", value: kind.into() }),
    };
    match text.rest().iter().all(|byte| *byte == 0) {
        true => Ok(desc),
        false => Err(Error::Trailing { bytes: text.rest().len() }),
    }
}

fn parse_fields(entries: &mut Reader<'_>, text: &mut Reader<'_>, count: usize) -> Result<Vec<Field>, Error> {
    if count > FIELDS_MAX {
        return Err(Error::TooMany { what: "fields of an event", value: count as u64, max: FIELDS_MAX as u64 });
    }
    let mut seen = HashSet::new();
    let mut fields = Vec::with_capacity(count);
    let mut payload = 0;
    for _ in 0..count {
        let raw = RawField::read(entries)?;
        let name = identifier("field", text.string("field name")?)?;
        let ty = raw.resolve(text.string("enumeration of a field")?)?;
        payload += bytes_min(&ty);
        if !seen.insert(name.clone()) {
            return Err(Error::Duplicate { name });
        }
        fields.push(Field { name, ty });
    }
    let max = u64::from(RECORD_MAX - RECORD_MIN);
    if payload > max { Err(Error::TooMany { what: "bytes of a record", value: payload, max }) } else { Ok(fields) }
}

fn parse_labels(
    entries: &mut Reader<'_>,
    text: &mut Reader<'_>,
    count: usize,
    scalar: Scalar,
) -> Result<Vec<(String, i64)>, Error> {
    if !scalar.is_integer() {
        return Err(Error::Value { what: "integer type of an enumeration", value: scalar.code().into() });
    }
    if count > LABELS_MAX {
        return Err(Error::TooMany { what: "labels of an enumeration", value: count as u64, max: LABELS_MAX as u64 });
    }
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        let value = entries.i64()?;
        let label = identifier("label", text.string("label")?)?;
        if !fits(scalar, value) {
            return Err(Error::LabelValue { label, value });
        }
        labels.push((label, value));
    }
    Ok(labels)
}

/// Whether an integer of this type can hold `value`; for 64 unsigned bits the value is the same bits.
fn fits(scalar: Scalar, value: i64) -> bool {
    let bits = scalar.bytes() * 8;
    match scalar.form() {
        Form::Int { signed: true, .. } => bits == 64 || (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
        _ => bits == 64 || (0..1i64 << bits).contains(&value),
    }
}

/// Walks the bytes of a section; yields each description's offset and what it says.
///
/// At each multiple of 8 a magic word and a sane length make a description; anything else is skipped by 8.
pub struct Walk<'a> {
    section: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// A walk from the first byte of `section`.
    pub fn new(section: &'a [u8]) -> Walk<'a> {
        Walk { section, at: 0 }
    }
}

impl Iterator for Walk<'_> {
    type Item = (usize, Result<Desc, Error>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.section.len().saturating_sub(self.at) >= HEAD_BYTES {
            let at = self.at;
            let rest = &self.section[at..];
            let mut head = Reader::new("section", rest);
            let (magic, bytes) = (head.u32().ok()?, head.u32().ok()? as usize);
            if magic == MAGIC && (HEAD_BYTES..=BYTES_MAX.min(rest.len())).contains(&bytes) {
                self.at = at + bytes.next_multiple_of(ALIGN);
                return Some((at, parse(&rest[..bytes])));
            }
            self.at = at + ALIGN;
        }
        None
    }
}

/// The bytes of a description, without padding behind. An event or enumeration that breaks a bound of
/// [spec/event.md 4] encodes to bytes that [`parse`] refuses.
pub fn encode(desc: &Desc) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut text = Vec::new();
    let mut string = |value: &str| {
        text.extend_from_slice(value.as_bytes());
        text.push(0);
    };
    let (kind, count, line, ty) = match desc {
        Desc::Event(event) => {
            for value in [&event.provider, &event.name, &event.file] {
                string(value);
            }
            for field in &event.fields {
                let (ty, element, is_enum, count, enum_name) = field_codes(&field.ty);
                entries.extend_from_slice(&[ty, element, is_enum, 0]);
                entries.extend_from_slice(&count.to_ne_bytes());
                string(&field.name);
                string(enum_name);
            }
            (KIND_EVENT, event.fields.len(), event.line, 0)
        }
        Desc::Enum(labelled) => {
            for value in [&labelled.provider, &labelled.name, &labelled.file] {
                string(value);
            }
            for (label, value) in &labelled.labels {
                entries.extend_from_slice(&value.to_ne_bytes());
                string(label);
            }
            (KIND_ENUM, labelled.labels.len(), labelled.line, labelled.scalar.code())
        }
    };
    entries.extend_from_slice(&[0; ENTRY_BYTES]);
    let bytes = HEAD_BYTES + entries.len() + text.len();
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&MAGIC.to_ne_bytes());
    out.extend_from_slice(&(bytes as u32).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&(count as u16).to_ne_bytes());
    out.extend_from_slice(&line.to_ne_bytes());
    out.extend_from_slice(&(text.len() as u16).to_ne_bytes());
    out.extend_from_slice(&[ty, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&entries);
    out.extend_from_slice(&text);
    out
}

fn field_codes(ty: &FieldType) -> (u8, u8, u8, u32, &str) {
    match ty {
        FieldType::Scalar(scalar) => (scalar.code(), 0, 0, 0, ""),
        FieldType::Enum { scalar, name } => (scalar.code(), 0, 1, 0, name),
        FieldType::Str => (T_STR, 0, 0, 0, ""),
        FieldType::Bytes => (T_BYTES, 0, 0, 0, ""),
        FieldType::Array { element, count } => (T_ARRAY, element.code(), 0, *count, ""),
        FieldType::Seq { element } => (T_SEQ, element.code(), 0, 0, ""),
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
