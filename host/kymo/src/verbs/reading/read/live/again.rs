// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second connection to a relay daemon, after the first one was lost: the same session goes on behind the packets
//! that were taken.
//!
//! The relay daemon begins a new viewer's streams with the oldest packet that it has. Packets that were taken already
//! are passed over by their times, and not fetched. A relay daemon that was started anew has no sessions: then it is
//! said what was wrong with the first connection.

use std::io;
use std::time::{Duration, Instant};

use kymo_live::{Attached, Error, PacketIndex, Stream, Viewer};

use super::{Arrived, Live, LiveStream, connection, key};

/// For all attempts after one loss.
const AGAIN_TIME: Duration = Duration::from_secs(30);
/// Between two attempts.
const AGAIN_PAUSE: Duration = Duration::from_millis(300);
/// Attempts that nobody listens to: then the relay daemon has ended.
const REFUSED_MAX: u32 = 3;
/// Connections in a row that are lost before anything new came.
const LOST_MAX: u32 = 5;

/// Why one attempt failed.
enum Failure {
    /// Nobody listens there.
    Refused,
    /// It may work later.
    NotYet,
    /// It will not.
    Never,
}

impl LiveStream {
    /// Whether a packet was taken before the connection was lost. The first one that was not is the first of all new
    /// ones.
    pub(super) fn is_repeated(&mut self, packet: &PacketIndex) -> bool {
        let is_repeated = self.repeated_to.is_some_and(|last| key(packet) <= last);
        if !is_repeated {
            self.repeated_to = None;
        }
        is_repeated
    }
}

impl<T: Arrived> Live<T> {
    /// Connects again after `error`, if that was the connection's. False where there is no use in it.
    pub(super) fn go_on_after(&mut self, error: &Error) -> bool {
        if !matches!(error, Error::Closed | Error::Silent | Error::Io(_)) || self.lost_in_a_row >= LOST_MAX {
            return false;
        }
        self.lost_in_a_row += 1;
        let (begun, mut refused) = (Instant::now(), 0);
        loop {
            match self.connect_again() {
                Ok(()) => {
                    eprintln!("kymo: {}: {error}; connected again", self.url);
                    return true;
                }
                Err(Failure::Never) => return false,
                Err(Failure::Refused) => refused += 1,
                Err(Failure::NotYet) => {}
            }
            if refused >= REFUSED_MAX || begun.elapsed() >= AGAIN_TIME {
                return false;
            }
            std::thread::sleep(AGAIN_PAUSE);
        }
    }

    fn connect_again(&mut self) -> Result<(), Failure> {
        let refused = |error: &anyhow::Error| {
            let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            error.downcast_ref::<io::Error>().is_some_and(is_refused)
        };
        let connection =
            connection(&self.url).map_err(|error| if refused(&error) { Failure::Refused } else { Failure::NotYet })?;
        let mut viewer = Viewer::connect(connection).map_err(|_| Failure::NotYet)?;
        let sessions = viewer.sessions().map_err(|_| Failure::NotYet)?;
        let is_it = |host: &str, name: &str| {
            self.url.session.as_ref().is_some_and(|(of_host, of_name)| host == of_host && name == of_name)
        };
        if !sessions.iter().any(|session| session.id == self.session && is_it(&session.host, &session.name)) {
            return Err(Failure::Never);
        }
        match viewer.attach(self.session).map_err(|_| Failure::NotYet)? {
            Attached::Streams(streams) => {
                self.viewer = viewer;
                self.go_on_with(&streams).map_err(|_| Failure::Never)
            }
            // The relay daemon has not seen yet that the first connection is gone.
            Attached::Busy => Err(Failure::NotYet),
            Attached::Unknown | Attached::NotLive => Err(Failure::Never),
        }
    }

    /// Takes up the streams of the new connection where those of the one before ended.
    fn go_on_with(&mut self, offered: &[Stream]) -> Result<(), Error> {
        // All metadata come again.
        for trace in &mut self.traces {
            trace.metadata.clear();
            (trace.metadata_stream, trace.wants_metadata) = (None, true);
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_over) {
            stream.repeated_to = stream.last;
            if !offered.iter().any(|offered| offered.id == stream.id) {
                stream.is_over = true;
                self.failed.push(format!("the relay daemon did not offer the stream {} again", stream.name));
            }
        }
        let is_known = |stream: &&Stream| self.streams.iter().any(|known| known.id == stream.id);
        let new: Vec<Stream> = offered.iter().filter(|stream| !is_known(stream)).cloned().collect();
        self.add(&new)
    }
}
