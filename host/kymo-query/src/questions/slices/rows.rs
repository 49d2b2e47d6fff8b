// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of spans: one for each thread, or one for each key of a span that has one [spec/view.md 4.7].

use std::collections::HashMap;

use kymo_analyze::{State, Writer};
use kymo_feed::Seen;
use kymo_filter::PairLatency;

use crate::error::Error;
use crate::parameters::Parameters;
use crate::slice_row::SliceRow;
use crate::span::SpanKeys;

/// Keys that have rows of their own; spans of others are one row for each pair.
pub(crate) const KEYS_MAX: usize = 512;

/// What spans have rows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowChoice {
    /// By the number of the span: its keys.
    is_by_key: Vec<bool>,
}

impl RowChoice {
    /// From the parameter `rows`.
    pub(crate) fn take(parameters: &mut Parameters, spans: &[String]) -> Result<RowChoice, Error> {
        let by_key = match parameters.text("rows")?.as_deref() {
            None | Some("thread") => false,
            Some("key") => true,
            Some(_) => return Err(Error::parameter("rows", "`thread` or `key`")),
        };
        Ok(RowChoice { is_by_key: spans.iter().map(|span| by_key && has_key(span)).collect() })
    }

    /// A row for each thread.
    pub(crate) fn of_threads(spans: &[String]) -> RowChoice {
        RowChoice { is_by_key: vec![false; spans.len()] }
    }

    /// As it was told.
    pub(crate) fn of(is_by_key: Vec<bool>) -> RowChoice {
        RowChoice { is_by_key }
    }

    /// By the number of the span: whether it has rows of keys.
    pub(crate) fn by_key(&self) -> &[bool] {
        &self.is_by_key
    }

    /// Whether some spans have rows of keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.is_by_key.contains(&true)
    }

    /// The row of a span.
    pub(crate) fn row(&self, span: u16, key: Option<u32>, tid: Option<i32>) -> SliceRow {
        match self.is_by_key.get(usize::from(span)) {
            Some(true) => SliceRow::Key(span, key),
            _ => SliceRow::Thread(tid),
        }
    }
}

/// Whether a span is paired by something else than the thread, which is the default.
fn has_key(span: &str) -> bool {
    span.split_once("by=").is_some_and(|(_, by)| by.trim() != "$tid")
}

/// Numbers of keys, in the order in which they come.
#[derive(Default)]
pub(crate) struct KeyTexts {
    numbers: HashMap<String, u32>,
    shown: Vec<String>,
}

impl KeyTexts {
    /// Those that there are already.
    pub(crate) fn of(shown: &[String]) -> KeyTexts {
        let numbers = shown.iter().cloned().zip(0..).collect();
        KeyTexts { numbers, shown: shown.to_vec() }
    }

    /// The number of a key.
    pub(crate) fn number_of(&mut self, key: String) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        let number = u32::try_from(self.shown.len()).ok().filter(|_| self.shown.len() < KEYS_MAX)?;
        self.shown.push(key.clone());
        self.numbers.insert(key, number);
        Some(number)
    }

    /// The number of a key that has one.
    pub(crate) fn known(&self, key: &str) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// The key of a row.
    pub(crate) fn text(&self, row: SliceRow) -> Option<&str> {
        match row {
            SliceRow::Key(_, Some(number)) => self.shown.get(number as usize).map(String::as_str),
            SliceRow::Key(_, None) | SliceRow::Thread(_) => None,
        }
    }
}

impl SpanKeys for KeyTexts {
    fn number(&mut self, pair: &PairLatency, _: &Seen<'_, '_>, _: &Writer, _: &State) -> Option<u32> {
        self.number_of(pair.key())
    }

    fn of_text(&mut self, key: String) -> Option<u32> {
        self.number_of(key)
    }

    fn shown(&self) -> &[String] {
        &self.shown
    }

    fn reasons(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spans_with_a_key_have_rows_of_keys() {
        let spans = ["a, b", "a, b, by=id", "a, b, by=$tid", "a, b, by=$tid, id"].map(str::to_owned);
        let choice = |text: &str| {
            let mut parameters = Parameters::new(vec![("rows".to_owned(), text.to_owned())]);
            RowChoice::take(&mut parameters, &spans)
        };
        let keys = choice("key").ok().unwrap();
        let rows: Vec<SliceRow> = (0..4).map(|span| keys.row(span, Some(9), Some(1))).collect();
        let (thread, key) = (SliceRow::Thread(Some(1)), |span| SliceRow::Key(span, Some(9)));
        assert_eq!(rows, [thread, key(1), thread, key(3)]);
        assert!(keys.has_keys() && !choice("thread").ok().unwrap().has_keys());
        assert!(choice("cpu").is_err());
    }

    #[test]
    fn keys_beyond_the_bound_have_no_number() {
        let mut keys = KeyTexts::default();
        for key in 0..KEYS_MAX {
            assert_eq!(keys.number_of(key.to_string()), Some(key as u32));
        }
        assert_eq!((keys.number_of("new".to_owned()), keys.number_of("7".to_owned())), (None, Some(7)));
        assert_eq!(keys.text(SliceRow::Key(0, Some(7))), Some("7"));
        let mut again = KeyTexts::of(&["x".to_owned()]);
        assert_eq!((again.number_of("y".to_owned()), again.number_of("x".to_owned())), (Some(1), Some(0)));
    }
}
