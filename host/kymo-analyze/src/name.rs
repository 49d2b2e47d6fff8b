// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names as the kernel keeps them: 15 bytes at most. Copied rather than shared, so that states are plain data.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};

/// Bytes that a name has at most.
const BYTES_MAX: usize = 16;

/// A short name: of a thread, an interrupt, a device. Longer ones are cut at a character.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; BYTES_MAX]);

impl Name {
    /// From text, up to the first character that is 0: what is behind that is in no name.
    pub fn new(text: &str) -> Name {
        let text = text.split('\0').next().unwrap_or_default();
        let mut end = text.len().min(BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; BYTES_MAX];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Name(bytes)
    }

    /// From bytes, up to the first that is 0, where all of them are ASCII and there are not too many: the same as
    /// [`Name::new`] of their text.
    #[inline]
    pub fn of_ascii(text: &[u8]) -> Option<Name> {
        let mut bytes = [0; BYTES_MAX];
        match text.first_chunk::<BYTES_MAX>() {
            Some(whole) if text.len() == BYTES_MAX => bytes = *whole,
            Some(_) => return None,
            None => bytes[..text.len()].copy_from_slice(text),
        }
        let word = u128::from_le_bytes(bytes);
        const ONES: u128 = u128::MAX / 0xFF;
        const HIGH: u128 = ONES << 7;
        if word & HIGH != 0 {
            return None;
        }
        // The lowest byte that is 0 has the lowest high bit: borrows only go upwards.
        let zeros = word.wrapping_sub(ONES) & HIGH;
        let used = if zeros == 0 { u128::MAX } else { (1 << (zeros.trailing_zeros() / 8 * 8)) - 1 };
        Some(Name((word & used).to_le_bytes()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(BYTES_MAX);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// Two words, and not the bytes one by one: maps by name are asked for each switch.
impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = u128::from_ne_bytes(self.0);
        state.write_u64(word as u64);
        state.write_u64((word >> 64) as u64);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bytes_are_those_of_their_text() {
        for text in [
            "",
            "bash",
            "fifteen_bytes_o",
            "sixteen_bytes_ok",
            "seventeen_bytes_o",
            "\u{fc}",
            "\u{1}a",
            "a\0b",
            "\0",
            "ab\0\u{fc}",
        ] {
            let upto = text.split('\0').next().unwrap_or_default();
            assert_eq!(Name::new(text), Name::new(upto), "{text:?}");
            match Name::of_ascii(text.as_bytes()) {
                Some(name) => assert_eq!(name, Name::new(upto), "{text:?}"),
                None => assert!(text.len() > BYTES_MAX || !text.is_ascii(), "{text:?}"),
            }
        }
    }

    #[test]
    fn names_are_cut_at_characters() {
        for (text, expect) in [
            ("", ""),
            ("bash", "bash"),
            ("sixteen_bytes_ok", "sixteen_bytes_ok"),
            ("fifteen_bytes_xü", "fifteen_bytes_x"),
        ] {
            assert_eq!(Name::new(text).as_str(), expect);
        }
    }
}
