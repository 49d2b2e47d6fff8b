// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are wanted: globs on `provider:name`, exclusions, and near misses for people who mistype.

use kymo_names::{Containing, Near, glob_matches_with_sets};

use crate::Error;

/// Longest pattern, bytes.
const PATTERN_BYTES_MAX: usize = 512;

/// Events that a session wants: those that match one of `include` and none of `exclude`.
///
/// `*` stands for any characters, `?` for one, `[a-z]` and `[!a-z]` for one of a set. A pattern without a colon means
/// a whole provider: `motor` is `motor:*`. `*` alone is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Patterns {
    /// Patterns as a user gives them. No `include` at all means everything.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Patterns, Error> {
        let everything = [String::from("*")];
        let include = if include.is_empty() { &everything[..] } else { include };
        let normal = |list: &[String]| list.iter().map(|pattern| normalise(pattern)).collect::<Result<Vec<_>, _>>();
        Ok(Patterns { include: normal(include)?, exclude: normal(exclude)? })
    }

    /// Whether the event `provider:name` is wanted.
    pub fn want(&self, name: &str) -> bool {
        self.include.iter().any(|pattern| glob_matches_with_sets(pattern, name))
            && !self.exclude.iter().any(|pattern| glob_matches_with_sets(pattern, name))
    }

    /// The inclusions, normalised to `provider:name` form, each with whether it matches one of `names`.
    pub fn matches<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = (&'a str, bool)> {
        self.include
            .iter()
            .map(|pattern| (pattern.as_str(), names.iter().any(|name| glob_matches_with_sets(pattern, name))))
    }

    /// The exclusions, normalised.
    pub fn exclusions(&self) -> &[String] {
        &self.exclude
    }
}

fn normalise(pattern: &str) -> Result<String, Error> {
    let bad = |why| Err(Error::Pattern { pattern: pattern.to_owned(), why });
    let trimmed = pattern.trim();
    if trimmed.is_empty() {
        return bad("it is empty; '*' stands for all events");
    }
    if trimmed.len() > PATTERN_BYTES_MAX {
        return bad("it is longer than 512 bytes");
    }
    if !trimmed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:*?[]!^-".contains(&byte)) {
        return bad("events are called provider:name; '*', '?' and '[a-z]' are the wildcards");
    }
    if trimmed.matches(':').count() > 1 {
        return bad("more than one colon; events are called provider:name");
    }
    let mut open = false;
    for byte in trimmed.bytes() {
        match byte {
            b'[' if open => return bad("'[' inside of a set"),
            b'[' => open = true,
            b']' => open = false,
            _ => {}
        }
    }
    if open {
        return bad("'[' without ']'");
    }
    Ok(match trimmed {
        "*" => "*:*".to_owned(),
        _ if trimmed.contains(':') => trimmed.to_owned(),
        _ => format!("{trimmed}:*"),
    })
}

/// Those of `names` that `wanted` may have been meant for, best first, at most `count`.
///
/// A name is near when a third of it or less was mistyped, or when it contains what was typed.
pub fn near<'a>(wanted: &str, names: &'a [String], count: usize) -> Vec<&'a str> {
    let core = wanted.replace(['*', '?', '[', ']', '!', '^'], "");
    let core = core.trim_matches(':');
    if core.is_empty() {
        return Vec::new();
    }
    let near = Near { edits_max: |characters| (characters / 3).max(1), containing: Containing::First, count };
    let called = |name: &'a String| {
        let (provider, event) = name.split_once(':').unwrap_or(("", name));
        (name.as_str(), [name.as_str(), provider, event])
    };
    near.of(core, names.iter().map(called))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let check = |include: &[&str], exclude: &[&str], name: &str, expect: bool| {
            let list = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let patterns = Patterns::new(&list(include), &list(exclude)).unwrap();
            assert_eq!(patterns.want(name), expect, "{include:?} {exclude:?} {name}");
        };
        check(&[], &[], "a:b", true);
        check(&["*"], &[], "a:b", true);
        check(&["motor"], &[], "motor:step", true);
        check(&["motor"], &[], "motors:step", false);
        check(&["motor:*"], &["motor:st*"], "motor:step", false);
        check(&["motor:*"], &["motor:st*"], "motor:go", true);
        check(&["*:s?ep"], &[], "motor:step", true);
        check(&["*:s?ep"], &[], "motor:sleep", false);
        check(&["m[a-o]tor:[!x]*"], &[], "motor:step", true);
        check(&["m[a-n]tor:*"], &[], "motor:step", false);
        check(&["*a*a*a*a*a*a*b:*"], &[], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:x", false);
        check(&["x:y", "a:b"], &[], "a:b", true);
    }

    #[test]
    fn bad_patterns_say_why() {
        for pattern in ["", "a b", "a:b:c", "a:[b", "é"] {
            assert!(Patterns::new(&[pattern.to_owned()], &[]).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn near_misses() {
        let names: Vec<String> = ["motor:step", "motor:stop", "audio:xrun"].map(String::from).to_vec();
        assert_eq!(near("moter:step", &names, 5), ["motor:step", "motor:stop"]);
        assert_eq!(near("audio:xrum", &names, 5), ["audio:xrun"]);
        assert_eq!(near("xrun:*", &names, 5), ["audio:xrun"]);
        assert!(near("zebra:*", &names, 5).is_empty());
        assert!(near("*:*", &names, 5).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[a-c*?\\[\\]!:-]{0,12}", text in "[a-c:]{0,12}") {
            if let Ok(patterns) = Patterns::new(&[pattern], &[]) {
                patterns.want(&text);
            }
        }
    }
}
