// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of spans [spec/view.md 4.7].

/// Where a span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SliceRow {
    Thread(Option<i32>),
    /// The number of the span, and that of the key; `None`: beyond those that have rows of their own.
    Key(u16, Option<u32>),
}
