// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are wanted while a session runs: the patterns that it began with, and what was changed since.

use crate::pattern::Patterns;

/// Changes that are kept. One that repeats an earlier one takes its place, so only different ones count.
const CHANGES_MAX: usize = 1000;

/// A change: events that match are wanted from then on, or are not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    pattern: String,
    patterns: Patterns,
    on: bool,
}

/// The present selection: the newest change that matches an event decides, else the patterns of the beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    base: Patterns,
    changes: Vec<Change>,
}

impl Selection {
    pub(crate) fn new(base: Patterns) -> Selection {
        Selection { base, changes: Vec::new() }
    }

    /// Adds one change for each pattern. The error says why nothing was changed.
    pub(crate) fn change(&mut self, patterns: &[String], on: bool) -> Result<(), String> {
        let read = |pattern: &String| {
            let patterns = Patterns::new(std::slice::from_ref(pattern), &[]).map_err(|error| error.to_string())?;
            Ok(Change { pattern: pattern.trim().to_owned(), patterns, on })
        };
        let new = patterns.iter().map(read).collect::<Result<Vec<Change>, String>>()?;
        let mut changes = self.changes.clone();
        for change in new {
            changes.retain(|old| old.patterns != change.patterns);
            changes.push(change);
        }
        if changes.len() > CHANGES_MAX {
            return Err(format!("more than {CHANGES_MAX} patterns were changed; use fewer with wildcards"));
        }
        self.changes = changes;
        Ok(())
    }

    /// Whether the event `provider:name` is wanted now.
    pub(crate) fn want(&self, name: &str) -> bool {
        let newest = self.changes.iter().rev().find(|change| change.patterns.want(name));
        newest.map_or_else(|| self.base.want(name), |change| change.on)
    }

    /// The changes in their order: `+PATTERN` or `-PATTERN`.
    pub(crate) fn changes(&self) -> Vec<String> {
        let text = |change: &Change| format!("{}{}", if change.on { '+' } else { '-' }, change.pattern);
        self.changes.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    #[test]
    fn the_newest_change_that_matches_decides() {
        let mut selection = Selection::new(Patterns::new(&list(&["motor"]), &list(&["motor:tick"])).unwrap());
        let check = |selection: &Selection, expect: [bool; 3]| {
            let found = ["motor:step", "motor:tick", "audio:xrun"].map(|name| selection.want(name));
            assert_eq!(found, expect, "{:?}", selection.changes());
        };
        check(&selection, [true, false, false]);
        selection.change(&list(&["*"]), true).unwrap();
        check(&selection, [true, true, true]);
        selection.change(&list(&["motor:*"]), false).unwrap();
        check(&selection, [false, false, true]);
        selection.change(&list(&["motor:step"]), true).unwrap();
        check(&selection, [true, false, true]);
        // `motor` is `motor:*`: it takes the place of the change before, and is the newest now.
        selection.change(&list(&["motor"]), false).unwrap();
        check(&selection, [false, false, true]);
        assert_eq!(selection.changes(), ["+*", "+motor:step", "-motor"]);
    }

    #[test]
    fn a_bad_pattern_changes_nothing() {
        let mut selection = Selection::default();
        assert!(selection.change(&list(&["a:b", "a b"]), true).unwrap_err().contains("a b"));
        assert!(selection.changes().is_empty());
    }

    #[test]
    fn changes_are_bounded() {
        let mut selection = Selection::default();
        for number in 0..3 * CHANGES_MAX {
            let _ = selection.change(&[format!("p:e{number}")], true);
            selection.change(&list(&["again"]), number % 2 == 0).ok();
        }
        assert!(selection.changes().len() <= CHANGES_MAX);
    }
}
