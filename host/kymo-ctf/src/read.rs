//! Reading: a trace directory to records in the order of time, with what was lost and what was damaged.
//!
//! CTF 1.8 and CTF 2, as kymo and others write them. A [`Reader`] gives records one at a time from a buffer for each
//! stream; what it gives is a view that lasts until the next one.

mod batch;
mod bits;
mod build;
mod class;
mod clocks;
mod count;
mod ctf2;
mod describe;
mod error;
mod files;
mod item;
mod merge;
mod metadata;
mod plan;
#[doc(hidden)]
pub mod probe;
mod stream;
mod tape;
mod tsdl;
mod value;

use std::path::Path;

pub use batch::Batch;
pub use class::{Base, Clock, EventClass, Metadata};
pub use clocks::unite_clocks;
pub use count::Counts;
pub use describe::{FieldInfo, FieldKind};
pub use error::{Caveat, Damage, Decoded, Error};
pub use files::{Content, Directory, Files, Memory, traces_near};
pub use item::{Item, Loss, Record};
pub use merge::{Passed, Reader};
pub use metadata::parse_metadata;
pub use value::{Elements, Fields, Number, Value};

/// An opened trace: what its metadata says, and its stream files.
pub struct Trace {
    /// What messages call it.
    pub label: String,
    /// What its metadata says.
    pub metadata: Metadata,
    layout: stream::Layout,
    streams: Vec<(String, Content)>,
}

impl Trace {
    /// Opens the trace in `dir`.
    pub fn open(dir: &Path) -> Result<Decoded<Self>, Error> {
        Self::from_files(&Directory(dir))
    }

    /// Opens a trace wherever its files are.
    pub fn from_files(files: &dyn Files) -> Result<Decoded<Self>, Error> {
        let label = files.label();
        let bytes = files.metadata()?;
        let Decoded { value: metadata, caveats } = parse_metadata(&format!("{label}/metadata"), &bytes)?;
        let names = files.streams()?;
        let streams = names.into_iter().map(|name| files.open(&name).map(|content| (name, content)));
        let streams = streams.collect::<Result<_, _>>()?;
        Ok(Decoded { value: Self { label, layout: stream::Layout::new(&metadata), metadata, streams }, caveats })
    }

    /// Names and sizes in bytes of the stream files.
    pub fn streams(&self) -> impl Iterator<Item = (&str, usize)> {
        self.streams.iter().map(|(name, content)| (name.as_str(), content.len()))
    }
}

/// A UUID from its usual text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hex: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
    if hex.len() != 32 || text.len() != 36 {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |c: u8| (c as char).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(uuid)
}
