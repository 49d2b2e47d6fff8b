// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protobuf's wire format, as far as messages are written: varints, doubles, and what has a length. And times as all
//! of Perfetto's messages have them.

/// A message, being put together.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

impl Message {
    /// What was put together.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A number without sign, a boolean, or an enumeration.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.head(field, VARINT);
        self.varint(value);
    }

    /// `int32` or `int64`: ten bytes where it is negative.
    pub fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value as u64);
    }

    /// A double.
    pub fn double(&mut self, field: u32, value: f64) {
        self.head(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.counted(field, text.as_bytes());
    }

    /// A message in this one.
    pub fn message(&mut self, field: u32, message: &Message) {
        self.counted(field, &message.0);
    }

    fn counted(&mut self, field: u32, bytes: &[u8]) {
        self.head(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn head(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Nanoseconds as a field. Times before the origin are at it: the format has no sign.
pub fn time(ns: i128) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn numbers_and_texts_are_as_the_format_has_them() {
        let mut inner = Message::default();
        inner.text(2, "ab");
        let mut message = Message::default();
        message.uint(1, 300);
        message.int(3, -1);
        message.message(16, &inner);
        let expect =
            [&[0x08, 0xAC, 0x02, 0x18][..], &[0xFF; 9], &[0x01, 0x82, 0x01, 0x04, 0x12, 0x02, b'a', b'b']].concat();
        assert_eq!(message.bytes(), expect);
    }
}
