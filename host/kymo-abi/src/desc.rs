// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of events and enumerations [spec/event.md 3]: the types. Bytes to descriptions and back: [`codec`].

mod codec;
mod scalar;
pub mod shape;

pub use codec::{BYTES_MAX, Walk, encode, parse};
pub use scalar::{Base, Form, Scalar};

/// The type of one field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// One number.
    Scalar(Scalar),
    /// An integer whose values are labelled by the enumeration `name` (`provider:name`).
    Enum {
        /// The integer.
        scalar: Scalar,
        /// `provider:name` of the enumeration.
        name: String,
    },
    /// `u16` bytes, then UTF-8.
    Str,
    /// `u16` bytes, then bytes.
    Bytes,
    /// `count` elements.
    Array {
        /// Type of one element.
        element: Scalar,
        /// Number of elements.
        count: u32,
    },
    /// `u16` elements, then elements.
    Seq {
        /// Type of one element.
        element: Scalar,
    },
}

impl std::fmt::Display for FieldType {
    /// As in a declaration: `u32`, `str`, `array(u8, 16)`, `enum(motor:state)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FieldType::Scalar(scalar) => f.write_str(scalar.name()),
            FieldType::Enum { name, .. } => write!(f, "enum({name})"),
            FieldType::Str => f.write_str("str"),
            FieldType::Bytes => f.write_str("bytes"),
            FieldType::Array { element, count } => write!(f, "array({}, {count})", element.name()),
            FieldType::Seq { element } => write!(f, "seq({})", element.name()),
        }
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name, a C identifier.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
}

/// An event type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventDesc {
    /// The part of the name before the colon.
    pub provider: String,
    /// The part of the name after the colon.
    pub name: String,
    /// Source file, may be empty.
    pub file: String,
    /// Line in the source file, 0 where unknown.
    pub line: u32,
    /// Fields in the order of the record.
    pub fields: Vec<Field>,
}

impl EventDesc {
    /// `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// Labels of an integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnumDesc {
    /// The part of the name before the colon.
    pub provider: String,
    /// The part of the name after the colon.
    pub name: String,
    /// Source file, may be empty.
    pub file: String,
    /// Line in the source file, 0 where unknown.
    pub line: u32,
    /// The integer.
    pub scalar: Scalar,
    /// Labels and their values, in the order of the declaration.
    pub labels: Vec<(String, i64)>,
}

impl EnumDesc {
    /// `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// One description.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Desc {
    /// An event.
    Event(EventDesc),
    /// An enumeration.
    Enum(EnumDesc),
}
