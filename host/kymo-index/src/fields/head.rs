// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where values of fields over time are [spec/index.md 4.1].

use kymo_analyze::compact::{Put, Take};

use crate::file::Piece;
use crate::pictures::part::SHIFT_MAX;

/// Losses that are listed at most: a trace with more has no values over time.
pub(crate) const LOSSES_MAX: usize = 1 << 16;

/// Where the values of a field are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPiece {
    /// The name of its events.
    pub event: String,
    pub field: String,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
    pub piece: Piece,
}

/// Where those of all fields are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldsHead {
    /// [`crate::file::identity::clocks`]: columns are ns of these.
    pub clocks: u64,
    /// All losses of the trace.
    pub losses: Piece,
    pub list: Vec<FieldPiece>,
}

impl FieldsHead {
    pub fn put(&self, put: &mut Put) {
        put.number(self.clocks);
        self.losses.put(put);
        put.number(self.list.len() as u64);
        for of in &self.list {
            put.text(&of.event);
            put.text(&of.field);
            put.number(of.shift.into());
            of.piece.put(put);
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<FieldsHead> {
        let (clocks, losses) = (take.number()?, Piece::take(take)?);
        let count = take.count()?;
        let piece = |take: &mut Take<'_>| {
            let (event, field) = (take.text()?.to_owned(), take.text()?.to_owned());
            let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
            Some(FieldPiece { event, field, shift, piece: Piece::take(take)? })
        };
        let list = (0..count).map(|_| piece(take)).collect::<Option<_>>()?;
        Some(FieldsHead { clocks, losses, list })
    }
}
