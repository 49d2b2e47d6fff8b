// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with bytes from outside. Every variant says which bytes and what they should have been.

/// Bytes from a program, a collector or a file do not keep to `spec/`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the layout needs.
    #[error("{what}: {got} bytes where at least {need} are needed")]
    Short {
        /// Name of the structure.
        what: &'static str,
        /// Bytes that there are.
        got: usize,
        /// Bytes that the layout needs.
        need: usize,
    },
    /// A length field disagrees with the bytes that there are.
    #[error("{what}: says {said} bytes, has {got}")]
    Length {
        /// Name of the structure.
        what: &'static str,
        /// Value of the length field.
        said: u64,
        /// Bytes that there are.
        got: u64,
    },
    /// A field holds a value without a meaning.
    #[error("{what}: value {value} is not one that spec/ knows")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A number is outside of its bounds.
    #[error("{what}: {value} is more than the {max} allowed")]
    TooMany {
        /// Name of the number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        max: u64,
    },
    /// A string has no terminator inside its field.
    #[error("{what}: not terminated")]
    Unterminated {
        /// Name of the string.
        what: &'static str,
    },
    /// A name is not a C identifier of at most 255 bytes.
    #[error("{what} {name:?} is not an identifier")]
    Identifier {
        /// What the name names.
        what: &'static str,
        /// The name, cut after 64 characters.
        name: String,
    },
    /// Two fields of an event have one name.
    #[error("two fields are called {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An enumeration has a value that its integer cannot hold.
    #[error("label {label:?}: {value} does not fit the enumeration's integer")]
    LabelValue {
        /// The label.
        label: String,
        /// Its value.
        value: i64,
    },
    /// Text behind the last string of a description.
    #[error("{bytes} bytes of text behind the last string")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// Sizes of a ring memory that do not belong together.
    #[error("ring memory: {what} is {value}, which does not fit the other numbers")]
    Layout {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}
