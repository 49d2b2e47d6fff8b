// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random values of types. What other fields depend on is chosen when its field comes, and remembered.

use std::collections::HashMap;

use super::bits::encoded;
use super::make::Maker;
use super::types::{Encoding, Field, Int, Len, Type, Val, Wish};

/// Values of fields that others depend on, by their number.
pub type Known = HashMap<usize, i128>;

/// Characters of one, two, three and four bytes; the last ones need an escape where text is shown in quotes.
const CHARACTERS: [char; 12] = ['a', 'b', 'Z', '7', ' ', 'é', 'ß', '€', '漢', '😀', '𝄞', '~'];
const ESCAPED: [char; 4] = ['"', '\\', '\n', '\t'];

impl Maker {
    /// A value of `ty`.
    pub fn value(&mut self, ty: &Type, known: &mut Known) -> Val {
        match ty {
            Type::Int(int) => Val::Int(self.number_of(int)),
            Type::Enum(int, labels) => {
                let label = &labels[self.random.below(labels.len())];
                let (low, high) = label.ranges[self.random.below(label.ranges.len())];
                let value = self.among(low, high);
                let is_without = self.feature("value-without-label", 6);
                Val::Int(if is_without { self.number_of(int) } else { value })
            }
            Type::Float { bits, .. } => Val::Float(self.float_bits(*bits)),
            Type::Leb { signed, .. } => {
                let word = self.random.word() >> self.random.below(64u64);
                Val::Int(if *signed { (word as i64).into() } else { word.into() })
            }
            Type::Bool(_) => Val::Bool(self.one_in(2)),
            Type::Bits(int) | Type::BitMap(int, _) => Val::Int(self.number_of(int)),
            Type::Text(encoding) => {
                let bytes = if self.feature("empty-text", 8) { 0 } else { 4 * (1 + self.random.below(4u64)) };
                Val::Text(self.text_of(bytes, *encoding))
            }
            Type::Chars(len, encoding) => {
                let bytes = count(len, known);
                let is_short = matches!(len, Len::Fixed(_)) && bytes > 4 && self.feature("padded-text", 5);
                Val::Text(self.text_of(if is_short { bytes - 4 } else { bytes }, *encoding))
            }
            Type::Blob(len) => Val::Bytes(self.random.bytes(count(len, known) as usize)),
            Type::Uuid => unreachable!("heads are not random"),
            Type::List { element, len, .. } => {
                Val::List((0..count(len, known)).map(|_| self.value(element, known)).collect())
            }
            Type::Struct(fields, _) => Val::Struct(fields.iter().map(|field| self.member(field, known)).collect()),
            Type::Variant { tag, options } => {
                let value = known[&tag.id];
                let is_it = |ranges: &[(i128, i128)]| ranges.iter().any(|&(low, high)| low <= value && value <= high);
                let option = options.iter().position(|option| is_it(&option.ranges)).expect("an option for the tag");
                Val::Chosen(option, self.value(&options[option].ty, known).into())
            }
            Type::Optional { selector, ranges, inner } => {
                let value = known[&selector.id];
                let is_there = match ranges {
                    Some(ranges) => ranges.iter().any(|&(low, high)| low <= value && value <= high),
                    None => value != 0,
                };
                Val::Maybe(is_there.then(|| self.value(inner, known).into()))
            }
        }
    }

    fn member(&mut self, field: &Field, known: &mut Known) -> Val {
        let Some((id, wish)) = &field.target else { return self.value(&field.ty, known) };
        let value = match wish {
            Wish::Length if self.feature("length-of-none", 6) => 0,
            Wish::Length => 1 + i128::from(self.random.below(4u64)),
            Wish::Among(ranges) => {
                let (low, high) = ranges[self.random.below(ranges.len())];
                self.among(low, high)
            }
        };
        known.insert(*id, value);
        match field.ty {
            Type::Bool(_) => Val::Bool(value != 0),
            _ => Val::Int(value),
        }
    }

    /// Often at an end of what there is.
    fn number_of(&mut self, int: &Int) -> i128 {
        let (least, most) = int.limits();
        match self.random.below(6u64) {
            0 => least,
            1 => most,
            2 => 0,
            _ => self.among(least, most),
        }
    }

    fn among(&mut self, low: i128, high: i128) -> i128 {
        let word = i128::from(self.random.word()) << 63 | i128::from(self.random.word() >> 1);
        low + word % (high - low + 1)
    }

    fn float_bits(&mut self, bits: u32) -> u64 {
        let word = self.random.word() >> (64 - bits);
        let fraction = match bits {
            16 => 10,
            32 => 23,
            _ => 52,
        };
        let exponents = ((1u64 << (bits - 1 - fraction)) - 1) << fraction;
        let half = exponents >> 1 & exponents;
        match self.random.below(10u64) {
            0 => 0,
            1 => 1 << (bits - 1),
            2 if self.features.note("float-infinite") => exponents,
            3 if self.features.note("float-subnormal") => word & !exponents,
            4 if self.features.note("float-of-any-bits") => word & !(1 << fraction),
            // About 1: what a reader shows in 6 digits is told apart.
            _ => word & !exponents | half,
        }
    }

    /// Text of so many bytes.
    fn text_of(&mut self, bytes: u64, encoding: Encoding) -> String {
        let (mut text, mut left) = (String::new(), bytes as usize);
        while left > 0 {
            let character = match self.random.below(3u64) {
                0 if self.features.note("text-of-any-character") => self.random.pick(&CHARACTERS),
                1 if self.feature("text-with-escapes", 12) => self.random.pick(&ESCAPED),
                _ => self.random.pick(&CHARACTERS[..4]),
            };
            let size = encoded(character.encode_utf8(&mut [0; 4]), encoding).len();
            if size <= left {
                text.push(character);
                left -= size;
            }
        }
        text
    }
}

fn count(len: &Len, known: &Known) -> u64 {
    match len {
        Len::Fixed(count) => *count,
        Len::Of(reference) => u64::try_from(known[&reference.id]).expect("a length"),
    }
}
