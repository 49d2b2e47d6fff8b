// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields as people and programs want them: names, typed values, labels. Views on the bytes and on what plan and tape
//! found in them; nothing is decoded before it is asked for, and nothing is copied.

use std::borrow::Cow;
use std::fmt;

use super::bits::{extended, extract, text_bytes};
use super::class::{self, Base, ClassId, ClassKind, Encoding, Int, Len, Member, Order, WideClass};
use super::frame::{Frame, Mark, Node};
use super::labels::EnumLabels;
use super::plan::{FieldPlace, PlanPart, WriterFactPlace};
use super::wide::{WideInt, limbs, nearest_f64};

/// An integer of either sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Without a sign.
    Unsigned(u64),
    /// With a sign.
    Signed(i64),
}

impl From<Number> for i128 {
    fn from(number: Number) -> Self {
        match number {
            Number::Unsigned(value) => value.into(),
            Number::Signed(value) => value.into(),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// An integer, and the base to show it in.
    Int(Number, Base),
    /// An integer with labels, and those that it has.
    Enum(Number, EnumLabels<'a>),
    /// An integer of more than 64 bits, with labels or without.
    Wide(WideInt<'a>),
    /// True or false.
    Bool(bool),
    /// 32 bits, or 16.
    F32(f32),
    /// 64 bits; of a wider one the nearest of 64.
    F64(f64),
    /// Text; bytes that are not text are replaced by U+FFFD.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array of any length.
    Array(Elements<'a>),
    /// A structure.
    Struct(Fields<'a>),
    /// An optional field without a value.
    Absent,
}

/// A field on the tape.
#[derive(Clone, Copy)]
struct Tape<'a> {
    frame: &'a Frame<'a>,
    node: usize,
}

/// A part of a record that a plan passed over.
#[derive(Clone, Copy)]
struct Passed<'a> {
    frame: &'a Frame<'a>,
    part: &'a PlanPart,
}

/// The fields of a structure, in order.
#[derive(Clone, Copy)]
pub struct Fields<'a>(FieldsAt<'a>);

#[derive(Clone, Copy)]
enum FieldsAt<'a> {
    Empty,
    Tape(Tape<'a>),
    /// Constant, from a bit of the file on.
    Packed {
        frame: &'a Frame<'a>,
        class: ClassId,
        at: u64,
    },
    Passed(Passed<'a>),
}

/// The elements of an array, in order.
#[derive(Clone, Copy)]
pub struct Elements<'a>(ElementsAt<'a>);

#[derive(Clone, Copy)]
enum ElementsAt<'a> {
    Tape(Tape<'a>),
    /// Constant elements, from a bit of the file on.
    Packed {
        frame: &'a Frame<'a>,
        class: ClassId,
        at: u64,
        len: u64,
    },
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Fields<'a> {
    /// The structure that is the first node of the tape, if there is one.
    pub(crate) fn of_tape(frame: &'a Frame<'a>) -> Self {
        Self(if frame.nodes.is_empty() { FieldsAt::Empty } else { FieldsAt::Tape(Tape { frame, node: 0 }) })
    }

    /// A part of the record that was passed over last.
    #[inline]
    pub(crate) fn of_record(frame: &'a Frame<'a>, part: &'a PlanPart) -> Self {
        Self(FieldsAt::Passed(Passed { frame, part }))
    }

    /// Bytes and marks of the record that these are a part of.
    #[inline]
    pub(crate) fn frame(&self) -> Option<&'a Frame<'a>> {
        if let FieldsAt::Passed(passed) = self.0 { Some(passed.frame) } else { None }
    }

    /// Fields with their names, without lengths that only say how long the next field is.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        self.walk().filter(|(member, _)| !member.hidden).map(|(member, value)| (&*member.name, value))
    }

    /// All fields: name, whether it is such a length, value.
    pub fn all(&self) -> impl Iterator<Item = (&'a str, bool, Value<'a>)> + use<'a> {
        self.walk().map(|(member, value)| (&*member.name, member.hidden, value))
    }

    #[inline]
    fn walk(&self) -> Walk<'a> {
        let at = match self.0 {
            FieldsAt::Tape(tape) => tape.node as u64 + 1,
            FieldsAt::Packed { at, .. } => at,
            FieldsAt::Passed(_) | FieldsAt::Empty => 0,
        };
        Walk { shape: self.0, members: self.members().iter(), at }
    }

    #[inline]
    fn members(&self) -> &'a [Member] {
        let frame = match self.0 {
            FieldsAt::Empty => return &[],
            FieldsAt::Tape(tape) => tape.frame,
            FieldsAt::Packed { frame, .. } => frame,
            FieldsAt::Passed(passed) => passed.frame,
        };
        self.class().map_or(&[], |class| frame.metadata.members(class))
    }

    /// The structure.
    #[inline]
    pub(crate) fn class(&self) -> Option<ClassId> {
        match self.0 {
            FieldsAt::Empty => None,
            FieldsAt::Tape(tape) => Some(tape.node().class),
            FieldsAt::Packed { class, .. } => Some(class),
            FieldsAt::Passed(passed) => passed.part.class,
        }
    }

    /// All fields, as they lie.
    pub(crate) fn raws(&self) -> impl Iterator<Item = Raw<'a>> + use<'a> {
        let (shape, mut walk) = (self.0, self.walk());
        std::iter::from_fn(move || {
            Some(Raw(match shape {
                FieldsAt::Tape(tape) => {
                    walk.members.next()?;
                    let field = tape.inner(walk.at as usize)?;
                    walk.at += u64::from(field.node().span);
                    Lies::Tape(field)
                }
                FieldsAt::Passed(passed) => {
                    walk.members.next()?;
                    walk.at += 1;
                    passed.raw(walk.at as usize - 1)?
                }
                FieldsAt::Packed { .. } | FieldsAt::Empty => Lies::Plain(walk.next()?.1),
            }))
        })
    }

    /// The field `name`.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.at(self.position(name)?)
    }

    /// Where the field `name` stands, for [`Fields::at`]: the same in all records of an event.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.members().iter().position(|member| &*member.name == name)
    }

    /// The field at `position`, counted from 0, lengths included.
    #[inline]
    pub fn at(&self, position: usize) -> Option<Value<'a>> {
        match self.0 {
            FieldsAt::Passed(passed) => passed.value(position),
            _ => self.walk().nth(position).map(|(_, value)| value),
        }
    }
}

/// A field as it lies, for who needs to know which option of a variant it is.
pub(crate) struct Raw<'a>(Lies<'a>);

enum Lies<'a> {
    Tape(Tape<'a>),
    /// No variant, and no optional.
    Plain(Value<'a>),
}

impl<'a> Raw<'a> {
    /// Its value.
    pub fn value(self) -> Value<'a> {
        match self.0 {
            Lies::Tape(tape) => tape.value(),
            Lies::Plain(value) => value,
        }
    }

    /// What a variant or an optional has inside, with its class; `None` where it has nothing.
    pub fn inner(&self) -> Option<(ClassId, Raw<'a>)> {
        let Lies::Tape(tape) = &self.0 else { return None };
        let inner = tape.inner(tape.node + 1)?;
        Some((inner.node().class, Raw(Lies::Tape(inner))))
    }
}

/// Members of a structure, each with its value.
struct Walk<'a> {
    shape: FieldsAt<'a>,
    members: std::slice::Iter<'a, Member>,
    /// Node, bit in the file, or position: by the shape.
    at: u64,
}

impl<'a> Iterator for Walk<'a> {
    type Item = (&'a Member, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let member = self.members.next()?;
        let value = match self.shape {
            FieldsAt::Tape(tape) => {
                let field = tape.inner(self.at as usize)?;
                self.at += u64::from(field.node().span);
                field.value()
            }
            FieldsAt::Empty => return None,
            FieldsAt::Passed(passed) => {
                self.at += 1;
                passed.value(self.at as usize - 1)?
            }
            FieldsAt::Packed { frame, at, .. } => {
                let field = &frame.metadata.classes[member.class as usize];
                // The structure begins at a multiple of its alignment, which is the largest in it. In the file it may
                // not: packets begin at bytes.
                let begin = at + (self.at - at).next_multiple_of(u64::from(field.align));
                self.at = begin + u64::from(field.bits.unwrap_or(0));
                frame.constant(member.class, begin)
            }
        };
        Some((member, value))
    }
}

impl<'a> Elements<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self.0 {
            ElementsAt::Tape(tape) => tape.node().len as usize,
            ElementsAt::Packed { len, .. } => len as usize,
        }
    }

    /// Has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (row, len) = (self.0, self.len());
        let mut done = 0;
        let mut node = if let ElementsAt::Tape(tape) = row { tape.node + 1 } else { 0 };
        std::iter::from_fn(move || {
            if done == len {
                return None;
            }
            done += 1;
            match row {
                ElementsAt::Tape(tape) => {
                    let element = tape.inner(node)?;
                    node += element.node().span as usize;
                    Some(element.value())
                }
                ElementsAt::Packed { frame, class, at, .. } => {
                    let stride = frame.metadata.classes[class as usize].stride_bits()?;
                    Some(frame.constant(class, at + stride * (done as u64 - 1)))
                }
            }
        })
    }
}

impl<'a> Elements<'a> {
    /// The elements, as they lie.
    pub(crate) fn raws(&self) -> impl Iterator<Item = Raw<'a>> + use<'a> {
        let (row, mut left, mut values) = (self.0, self.len(), self.iter());
        let mut node = if let ElementsAt::Tape(tape) = row { tape.node + 1 } else { 0 };
        std::iter::from_fn(move || {
            let ElementsAt::Tape(tape) = row else { return values.next().map(|value| Raw(Lies::Plain(value))) };
            left = left.checked_sub(1)?;
            let element = tape.inner(node)?;
            node += element.node().span as usize;
            Some(Raw(Lies::Tape(element)))
        })
    }
}

impl<'a> Tape<'a> {
    #[inline]
    fn node(self) -> Node {
        self.frame.nodes[self.node]
    }

    /// Node `at`, if it lies within this field.
    #[inline]
    fn inner(self, at: usize) -> Option<Self> {
        (at < self.node + self.node().span as usize).then_some(Self { node: at, ..self })
    }

    #[inline]
    fn value(self) -> Value<'a> {
        let (frame, node) = (self.frame, self.node());
        match &frame.metadata.classes[node.class as usize].kind {
            ClassKind::Int(int) => int_value(int, node.bits),
            ClassKind::Float { bits, .. } => float_value(*bits, node.bits),
            ClassKind::Wide(_) | ClassKind::WideFloat { .. } => frame.constant(node.class, node.bits),
            ClassKind::NulText(encoding) | ClassKind::Text { encoding, .. } => {
                Value::Text(text(frame.bytes(node.bits, node.len), *encoding))
            }
            ClassKind::Bytes { .. } => Value::Bytes(frame.bytes(node.bits, node.len)),
            ClassKind::Array { .. } => Value::Array(Elements(ElementsAt::Tape(self))),
            ClassKind::Struct { .. } => Value::Struct(Fields(FieldsAt::Tape(self))),
            ClassKind::Variant { .. } | ClassKind::Optional { .. } => {
                self.inner(self.node + 1).map_or(Value::Absent, Self::value)
            }
        }
    }
}

impl<'a> Passed<'a> {
    /// The field at `position`, as it lies.
    fn raw(&self, position: usize) -> Option<Lies<'a>> {
        let frame = self.frame;
        let class = frame.metadata.members(self.part.class?).get(position)?.class;
        let kind = &frame.metadata.classes[class as usize].kind;
        match *self.part.places.get(position)? {
            FieldPlace::Marked(mark) if matches!(kind, ClassKind::Variant { .. } | ClassKind::Optional { .. }) => {
                let node = frame.marks.get(mark as usize)?.at as usize;
                (node < frame.nodes.len()).then_some(Lies::Tape(Tape { frame, node }))
            }
            _ => self.value(position).map(Lies::Plain),
        }
    }

    /// The field at `position`.
    #[inline]
    fn value(&self, position: usize) -> Option<Value<'a>> {
        let frame = self.frame;
        let class = frame.metadata.members(self.part.class?).get(position)?.class;
        match *self.part.places.get(position)? {
            FieldPlace::Packed { mark, delta_bits } => {
                let mark = frame.marks.get(mark as usize)?;
                Some(frame.constant(class, frame.origin + mark.end + u64::from(delta_bits)))
            }
            FieldPlace::Marked(mark) => frame.marked(class, frame.marks.get(mark as usize)?),
        }
    }
}

impl Frame<'_> {
    /// What a plain integer says of where a record was written: outer `None` where it is none.
    #[inline]
    pub fn known(&self, place: &WriterFactPlace) -> Option<Option<u32>> {
        let (mark, piece) = place.piece?;
        let bits = piece.read(self.data, self.origin + self.marks.get(mark as usize)?.end);
        Some(small_number(if piece.signed { Number::Signed(bits as i64) } else { Number::Unsigned(bits) }))
    }

    /// The value of a field that is not constant.
    fn marked(&self, id: ClassId, mark: &Mark) -> Option<Value<'_>> {
        let at = self.origin + mark.at;
        let bytes = || self.bytes(at / 8, mark.len);
        let is_counted = |element: ClassId| self.metadata.classes[element as usize].bits.is_some_and(|bits| bits > 0);
        Some(match &self.metadata.classes[id as usize].kind {
            // The only integers with marks are those of variable length, which are in them.
            ClassKind::Int(int) => int_value(int, mark.at),
            ClassKind::NulText(encoding) => Value::Text(text(bytes(), *encoding)),
            // Text in wider units is on the tape: a length may end inside of a unit.
            ClassKind::Text { len: Len::Saved(_), encoding: Encoding::Utf8 } => {
                Value::Text(text(bytes(), Encoding::Utf8))
            }
            ClassKind::Bytes { len: Len::Saved(_) } => Value::Bytes(bytes()),
            ClassKind::Array { len: Len::Saved(_), element } if is_counted(*element) => {
                Value::Array(Elements(ElementsAt::Packed { frame: self, class: *element, at, len: mark.len }))
            }
            _ if (mark.at as usize) < self.nodes.len() => Tape { frame: self, node: mark.at as usize }.value(),
            _ => return None,
        })
    }

    fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        let start = offset as usize;
        self.data.get(start..start.saturating_add(len as usize)).unwrap_or_default()
    }

    /// The value of the constant class `id` that begins at the bit `at` of the file.
    #[inline]
    fn constant(&self, id: ClassId, at: u64) -> Value<'_> {
        match &self.metadata.classes[id as usize].kind {
            ClassKind::Int(int) => int_value(
                int,
                extended(extract(self.data, at, int.bits.max(1), int.order), int.bits.max(1), int.signed),
            ),
            ClassKind::Float { bits, order } => float_value(*bits, extract(self.data, at, *bits, *order)),
            ClassKind::Wide(class) => wide_value(WideInt::new(self.data, at, class), class),
            ClassKind::WideFloat { bits, order } => {
                Value::F64(nearest_f64(&limbs(self.data, at, *bits, *order), *bits))
            }
            ClassKind::Text { len: Len::Fixed(len), encoding } => {
                Value::Text(text(self.bytes(at / 8, *len), *encoding))
            }
            ClassKind::Bytes { len: Len::Fixed(len) } => Value::Bytes(self.bytes(at / 8, *len)),
            ClassKind::Array { len: Len::Fixed(len), element } => {
                Value::Array(Elements(ElementsAt::Packed { frame: self, class: *element, at, len: *len }))
            }
            ClassKind::Struct { .. } => Value::Struct(Fields(FieldsAt::Packed { frame: self, class: id, at })),
            // None of these is constant.
            ClassKind::NulText(_) | ClassKind::Text { .. } | ClassKind::Bytes { .. } | ClassKind::Array { .. } => {
                Value::Absent
            }
            ClassKind::Variant { .. } | ClassKind::Optional { .. } => Value::Absent,
        }
    }
}

/// A number that fits and is not the mark for "not known".
#[inline]
pub(super) fn small(value: &Value<'_>) -> Option<u32> {
    let number = match value {
        Value::Int(number, _) | Value::Enum(number, _) => *number,
        _ => return None,
    };
    small_number(number)
}

#[inline]
pub(super) fn small_number(number: Number) -> Option<u32> {
    match number {
        Number::Unsigned(value) => u32::try_from(value).ok().filter(|&value| value != u32::MAX),
        Number::Signed(value) => u32::try_from(value).ok(),
    }
}

fn float_value<'a>(length: u8, bits: u64) -> Value<'a> {
    match length {
        16 => Value::F32(half(bits as u16)),
        32 => Value::F32(f32::from_bits(bits as u32)),
        _ => Value::F64(f64::from_bits(bits)),
    }
}

/// A float of 16 bits: 32 have all its values.
fn half(bits: u16) -> f32 {
    const FRACTION_BITS: u32 = 10;
    let (sign, size) = (u32::from(bits >> 15) << 31, u32::from(bits & 0x7FFF));
    let (exponent, fraction) = (size >> FRACTION_BITS, size & 0x3FF);
    let number = match exponent {
        // Below 2^-14 there are multiples of 2^-24.
        0 => (fraction as f32 / 16_777_216.0).to_bits(),
        0x1F => 0xFF << 23 | fraction << 13,
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | number)
}

fn int_value(int: &Int, bits: u64) -> Value<'_> {
    match int.view {
        class::View::Bool => return Value::Bool(bits != 0),
        class::View::StrictBool if bits <= 1 => return Value::Bool(bits == 1),
        class::View::StrictBool | class::View::Number => {}
    }
    let number = if int.signed { Number::Signed(bits as i64) } else { Number::Unsigned(bits) };
    match &int.labels {
        Some(labels) => Value::Enum(number, labels.find(number.into())),
        None => Value::Int(number, int.base),
    }
}

fn wide_value<'a>(value: WideInt<'a>, class: &WideClass) -> Value<'a> {
    match class.view {
        class::View::Bool => Value::Bool(!value.is_zero()),
        class::View::StrictBool | class::View::Number => Value::Wide(value),
    }
}

/// Up to the first NUL character.
fn text(bytes: &[u8], encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 => {
            let bytes = &bytes[..text_bytes(bytes).unwrap_or(bytes.len())];
            // Short texts, mostly: this is the faster question.
            std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
        }
        Encoding::Wide { bytes: 2, order } => {
            let units = bytes.chunks_exact(2).map(|c| match order {
                Order::Big => u16::from_be_bytes([c[0], c[1]]),
                _ => u16::from_le_bytes([c[0], c[1]]),
            });
            let units = units.take_while(|&unit| unit != 0);
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        Encoding::Wide { order, .. } => {
            let units = bytes.chunks_exact(4).map(|c| match order {
                Order::Big => u32::from_be_bytes([c[0], c[1], c[2], c[3]]),
                _ => u32::from_le_bytes([c[0], c[1], c[2], c[3]]),
            });
            let units = units.take_while(|&unit| unit != 0);
            units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn floats_of_16_bits() {
        for (bits, expect) in [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03FF, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3555, 0.333_251_95),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x7C00, f32::INFINITY),
            (0xFC00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), expect, "{bits:#x}");
        }
        assert!(half(0x8000).is_sign_negative() && half(0x7E00).is_nan());
    }
}
