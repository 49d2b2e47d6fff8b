// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records look like: streams, events, fields [spec/trace.md 4, 8]. All numbers are little endian, nothing is
//! padded.

use kymo_abi::THREAD_RECORD_ID;
pub use kymo_abi::desc::Base;
use kymo_abi::desc::{EnumDesc, EventDesc, FieldType, Form, Scalar};

/// The two kinds of streams. They differ in the contexts of packets and records [spec/trace.md 2, 8].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Rings of programs: stream class 0.
    User,
    /// The same with compact records. The event of their thread records is among the events:
    /// [`EventClass::of_threads`].
    Compact,
    /// The kernel's rings and the state dump: stream class 1.
    Kernel,
}

impl StreamKind {
    /// Number of the stream class.
    pub const fn id(self) -> u32 {
        match self {
            StreamKind::User | StreamKind::Compact => 0,
            StreamKind::Kernel => 1,
        }
    }
}

/// A stream class and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamClass {
    /// Which one.
    pub kind: StreamKind,
    /// What its records have in front of the payload besides the thread [spec/context.md]: programs' records only.
    pub contexts: Vec<Field>,
    /// Event types; ids are distinct.
    pub events: Vec<EventClass>,
}

impl StreamClass {
    /// Whether the contexts are the event's own: thread records stand among compact ones, and have none.
    pub(super) fn has_own_contexts(&self, event: &EventClass) -> bool {
        self.kind == StreamKind::Compact && !self.contexts.is_empty() && event.id != THREAD_RECORD_ID
    }
}

/// An event type and the id that its records carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventClass {
    /// The low 16 bits of a record's header.
    pub id: u16,
    /// Its name in the trace.
    pub name: String,
    /// Source file, empty where there is none.
    pub file: String,
    /// Line in the source file, 0 where unknown.
    pub line: u32,
    /// Fields in the order of the record.
    pub fields: Vec<Field>,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: FieldClass,
}

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// An integer of 8, 16, 32 or 64 bits.
    Int {
        /// Size.
        bits: u8,
        /// Two's complement.
        signed: bool,
        /// Shown in it.
        base: Base,
    },
    /// IEEE 754, 32 or 64 bits.
    Float {
        /// Size.
        bits: u8,
    },
    /// One byte, 0 or 1.
    Bool,
}

impl Number {
    /// An unsigned integer in base 10.
    pub const fn unsigned(bits: u8) -> Number {
        Number::Int { bits, signed: false, base: Base::Decimal }
    }

    /// A signed integer in base 10.
    pub const fn signed(bits: u8) -> Number {
        Number::Int { bits, signed: true, base: Base::Decimal }
    }

    /// An unsigned integer in base 16.
    pub const fn hex(bits: u8) -> Number {
        Number::Int { bits, signed: false, base: Base::Hexadecimal }
    }

    /// The name that a declaration has for such numbers: `u32`, `x64`, `bool`.
    pub fn name(self) -> Option<&'static str> {
        Scalar::ALL.iter().find(|scalar| Number::from(**scalar) == self).map(|scalar| scalar.name())
    }

    /// Bytes of one.
    pub const fn bytes(self) -> u32 {
        match self {
            Number::Int { bits, .. } | Number::Float { bits } => bits as u32 / 8,
            Number::Bool => 1,
        }
    }
}

impl From<Scalar> for Number {
    fn from(scalar: Scalar) -> Number {
        let bits = (scalar.bytes() * 8) as u8;
        match scalar.form() {
            Form::Int { signed, base } => Number::Int { bits, signed, base },
            Form::Float => Number::Float { bits },
            Form::Bool => Number::Bool,
        }
    }
}

/// The class of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldClass {
    /// One number.
    Number(Number),
    /// An integer with labels.
    Enum {
        /// The integer.
        number: Number,
        /// Labels and their values. Values are cut to the integer's size.
        labels: Vec<(String, i64)>,
    },
    /// `u16` bytes, then UTF-8.
    Text,
    /// `u16` bytes, then bytes.
    Blob,
    /// UTF-8 up to a NUL, and the NUL.
    CString,
    /// UTF-8 in `count` bytes, NUL padded.
    Chars {
        /// Bytes.
        count: u32,
    },
    /// `count` numbers.
    Array {
        /// Each of them.
        element: Number,
        /// How many.
        count: u32,
    },
    /// `u16` numbers, then the numbers.
    Seq {
        /// Each of them.
        element: Number,
    },
}

impl FieldClass {
    /// Whether a `u16` stands in front.
    pub(super) fn has_length(&self) -> bool {
        matches!(self, FieldClass::Text | FieldClass::Blob | FieldClass::Seq { .. })
    }
}

/// The event of thread records [spec/trace.md 4].
pub(crate) const THREAD_EVENT: &str = "kymo:thread";
/// Member of the packet context: the thread in front of the first compact record.
pub(crate) const FIRST_THREAD: &str = "vtid_begin";

impl EventClass {
    /// The event of thread records, which compact records have in front of them.
    pub fn of_threads() -> EventClass {
        let vtid = Field { name: "vtid".to_owned(), class: FieldClass::Number(Number::unsigned(32)) };
        let (id, name) = (THREAD_RECORD_ID, THREAD_EVENT.to_owned());
        EventClass { id, name, file: String::new(), line: 0, fields: vec![vtid] }
    }

    /// A program's event. An enumeration that `enums` lacks makes its fields plain integers.
    pub fn of_user(id: u16, desc: &EventDesc, enums: &[EnumDesc]) -> EventClass {
        let class = |ty: &FieldType| match ty {
            FieldType::Scalar(scalar) => FieldClass::Number((*scalar).into()),
            FieldType::Enum { scalar, name } => {
                let number = Number::from(*scalar);
                let found = enums.iter().find(|found| found.scalar == *scalar && found.full_name() == *name);
                match found.filter(|found| scalar.is_integer() && !found.labels.is_empty()) {
                    Some(found) => FieldClass::Enum { number, labels: found.labels.clone() },
                    None => FieldClass::Number(number),
                }
            }
            FieldType::Str => FieldClass::Text,
            FieldType::Bytes => FieldClass::Blob,
            FieldType::Array { element, count } => FieldClass::Array { element: (*element).into(), count: *count },
            FieldType::Seq { element } => FieldClass::Seq { element: (*element).into() },
        };
        let fields = desc.fields.iter().map(|field| Field { name: field.name.clone(), class: class(&field.ty) });
        EventClass { id, name: desc.full_name(), file: desc.file.clone(), line: desc.line, fields: fields.collect() }
    }
}
