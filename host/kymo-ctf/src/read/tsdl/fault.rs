// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in the text of metadata, and what is wrong there.

/// A place in the text and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::read) struct Fault {
    pub pos: Pos,
    pub what: String,
    /// The text ended where more was expected.
    pub torn: bool,
}

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct Pos {
    pub line: u32,
    pub column: u32,
}

impl Pos {
    pub fn fault(self, what: impl Into<String>) -> Fault {
        Fault { pos: self, what: what.into(), torn: false }
    }
}
