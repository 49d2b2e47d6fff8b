//! Other tools' files as traces [spec/exchange.md 3]. The format is found by content; what cannot be taken is counted
//! and said.
//!
//! Nothing in a file is trusted: sizes are held against the file, and what is unpacked has a bound.

mod dat;
mod text;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;

use crate::Error;

/// Formats that are known, as a message lists them.
pub const FORMATS: &str =
    "trace-cmd trace.dat (6, 7), ftrace text (trace, trace_pipe, trace-cmd report), perf script text";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `trace.dat` of trace-cmd.
    TraceDat,
    /// Text of ftrace, or of `trace-cmd report`.
    Ftrace,
    /// Text of `perf script`.
    PerfScript,
}

impl Kind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TraceDat => "trace.dat",
            Kind::Ftrace => "ftrace text",
            Kind::PerfScript => "perf script",
        }
    }
}

/// What an import came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Records of the trace.
    pub records: u64,
    /// Records that the file says were lost.
    pub lost: u64,
    /// What was not taken, with how often that was met.
    pub not_taken: BTreeMap<String, u64>,
    /// What is doubtful.
    pub notes: Vec<String>,
}

impl Imported {
    fn leave_out(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.not_taken.entry(what.to_owned()).or_default() += count;
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        const NOTES_MAX: usize = 50;
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note.into());
        }
    }
}

/// What a file is, by its content.
pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(dat::MAGIC) {
        return Some(Kind::TraceDat);
    }
    text::kind_of(bytes)
}

/// Asked now and then with the number of records so far; false ends the import.
pub type GoesOn<'w> = &'w dyn Fn(u64) -> bool;

/// How many records of a text are taken between two questions.
const WATCH_RECORDS: u64 = 4096;

/// Makes a trace in `dir` of the file's bytes. `source`: what the trace says of where it came from.
///
/// # Errors
/// The content is of no known format, breaks it at its head, the trace cannot be written, or `goes_on` has ended it. Nothing
/// is left in `dir` then.
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

/// Whether the import goes on.
fn look(goes_on: GoesOn<'_>, records: u64) -> Result<(), Error> {
    if goes_on(records) { Ok(()) } else { Err(Error::Interrupted) }
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
