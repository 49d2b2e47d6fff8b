// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values to bits, bit by bit, by the two specifications alone: nothing of the crate's reader or writer is used.

use super::types::{Encoding, Int, Len, Type, Val};

/// Bits as they are written: in little endian bytes are filled from their low end.
#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    /// Bits so far.
    pub at: u64,
    /// The order of what is padding.
    pub big: bool,
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
        for i in 0..bits {
            let bit = if is_last_first { value >> (bits - 1 - i) & 1 } else { value >> i & 1 };
            let (byte, place) = ((self.at / 8) as usize, (self.at % 8) as u32);
            if self.bytes.len() <= byte {
                self.bytes.push(0);
            }
            self.bytes[byte] |= (bit as u8) << if big { 7 - place } else { place };
            self.at += 1;
        }
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
        match (ty, value) {
            (Type::Int(int) | Type::Enum(int, _) | Type::Bits(int) | Type::BitMap(int, _), Val::Int(value)) => {
                self.int(int, *value);
            }
            // Any other bits than none are true.
            (Type::Bool(int), Val::Bool(value)) => self.int(int, i128::from(*value)),
            (Type::Float { bits, big, .. }, Val::Float(value)) => self.put((*value).into(), *bits, *big),
            (Type::Leb { signed, .. }, Val::Int(value)) => self.leb(*value, *signed),
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
                fields.iter().zip(values).for_each(|(field, value)| self.value(&field.ty, value));
            }
            (Type::Variant { options, .. }, Val::Chosen(option, value)) => self.value(&options[*option].ty, value),
            (Type::Optional { inner, .. }, Val::Maybe(Some(value))) => self.value(inner, value),
            (Type::Optional { .. }, Val::Maybe(None)) => {}
            (ty, value) => unreachable!("the generator gave {value:?} to {ty:?}"),
        }
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
