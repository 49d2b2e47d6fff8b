// SPDX-License-Identifier: MIT OR Apache-2.0
//! Near misses: names within a few edits of what was typed, and names that contain it.

use strsim::osa_distance;

/// Shorter texts are parts of too many names.
const CONTAINED_BYTES_MIN: usize = 3;

/// The place of a name that contains what was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containing {
    /// Before all others, however many edits it takes.
    First,
    /// By its edits, but never behind a name that takes as many as are allowed.
    AtLimit,
    /// By its edits where they are allowed, else behind all others, the shortest first.
    Last,
}

/// Which names are near to a mistyped one, and how many of them are given.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// Edits that are allowed for a text of so many characters.
    pub edits_max: fn(usize) -> usize,
    /// The place of names that contain what was typed.
    pub containing: Containing,
    /// Names given at most.
    pub count: usize,
}

impl Near {
    /// Those of `names` that are near to `wanted`, the nearest first, each once. Each comes with the texts that it may
    /// be called by, of which the nearest counts. Upper and lower case are the same. An edit inserts, removes or
    /// replaces a character, or swaps two neighbours.
    pub fn of<'a, N: Ord, C>(&self, wanted: &str, names: impl IntoIterator<Item = (N, C)>) -> Vec<N>
    where
        C: IntoIterator<Item = &'a str>,
    {
        let wanted = wanted.to_lowercase();
        let limit = (self.edits_max)(wanted.chars().count());
        let score = |called: C| called.into_iter().filter_map(|text| self.score(&wanted, limit, text)).min();
        let mut found: Vec<(usize, N)> =
            names.into_iter().filter_map(|(name, called)| Some((score(called)?, name))).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().take(self.count).map(|(_, name)| name).collect()
    }

    /// Lower is nearer; `None` is not near.
    fn score(&self, wanted: &str, limit: usize, text: &str) -> Option<usize> {
        let text = text.to_lowercase();
        let contains = wanted.len() >= CONTAINED_BYTES_MIN && text.contains(wanted);
        let edits = edits(wanted, &text, limit);
        match self.containing {
            Containing::First if contains => Some(0),
            Containing::AtLimit if contains => edits.or(Some(limit)),
            Containing::Last if contains => edits.or(Some(limit + 1 + text.len() - wanted.len())),
            _ => edits,
        }
    }
}

/// Edits from one to the other; `None` above `limit`.
fn edits(one: &str, other: &str, limit: usize) -> Option<usize> {
    // What differs more in length need not be compared: names of C++ functions are long, and there are many.
    if one.chars().count().abs_diff(other.chars().count()) > limit {
        return None;
    }
    Some(osa_distance(one, other)).filter(|edits| *edits <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { edits_max: |characters| characters / 3, containing: Containing::Last, count: 5 };

    #[test]
    fn edits_up_to_a_limit() {
        let check = |a: &str, b: &str, expect: Option<usize>| assert_eq!(edits(a, b, 3), expect, "{a} {b}");
        check("", "", Some(0));
        check("sched_swich", "sched_switch", Some(1));
        check("ab", "ba", Some(1));
        check("kitten", "sitting", Some(3));
        check("abcd", "wxyz", None);
        check("a", "abcdef", None);
        check("zähler", "zahler", Some(1));
    }

    #[test]
    fn the_nearest_come_first_each_once_and_no_more_than_asked_for() {
        let names = ["aaab", "aaaa", "aabb", "zzzz", "aaac", "aaad", "aaae", "aaaf", "aaab"];
        assert_eq!(NEAR.of("AAAA", names.map(|name| (name, [name]))), ["aaaa", "aaab", "aaac", "aaad", "aaae"]);
        let one = Near { count: 1, ..NEAR };
        assert_eq!(one.of("aaaa", names.map(|name| (name, [name]))), ["aaaa"]);
    }

    #[test]
    fn the_nearest_text_of_a_name_counts() {
        let names = [("motor:step", ["motor:step", "step"]), ("audio:xrun", ["audio:xrun", "xrun"])];
        assert_eq!(NEAR.of("xrum", names), ["audio:xrun"]);
    }

    #[test]
    fn where_names_that_contain_it_stand() {
        let check = |containing, expect: &[&str]| {
            let names = ["stepping", "stop", "a_step", "steps"].map(|name| (name, [name]));
            assert_eq!(Near { containing, ..NEAR }.of("step", names), expect, "{containing:?}");
        };
        check(Containing::First, &["a_step", "stepping", "steps", "stop"]);
        check(Containing::AtLimit, &["a_step", "stepping", "steps", "stop"]);
        check(Containing::Last, &["steps", "stop", "a_step", "stepping"]);
        assert_eq!(NEAR.of("st", [("stop", ["stop"])]), [""; 0]);
    }
}
