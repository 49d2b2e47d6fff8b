// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live sessions of LTTng: the protocol by which a viewer reads from a relay daemon, version 2.4 [spec/read.md 7].
//!
//! A viewer asks, the relay daemon answers, one command after the other on one connection. The connection is the
//! caller's: this crate opens no socket, has no clock, and knows no trace format. The layout of messages is that of
//! lttng-tools' `lttng-viewer-abi.h`; all numbers are big endian. Nothing in an answer is trusted: lengths have bounds,
//! and memory grows with the bytes that arrive, not with those that are announced.
//!
//! ```
//! # fn show(connection: std::net::TcpStream) -> Result<(), kymo_live::Error> {
//! let mut viewer = kymo_live::Viewer::connect(connection)?;
//! for session in viewer.sessions()? {
//!     println!("{} on {}: {} streams", session.name, session.host, session.streams);
//! }
//! # Ok(())
//! # }
//! ```

mod message;
#[doc(hidden)]
pub mod probe;
mod url;
mod viewer;

pub use message::{Flags, Index, PacketIndex, Session, Stream};
pub use url::{DEFAULT_PORT, Family, Url, is_url};
pub use viewer::{Attached, METADATA_BYTES_MAX, Metadata, NewStreams, PACKET_BYTES_MAX, STREAMS_MAX, Viewer};

/// Why nothing more comes from a relay daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It closed the connection, or died.
    #[error("the relay daemon closed the connection")]
    Closed,
    /// No answer within the time limit of the connection.
    #[error("the relay daemon does not answer (is this the port for viewers?)")]
    Silent,
    /// The connection failed.
    #[error("the connection to the relay daemon failed: {0}")]
    Io(std::io::Error),
    /// Another protocol, or another version of it.
    #[error("the relay daemon speaks version {major}.{minor} of the live protocol, not 2.4 or later of 2")]
    Version {
        /// Of its answer.
        major: u32,
        /// Of its answer.
        minor: u32,
    },
    /// An answer that is none.
    #[error("the answer of the relay daemon to {command} makes no sense: {what}")]
    Answer {
        /// What was asked.
        command: &'static str,
        /// What is wrong.
        what: String,
    },
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::ConnectionReset
            | std::io::ErrorKind::ConnectionAborted
            | std::io::ErrorKind::BrokenPipe => Error::Closed,
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Error::Silent,
            _ => Error::Io(error),
        }
    }
}
