//! Descriptions of events and enumerations [spec/event.md 3].

/// The type of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the field types of spec/event.md 1")]
pub enum Scalar {
    U8, U16, U32, U64,
    I8, I16, I32, I64,
    X8, X16, X32, X64,
    F32, F64,
    Bool,
}

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

/// One description.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Desc {
    /// An event.
    Event(EventDesc),
    /// An enumeration.
    Enum(EnumDesc),
}
