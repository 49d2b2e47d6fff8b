// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a window come part by part, as they end: a window may have more of them than can be kept at a time
//! [spec/view.md 6]. What has begun and not ended at the end of a part gets its place there, so that what lies within
//! it finds it.

#[cfg(test)]
pub(crate) mod made;

use kymo_index::BegunSpan;

use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;

/// Spans of a part.
pub(crate) const PART: usize = 1 << 16;

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSlice {
    pub row: SliceRow,
    pub span: u16,
    pub tid: Option<i32>,
    pub from: i64,
}

impl OpenSlice {
    /// As it waits for its end.
    pub(crate) fn begun(&self) -> BegunSpan {
        (self.span, self.from)
    }
}

/// What spans are made into.
pub(crate) trait TakeSlices {
    /// Takes those that ended since the last part, and all that have begun and not ended.
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]);
}
