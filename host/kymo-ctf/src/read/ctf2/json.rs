// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON of one fragment. Nesting is bounded before it is parsed, so that no text can exhaust the stack. A comma
//! behind the last element is no JSON, but it changes nothing, and tools write it: it is passed over, and that is told.

use serde_json::{Deserializer, Value};

use crate::read::build::DEPTH_MAX;

/// Levels of JSON: a member of a structure has four of them.
const LEVELS_MAX: usize = 4 * DEPTH_MAX + 16;

/// Why a fragment is not read.
pub(super) enum Problem {
    /// The text stops in the middle.
    Torn,
    Bad(String),
}

/// What one look over the text finds.
struct Survey {
    levels: usize,
    /// Places of commas with nothing but the end of their array or object behind them.
    commas: Vec<usize>,
}

fn survey(text: &[u8]) -> Survey {
    let mut found = Survey { levels: 0, commas: Vec::new() };
    let (mut level, mut is_text, mut is_escaped) = (0usize, false, false);
    let (mut before, mut comma) = (b',', None);
    for (at, &byte) in text.iter().enumerate() {
        if is_text {
            (is_text, is_escaped) = (is_escaped || byte != b'"', !is_escaped && byte == b'\\');
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        match byte {
            b'[' | b'{' => {
                level += 1;
                found.levels = found.levels.max(level);
            }
            b']' | b'}' => {
                level = level.saturating_sub(1);
                found.commas.extend(comma);
            }
            b'"' => is_text = true,
            _ => {}
        }
        let is_behind_element = !matches!(before, b',' | b':' | b'[' | b'{');
        comma = (byte == b',' && is_behind_element).then_some(at);
        before = byte;
    }
    found
}

/// The value that a fragment is, and how many commas were passed over.
pub(super) fn parse(text: &[u8]) -> Result<(Value, usize), Problem> {
    let Survey { levels, commas } = survey(text);
    if levels > LEVELS_MAX {
        return Err(Problem::Bad(format!("its JSON is nested more than {LEVELS_MAX} deep")));
    }
    if commas.is_empty() {
        return Ok((value(text)?, 0));
    }
    let mut text = text.to_vec();
    commas.iter().for_each(|comma| text[*comma] = b' ');
    Ok((value(&text)?, commas.len()))
}

fn value(text: &[u8]) -> Result<Value, Problem> {
    let mut parser = Deserializer::from_slice(text);
    parser.disable_recursion_limit();
    let mut values = parser.into_iter::<Value>();
    let bad = |error: &dyn std::fmt::Display| Problem::Bad(format!("not JSON: {error}"));
    match (values.next(), values.next()) {
        (Some(Ok(value)), None) => Ok(value),
        (Some(Err(error)), _) if error.is_eof() => Err(Problem::Torn),
        (Some(Err(error)), _) => Err(bad(&error)),
        _ => Err(bad(&"something stands behind its end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_behind_the_last_element_and_no_others() {
        let check = |text: &str, expect: Option<(&str, usize)>| {
            let parsed = parse(text.as_bytes()).ok().map(|(value, commas)| (value.to_string(), commas));
            assert_eq!(parsed, expect.map(|(value, commas)| (value.to_owned(), commas)), "{text}");
        };
        check(r#"{"a":[1,2]}"#, Some((r#"{"a":[1,2]}"#, 0)));
        check(r#"{"a":[1,2 , ], }"#, Some((r#"{"a":[1,2]}"#, 2)));
        check(r#"{"a":",]","b":"\",}"}"#, Some((r#"{"a":",]","b":"\",}"}"#, 0)));
        check(r#"{"a":"\\",}"#, Some((r#"{"a":"\\"}"#, 1)));
        for bad in ["{,}", "[,]", "[1,,]", "[,1]", r#"{"a":,}"#, r#"{"a",}"#, "[1],", "{} {}", "[1,]]", ""] {
            check(bad, None);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(LEVELS_MAX).as_bytes()).is_ok());
        assert!(matches!(parse(nested(LEVELS_MAX + 1).as_bytes()), Err(Problem::Bad(_))));
        assert!(matches!(parse(b"{\"a\":"), Err(Problem::Torn)));
    }
}
