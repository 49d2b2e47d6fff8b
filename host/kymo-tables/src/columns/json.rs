// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that are written value by value right into their column: an object or a value in JSON each.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;

/// Texts in JSON, each possibly absent.
pub struct JsonCells {
    /// Of all texts, one behind the other.
    bytes: Vec<u8>,
    /// Where each ends in `bytes`, behind a 0.
    ends: Vec<i32>,
    there: NullBufferBuilder,
}

impl Default for JsonCells {
    fn default() -> JsonCells {
        JsonCells { bytes: Vec::new(), ends: vec![0], there: NullBufferBuilder::new(1024) }
    }
}

impl JsonCells {
    /// Bytes of the texts.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends what `write` appends to the bytes, which is a whole text; where it appends nothing, there is none. What
    /// is not UTF-8 of it becomes U+FFFD.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        match self.bytes.len() > begin {
            true => self.there.append_non_null(),
            false => self.there.append_null(),
        }
        // A batch ends long before (`BATCH_BYTES`).
        self.ends.push(i32::try_from(self.bytes.len()).unwrap_or(i32::MAX));
    }

    /// Appends nothing.
    #[inline]
    pub fn append_null(&mut self) {
        self.append(|_| ());
    }

    /// All as an array; there are none then.
    ///
    /// # Errors
    /// More than 2^31 bytes.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let JsonCells { bytes, ends, mut there } = std::mem::take(self);
        if i32::try_from(bytes.len()).is_err() {
            return Err(ArrowError::OffsetOverflowError(bytes.len()));
        }
        let (ends, bytes, there) = (OffsetBuffer::new(ends.into()), Buffer::from(bytes), there.finish());
        let texts = StringArray::try_new(ends.clone(), bytes.clone(), there.clone());
        Ok(Arc::new(texts.or_else(|_| with_replacements(&ends, &bytes, there))?))
    }
}

/// The texts with U+FFFD for what is not UTF-8.
#[cold]
fn with_replacements(
    ends: &OffsetBuffer<i32>,
    bytes: &[u8],
    there: Option<NullBuffer>,
) -> Result<StringArray, ArrowError> {
    let (mut text, mut text_ends) = (String::new(), vec![0]);
    for pair in ends.windows(2) {
        text += &String::from_utf8_lossy(&bytes[pair[0] as usize..pair[1] as usize]);
        text_ends.push(i32::try_from(text.len()).map_err(|_| ArrowError::OffsetOverflowError(text.len()))?);
    }
    StringArray::try_new(OffsetBuffer::new(text_ends.into()), Buffer::from(text.into_bytes()), there)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;

    use super::*;

    #[test]
    fn texts_are_there_and_absent_as_they_were_appended() {
        let mut cells = JsonCells::default();
        cells.append(|out| out.extend_from_slice(b"{}"));
        cells.append_null();
        cells.append(|out| out.extend_from_slice("\"\u{e9}\"".as_bytes()));
        assert_eq!(cells.bytes(), 6);
        let array = cells.finish().unwrap();
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("{}"), None, Some("\"\u{e9}\"")]);
        assert_eq!((cells.bytes(), cells.finish().unwrap().len()), (0, 0));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut cells = JsonCells::default();
        cells.append(|out| out.extend_from_slice(b"\"a\""));
        // Both halves of one character, in two texts.
        cells.append(|out| out.extend_from_slice(b"\"\xC3"));
        cells.append_null();
        cells.append(|out| out.extend_from_slice(b"\xA9\""));
        let array = cells.finish().unwrap();
        let expect = [Some("\"a\""), Some("\"\u{fffd}"), None, Some("\u{fffd}\"")];
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), expect);
    }
}
