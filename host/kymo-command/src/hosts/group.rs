// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traces of one host.

use std::ops::Range;
use std::path::PathBuf;

/// The traces of one directory: one, or the chunks of one that was cut.
pub struct Group {
    /// The directory, as it is given.
    pub dir: PathBuf,
    /// Positions of its traces.
    pub traces: Range<usize>,
}

impl Group {
    /// As messages call it.
    pub fn name(&self) -> String {
        self.dir.display().to_string()
    }
}
