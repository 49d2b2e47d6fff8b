// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines and numbers of text formats.

use std::borrow::Cow;

/// The lines of a text with their numbers, from 1, without control sequences of terminals. A last line that has no end
/// is not given: a number in it may be cut.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Lines<'a> {
        Lines { rest: bytes, number: 0 }
    }

    /// Whether the text ends in the middle of a line.
    pub(super) fn are_cut(bytes: &[u8]) -> bool {
        bytes.last().is_some_and(|byte| *byte != b'\n')
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        self.number += 1;
        Some((self.number, plain(line)))
    }
}

/// A line without carriage returns and escape sequences: cyclictest moves the cursor up between its live lines.
fn plain(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    if !text.contains(|letter: char| letter.is_control() && letter != '\t') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_sequence(&mut letters),
            letter if letter.is_control() && letter != '\t' => (),
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// What follows an escape: `[`, parameters, and the letter that ends them.
fn skip_sequence(letters: &mut std::str::Chars<'_>) {
    if letters.next() == Some('[') {
        letters.find(|letter| ('@'..='~').contains(letter));
    }
}

/// All numbers of a list; `None` where something else is in it. A dash is no number, and no error.
pub(super) fn numbers(list: &str) -> Option<Vec<Option<u64>>> {
    list.split_whitespace().map(|word| if word == "-" { Some(None) } else { word.parse().ok().map(Some) }).collect()
}

/// The first word of `text` as a number.
pub(super) fn first<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.split_whitespace().next()?.parse().ok()
}

/// What follows `mark` in `text`, without blanks at its begin.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.find(mark).map(|at| text[at + mark.len()..].trim_start())
}

/// A decimal number of microseconds, or of another unit, in nanoseconds. `None` where it is negative or not finite.
pub(super) fn scaled(value: f64, unit_ns: u64) -> Option<u64> {
    let value = value * unit_ns as f64;
    (value.is_finite() && value >= 0.0).then(|| value.round() as u64)
}
