// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protobuf's wire format, as far as it is read: a message as its fields in order. Knows no message; written beside the
//! writer's own code so that both do not share a mistake.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire<'a> {
    /// Integers, booleans, enumerations.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Text, bytes, messages.
    Bytes(&'a [u8]),
}

/// A message.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(pub Vec<(u32, Wire<'a>)>);

impl<'a> Fields<'a> {
    /// All fields of a message.
    #[track_caller]
    pub fn of(mut bytes: &'a [u8]) -> Fields<'a> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let head = varint(&mut bytes);
            let value = match head & 7 {
                0 => Wire::Varint(varint(&mut bytes)),
                1 => Wire::Fixed64(u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight bytes"))),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Wire::Bytes(take(&mut bytes, length))
                }
                kind => panic!("wire type {kind}"),
            };
            fields.push(((head >> 3) as u32, value));
        }
        Fields(fields)
    }

    /// The values of a field.
    pub fn all(&self, number: u32) -> impl Iterator<Item = Wire<'a>> {
        self.0.iter().filter(move |(known, _)| *known == number).map(|(_, value)| *value)
    }

    /// The messages in a field.
    pub fn messages(&self, number: u32) -> impl Iterator<Item = Fields<'a>> {
        self.all(number).map(move |value| match value {
            Wire::Bytes(bytes) => Fields::of(bytes),
            value => panic!("field {number} is no message: {value:?}"),
        })
    }

    /// The first message in a field.
    pub fn message(&self, number: u32) -> Option<Fields<'a>> {
        self.messages(number).next()
    }

    /// An integer.
    pub fn int(&self, number: u32) -> Option<i64> {
        self.all(number).last().map(|value| match value {
            Wire::Varint(value) => value as i64,
            value => panic!("field {number} is no integer: {value:?}"),
        })
    }

    /// A text.
    pub fn text(&self, number: u32) -> Option<&'a str> {
        self.all(number).last().map(|value| match value {
            Wire::Bytes(bytes) => std::str::from_utf8(bytes).expect("text is UTF-8"),
            value => panic!("field {number} is no text: {value:?}"),
        })
    }
}

#[track_caller]
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    assert!(length <= bytes.len(), "a field of {length} bytes, and {} are left", bytes.len());
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

#[track_caller]
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}
