// SPDX-License-Identifier: MIT OR Apache-2.0
//! The asking side of control: which sessions there are, and one question to one of them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use serde_json::Value;

use super::{Assembly, Request};
use crate::Error;
use crate::runtime::{RuntimeDir, SocketName, other_users_dirs};
use crate::socket::{self, PACKET_ROOM};

/// Why a session gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Its collector has died; its socket was removed.
    #[error("its collector has died")]
    Dead,
    /// It says nothing.
    #[error("it does not answer within {} s; is its collector stopped (SIGSTOP), or still writing?", .0.as_secs_f64())]
    Silent(Duration),
    /// The socket cannot be used.
    #[error("its socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// Somebody else is behind the socket.
    #[error("its socket belongs to user {0}")]
    Stranger(u32),
    /// The answer makes no sense.
    #[error("it does not speak as a session of this version does: {0}")]
    Garbled(String),
    /// It answered why not.
    #[error("{0}")]
    Refused(String),
}

/// A session that can be asked.
#[derive(Clone, Debug)]
pub struct Remote {
    dir: Arc<RuntimeDir>,
    socket: SocketName,
}

/// Sessions with a name: this user's, and for root those of all users; by name and process id. Some may be dead.
pub fn remotes() -> Result<Vec<Remote>, Error> {
    let own = RuntimeDir::own()?;
    let mut dirs = other_users_dirs();
    dirs.retain(|dir| dir.path() != own.path());
    dirs.insert(0, own);
    let mut found = Vec::new();
    for dir in dirs {
        let dir = Arc::new(dir);
        let sockets = dir.control_sockets();
        found.extend(sockets.into_iter().map(|socket| Remote { dir: Arc::clone(&dir), socket }));
    }
    found.sort_by(|a, b| (a.name(), a.pid()).cmp(&(b.name(), b.pid())));
    Ok(found)
}

impl Remote {
    /// Name of the session.
    pub fn name(&self) -> &str {
        self.socket.session()
    }

    /// Process id of its collector, as it sees itself.
    pub fn pid(&self) -> u32 {
        self.socket.pid()
    }

    /// User.
    pub fn uid(&self) -> u32 {
        self.dir.uid()
    }

    /// Asks, and waits for the answer for `patience`. The socket of a collector that has died is removed.
    pub fn ask(&self, request: &Request, patience: Duration) -> Result<Value, AskError> {
        let deadline = Instant::now() + patience;
        let socket = match self.dir.connect(&self.socket) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // It had its name only once it listened: who refuses is dead, however young.
                self.dir.remove(&self.socket.0);
                return Err(AskError::Dead);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AskError::Dead),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(AskError::Silent(patience)),
            Err(error) => return Err(error.into()),
        };
        let peer = socket::peer(&socket)?;
        if peer.uid != self.uid() && peer.uid != 0 {
            return Err(AskError::Stranger(peer.uid));
        }
        let packet = serde_json::to_vec(request).map_err(|error| AskError::Garbled(error.to_string()))?;
        match socket::send(&socket, &packet, None) {
            // It ended between the two.
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Err(AskError::Dead);
            }
            sent => sent?,
        };
        let mut room = Box::new([0; PACKET_ROOM]);
        let mut assembly = Assembly::default();
        loop {
            match socket::receive(&socket, &mut room) {
                Ok(Some(packet)) => match assembly.take(packet).map_err(AskError::Garbled)? {
                    Some(answer) => return answer.map_err(AskError::Refused),
                    None => continue,
                },
                Ok(None) => return Err(AskError::Dead),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&socket, deadline, patience)?,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(AskError::Dead),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn wait(socket: &OwnedFd, deadline: Instant, patience: Duration) -> Result<(), AskError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(AskError::Silent(patience));
    }
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}
