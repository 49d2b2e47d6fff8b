// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that have not ended in a window: they go on to its end.

use std::cmp::Reverse;

use kymo_analyze::{Doubt, State};

use crate::questions::slices::parts::OpenSlice;
use crate::questions::slices::slice::Slice;

/// Slices that have not ended, of an answer at most.
const OPEN_MAX: usize = 4096;

/// Whose spans are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'t> {
    /// None: all.
    pub tids: &'t Option<Vec<i32>>,
}

impl Wanted<'_> {
    pub(crate) fn has(self, tid: Option<i32>) -> bool {
        self.tids.as_ref().is_none_or(|tids| tid.is_some_and(|tid| tids.contains(&tid)))
    }
}

/// Those of a window, each with its key where it has a row of that.
#[derive(Debug, Default)]
pub(crate) struct OpenSlices(Vec<(Slice, String)>);

impl OpenSlices {
    /// Adds one. `lost_until`: before this time records are missing, ns.
    pub(crate) fn add(&mut self, of: OpenSlice, key: String, state: &State, (to, lost_until): (i64, i64)) {
        let OpenSlice { row, span, tid, from } = of;
        if from >= to {
            return;
        }
        let thread = tid.and_then(|tid| state.thread(tid));
        let name = thread.map(|thread| thread.name).unwrap_or_default();
        let process = thread.and_then(|thread| thread.process);
        let doubt = Doubt::LOST.when(from < lost_until);
        self.0.push((Slice { span, tid, process, name, cpu: None, from, to, open: true, doubt, row }, key));
    }

    /// The newest, if there are many: one whose end is missing stays open for good. How many others there are.
    pub(crate) fn newest(mut self) -> (Vec<(Slice, String)>, u64) {
        self.0.sort_by_key(|(slice, _)| (Reverse(slice.from), slice.span, slice.tid));
        let left_out = self.0.len().saturating_sub(OPEN_MAX) as u64;
        self.0.truncate(OPEN_MAX);
        (self.0, left_out)
    }
}
