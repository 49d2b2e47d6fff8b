// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a format of files is to an import.

use std::path::Path;

use super::imported::{GoesOn, Imported};
use crate::Error;

/// A format of files that can be imported: a file of its own, and a row in [`super::FORMATS`].
pub struct Format {
    /// Its name in messages, and what the trace says of where it came from. spec/exchange.md 3 has a row of it.
    pub name: &'static str,
    /// What else belongs to it, for a list of all: versions, tools.
    pub about: &'static str,
    /// Its begin is a mark that no other file has. Else it is known by lines, which results of a latency test may hold,
    /// too.
    pub is_marked: bool,
    /// Whether a file has this format. Any bytes may come.
    pub(super) is: fn(&[u8]) -> bool,
    /// Makes the trace.
    pub(super) import: fn(&Task<'_>) -> Result<Imported, Error>,
    /// Parses any bytes without a file, for fuzzing.
    pub(super) probe: fn(&[u8]),
}

/// A file that becomes a trace.
pub(super) struct Task<'t> {
    /// The whole file.
    pub bytes: &'t [u8],
    /// What the trace says of where it came from.
    pub source: &'t str,
    /// Where the trace is made.
    pub dir: &'t Path,
    /// Asked now and then.
    pub goes_on: GoesOn<'t>,
    /// The format's name.
    pub format: &'static str,
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
