// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of which there are few, each once in a batch.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType};

/// Values of a dictionary, each possibly absent.
#[derive(Default)]
pub struct Words {
    keys: Vec<i32>,
    there: Option<NullBufferBuilder>,
    values: StringBuilder,
    by_text: HashMap<String, i32>,
    /// Of enumerations: what has been looked up, by enumeration and number.
    by_number: HashMap<(usize, i128), Option<i32>>,
    /// Keys of texts that came lately, by a digest of where they are: mostly the same ones come again and again.
    recent: [u32; RECENT],
    /// The same of texts that stay where they are: place and length.
    staying: [(usize, usize, i32); RECENT],
}

/// Entries of [`Words::recent`] and [`Words::staying`].
const RECENT: usize = 32;

impl Words {
    /// Of such an array.
    pub fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    /// Appends a text.
    #[inline]
    pub fn push(&mut self, text: &str) {
        let place = (text.as_ptr() as usize >> 3 ^ text.len()) % RECENT;
        // What is at that place now may be another text.
        let key = match self.recent[place] {
            key if self.value(key) == Some(text.as_bytes()) => key as i32,
            _ => {
                let key = self.key(text);
                self.recent[place] = key as u32;
                key
            }
        };
        self.push_key(Some(key));
    }

    /// Appends a text that stays where it is until [`Words::finish`], or nothing if it is empty: it is not looked at
    /// again.
    #[inline]
    pub fn push_staying(&mut self, text: &str) {
        if text.is_empty() {
            return self.push_null();
        }
        let (place, length) = (text.as_ptr() as usize, text.len());
        let entry = (place >> 3 ^ length) % RECENT;
        let key = match self.staying[entry] {
            (known, known_length, key) if (known, known_length) == (place, length) => key,
            _ => {
                let key = self.key(text);
                self.staying[entry] = (place, length, key);
                key
            }
        };
        self.push_key(Some(key));
    }

    /// The text of a key, if there is one.
    #[inline]
    fn value(&self, key: u32) -> Option<&[u8]> {
        let ends = self.values.offsets_slice();
        let (begin, end) = (ends.get(key as usize)?, ends.get(key as usize + 1)?);
        self.values.values_slice().get(*begin as usize..*end as usize)
    }

    /// Appends a text; an empty one is none.
    #[inline]
    pub fn push_or_null(&mut self, text: &str) {
        if text.is_empty() { self.push_null() } else { self.push(text) }
    }

    /// Appends nothing.
    pub fn push_null(&mut self) {
        self.push_key(None);
    }

    /// Appends the text of a number of an enumeration, which is asked for once.
    pub fn push_number(&mut self, of: usize, number: i128, text: impl FnOnce() -> Option<String>) {
        let key = match self.by_number.get(&(of, number)) {
            Some(key) => *key,
            None => {
                let key = text().map(|text| self.key(&text));
                self.by_number.insert((of, number), key);
                key
            }
        };
        self.push_key(key);
    }

    /// Bytes of the texts.
    pub fn bytes(&self) -> usize {
        self.values.values_slice().len()
    }

    #[inline]
    fn push_key(&mut self, key: Option<i32>) {
        self.keys.push(key.unwrap_or(0));
        let there = self.there.get_or_insert_with(|| NullBufferBuilder::new(1024));
        match key {
            Some(_) => there.append_non_null(),
            None => there.append_null(),
        }
    }

    fn key(&mut self, text: &str) -> i32 {
        if let Some(key) = self.by_text.get(text) {
            return *key;
        }
        let key = self.by_text.len() as i32;
        self.by_text.insert(text.to_owned(), key);
        self.values.append_value(text);
        key
    }

    /// All as an array; there are none then.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.there.take().and_then(|mut there| there.finish());
        self.by_text.clear();
        self.by_number.clear();
        self.staying = Default::default();
        let keys = Int32Array::try_new(std::mem::take(&mut self.keys).into(), nulls)?;
        let values = Arc::new(self.values.finish());
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;

    use super::*;

    fn texts(words: &mut Words) -> Vec<Option<String>> {
        let array = words.finish().unwrap();
        let array = array.as_dictionary::<Int32Type>();
        let values = array.values().as_string::<i32>();
        assert_eq!(values.len(), values.iter().collect::<std::collections::HashSet<_>>().len(), "each once");
        array.keys().iter().map(|key| key.map(|key| values.value(key as usize).to_owned())).collect()
    }

    #[test]
    fn texts_are_there_once_and_in_their_order() {
        let mut words = Words::default();
        let mut buffer = String::from("one");
        let all: Vec<String> = (0..200).map(|number| format!("text {number}")).collect();
        for _ in 0..2 {
            words.push(&buffer);
            // Another text at the same place, of the same length.
            buffer.replace_range(.., "two");
            words.push(&buffer);
            buffer.replace_range(.., "one");
            words.push_staying("two");
            words.push_staying("");
            // More than are remembered, which have the places of others.
            (0..2).for_each(|_| all.iter().for_each(|text| words.push_staying(text)));
            let expect = ["one", "two", "two"].map(|text| Some(text.to_owned())).into_iter().chain([None]);
            let twice = all.iter().chain(&all).map(|text| Some(text.clone()));
            assert_eq!(texts(&mut words), expect.chain(twice).collect::<Vec<_>>());
        }
        // Behind the end of a batch nothing is known of places.
        let mut moving = String::from("abc");
        words.push_staying(&moving);
        assert_eq!(texts(&mut words), [Some("abc".to_owned())]);
        moving.replace_range(.., "xyz");
        words.push_staying(&moving);
        assert_eq!(texts(&mut words), [Some("xyz".to_owned())]);
    }
}
