// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses to functions and source lines [spec/analyze.md 12].
//!
//! Of programs: [`Symbols`] takes what a trace says of a process's memory ([`Mapping`]: path, build id, addresses),
//! finds the file or its separate debug file, and asks DWARF, else the symbol table. A file whose build id is another
//! one is refused with the reason: better no line than a wrong one. Of the kernel: [`Kernel`], from the text of
//! /proc/kallsyms or a System.map.
//!
//! Files are read through [`Files`], so that this crate opens nothing.

mod arguments;
mod demangle;
mod image;
mod kernel;
mod lines;
mod missing;
mod search;
mod section;

use std::path::Path;

pub use arguments::{Argument, ArgumentClass, ArgumentPlace, arguments};
pub use demangle::demangle;
pub use image::build_id_of;
pub use kernel::Kernel;
pub use missing::Missing;
pub use search::Symbols;

/// Where files come from.
pub trait Files {
    /// All of a file; `None` where it is not there, is no regular file, or is too large.
    fn read(&self, path: &Path) -> Option<Vec<u8>>;
}

/// A file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address behind the last one.
    pub end: u64,
    /// Where in the file the first byte stands.
    pub offset: u64,
    /// As the process saw it.
    pub path: String,
    /// Empty where it is not known.
    pub build_id: Vec<u8>,
}

/// One function at an address; several where functions are inlined, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name as it was written; empty where only the line is known.
    pub function: String,
    /// Bytes from the begin of the function, where only the symbol table was there.
    pub offset: Option<u64>,
    /// Its source file; empty where there is none.
    pub file: String,
    /// The line in it, from 1.
    pub line: Option<u32>,
}

impl std::fmt::Display for Frame {
    /// `step at motor.c:41`, `step+0x12`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.function.is_empty(), self.offset) {
            (true, _) => write!(f, "?")?,
            (false, Some(offset)) if offset > 0 => write!(f, "{}+{offset:#x}", self.function)?,
            (false, _) => write!(f, "{}", self.function)?,
        }
        // The directories of whoever compiled it tell nothing here.
        let name = self.file.rsplit('/').next().unwrap_or_default();
        match (name.is_empty(), self.line) {
            (true, _) => Ok(()),
            (false, Some(line)) => write!(f, " at {name}:{line}"),
            (false, None) => write!(f, " in {name}"),
        }
    }
}
