// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of a trace: packets by time, counts, summaries over time, and checkpoints of the machine's state
//! [spec/index.md].
//!
//! Joins kymo-ctf, which knows packets, and kymo-analyze, which knows states. It opens no file but indexes and looks at
//! no clock; what it says is never other than what reading the trace says, only sooner.

mod account;
mod buckets;
mod build;
mod checksum;
mod cpu_times;
mod file;
mod growing;
mod head;
mod identity;
mod intersect;
mod open;
#[doc(hidden)]
pub mod probe;
mod pyramid;
pub mod range;
mod states;
mod sums;
mod write;

use std::io;
use std::path::PathBuf;

pub use account::{Entry, EventCount, StreamCounts};
pub use buckets::{Buckets, COLUMNS_MAX};
pub use build::Stop;
pub use cpu_times::CPU_PARTS;
pub use growing::GrowingIndex;
pub use identity::{FILE_NAME, in_cache};
pub use intersect::{Intersection, StreamStretch, intersection};
pub(crate) use open::Loaded;
pub use open::{Indexes, Named, TraceIndex};
pub use pyramid::{Cover, DamagedSums, Pyramid};
pub use states::{Checkpoint, Spacing, States};
pub use sums::{Crossing, PartLoss, PartSums, Person, ThreadSums};
pub use write::{Built, How, build};

/// Why an index could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of it.
    #[error("cannot write the index {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// While it was built.
    #[error("cannot write the index: {0}")]
    Write(#[from] io::Error),
    /// Files are not those that were opened.
    #[error(
        "the trace is being written: build its index when the session has ended, or of a snapshot or a closed chunk"
    )]
    Changing,
    /// No directory for it.
    #[error("the trace's directory is not written, and there is no cache: set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// [`Stop::set`].
    #[error("stopped; no index was written")]
    Stopped,
}
