// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with an expression, where, and what to write instead.

use std::fmt;

use kymo_names::{Containing, Near};

/// A part of an expression: from and to, in bytes; both are boundaries of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

impl Span {
    /// From `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest span that has both.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A refusal, or a remark on something that is accepted. Shown as three lines: the expression, a caret under the place
/// with what is wrong there, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// The whole expression.
    pub text: String,
    /// The place.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// Columns of the expression that are shown; of longer ones, what is around the place.
const COLUMNS: usize = 100;
/// Columns in front of the place that are shown of a long expression.
const BEFORE: usize = 40;

impl Error {
    pub(crate) fn new(text: &str, span: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { text: text.into(), span, message: message.into(), help: help.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.text.get(..self.span.start).unwrap_or(&self.text).chars().count();
        let marked = self.text.get(self.span.start..self.span.end).unwrap_or("").chars().count();
        let total = self.text.chars().count();
        let from = if total > COLUMNS { column.saturating_sub(BEFORE) } else { 0 };
        let cut = |yes: bool| if yes { "..." } else { "" };
        // One character is one column, whatever it was, so that the caret stands where it should.
        let shown: String =
            self.text.chars().skip(from).take(COLUMNS).map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "{}{shown}{}", cut(from > 0), cut(total > from + COLUMNS))?;
        let room = COLUMNS.saturating_sub(column - from).max(1);
        let carets = "^".repeat(marked.clamp(1, room));
        let indent = column - from + cut(from > 0).len();
        write!(f, "{:indent$}{carets} {}\nhelp: {}", "", self.message, self.help)
    }
}

/// What counts as a mistyped name of a filter.
const NEAR: Near = Near { edits_max: |characters| 1 + characters / 3, containing: Containing::AtLimit, count: 3 };

/// The names of `known` that are near to `name`, best first, at most three.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // What is longer is no slip of the finger, and would cost.
    const BYTES_MAX: usize = 64;
    if name.len() > BYTES_MAX {
        return Vec::new();
    }
    NEAR.of(name, known.into_iter().filter(|other| other.len() <= BYTES_MAX).map(|other| (other, [other])))
}

/// "`a`, `b` or `c`".
pub(crate) fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} or `{last}`", first.join(", "))
        }
    }
}

/// "`a`, `b`, ...": the first ones of a list.
pub(crate) fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    format!("{}{}", shown.join(", "), if names.len() > SHOWN { ", ..." } else { "" })
}

/// The text of a place in the filter, for messages.
pub(crate) fn written(text: &str, span: Span) -> &str {
    text.get(span.start..span.end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let known = ["axis", "position", "prev_state", "next_state", "a"];
        for (name, expect) in [
            ("axes", &["axis"][..]),
            ("AXIS", &["axis"]),
            ("positon", &["position"]),
            ("state", &["next_state", "prev_state"]),
            ("zzz", &[]),
        ] {
            assert_eq!(near(name, known), expect, "{name}");
        }
    }

    #[test]
    fn the_caret_stands_under_its_place_in_long_and_in_foreign_text() {
        let show = |text: &str, start, end| Error::new(text, Span::new(start, end), "m", "h").to_string();
        assert_eq!(show("ä\tx = 1", 5, 6), "ä x = 1\n    ^ m\nhelp: h");
        assert_eq!(show("abc", 3, 3), "abc\n   ^ m\nhelp: h");
        let long = format!("{}!{}", "a".repeat(200), "b".repeat(200));
        let shown = show(&long, 200, 201);
        let mut lines = shown.lines();
        let (text, caret) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(text.find('!'), caret.find('^'));
        assert!(text.len() <= COLUMNS + 6 && text.starts_with("...") && text.ends_with("..."));
    }
}
