// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session cannot count [spec/session.md 15]: programs and records of which nobody can say how many are missing.
//!
//! A loss that is counted is no unknown. What is unknown is never given as a number.

use serde::Serialize;

/// Entries that a list keeps; further ones are counted.
const ENTRIES_MAX: usize = 100;

/// Which records of a program are missing or cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// All records of the program.
    Program,
    /// The first records, until the session reached the program.
    Beginning,
    /// Some records between others.
    Part,
    /// All records from some moment on.
    Rest,
}

impl Missing {
    /// All.
    pub const ALL: [Missing; 4] = [Missing::Program, Missing::Beginning, Missing::Part, Missing::Rest];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Missing::Program => "not recorded",
            Missing::Beginning => "the beginning is missing",
            Missing::Part => "some records may be missing",
            Missing::Rest => "the rest is missing",
        }
    }
}

/// Why a recording is not known to be complete, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// Index into [`crate::Summary::processes`]; `None` where it is not listed there, or is no single program.
    pub process: Option<usize>,
    /// Process id; 0 where it is not known, or belongs to a pid namespace that the collector does not see.
    pub pid: u32,
    /// Process id, as the process sees itself; 0 where it is not known.
    pub vpid: u32,
    /// Name of the process; empty where it is not known.
    pub comm: String,
    /// Which records.
    pub what: Missing,
    /// The reason, for people.
    pub why: String,
    /// What to do, for people.
    pub next: String,
}

impl Unknown {
    /// Something that belongs to no known program.
    pub(crate) fn new(what: Missing, why: impl Into<String>, next: impl Into<String>) -> Unknown {
        let (why, next) = (why.into(), next.into());
        Unknown { process: None, pid: 0, vpid: 0, comm: String::new(), what, why, next }
    }
}

/// A bounded list of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unknowns {
    list: Vec<Unknown>,
    left_out: u64,
}

impl Unknowns {
    /// Adds an entry, once: a program that was refused may come again.
    pub(crate) fn add(&mut self, entry: Unknown) {
        let is_it = |old: &Unknown| {
            (old.pid, old.vpid, &old.comm, old.what, &old.why)
                == (entry.pid, entry.vpid, &entry.comm, entry.what, &entry.why)
                && (old.process == entry.process || entry.pid != 0)
        };
        if self.list.iter().any(is_it) {
            return;
        }
        if self.list.len() < ENTRIES_MAX {
            self.list.push(entry);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// Adds the entries of another list.
    pub(crate) fn extend(&mut self, other: Unknowns) {
        other.list.into_iter().for_each(|entry| self.add(entry));
        self.left_out = self.left_out.saturating_add(other.left_out);
    }

    pub(crate) fn list(&self) -> &[Unknown] {
        &self.list
    }

    /// Entries, those that are not listed too.
    pub(crate) fn count(&self) -> u64 {
        self.list.len() as u64 + self.left_out
    }

    pub(crate) fn into_parts(self) -> (Vec<Unknown>, u64) {
        let count = self.count();
        (self.list, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_an_entry_comes_once() {
        let mut unknowns = Unknowns::default();
        for number in 0..150u32 {
            let entry = Unknown { pid: number, ..Unknown::new(Missing::Program, "why", "next") };
            unknowns.add(entry.clone());
            unknowns.add(entry);
        }
        // Of those that are not kept nobody can say that they came before.
        assert_eq!((unknowns.list().len(), unknowns.count()), (100, 200));
        let mut whole = Unknowns::default();
        whole.add(Unknown::new(Missing::Rest, "another", "next"));
        whole.extend(unknowns);
        assert_eq!((whole.list().len(), whole.count()), (100, 201));
    }
}
