// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and text as few bytes: what states and indexes are kept as. Whatever the bytes, taking them ends, with a
//! value or without.

/// Puts values one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Put(pub Vec<u8>);

impl Put {
    /// One byte.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// 7 bits a byte, the lowest first.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Small ones of either sign are short.
    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    /// 0, or 1 and the value.
    pub fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Put, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// Its length, and its bytes.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Takes them again. `None` where they are not there.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// As [`Put::number`]. More than 64 bits are none.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            value |= part.checked_shl(shift).filter(|shifted| shifted >> shift == part)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number that fits.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// As [`Put::signed`].
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// As [`Put::option`].
    pub fn option<T>(&mut self, take: impl FnOnce(&mut Take<'a>) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => take(self).map(Some),
            _ => None,
        }
    }

    /// As [`Put::text`].
    pub fn text(&mut self) -> Option<&'a str> {
        let bytes = self.small::<usize>()?;
        let (text, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// How many things follow, of which each has a byte at least.
    pub fn count(&mut self) -> Option<usize> {
        self.small::<usize>().filter(|&count| count <= self.0.len())
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut put = Put::default();
        for number in numbers {
            put.number(number);
            put.signed(number as i64);
        }
        put.text("größer");
        put.option(Some(7), Put::number);
        put.option(None, Put::number);
        let mut take = Take(&put.0);
        for number in numbers {
            assert_eq!((take.number(), take.signed()), (Some(number), Some(number as i64)));
        }
        assert_eq!(take.text(), Some("größer"));
        assert_eq!((take.option(Take::number), take.option(Take::number)), (Some(Some(7)), Some(None)));
        assert!(take.is_empty() && take.byte().is_none());
    }

    #[test]
    fn what_is_none_is_not_taken() {
        for bytes in [&[0x80; 12][..], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2], &[0x80], &[]] {
            assert_eq!(Take(bytes).number(), None, "{bytes:?}");
        }
        assert_eq!(Take(&[5, b'a']).text(), None);
        assert_eq!(Take(&[2, 0xC3, 0x28]).text(), None);
        assert_eq!(Take(&[9, 0]).count(), None);
        assert_eq!(Take(&[2, 0]).option(Take::byte), None);
    }
}
