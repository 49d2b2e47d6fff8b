// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, processes and priorities of threads as they were at a time of the window, from the stretches of threads.

use kymo_analyze::hash::Map;
use kymo_analyze::{Name, State, Thread};
use kymo_index::PartSums;
pub use kymo_index::Person;

/// What threads were called, and when.
#[derive(Clone, Debug, Default)]
pub struct People(Map<i32, Vec<(i64, Person)>>);

impl People {
    /// Takes a stretch of a thread.
    pub fn see(&mut self, from: i64, thread: &Thread) {
        self.note(from, thread.tid, Person::of(thread));
    }

    /// Takes how a thread was from a time on.
    pub fn note(&mut self, from: i64, tid: i32, person: Person) {
        let known = self.0.entry(tid).or_default();
        if known.last().is_none_or(|(_, last)| *last != person) {
            known.push((from, person));
        }
    }

    /// Takes what the index knows of a part of the window.
    pub fn of_part(&mut self, part: &PartSums) {
        for of in part.threads() {
            of.people.iter().for_each(|(from, person)| self.note(*from, of.tid, *person));
        }
    }

    /// Takes what only the state knows.
    pub fn finish(&mut self, state: &State) {
        for thread in state.threads() {
            self.0.entry(thread.tid).or_insert_with(|| vec![(thread.since, Person::of(thread))]);
        }
    }

    /// A thread at a time; as it was first, before that.
    pub fn at(&self, tid: i32, at: i64) -> Option<Person> {
        let known = self.0.get(&tid)?;
        let behind = known.partition_point(|(from, _)| *from <= at);
        known.get(behind.saturating_sub(1)).map(|(_, person)| *person)
    }

    /// The newest of a thread.
    pub fn newest(&self, tid: i32) -> Option<Person> {
        self.0.get(&tid)?.last().map(|(_, person)| *person)
    }

    /// The name of a thread at a time; may be empty. The idle thread has none.
    pub fn name(&self, tid: i32, at: i64) -> Name {
        self.at(tid, at).map_or_else(Name::default, |person| person.name)
    }

    /// The names of a thread over time, each from when on.
    pub fn names(&self, tid: i32) -> Vec<(i64, Name)> {
        let mut names: Vec<(i64, Name)> = Vec::new();
        for (from, person) in self.0.get(&tid).into_iter().flatten() {
            if !person.name.is_empty() && names.last().is_none_or(|(_, last)| *last != person.name) {
                names.push((*from, person.name));
            }
        }
        names
    }
}
