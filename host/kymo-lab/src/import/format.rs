// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a format is, and what its reader says of bytes that it cannot read.

use crate::Record;

/// Series that a record made from a file may have: CPUs times kinds of latency.
pub const SERIES_MAX: usize = 4096;

/// What a format's module says of bytes that it cannot read: the line, from 1, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn new(line: usize, what: impl Into<String>) -> Fault {
        Fault { line, what: what.into() }
    }
}

/// A format: its name in [`crate::ResultSource::format`], and its reader.
#[derive(Clone, Copy)]
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) read: fn(&[u8]) -> Result<Record, Fault>,
}
