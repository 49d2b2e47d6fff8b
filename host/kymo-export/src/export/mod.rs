// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records in other tools' formats [spec/exchange.md 2]. Each format is an [`Exporter`]: it is given records and
//! losses in the
//! order of time, and tells at the end what it could not hold.

mod chrome;
mod csv;
mod ctf;
mod exporter;
mod facts;
mod names;
mod output;
mod pairs;
mod perfetto;
mod slices;
mod speedscope;
pub mod stacks;

use std::path::Path;

use kymo_ctf::read::Trace;

use crate::Error;
pub use csv::{FileNames, leave_out_loss};
pub use exporter::{Done, Exporter, Trim, note_wide};
pub use facts::{Classes, column_fields, column_name, env_text, is_known_context, part_of};
pub use names::{KnownThread, NamedBy, ThreadNames};
pub use output::NewDirectory;
pub use pairs::named_pairs;
pub use stacks::Symbols;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's protobuf.
    Perfetto,
    /// Chrome's JSON, the object form.
    Chrome,
    /// RFC 4180.
    Csv,
    /// speedscope's JSON.
    Speedscope,
    /// A line for each stack, as flame graph tools read them.
    Collapsed,
    /// CTF 1.8 that every reader reads.
    Ctf,
}

/// Begins with an export of records of `traces` to `path`; `-` is standard output where the format is one text.
///
/// # Errors
/// The output is there already, or cannot be made.
pub fn begin<'t>(
    format: Format,
    traces: &'t [Trace],
    path: &Path,
    symbols: Symbols,
) -> Result<Box<dyn Exporter + 't>, Error> {
    Ok(match format {
        Format::Csv => csv::begin(traces, path)?,
        Format::Ctf => Box::new(ctf::Ctf::new(traces, path)?),
        Format::Chrome => Box::new(chrome::Chrome::new(traces, path, symbols)?),
        Format::Perfetto => Box::new(perfetto::Perfetto::new(traces, path, symbols)?),
        Format::Speedscope => Box::new(speedscope::Speedscope::new(traces, path, symbols)?),
        Format::Collapsed => Box::new(stacks::Collapsed::new(traces, path, symbols)?),
    })
}
