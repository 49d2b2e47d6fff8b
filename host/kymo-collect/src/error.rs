// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps a session from starting or ending. What goes wrong with one program or one lane is part of the summary.

use std::io;
use std::path::PathBuf;

/// Where, what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The verb of the sentence.
        action: &'static str,
        /// What it was about.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The runtime directory is not safe to use [spec/session.md 1].
    #[error("runtime directory {} {why}; set KYMO_RUNTIME_DIR to a directory of your own", path.display())]
    RuntimeDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A pattern cannot be understood.
    #[error("pattern {pattern:?}: {why}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system refused something that has no path.
    #[error("cannot {action}: {source}")]
    System {
        /// The verb of the sentence.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// tracefs, or a probe.
    #[error(transparent)]
    Tracefs(#[from] kymo_tracefs::Error),
    /// A format file of the kernel cannot be understood.
    #[error("cannot understand the kernel's {what}: {source}")]
    Format {
        /// Which one.
        what: String,
        /// What is wrong with it.
        source: kymo_ftrace::format::FormatError,
    },
    /// A snapshot of a session that writes all that it reads.
    #[error(
        "this session is no flight recorder: it writes everything, so there is nothing to take a snapshot of; start it with --flight"
    )]
    NotFlight,
    /// A flight recorder writes nothing that could be cut.
    #[error(
        "this session is a flight recorder: it writes snapshots only (kymo session snapshot), so there is no trace to go on in another directory"
    )]
    Flight,
    /// A session of this name runs already.
    #[error(
        "a session {name:?} runs already (collector: process {pid}); `kymo session stop {name}` ends it, or choose another name"
    )]
    SessionExists {
        /// Its name.
        name: String,
        /// Process id of its collector.
        pid: u32,
    },
    /// A context that is none, or that cannot be had here.
    #[error("--context: {0}")]
    Context(String),
    /// What was asked of a running session does not go.
    #[error("{0}")]
    Refused(String),
    /// A filter has a part that no traced program can decide.
    #[error("a filter cannot be used while recording:\n{0}")]
    Filter(kymo_filter::Error),
    /// A trigger asks for what there is not.
    #[error("--trigger: {0}")]
    Trigger(String),
    /// A field was chosen that no event has.
    #[error("no chosen kernel event has a field {field:?}{}", if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) })]
    Field {
        /// As it was given.
        field: String,
        /// Fields that may have been meant.
        near: Vec<String>,
    },
    /// A thread of the collector ended by a panic: a defect of kymo.
    #[error("the collector's {thread} thread failed; what was written so far is in the trace")]
    Thread {
        /// Which one.
        thread: &'static str,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }

    pub(crate) fn format(what: &str) -> impl FnOnce(kymo_ftrace::format::FormatError) -> Error {
        move |source| Error::Format { what: what.to_owned(), source }
    }

    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::System { action, source: source.into() }
    }
}
