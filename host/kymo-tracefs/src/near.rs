//! What people may have meant: names within a small edit distance, and simple globs.

use std::collections::BTreeMap;

/// Names given at most.
const NEAR_MAX: usize = 5;

/// The nearest of `names` to `wanted`, the nearest first, 5 at most. Each comes with the texts that it may be called
/// by, of which the nearest counts. Near is a third of the characters, but 2 in short names and 1 up to 4 characters.
pub fn near<'a>(wanted: &str, names: impl Iterator<Item = (String, Vec<&'a str>)>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let limit = match wanted.chars().count() {
        0..=4 => 1,
        characters => (characters / 3).max(2),
    };
    let mut found: BTreeMap<(usize, String), ()> = BTreeMap::new();
    for (shown, called) in names {
        let score = called.iter().filter_map(|text| score(&wanted, text, limit)).min();
        if let Some(score) = score {
            found.insert((score, shown), ());
        }
    }
    found.into_keys().map(|(_, name)| name).take(NEAR_MAX).collect()
}

/// Edits from `wanted` to `text`; a text that only begins or ends with or holds `wanted` comes behind all of those.
fn score(wanted: &str, text: &str, limit: usize) -> Option<usize> {
    let text = text.to_lowercase();
    let edits = distance(wanted, &text, limit);
    let inside = (wanted.len() >= 3 && text.contains(wanted)).then(|| limit + 1 + text.len() - wanted.len());
    edits.or(inside)
}

/// Edits (insert, delete, replace, swap of neighbours) from `a` to `b`; `None` above `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut before = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replace.min(row[j] + 1).min(next[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().filter(|&edits| edits <= limit)
}

/// Whether `text` matches `pattern`, in which `*` is any characters and `?` is one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go back to: behind the last star, and what it stands for so far. One is enough, as a later star can
    // stand for all that an earlier one gave up.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((behind, from)) => {
                    star = Some((behind, from + 1));
                    (p, t) = (behind, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let check =
            |pattern: &str, text: &str, expect: bool| assert_eq!(glob(pattern, text), expect, "{pattern} {text}");
        check("sched_*", "sched_switch", true);
        check("*", "", true);
        check("", "", true);
        check("", "x", false);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("*a*b", "xaxxbxb", true);
        check("*a*b", "xaxxbx", false);
        check("fault*", "page_fault", false);
    }

    #[test]
    fn edits() {
        let check = |a: &str, b: &str, expect: Option<usize>| assert_eq!(distance(a, b, 3), expect, "{a} {b}");
        check("", "", Some(0));
        check("sched_swich", "sched_switch", Some(1));
        check("ab", "ba", Some(1));
        check("kitten", "sitting", Some(3));
        check("abcd", "wxyz", None);
        check("a", "abcdef", None);
    }

    #[test]
    fn the_nearest_come_first_and_five_at_most() {
        let names = ["aaab", "aaaa", "aabb", "zzzz", "aaac", "aaad", "aaae", "aaaf"]; // One is too far, one is cut off.
        let found = near("aaaa", names.iter().map(|&name| (name.to_owned(), vec![name])));
        assert_eq!(found, ["aaaa", "aaab", "aaac", "aaad", "aaae"]);
    }

    #[test]
    fn a_part_of_a_name_finds_it() {
        let names = ["sched_migrate_task", "page_fault"];
        assert_eq!(near("migrate", names.iter().map(|&name| (name.to_owned(), vec![name]))), ["sched_migrate_task"]);
    }
}
