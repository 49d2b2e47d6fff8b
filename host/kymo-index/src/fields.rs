// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of numeric fields over time, as an index has them [spec/index.md 4.1].

pub(crate) mod bytes;
pub(crate) mod columns;
pub(crate) mod head;
pub(crate) mod sums;
pub(crate) mod taker;

use kymo_feed::LossAt;

use crate::fields::bytes::{take_field, take_losses};
use crate::fields::sums::ValueSums;
use crate::file::Piece;
use crate::open::TraceIndex;

/// Where the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldTimes {
    piece: Piece,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
}

/// They are not what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the values over time in the index are damaged (kymo index --rebuild)")]
pub struct DamagedFields;

impl TraceIndex {
    /// Where the values of a field of the events of a name are; `None`: nowhere, or there are none.
    pub fn field_times(&self, event: &str, field: &str) -> Option<FieldTimes> {
        let list = &self.fields.as_ref()?.list;
        let found = list.iter().find(|of| of.field == field && of.event == event);
        found.map(|of| FieldTimes { piece: of.piece, shift: of.shift })
    }

    /// Shows the columns of a field that have values, in the order of time, each with its number: it has the times
    /// from this number times its length on.
    ///
    /// # Errors
    /// They are damaged: what was shown is of no use then.
    pub fn field_values(&self, of: &FieldTimes, each: impl FnMut(i64, &ValueSums)) -> Result<(), DamagedFields> {
        let bytes = self.pieces.read(&of.piece).ok_or(DamagedFields)?;
        let shift = take_field(&bytes, each).filter(|shift| *shift == of.shift);
        shift.map(|_| ()).ok_or(DamagedFields)
    }

    /// All losses of the trace, in the order in which they are read. `Ok(None)`: they are not known.
    ///
    /// # Errors
    /// They are damaged.
    pub fn losses(&self) -> Result<Option<Vec<LossAt>>, DamagedFields> {
        let Some(fields) = &self.fields else { return Ok(None) };
        self.pieces.read(&fields.losses).and_then(|bytes| take_losses(&bytes)).map(Some).ok_or(DamagedFields)
    }

    /// Looks through all of them.
    pub(crate) fn check_fields(&self) -> Result<(), DamagedFields> {
        for of in self.fields.iter().flat_map(|fields| &fields.list) {
            self.field_values(&FieldTimes { piece: of.piece, shift: of.shift }, |_, _| {})?;
        }
        self.losses().map(|_| ())
    }
}
