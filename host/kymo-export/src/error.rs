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
    /// Of an exporter that is another crate's.
    #[error("{place}: {source}")]
    Exporter {
        /// The event, or the file.
        place: String,
        /// What its library says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
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
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_owned(), source }
    }
}
