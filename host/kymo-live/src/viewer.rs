// SPDX-License-Identifier: MIT OR Apache-2.0
//! The viewer's side of a connection: one method for each command.

use std::io::{Read, Write};

use crate::Error;
use crate::message::{Command, Flags, Index, PacketIndex, Session, Stream, Take};

/// The version that is spoken. A relay daemon of a later minor version speaks it too.
const MAJOR: u32 = 2;
const MINOR: u32 = 4;
/// A connection for commands, not for notifications.
const FOR_COMMANDS: u32 = 1;
/// Packets from the begin of the session on, as far as the relay daemon has them.
const FROM_BEGIN: u32 = 1;

/// Sessions and streams in one answer that are taken.
pub const STREAMS_MAX: u32 = 1 << 14;
/// Metadata in one answer.
pub const METADATA_BYTES_MAX: u64 = 256 << 20;
/// A packet.
pub const PACKET_BYTES_MAX: u64 = 1 << 30;
/// A packet is asked for in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// A connection to a relay daemon.
pub struct Viewer<S> {
    connection: S,
    command: Command,
}

/// What became of attaching to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// These streams there are.
    Streams(Vec<Stream>),
    /// It has ended meanwhile.
    Unknown,
    /// It is not live.
    NotLive,
    /// Another viewer has it, and the relay daemon allows one.
    Busy,
}

/// Streams that were not told of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewStreams {
    /// These; there may be none.
    Some(Vec<Stream>),
    /// The session is over, and all of its streams were read.
    Closed,
    /// The relay daemon does not know the session any more.
    Failed,
}

/// Metadata that were not told of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// These bytes, behind those before; there may be none.
    Some(Vec<u8>),
    /// The relay daemon does not have the stream any more.
    Failed,
}

impl<S: Read + Write> Viewer<S> {
    /// Agrees on a version.
    ///
    /// # Errors
    /// What answers speaks another one, or something else.
    pub fn connect(connection: S) -> Result<Viewer<S>, Error> {
        let mut viewer = Viewer { connection, command: Command::Connect };
        let hello = [&0u64.to_be_bytes()[..], &words(&[MAJOR, MINOR, FOR_COMMANDS])].concat();
        viewer.ask(Command::Connect, &hello)?;
        let answer = viewer.take::<20>()?;
        let mut take = Take(&answer);
        let (_id, major, minor) = (take.u64(), take.u32(), take.u32());
        match major == MAJOR && minor >= MINOR {
            true => Ok(viewer),
            false => Err(Error::Version { major, minor }),
        }
    }

    /// The sessions that there are.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn sessions(&mut self) -> Result<Vec<Session>, Error> {
        self.ask(Command::ListSessions, &[])?;
        let count = self.count()?;
        (0..count).map(|_| Ok(Session::decode(&self.take::<{ Session::BYTES }>()?))).collect()
    }

    /// Attaches to a session: its packets come from the begin on.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn attach(&mut self, session: u64) -> Result<Attached, Error> {
        self.ask(Command::CreateSession, &[])?;
        match self.status()? {
            1 => {}
            status => return Err(self.odd(format!("status {status}"))),
        }
        let place = [session.to_be_bytes(), [0; 8]].concat();
        self.ask(Command::AttachSession, &[&place[..], &words(&[FROM_BEGIN])].concat())?;
        let status = self.status()?;
        let count = self.count()?;
        match status {
            1 => Ok(Attached::Streams(self.streams(count)?)),
            2 => Ok(Attached::Busy),
            3 => Ok(Attached::Unknown),
            4 => Ok(Attached::NotLive),
            status => Err(self.odd(format!("status {status}"))),
        }
    }

    /// Streams that the session got since it was asked last.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn new_streams(&mut self, session: u64) -> Result<NewStreams, Error> {
        self.ask(Command::GetNewStreams, &session.to_be_bytes())?;
        let status = self.status()?;
        let count = self.count()?;
        match status {
            1 => Ok(NewStreams::Some(self.streams(count)?)),
            2 => Ok(NewStreams::Some(Vec::new())),
            3 => Ok(NewStreams::Failed),
            4 => Ok(NewStreams::Closed),
            status => Err(self.odd(format!("status {status}"))),
        }
    }

    /// What comes next in a stream, and what is to be fetched before that is used.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn next_index(&mut self, stream: u64) -> Result<(Index, Flags), Error> {
        self.ask(Command::GetNextIndex, &stream.to_be_bytes())?;
        let answer = self.take::<{ Index::BYTES }>()?;
        let (index, flags) = Index::decode(&answer).map_err(|what| self.odd(what))?;
        match index {
            Index::Packet(packet) if packet.bytes > PACKET_BYTES_MAX => {
                Err(self.odd(format!("a packet of {} bytes", packet.bytes)))
            }
            index => Ok((index, flags)),
        }
    }

    /// The bytes of a packet. `None` where the relay daemon does not have them any more.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn packet(&mut self, stream: u64, packet: &PacketIndex) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < packet.bytes {
            let wanted = (packet.bytes - bytes.len() as u64).min(PIECE_BYTES);
            let offset = packet.offset.checked_add(bytes.len() as u64);
            let offset = offset.ok_or_else(|| self.odd("a packet behind the end of all files".to_owned()))?;
            let place = [stream.to_be_bytes(), offset.to_be_bytes()].concat();
            self.ask(Command::GetPacket, &[&place[..], &words(&[wanted as u32])].concat())?;
            let answer = self.take::<12>()?;
            let mut take = Take(&answer);
            let (status, len) = (take.u32(), u64::from(take.u32()));
            match status {
                1 if len == wanted => self.append(&mut bytes, len)?,
                1 => return Err(self.odd(format!("{len} bytes instead of {wanted}"))),
                2..=4 => return Ok(None),
                status => return Err(self.odd(format!("status {status}"))),
            }
        }
        Ok(Some(bytes))
    }

    /// Metadata that a trace got since it was asked last; `stream`: the one that has them.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub fn metadata(&mut self, stream: u64) -> Result<Metadata, Error> {
        self.ask(Command::GetMetadata, &stream.to_be_bytes())?;
        let answer = self.take::<12>()?;
        let mut take = Take(&answer);
        let (len, status) = (take.u64(), take.u32());
        if len > METADATA_BYTES_MAX || status != 1 && len > 0 {
            return Err(self.odd(format!("{len} bytes with status {status}")));
        }
        let mut bytes = Vec::new();
        match status {
            1 => self.append(&mut bytes, len)?,
            2 => {}
            3 => return Ok(Metadata::Failed),
            status => return Err(self.odd(format!("status {status}"))),
        }
        Ok(Metadata::Some(bytes))
    }

    fn streams(&mut self, count: u32) -> Result<Vec<Stream>, Error> {
        (0..count).map(|_| Ok(Stream::decode(&self.take::<{ Stream::BYTES }>()?))).collect()
    }

    /// Head and payload in one piece, so that they are one segment on the line.
    fn ask(&mut self, command: Command, payload: &[u8]) -> Result<(), Error> {
        self.command = command;
        self.connection.write_all(&command.encode(payload))?;
        self.connection.flush()?;
        Ok(())
    }

    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Error> {
        let mut bytes = [0; BYTES];
        self.connection.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn status(&mut self) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// How many sessions or streams follow.
    fn count(&mut self) -> Result<u32, Error> {
        match self.status()? {
            count if count > STREAMS_MAX => Err(self.odd(format!("{count} sessions or streams"))),
            count => Ok(count),
        }
    }

    /// Takes so many bytes; memory grows as they arrive.
    fn append(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<(), Error> {
        match (&mut self.connection).take(count).read_to_end(bytes)? as u64 {
            got if got == count => Ok(()),
            _ => Err(Error::Closed),
        }
    }

    fn odd(&self, what: String) -> Error {
        Error::Answer { command: self.command.name(), what }
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
