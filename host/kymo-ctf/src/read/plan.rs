// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans: how the bytes of each event class are passed over and its fields found [spec/read.md 3].
//!
//! A field is constant where all its values have the same size. Constant fields cost nothing until somebody asks for
//! them: their place is a distance from the last field that is not constant. So an event of constant fields is passed
//! by one addition. What is left are the operations of a plan: lengths and tags that are kept, text that ends
//! somewhere, arrays that count, and whatever is nested deeper, which goes to the tape.

use super::bits::{extended, extract};
use super::class::{ClassId, Order, Ranges, WriterFact};

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    /// Constant: so many bits behind the end of a mark.
    Packed { mark: u32, delta_bits: u32 },
    /// What a mark says.
    Marked(u32),
}

/// How to pass over the fields of one event class, or of a head.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodePlan {
    pub(super) ops: Vec<Op>,
    /// Bits behind the last mark.
    pub(super) tail_bits: u64,
    /// Common context, specific context, payload.
    pub parts: [PlanPart; 3],
    /// What fields say of where a record was written: those of the payload, of the specific context, of the common one.
    /// The last one that knows counts.
    pub known: Vec<WriterFactPlace>,
}

/// Where one of those lies.
#[derive(Clone, Debug)]
pub(crate) struct WriterFactPlace {
    pub known: WriterFact,
    /// Position among [`DecodePlan::parts`].
    pub part: usize,
    /// Position in the part.
    pub position: usize,
    /// Of a plain integer: behind the end of which mark.
    pub piece: Option<(u32, Piece)>,
}

/// One structure of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanPart {
    pub class: Option<ClassId>,
    /// Of each member.
    pub places: Vec<FieldPlace>,
}

#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Bits behind the end of the last mark.
    pub delta_bits: u64,
    pub kind: OpKind,
}

#[derive(Clone, Debug)]
pub(super) enum OpKind {
    /// Keeps a constant integer for a length or a tag; leaves no mark.
    Keep {
        slot: u32,
        int: Piece,
    },
    Align(u32),
    NulText(ClassId),
    /// Elements that all have the same size.
    Counted {
        slot: u32,
        stride_bits: u64,
        element_bits: u64,
    },
    /// An integer of variable length.
    Variable(ClassId),
    Nested(ClassId),
}

/// A constant integer: its bits, and what they mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub delta_bits: u32,
    pub bits: u8,
    pub signed: bool,
    pub order: Order,
}

impl Piece {
    /// Reads it; `at` is the bit in the file that the distance counts from.
    #[inline]
    pub fn read(self, data: &[u8], at: u64) -> u64 {
        extended(extract(data, at + u64::from(self.delta_bits), self.bits, self.order), self.bits, self.signed)
    }
}

/// Which event a record is of, and when it was written.
#[derive(Clone, Debug)]
pub(crate) enum Header {
    /// Always in the same place.
    Fixed(Stamp),
    /// An integer chooses one of several layouts, as in LTTng's heads.
    Tagged { align: u32, tag: Piece, options: Vec<(Ranges, Stamp)> },
    /// Anything else: by way of the tape.
    Any(ClassId),
}

/// A head without choices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub align: u32,
    pub id: Option<Piece>,
    pub time: Option<Piece>,
    pub bits: u32,
}

/// The first multiple of `align`, a power of two, at `at` or behind it.
#[inline]
pub(super) fn aligned(at: u64, align: u32) -> u64 {
    let mask = u64::from(align) - 1;
    (at + mask) & !mask
}
