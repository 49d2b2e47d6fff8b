// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading integers and strings from bytes of unknown origin, without a panic.

use crate::Error;

/// A cursor over bytes; `what` names the structure in errors.
pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Reader { what, bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        if rest.len() < count {
            return Err(Error::Short { what: self.what, got: self.bytes.len(), need: self.at.saturating_add(count) });
        }
        self.at += count;
        Ok(&rest[..count])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_ne_bytes)
    }

    /// A NUL-terminated string; bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, Error> {
        let rest = self.rest();
        let end = rest.iter().position(|byte| *byte == 0).ok_or(Error::Unterminated { what })?;
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

/// Text of a field of fixed size: up to the first NUL, or all of it.
pub(crate) fn fixed_text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// `text` as the content of a field of `N` bytes: cut at a character so that a NUL always follows.
pub(crate) fn text_field<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out[..end].copy_from_slice(&text.as_bytes()[..end]);
    out
}
