// SPDX-License-Identifier: MIT OR Apache-2.0
//! Globs: `*` is any text, `?` any one character. Everything else is itself, but for sets where they are wanted.

use std::str::Chars;

/// Whether all of `text` matches `pattern`. At most length of `pattern` times length of `text` steps; nothing is
/// allocated.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    matches::<false>(pattern, text)
}

/// Like [`glob_matches`], with `[a-z]` for one character of a set, and `[!a-z]` or `[^a-z]` for one that is not in the
/// set. A `[` without a `]` matches nothing.
pub fn glob_matches_with_sets(pattern: &str, text: &str) -> bool {
    matches::<true>(pattern, text)
}

/// Whether the event `name` is meant by `pattern`: a glob with sets of its whole name, or, without a colon, of what
/// stands before the colon in the name. `motor` is all events of a provider, and the event of a kernel that is called
/// so.
pub fn event_matches(pattern: &str, name: &str) -> bool {
    let of_provider =
        || !pattern.contains(':') && name.split_once(':').is_some_and(|(of, _)| glob_matches_with_sets(pattern, of));
    glob_matches_with_sets(pattern, name) || of_provider()
}

fn matches<const SETS: bool>(pattern: &str, text: &str) -> bool {
    let (mut p, mut t) = (pattern.chars(), text.chars());
    // Where to go on when what follows the last `*` does not fit: behind the `*`, and how far it reached. One is
    // enough: a later `*` can stand for all that an earlier one gave up.
    let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        let (mut p_next, mut t_next) = (p.clone(), t.clone());
        let fits = match (p_next.next(), t_next.next()) {
            (Some('*'), _) => {
                retry = Some((p_next.clone(), t.clone()));
                t_next = t;
                true
            }
            (None, None) => return true,
            (Some('['), Some(c)) if SETS => match p_next.as_str().split_once(']') {
                Some((set, behind)) => {
                    p_next = behind.chars();
                    is_in(set, c)
                }
                None => false,
            },
            (Some(wanted), Some(c)) => wanted == '?' || wanted == c,
            _ => false,
        };
        if fits {
            (p, t) = (p_next, t_next);
            continue;
        }
        let Some((behind, reached)) = &mut retry else { return false };
        if reached.next().is_none() {
            return false;
        }
        (p, t) = (behind.clone(), reached.clone());
    }
}

/// Whether `c` is in the set, as written between the brackets.
fn is_in(set: &str, c: char) -> bool {
    let is_negated = set.starts_with(['!', '^']);
    let mut rest = if is_negated { set[1..].chars() } else { set.chars() };
    let mut found = false;
    while let Some(from) = rest.next() {
        let mut ahead = rest.clone();
        let to = if ahead.next() == Some('-') { ahead.next() } else { None };
        if to.is_some() {
            rest = ahead;
        }
        found |= (from..=to.unwrap_or(from)).contains(&c);
    }
    found != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        // With and without sets.
        for (pattern, text, expect) in [
            ("motor:*", "motor:step", true),
            ("motor:*", "motors:step", false),
            ("sched_*", "sched_switch", true),
            ("fault*", "page_fault", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("?", "ü", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*:s?ep", "motor:step", true),
            ("*:s?ep", "motor:sleep", false),
            ("*:*p", "motor:step:stop", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbx", false),
            ("**", "x", true),
            ("a**", "a", true),
            ("*ab", "aab", true),
            ("*?", "ü", true),
            ("*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(glob_matches(pattern, text), expect, "{pattern} {text}");
            assert_eq!(glob_matches_with_sets(pattern, text), expect, "{pattern} {text} with sets");
        }
    }

    #[test]
    fn events() {
        for (pattern, name, expect) in [
            ("motor:*", "motor:step", true),
            ("motor", "motor:step", true),
            ("motor", "motors:step", false),
            ("m[o]tor", "motor:step", true),
            ("m[o]tor:s*", "motor:step", true),
            ("step", "motor:step", false),
            ("sched_switch", "sched_switch", true),
            ("sched*", "sched:sched_switch", true),
            ("sched_*", "sched:sched_switch", false),
            ("*", "motor:step", true),
        ] {
            assert_eq!(event_matches(pattern, name), expect, "{pattern} {name}");
        }
    }

    #[test]
    fn sets() {
        for (pattern, text, expect) in [
            ("m[a-o]tor", "motor", true),
            ("m[a-n]tor", "motor", false),
            ("[!x]*", "step", true),
            ("[^s]*", "step", false),
            ("*[0-9]", "ring12", true),
            ("*[0-9]x", "ring12", false),
            ("[abc-e_]", "d", true),
            ("[abc-e_]", "_", true),
            ("[abc-e_]", "f", false),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[z-a]", "m", false),
            ("[]", "a", false),
            ("[!]", "a", true),
            ("[ä-ü]", "ö", true),
            ("[a", "a", false),
            ("[a", "[a", false),
            ("[a]", "", false),
            ("[?]", "?", true),
            ("[*]", "x", false),
        ] {
            assert_eq!(glob_matches_with_sets(pattern, text), expect, "{pattern} {text}");
        }
        assert!(glob_matches("[a]", "[a]") && !glob_matches("[a]", "a"));
    }
}
