// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an index is not there or was not written.

use std::io;
use std::path::PathBuf;

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
    /// [`Stop::set`](crate::Stop::set).
    #[error("stopped; no index was written")]
    Stopped,
}
