// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values to bits, bit by bit, by the two specifications alone: nothing of the crate's reader or writer is used.

use super::types::{Encoding, Field, Int, Len, Range, Role, Type, Val};

/// Bits as they are written: in little endian bytes are filled from their low end.
#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    /// Bits so far.
    pub at: u64,
    /// The order of what is padding.
    pub big: bool,
    /// What was written where.
    pub marks: Vec<Mark>,
    /// The record that is being written: its number in the file.
    pub record: Option<usize>,
}

/// A place that an edit of the stream may be made at.
#[derive(Clone, Debug)]
pub struct Mark {
    pub what: Marked,
    /// From the begin of the packet, bits.
    pub at: u64,
    pub bits: u32,
    pub big: bool,
    pub is_last_first: bool,
    /// A number in LEB128.
    pub is_leb: bool,
    pub record: Option<usize>,
}

/// What is there.
#[derive(Clone, Debug, PartialEq)]
pub enum Marked {
    Record,
    Role(Role),
    Uuid,
    /// LEB128 without a role.
    Leb,
    /// A field that others depend on.
    Target {
        id: usize,
        signed: bool,
    },
    /// What has the length of this number.
    Use(usize),
    /// The same: text of UTF-16 or UTF-32.
    WideText(usize),
    /// A variant: its tag, and the values that its options have.
    Variant(usize, Vec<Range>),
}

impl Bits {
    pub fn new(big: bool) -> Self {
        Self { big, ..Self::default() }
    }

    pub fn align(&mut self, bits: u64) {
        while self.at % bits != 0 {
            self.put(0, 1, self.big);
        }
    }

    /// The low `bits` bits of a value of two's complement, in the bit order that the byte order has by itself.
    pub fn put(&mut self, value: i128, bits: u32, big: bool) {
        self.put_from(value, bits, big, big);
    }

    /// The same; `is_last_first`: from the highest bit of the value on.
    fn put_from(&mut self, value: i128, bits: u32, big: bool, is_last_first: bool) {
        let end = self.at + u64::from(bits);
        self.bytes.resize(self.bytes.len().max(end.div_ceil(8) as usize), 0);
        set_bits(&mut self.bytes, self.at, value, bits, big, is_last_first);
        self.at = end;
    }

    /// Notes what the next `bits` bits are, which `int` says the order of.
    pub fn mark(&mut self, what: Marked, bits: u32, int: Option<&Int>) {
        let (big, flipped) = int.map_or((self.big, false), |int| (int.big, int.flipped));
        let (is_last_first, record) = (big ^ flipped, self.record);
        let mark = Mark { what, at: self.at, bits, big, is_last_first, is_leb: false, record };
        self.marks.push(mark);
    }

    /// The same of a whole value that begins here.
    fn mark_value(&mut self, ty: &Type) {
        match ty {
            Type::Int(int) | Type::Enum(int, _) => {
                if let Some(role) = int.role {
                    self.mark(Marked::Role(role), int.bits, Some(int));
                }
            }
            Type::Uuid => self.mark(Marked::Uuid, 128, None),
            Type::Chars(Len::Of(length), Encoding::Utf16 { .. } | Encoding::Utf32 { .. }) => {
                self.mark(Marked::WideText(length.id), 0, None);
            }
            Type::Chars(Len::Of(length), _) | Type::Blob(Len::Of(length)) | Type::List { len: Len::Of(length), .. } => {
                self.mark(Marked::Use(length.id), 0, None);
            }
            Type::Variant { tag, options } => {
                let ranges = options.iter().flat_map(|option| option.ranges.clone()).collect();
                self.mark(Marked::Variant(tag.id, ranges), 0, None);
            }
            _ => {}
        }
    }

    fn member(&mut self, field: &Field, value: &Val) {
        self.align(field.ty.align());
        if let (Some((id, _)), Type::Int(int) | Type::Enum(int, _)) = (&field.target, &field.ty) {
            self.mark(Marked::Target { id: *id, signed: int.signed }, int.bits, Some(int));
        }
        self.value(&field.ty, value);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.put(byte.into(), 8, self.big));
    }

    fn int(&mut self, int: &Int, value: i128) {
        self.put_from(value, int.bits, int.big, int.big ^ int.flipped);
    }

    /// The shortest form; with a sign as long as the last byte's bit 6 is not yet the sign of the rest.
    fn leb(&mut self, mut value: i128, signed: bool) {
        loop {
            let low = value & 0x7F;
            value >>= 7;
            let is_last = if signed { value == if low & 0x40 == 0 { 0 } else { -1 } } else { value == 0 };
            self.put(low | if is_last { 0 } else { 0x80 }, 8, self.big);
            if is_last {
                return;
            }
        }
    }

    /// A value behind what aligns its type.
    pub fn value(&mut self, ty: &Type, value: &Val) {
        self.align(ty.align());
        self.mark_value(ty);
        match (ty, value) {
            (Type::Int(int) | Type::Enum(int, _) | Type::Bits(int) | Type::BitMap(int, _), Val::Int(value)) => {
                self.int(int, *value);
            }
            // Any other bits than none are true.
            (Type::Bool(int), Val::Bool(value)) => self.int(int, i128::from(*value)),
            (Type::Float { bits, big, .. }, Val::Float(value)) => self.put((*value).into(), *bits, *big),
            (Type::Leb { signed, role }, Val::Int(value)) => {
                self.mark(role.map_or(Marked::Leb, Marked::Role), 0, None);
                let (mark, at) = (self.marks.len() - 1, self.at);
                self.leb(*value, *signed);
                (self.marks[mark].bits, self.marks[mark].is_leb) = ((self.at - at) as u32, true);
            }
            (Type::Text(encoding), Val::Text(text)) => {
                self.bytes(&encoded(text, *encoding));
                self.bytes(&encoded("\0", *encoding));
            }
            (Type::Chars(len, encoding), Val::Text(text)) => {
                let bytes = encoded(text, *encoding);
                self.bytes(&bytes);
                // Text that is shorter than its field ends with a character of zero.
                if let Len::Fixed(count) = len {
                    (bytes.len() as u64..*count).for_each(|_| self.put(0, 8, self.big));
                }
            }
            (Type::Blob(_) | Type::Uuid, Val::Bytes(bytes)) => self.bytes(bytes),
            (Type::List { element, .. }, Val::List(values)) => {
                values.iter().for_each(|value| self.value(element, value));
            }
            (Type::Struct(fields, _), Val::Struct(values)) => {
                fields.iter().zip(values).for_each(|(field, value)| self.member(field, value));
            }
            (Type::Variant { options, .. }, Val::Chosen(option, value)) => self.value(&options[*option].ty, value),
            (Type::Optional { inner, .. }, Val::Maybe(Some(value))) => self.value(inner, value),
            (Type::Optional { .. }, Val::Maybe(None)) => {}
            (ty, value) => unreachable!("the generator gave {value:?} to {ty:?}"),
        }
    }
}

/// Writes the low `bits` bits of a value over those at bit `at`; `is_last_first`: from the highest bit of the value on.
pub fn set_bits(bytes: &mut [u8], at: u64, value: i128, bits: u32, big: bool, is_last_first: bool) {
    for i in 0..bits {
        let bit = if is_last_first { value >> (bits - 1 - i) & 1 } else { value >> i & 1 };
        let at = at + u64::from(i);
        let (byte, place) = (&mut bytes[(at / 8) as usize], (at % 8) as u32);
        let place = if big { 7 - place } else { place };
        *byte = *byte & !(1 << place) | (bit as u8) << place;
    }
}

/// The bytes of a text.
pub fn encoded(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf16 { big } => {
            text.encode_utf16().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        }
        Encoding::Utf32 { big } => text
            .chars()
            .map(u32::from)
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect(),
    }
}
