// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is found of the fields of one record, or of a packet's context: marks that a plan leaves, nodes of a tape.

use super::class::{ClassId, Metadata};

/// What passing over one field that is not constant has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Text, bytes and arrays: the first bit, from the packet's first. An integer: its value. Nested fields: the node.
    pub at: u64,
    /// Text and bytes: bytes. Arrays: elements.
    pub len: u64,
    /// The bit behind the field.
    pub end: u64,
}

/// A decoded field, followed on the tape by the fields inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub class: ClassId,
    /// Nodes of this field, itself included.
    pub span: u32,
    /// A number's bits, sign extended; of text and bytes the offset in the file.
    pub bits: u64,
    /// Bytes of text, elements of an array; of an optional or a variant 1 when it has a value.
    pub len: u64,
}

/// What views look into: the bytes, and what plan and tape found in them.
#[derive(Clone, Debug)]
pub(crate) struct Frame<'t> {
    pub metadata: &'t Metadata,
    /// The file.
    pub data: &'t [u8],
    /// First bit of the packet in the file.
    pub origin: u64,
    /// Fields that are nested, or of a head.
    pub nodes: Vec<Node>,
    /// Places of the other fields.
    pub marks: Vec<Mark>,
}

impl<'t> Frame<'t> {
    pub fn new(metadata: &'t Metadata, data: &'t [u8]) -> Self {
        Self { metadata, data, origin: 0, nodes: Vec::new(), marks: Vec::new() }
    }

    /// The bytes from the record's first field on, those of the records behind too. `None` where it begins within a
    /// byte.
    #[inline]
    pub fn fields(&self) -> Option<&[u8]> {
        let at = self.origin + self.marks.first()?.end;
        if at % 8 == 0 { self.data.get((at / 8) as usize..) } else { None }
    }

    /// Goes to the packet of another frame.
    #[inline]
    pub fn look_at(&mut self, other: &Self) {
        (self.metadata, self.data, self.origin) = (other.metadata, other.data, other.origin);
    }
}
