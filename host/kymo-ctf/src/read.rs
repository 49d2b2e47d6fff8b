// SPDX-License-Identifier: MIT OR Apache-2.0
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
mod frame;
mod glance;
mod head_word;
mod item;
mod labels;
mod lens;
mod merge;
mod metadata;
mod parsed;
mod pass;
mod plan;
mod planner;
#[doc(hidden)]
pub mod probe;
mod queue;
mod scan;
mod skip;
mod slices;
mod span;
mod stream;
mod tape;
mod trace;
mod tsdl;
mod uuid;
mod value;
mod watch;
mod wide;

pub use batch::Batch;
pub use class::{Base, EventClass, Metadata};
pub(crate) use class::{ClassId, ClassKind, Int, Labels, Len, Member, Role, View};
pub use clock::{Clock, Correction, Seconds};
pub use clocks::unite_clocks;
pub use count::Counts;
pub use describe::{FieldInfo, FieldKind};
pub use error::{Caveat, Damage, Decoded, Error, Severity};
pub use files::{Content, Directory, Files, Memory, traces_near};
pub use glance::{Glance, PacketWriter};
pub use item::{Item, Loss, Record};
pub use labels::EnumLabels;
pub use lens::{Direct, DirectFloat, Lens, Plain, RecordPart, TidPlace};
pub use merge::{Passed, Range, Reader, Start};
pub use metadata::parse_metadata;
pub use scan::{Scan, Scanned, Scans};
pub use slices::{Slice, Slices};
pub use span::StreamSpan;
pub use stream::{Inside, PacketMark, PacketPlace, PreviousPacket};
pub use trace::{ReadyMetadata, Trace};
pub(crate) use value::Raw;
pub use value::{Elements, Fields, Number, Value};
pub use watch::Watch;
pub use wide::WideInt;
