// SPDX-License-Identifier: MIT OR Apache-2.0
//! One record's payload: values one behind the other, little endian, without padding. Knows nothing of /proc.

use std::net::Ipv4Addr;

use crate::class::StateRecordClass;

/// One record of the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The id of its class.
    pub id: u16,
    /// The thread that it is about; the process for files and maps; 0 for what belongs to the machine.
    pub tid: u32,
    /// The fields of the class one behind the other, little endian, without padding.
    pub payload: &'a [u8],
}

/// A payload that grows; its memory is used again for the next record.
#[derive(Default)]
pub(crate) struct Payload(Vec<u8>);

impl Payload {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Payload {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Payload {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Payload {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Payload {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn address(&mut self, value: Ipv4Addr) -> &mut Payload {
        self.0.extend_from_slice(&value.octets());
        self
    }

    /// Bytes that end at the first NUL, cut to leave one NUL behind them, in a field of `N`.
    pub(crate) fn chars<const N: usize>(&mut self, value: &[u8]) -> &mut Payload {
        let end = value.iter().position(|&b| b == 0).unwrap_or(value.len()).min(N.saturating_sub(1));
        self.0.extend_from_slice(&value[..end]);
        self.0.resize(self.0.len() + N - end, 0);
        self
    }

    /// Text with its length in front. U+FFFD stands for what is not UTF-8; what is longer than 65535 bytes is cut.
    pub(crate) fn text(&mut self, value: &[u8]) -> &mut Payload {
        let start = self.0.len();
        self.0.extend_from_slice(&[0, 0]);
        for chunk in value.utf8_chunks() {
            self.0.extend_from_slice(chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                self.0.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        self.cut_text(start + 2, usize::from(u16::MAX));
        let length = (self.0.len() - start - 2) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_le_bytes());
        self
    }

    /// Cuts what stands from `start` on, which is UTF-8, to at most `limit` bytes, between two characters.
    fn cut_text(&mut self, start: usize, limit: usize) {
        if self.0.len() - start > limit {
            let mut end = start + limit;
            while self.0[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            self.0.truncate(end);
        }
    }

    /// Text up to its first NUL, and a NUL.
    pub(crate) fn c_string(&mut self, value: &str) -> &mut Payload {
        let value = value.split('\0').next().unwrap_or("");
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
        self
    }

    /// Bytes with their length in front. What is longer than 65535 bytes is cut.
    pub(crate) fn blob(&mut self, value: &[u8]) -> &mut Payload {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(&value[..usize::from(length)]);
        self
    }
}

/// Where records go.
pub(crate) struct Sink<'a> {
    pub first_id: u16,
    pub put: &'a mut dyn FnMut(Event<'_>),
    pub payload: Payload,
}

impl Sink<'_> {
    /// Hands on one record about `tid`, whose fields `fill` writes in the order of its class.
    pub(crate) fn emit(&mut self, kind: StateRecordClass, tid: u32, fill: impl FnOnce(&mut Payload)) {
        self.payload.0.clear();
        fill(&mut self.payload);
        (self.put)(Event { id: kind.id(self.first_id), tid, payload: &self.payload.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(value: &[u8]) -> String {
        let mut payload = Payload::default();
        payload.text(value);
        let length = usize::from(u16::from_le_bytes([payload.0[0], payload.0[1]]));
        assert_eq!(payload.0.len(), length + 2);
        String::from_utf8(payload.0[2..].to_vec()).expect("is UTF-8")
    }

    #[test]
    fn texts_are_utf8_and_fit_their_length() {
        assert_eq!(text_of(b""), "");
        assert_eq!(text_of("gr\u{fc}n".as_bytes()), "gr\u{fc}n");
        assert_eq!(text_of(b"a\xffb\xe2\x82"), "a\u{fffd}b\u{fffd}");
        let long = "\u{20ac}".repeat(30_000);
        assert_eq!(text_of(long.as_bytes()), "\u{20ac}".repeat(65535 / 3));
        let longer = format!("x{long}");
        assert_eq!(text_of(longer.as_bytes()).len(), 1 + 21844 * 3);
        assert_eq!(text_of(&[0xff; 65535]).len(), 65535);
    }

    #[test]
    fn chars_are_padded_and_end_with_a_nul() {
        let check = |input: &[u8], expect: &[u8; 4]| {
            let mut payload = Payload::default();
            payload.chars::<4>(input);
            assert_eq!(payload.0, expect);
        };
        check(b"", b"\0\0\0\0");
        check(b"ab", b"ab\0\0");
        check(b"abcd", b"abc\0");
        check(b"a\0cd", b"a\0\0\0");
    }
}
