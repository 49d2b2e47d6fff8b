// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of other tools as records [spec/lab.md 8]: one file per format. Finds the format by content, never by the
//! file's name.
//!
//! Nothing here opens a file. Whatever the bytes, the work is linear in them, and memory is bounded by [`SERIES_MAX`]
//! histograms.

mod build;
mod cyclictest;
mod cyclictest_json;
mod document;
mod format;
mod jitterdebugger;
mod json;
mod latency_hist;
mod npt;
mod oslat;
mod oslat_json;
mod rteval;
mod rtla;
#[cfg(test)]
mod tests;
mod text;
mod time;

use self::format::Format;
pub use self::format::SERIES_MAX;
use crate::{Record, ResultSource};

/// Formats that are known, as a message lists them.
pub const FORMATS: &str = "cyclictest (text, JSON), oslat (text, JSON), rtla timerlat hist, rtla osnoise hist, \
    rteval XML, jitterdebugger JSON, npt (output, file), latency_hist, kymo-lab-1";

/// Why a file is no result. Every variant names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// No format knows it.
    #[error("{file}: not a result that kymo can read ({saw}); tried: {}", FORMATS)]
    Unknown {
        /// As it was given.
        file: String,
        /// What it begins with.
        saw: String,
    },
    /// Its format was found, and it breaks it.
    #[error("{file}: {format}, line {line}: {what}")]
    Malformed {
        /// As it was given.
        file: String,
        /// `cyclictest-text`, ...
        format: &'static str,
        /// Where reading stopped, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

/// Whether a line is of a format's own.
type IsMark = fn(&str) -> bool;

/// Texts: a format is the first one of which a line has the mark.
const TEXTS: [(IsMark, Format); 6] = [
    (rtla::is_timerlat, Format { name: "rtla-timerlat-hist", read: rtla::timerlat }),
    (rtla::is_osnoise, Format { name: "rtla-osnoise-hist", read: rtla::osnoise }),
    (npt::is_mark, Format { name: "npt", read: npt::read }),
    (latency_hist::is_mark, Format { name: "latency-hist", read: latency_hist::read }),
    (oslat::is_mark, Format { name: "oslat-text", read: oslat::read }),
    (cyclictest::is_mark, Format { name: "cyclictest-text", read: cyclictest::read }),
];

/// Reads the result of another tool, or of kymo itself, from the whole content of a file; `name` is what messages and
/// [`Record::source`] call it.
///
/// A file that was cut keeps what it has, with the caveat `interrupted`. Samples that it counts and has no bucket for
/// are in `overflow` or `lost`.
///
/// # Errors
/// No format knows it, or it breaks the format that it has.
pub fn import(name: &str, bytes: &[u8]) -> Result<Record, ImportError> {
    let format = format_of(bytes).ok_or_else(|| unknown(name, bytes))?;
    let read = (format.read)(bytes);
    let mut record = read.map_err(|fault| ImportError::Malformed {
        file: name.to_owned(),
        format: format.name,
        line: fault.line,
        what: fault.what,
    })?;
    if format.name != crate::SCHEMA {
        record.source = Some(ResultSource { file: name.to_owned(), format: format.name.to_owned() });
    }
    Ok(record)
}

fn format_of(bytes: &[u8]) -> Option<Format> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace())? {
        b'{' => json::format_of(bytes),
        b'<' => rteval::is_rteval(bytes).then_some(Format { name: "rteval-xml", read: rteval::read }),
        _ => text_format(bytes),
    }
}

/// The first line that any format marks decides.
fn text_format(bytes: &[u8]) -> Option<Format> {
    let mut lines = text::Lines::new(bytes);
    lines.find_map(|(_, line)| TEXTS.iter().find(|(is_mark, _)| is_mark(&line)).map(|(_, format)| *format))
}

fn unknown(name: &str, bytes: &[u8]) -> ImportError {
    let first = text::Lines::new(bytes).map(|(_, line)| line).find(|line| !line.trim().is_empty());
    let saw = match first {
        None => "it is empty".to_owned(),
        Some(line) => format!("it begins with {:?}", line.chars().take(40).collect::<String>()),
    };
    ImportError::Unknown { file: name.to_owned(), saw }
}
