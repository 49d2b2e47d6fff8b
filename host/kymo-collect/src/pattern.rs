//! Which events are wanted: globs on `provider:name`, exclusions, and near misses for people who mistype.

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
        self.include.iter().any(|pattern| glob(pattern, name))
            && !self.exclude.iter().any(|pattern| glob(pattern, name))
    }

    /// The inclusions, normalised to `provider:name` form, each with whether it matches one of `names`.
    pub fn matches<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = (&'a str, bool)> {
        self.include.iter().map(|pattern| (pattern.as_str(), names.iter().any(|name| glob(pattern, name))))
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

/// Whether `text` matches `pattern`. Time at most |pattern| x |text|: the last `*` is the only one that is tried again.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if let Some(after) = one(pattern, p, text[t]) {
            p = after;
            t += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            t = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// If the element of the pattern at `p` takes `byte`: the index behind the element.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let close = p + 1 + pattern[p + 1..].iter().position(|byte| *byte == b']')?;
            let set = &pattern[p + 1..close];
            let (negated, set) = match set.first() {
                Some(b'!' | b'^') => (true, &set[1..]),
                _ => (false, set),
            };
            let mut found = false;
            let mut at = 0;
            while at < set.len() {
                let to = if set.get(at + 1) == Some(&b'-') { set.get(at + 2) } else { None };
                found |= (set[at]..=*to.unwrap_or(&set[at])).contains(&byte);
                at += if to.is_some() { 3 } else { 1 };
            }
            (found != negated).then_some(close + 1)
        }
        literal => (literal == byte).then_some(p + 1),
    }
}

/// Those of `names` that `wanted` may have been meant for, best first, at most `count`.
///
/// A name is near when a third of it or less was mistyped, or when one of the two contains the other's name part.
pub fn near<'a>(wanted: &str, names: &'a [String], count: usize) -> Vec<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    let core: String = wanted.chars().filter(|c| !"*?[]!^".contains(*c)).collect();
    let core = core.trim_matches(':');
    if core.is_empty() {
        return Vec::new();
    }
    let mut scored: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|name| {
            let lower = name.to_ascii_lowercase();
            let (provider, event) = lower.split_once(':').unwrap_or(("", &lower));
            let distance = [lower.as_str(), provider, event].into_iter().map(|part| edits(core, part)).min()?;
            let contained = core.len() >= 3 && lower.contains(core);
            let limit = (core.len() / 3).max(1);
            (contained || distance <= limit).then_some((if contained { 0 } else { distance }, name.as_str()))
        })
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(count).map(|(_, name)| name).collect()
}

/// Levenshtein distance of bytes.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
