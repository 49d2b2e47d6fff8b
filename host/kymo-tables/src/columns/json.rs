// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that are written value by value right into their column: an object or a value in JSON each.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer};
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

    /// Appends what `write` appends to the bytes, which is a whole text; where it appends nothing, there is none.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        self.there.append(self.bytes.len() > begin);
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
        let texts = StringArray::try_new(OffsetBuffer::new(ends.into()), Buffer::from(bytes), there.finish())?;
        Ok(Arc::new(texts))
    }
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
    fn bytes_that_are_no_text_are_an_error() {
        let mut cells = JsonCells::default();
        cells.append(|out| out.push(0xFF));
        assert!(cells.finish().is_err());
    }
}
