// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of files that system calls are about to open: from the entry of a call to its return, and never for a later
//! call of the thread, also if the return is missing.

use crate::hash::Map;

/// Paths that wait for their calls to return at most.
const OPENING_MAX: usize = 1 << 16;

/// A path, and whose it is.
#[derive(Clone, Debug)]
struct OpeningPath {
    path: String,
    /// When it was told.
    at: i64,
    /// The call; `None`: the record that told it has not been followed yet.
    call: Option<&'static str>,
}

/// By thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening(Map<i32, OpeningPath>);

impl Opening {
    /// The entry of a call has its path. [`Opening::begins`] of the same record comes next.
    pub fn told(&mut self, tid: i32, path: &str, at: i64) {
        self.add(tid, OpeningPath { path: path.to_owned(), at, call: None });
    }

    /// A probe within a call has its path. If there are several, or the entry has told it, the first one counts.
    pub fn found(&mut self, tid: i32, path: &str, call: &'static str, at: i64) {
        if !self.0.contains_key(&tid) {
            self.add(tid, OpeningPath { path: path.to_owned(), at, call: Some(call) });
        }
    }

    /// A thread begins a call. `opens`: which, if it opens a file. If calls have events of their own and events by
    /// number, the one by number is of the same call.
    pub fn begins(&mut self, tid: i32, opens: Option<&'static str>, is_by_number: bool, at: i64) {
        let Some(known) = self.0.get_mut(&tid) else { return };
        match (known.call, opens) {
            (None, Some(call)) if known.at == at => known.call = Some(call),
            (Some(before), Some(call)) if before == call && is_by_number => {}
            _ => self.forget(tid),
        }
    }

    /// A thread returns from a call.
    pub fn take(&mut self, tid: i32) -> Option<String> {
        self.0.remove(&tid).map(|known| known.path)
    }

    /// A thread does not return from its call.
    pub fn forget(&mut self, tid: i32) {
        self.0.remove(&tid);
    }

    /// Records were lost: entries and returns may be among them.
    pub fn forget_all(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, tid: i32, path: OpeningPath) {
        if self.0.len() < OPENING_MAX || self.0.contains_key(&tid) {
            self.0.insert(tid, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_one_call() {
        let mut opening = Opening::default();
        let begin = |opening: &mut Opening, path, at| {
            opening.told(7, path, at);
            opening.begins(7, Some("openat"), false, at);
        };
        begin(&mut opening, "/a", 10);
        assert_eq!((opening.take(8), opening.take(7), opening.take(7)), (None, Some("/a".to_owned()), None));
        // Its number, in a record behind the one with the path.
        begin(&mut opening, "/b", 20);
        opening.begins(7, Some("openat"), true, 21);
        assert_eq!(opening.take(7), Some("/b".to_owned()));
        // The return is missing: the next call has another path, none, or is another one.
        for (opens, is_by_number) in [(Some("openat"), false), (Some("open"), true), (None, true), (None, false)] {
            begin(&mut opening, "/c", 30);
            opening.begins(7, opens, is_by_number, 31);
            assert_eq!(opening.take(7), None, "{opens:?} {is_by_number}");
        }
        begin(&mut opening, "/d", 40);
        begin(&mut opening, "/e", 50);
        assert_eq!(opening.take(7), Some("/e".to_owned()));
        // The record that told it was none of a call.
        opening.told(7, "/f", 60);
        opening.begins(7, Some("openat"), false, 61);
        assert_eq!(opening.take(7), None);
    }

    #[test]
    fn a_probe_tells_the_path_of_the_call_that_it_is_in() {
        let mut opening = Opening::default();
        opening.begins(7, Some("openat"), false, 10);
        opening.found(7, "/a", "openat", 11);
        opening.found(7, "/b", "openat", 12);
        opening.begins(7, Some("openat"), true, 13);
        assert_eq!(opening.take(7), Some("/a".to_owned()));
        opening.found(7, "/c", "openat", 20);
        opening.begins(7, Some("openat"), false, 21);
        assert_eq!(opening.take(7), None);
    }

    #[test]
    fn what_does_not_return_is_forgotten_and_there_is_a_bound() {
        let mut opening = Opening::default();
        (0..OPENING_MAX as i32 + 3).for_each(|tid| opening.told(tid, "/a", 1));
        opening.told(5, "/b", 2);
        assert_eq!((opening.0.len(), opening.take(OPENING_MAX as i32)), (OPENING_MAX, None));
        opening.forget(6);
        assert_eq!((opening.take(5), opening.take(6)), (Some("/b".to_owned()), None));
        opening.forget_all();
        assert_eq!(opening.take(7), None);
    }
}
