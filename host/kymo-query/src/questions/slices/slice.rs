// SPDX-License-Identifier: MIT OR Apache-2.0
//! A span on its way to an answer.

use kymo_analyze::{Doubt, Name, Sample};
use kymo_index::{NestedSpan, SpanEnd};

use crate::slice_row::SliceRow;

/// A span of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub span: u16,
    pub tid: Option<i32>,
    pub process: Option<i32>,
    pub name: Name,
    pub cpu: Option<u32>,
    pub from: i64,
    pub to: i64,
    /// It has not ended in the window.
    pub open: bool,
    pub doubt: Doubt,
    /// Where it is drawn.
    pub row: SliceRow,
}

impl Slice {
    /// As a latency; the priority of the thread is not known here.
    pub fn sample(&self) -> Sample {
        let Slice { span, tid, process, name, cpu, from, to, doubt, .. } = *self;
        SpanEnd { span, tid, process, name, cpu, from, to, doubt }.sample()
    }
}

impl NestedSpan for Slice {
    fn span(&self) -> u16 {
        self.span
    }

    fn stretch(&self) -> (i64, i64) {
        (self.from, self.to)
    }
}
