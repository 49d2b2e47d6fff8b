// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other tools' files as traces [spec/exchange.md 3]. The format is found by content; what cannot be taken is counted
//! and said.
//!
//! Nothing in a file is trusted: sizes are held against the file, and what is unpacked has a bound.

mod dat;
mod imported;
mod kind;
mod text;
mod trace;

use std::path::Path;

pub use self::imported::{GoesOn, Imported};
pub use self::kind::{FORMATS, Kind};
use crate::Error;

/// What a file is, by its content.
pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(dat::MAGIC) {
        return Some(Kind::TraceDat);
    }
    text::kind_of(bytes)
}

/// Makes a trace in `dir` of the file's bytes. `source`: what the trace says of where it came from.
///
/// # Errors
/// The content is of no known format, breaks it at its head, the trace cannot be written, or `goes_on` has ended it.
/// Nothing is left in `dir` then.
pub fn import(bytes: &[u8], source: &str, dir: &Path, goes_on: GoesOn<'_>) -> Result<(Kind, Imported), Error> {
    let kind = kind_of(bytes).ok_or_else(|| unknown(bytes))?;
    let imported = match kind {
        Kind::TraceDat => dat::import(bytes, source, dir, goes_on)?,
        Kind::Ftrace | Kind::PerfScript => text::import(bytes, kind, source, dir, goes_on)?,
    };
    Ok((kind, imported))
}

/// The parsers over any bytes, without a file: for fuzzing and its bounded twin.
pub fn probe(bytes: &[u8]) {
    dat::probe(bytes);
    text::probe(bytes);
}

fn unknown(bytes: &[u8]) -> Error {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let first = head.lines().find(|line| !line.trim().is_empty());
    let saw = match first {
        None => "it is empty".to_owned(),
        Some(line) => format!("it begins with {:?}", line.chars().take(40).collect::<String>()),
    };
    Error::Unknown { saw }
}
