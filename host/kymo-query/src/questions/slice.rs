// SPDX-License-Identifier: MIT OR Apache-2.0
//! A span on its way to an answer.

use kymo_analyze::{Doubt, Name};

use super::slice_rows::SliceRow;

/// A span of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
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
