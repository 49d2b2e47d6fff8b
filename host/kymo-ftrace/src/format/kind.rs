// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the bytes of a field are read: numbers, text, dynamic data.

/// How the bytes of a field are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldEncoding {
    /// An integer of 1, 2, 4 or 8 bytes, signed as the field is.
    Number,
    /// Integers, signed as the field is: `count * element_bytes` is the field's size.
    Array {
        /// How many.
        count: u32,
        /// 1, 2, 4 or 8.
        element_bytes: u16,
    },
    /// `char x[16]`: text that ends with a zero byte, or at `count` bytes.
    Chars {
        /// The bytes of the field.
        count: u32,
    },
    /// 4 bytes: the data's offset in the low 16 bits, its bytes in the high 16. The offset counts from `common_type`.
    DataLoc {
        /// What the data holds.
        element: Element,
    },
    /// As [`FieldEncoding::DataLoc`], but the offset counts from the end of this field.
    RelLoc {
        /// What the data holds.
        element: Element,
    },
    /// `char buf[]` of size 0: runs to the end of the record.
    Rest {
        /// What the data holds.
        element: Element,
    },
    /// A structure, or a size that no number has: bytes.
    Opaque,
}

/// The element of data whose number of bytes stands in the record. By the name of the C type; `long` and pointers have
/// 8 bytes, as in every 64-bit kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Text.
    Char,
    /// Integers, little endian.
    Number {
        /// 1, 2, 4 or 8.
        bytes: u16,
        /// By the type's name.
        signed: bool,
    },
    /// Structures, big-endian numbers, and types that we do not know.
    Bytes,
}
