//! Reading: a trace directory to records in the order of time, with what was lost and what was damaged.
//!
//! CTF 1.8 and CTF 2, as kymo and others write them. A [`Reader`] gives records one at a time from a buffer for each
//! stream; what it gives is a view that lasts until the next one.
//!
//! ```
//! use kymo_ctf::read::{Item, Memory, Reader, Trace, Value};
//!
//! // `Trace::open` takes a directory; here the files are in memory.
//! let metadata = "typealias integer { size = 8; } := u8;
//!     clock { name = c; freq = 1000; };
//!     stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
//!     event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; string note; }; };";
//! let stream = vec![7, 1, 2, b'u', b'p', 0, 7, 5, 3, b'o', b'n', 0];
//! let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
//! let trace = Trace::from_files(&files)?.value;
//!
//! // What there is, before there is a record; and how many there are, without a look into them.
//! let event = &trace.metadata.events[0];
//! let axis = trace.metadata.fields(event).iter().find(|field| field.name == "axis").map(|field| field.position);
//! assert_eq!(trace.count(1).records(), 2);
//!
//! // All records of one or more traces, merged by time.
//! let traces = [trace];
//! let mut reader = Reader::new(&traces);
//! let mut seen = Vec::new();
//! while let Some(item) = reader.next() {
//!     let Item::Record(record) = item else { continue };
//!     if let Some(Value::Int(number, _)) = axis.and_then(|axis| record.payload.at(axis)) {
//!         seen.push((record.ns, i128::from(number)));
//!     }
//! }
//! assert_eq!(seen, [(1_000_000, 2), (5_000_000, 3)]);
//! assert_eq!(reader.caveat_count(), 0);
//! # Ok::<(), kymo_ctf::read::Error>(())
//! ```

mod batch;
mod bits;
mod build;
mod class;
mod clock;
mod clocks;
mod count;
mod ctf2;
mod describe;
mod error;
mod files;
mod glance;
mod item;
mod lens;
mod merge;
mod metadata;
mod plan;
#[doc(hidden)]
pub mod probe;
mod queue;
mod scan;
mod skip;
mod stream;
mod tape;
mod tsdl;
mod value;

use std::path::Path;

pub use batch::Batch;
pub use class::{Base, EventClass, Metadata};
pub use clock::{Clock, Correction};
pub use clocks::unite_clocks;
pub use count::Counts;
pub use describe::{FieldInfo, FieldKind};
pub use error::{Caveat, Damage, Decoded, Error};
pub use files::{Content, Directory, Files, Memory, traces_near};
pub use glance::Glance;
pub use item::{Item, Loss, Record};
pub use lens::{Direct, Lens, Plain, RecordPart};
pub use merge::{Passed, Range, Reader, Start};
pub use metadata::parse_metadata;
pub use scan::{Scan, Scanned};
pub use stream::{Inside, PacketMark, Place, PreviousPacket};
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
