// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other tools' files as traces [spec/exchange.md 3]. The format is found by content; what cannot be taken is counted
//! and said.
//!
//! Nothing in a file is trusted: sizes are held against the file, and what is unpacked has a bound.

mod dat;
mod format;
mod imported;
mod klog;
mod text;
mod trace;

use std::path::Path;

pub use self::format::Format;
use self::format::Task;
pub use self::imported::{GoesOn, Imported, ImportedSoFar};
use crate::Error;

/// All formats. The first one that knows a file has it.
pub const FORMATS: &[Format] = &[dat::FORMAT, klog::FORMAT, text::FTRACE, text::PERF_SCRIPT];

/// The formats, as a message lists them.
pub fn list() -> String {
    FORMATS.iter().map(|format| format!("{} ({})", format.name, format.about)).collect::<Vec<_>>().join(", ")
}

/// The format of a file, by its content.
pub fn format_of(bytes: &[u8]) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.is)(bytes))
}

/// Makes a trace in `dir` of the file's bytes. `source`: what the trace says of where it came from.
///
/// # Errors
/// The content is of no known format, breaks it at its head, the trace cannot be written, or `goes_on` has ended it.
/// Nothing is left in `dir` then.
pub fn import(
    bytes: &[u8],
    source: &str,
    dir: &Path,
    goes_on: GoesOn<'_>,
) -> Result<(&'static Format, Imported), Error> {
    let format = format_of(bytes).ok_or_else(|| unknown(bytes))?;
    let imported = (format.import)(&Task { bytes, source, dir, goes_on, format: format.name })?;
    Ok((format, imported))
}

/// All parsers over any bytes, without a file: for fuzzing and its bounded twin.
pub fn probe(bytes: &[u8]) {
    FORMATS.iter().for_each(|format| (format.probe)(bytes));
}

fn unknown(bytes: &[u8]) -> Error {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let first = head.lines().find(|line| !line.trim().is_empty());
    let saw = match first {
        None => "it is empty".to_owned(),
        Some(line) => format!("it begins with {:?}", line.chars().take(40).collect::<String>()),
    };
    Error::Unknown { saw, known: list() }
}
