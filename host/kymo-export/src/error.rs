// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong on the way out and in.

use std::path::{Path, PathBuf};

/// Why something could not be exported or imported. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// What is to be made is there already.
    #[error("{} is there already, and is not replaced; remove it, or name another", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Columns that Arrow refuses.
    #[cfg(feature = "parquet")]
    #[error("event {event}: {source}")]
    Columns {
        /// The event's name.
        event: String,
        /// What Arrow says.
        source: arrow_schema::ArrowError,
    },
    /// A Parquet file that cannot be written.
    #[cfg(feature = "parquet")]
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Which one.
        path: PathBuf,
        /// What the library says.
        source: parquet::errors::ParquetError,
    },
    /// The feature `parquet` is off.
    #[cfg(not(feature = "parquet"))]
    #[error("this kymo was built without Parquet (for make demo): make build")]
    WithoutParquet,
    /// A file of a format that nothing here knows.
    #[error("not a trace that kymo can import ({saw}); known: {known}")]
    Unknown {
        /// What it begins with.
        saw: String,
        /// The formats that are known.
        known: String,
    },
    /// A file that breaks its format where nothing can be made of the rest.
    #[error("{format}, {place}: {what}")]
    Malformed {
        /// The format.
        format: &'static str,
        /// Section and byte, or line.
        place: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Whoever watches has ended it.
    #[error("interrupted; nothing was left")]
    Interrupted,
    /// A record that is not what its trace's metadata says.
    #[error("{stream}: {source}")]
    Unfit {
        /// The stream file.
        stream: String,
        /// Which record, and which field.
        source: kymo_ctf::transcode::Unfit,
    },
    /// A trace without what the format consists of.
    #[error("{0}")]
    Nothing(String),
}

impl Error {
    /// For `map_err`: an error of the system with `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_owned(), source }
    }
}
