// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel events a session has on, and which its trace knows.

use std::collections::BTreeMap;

use kymo_tracefs::{Chosen, EventName};

use crate::Error;

/// Changes that are kept.
const CHANGES_MAX: usize = 1000;

/// What is on, and what the trace knows.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(super) on: BTreeMap<EventName, Chosen>,
    /// Events in the metadata, with the fields that their records have: an id has one class in a trace.
    pub(super) known: BTreeMap<EventName, Option<Vec<String>>>,
    pub(super) changes: Vec<(String, bool)>,
}

impl Selected {
    /// `beside`: what is on and known, although nobody asked for it.
    pub(crate) fn new(chosen: &[Chosen], beside: &[Chosen]) -> Selected {
        let on = chosen.iter().map(|chosen| (chosen.event.clone(), chosen.clone()));
        let known = chosen.iter().chain(beside).map(|chosen| (chosen.event.clone(), chosen.fields.clone()));
        Selected { on: on.collect(), known: known.collect(), changes: Vec::new() }
    }

    /// A pattern takes the place of an earlier change of it.
    pub(crate) fn note(&mut self, patterns: &[String], on: bool) -> Result<(), Error> {
        let mut changes = self.changes.clone();
        for pattern in patterns {
            changes.retain(|(old, _)| old != pattern);
            changes.push((pattern.clone(), on));
        }
        if changes.len() > CHANGES_MAX {
            return Err(Error::Refused(format!(
                "more than {CHANGES_MAX} patterns were changed; use fewer with wildcards"
            )));
        }
        self.changes = changes;
        Ok(())
    }
}
