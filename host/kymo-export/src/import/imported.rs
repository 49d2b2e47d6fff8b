// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an import came to, and whether it goes on.

use std::collections::BTreeMap;

use crate::Error;

/// What an import came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Records of the trace.
    pub records: u64,
    /// Records that the file says were lost.
    pub lost: u64,
    /// What was not taken, with how often that was met.
    pub not_taken: BTreeMap<String, u64>,
    /// What is doubtful.
    pub notes: Vec<String>,
}

impl Imported {
    pub(super) fn leave_out(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.not_taken.entry(what.to_owned()).or_default() += count;
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        const NOTES_MAX: usize = 50;
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note.into());
        }
    }
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImportedSoFar {
    /// Records that were written.
    pub records: u64,
    /// Share of the work that is done, 0 to 1.
    pub share: f64,
}

/// Asked now and then; false ends the import.
pub type GoesOn<'w> = &'w dyn Fn(ImportedSoFar) -> bool;

/// How many records of a text are taken between two questions.
pub(super) const WATCH_RECORDS: u64 = 4096;

/// Whether the import goes on.
pub(super) fn look(goes_on: GoesOn<'_>, records: u64, share: f64) -> Result<(), Error> {
    if goes_on(ImportedSoFar { records, share }) { Ok(()) } else { Err(Error::Interrupted) }
}
