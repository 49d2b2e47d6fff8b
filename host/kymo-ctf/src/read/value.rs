//! Decoded fields as people and programs want them: names, typed values, labels. Views on the tape; nothing is copied.

use std::borrow::Cow;
use std::fmt;

use super::class::{Base, Encoding, Int, Kind, Labels, Member, Metadata, Order, View};
use super::decode::Node;

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
    /// An integer with labels, and the first label that it has.
    Enum(Number, Option<&'a str>),
    /// True or false.
    Bool(bool),
    /// 32 bits.
    F32(f32),
    /// 64 bits.
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

/// What views need: the metadata, the file and a part of the tape.
#[derive(Clone, Copy)]
struct Tape<'a> {
    metadata: &'a Metadata,
    data: &'a [u8],
    nodes: &'a [Node],
}

/// The fields of a structure, in order.
#[derive(Clone, Copy)]
pub struct Fields<'a>(Tape<'a>);

/// The elements of an array, in order.
#[derive(Clone, Copy)]
pub struct Elements<'a>(Tape<'a>);

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
    /// `nodes` begins with the node of a structure, or is empty.
    pub(crate) fn new(metadata: &'a Metadata, data: &'a [u8], nodes: &'a [Node]) -> Self {
        Self(Tape { metadata, data, nodes })
    }

    /// Fields with their names, without lengths that only say how long the next field is.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        self.parts().filter(|(member, _)| !member.hidden).map(|(member, part)| (&*member.name, part.value()))
    }

    /// All fields: name, whether it is such a length, value.
    pub fn all(&self) -> impl Iterator<Item = (&'a str, bool, Value<'a>)> + use<'a> {
        self.parts().map(|(member, part)| (&*member.name, member.hidden, part.value()))
    }

    fn parts(&self) -> Parts<'a> {
        let tape = self.0;
        let members = match tape.nodes.first().map(|node| &tape.metadata.classes[node.class as usize].kind) {
            Some(Kind::Struct { members }) => members.as_slice(),
            _ => &[],
        };
        Parts { tape, members: members.iter(), at: 1 }
    }

    /// The field `name`.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.parts().find(|(member, _)| &*member.name == name).map(|(_, part)| part.value())
    }

    /// The field at `position`, hidden ones counted.
    pub(crate) fn at(&self, position: usize) -> Option<Value<'a>> {
        let mut at = 1;
        for _ in 0..position {
            at += self.0.from(at)?.nodes[0].span as usize;
        }
        Some(self.0.from(at)?.value())
    }
}

/// Members of a structure, each with its part of the tape.
struct Parts<'a> {
    tape: Tape<'a>,
    members: std::slice::Iter<'a, Member>,
    at: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a Member, Tape<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let member = self.members.next()?;
        let part = self.tape.from(self.at)?;
        self.at += part.nodes[0].span as usize;
        Some((member, part))
    }
}

impl<'a> Elements<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.nodes.first().map_or(0, |node| node.len as usize)
    }

    /// Has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let tape = self.0;
        let mut at = 1;
        std::iter::from_fn(move || {
            let part = tape.from(at)?;
            at += part.nodes[0].span as usize;
            Some(part.value())
        })
    }
}

impl<'a> Tape<'a> {
    /// From node `at` to the end of the parent, if there is a node.
    #[inline]
    fn from(&self, at: usize) -> Option<Self> {
        let parent = self.nodes.first()?.span as usize;
        (at < parent).then(|| Self { nodes: &self.nodes[at..], ..*self })
    }

    /// The value of the first node.
    #[inline]
    fn value(self) -> Value<'a> {
        let node = self.nodes[0];
        match &self.metadata.classes[node.class as usize].kind {
            Kind::Int(int) => int_value(int, node.bits),
            Kind::Float { bits: 32, .. } => Value::F32(f32::from_bits(node.bits as u32)),
            Kind::Float { .. } => Value::F64(f64::from_bits(node.bits)),
            Kind::NulText(encoding) | Kind::Text { encoding, .. } => Value::Text(text(self.bytes(node), *encoding)),
            Kind::Bytes { .. } => Value::Bytes(self.bytes(node)),
            Kind::Array { .. } => Value::Array(Elements(self)),
            Kind::Struct { .. } => Value::Struct(Fields(self)),
            Kind::Variant { .. } | Kind::Optional { .. } => self.from(1).map_or(Value::Absent, Self::value),
        }
    }

    fn bytes(&self, node: Node) -> &'a [u8] {
        let start = node.bits as usize;
        self.data.get(start..start + node.len as usize).unwrap_or_default()
    }
}

fn int_value(int: &Int, bits: u64) -> Value<'_> {
    match int.view {
        View::Bool => return Value::Bool(bits != 0),
        View::StrictBool if bits <= 1 => return Value::Bool(bits == 1),
        View::StrictBool | View::Number => {}
    }
    let number = if int.signed { Number::Signed(bits as i64) } else { Number::Unsigned(bits) };
    match &int.labels {
        Some(labels) => Value::Enum(number, Labels::find(labels, number.into())),
        None => Value::Int(number, int.base),
    }
}

/// Up to the first NUL character.
fn text(bytes: &[u8], encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 => {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end])
        }
        Encoding::Wide { bytes: 2, order } => {
            let units = bytes.chunks_exact(2).map(|c| match order {
                Order::Little => u16::from_le_bytes([c[0], c[1]]),
                Order::Big => u16::from_be_bytes([c[0], c[1]]),
            });
            let units = units.take_while(|&unit| unit != 0);
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        Encoding::Wide { order, .. } => {
            let units = bytes.chunks_exact(4).map(|c| match order {
                Order::Little => u32::from_le_bytes([c[0], c[1], c[2], c[3]]),
                Order::Big => u32::from_be_bytes([c[0], c[1], c[2], c[3]]),
            });
            let units = units.take_while(|&unit| unit != 0);
            units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    }
}
