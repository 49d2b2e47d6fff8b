// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the control thread asks of the world outside: sockets, directories, processes, memory. The real one is
//! [`super::system`]; the simulation of sessions has its own.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kymo_abi::ring::Layout;
use rustix::thread::CpuSet;

use crate::channel::Channel;
use crate::memory::Memory;
use crate::runtime::SocketName;
use crate::scope::Scope;
use crate::socket::{PACKET_ROOM, PeerId};

/// What woke the control thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A program wants to connect.
    Connection(Channel),
    /// There may be marks.
    Mark,
    /// There are news in the runtime directories.
    Directory,
    /// The session's owner or the drain thread wants attention.
    Wake,
    /// The program under this token spoke, took what waited for it, or hung up.
    Program { token: u64, has_hung_up: bool },
}

/// A connection to a program: packets, in both directions, never blocking.
pub(crate) trait Link: Send {
    /// Who the other side is.
    fn peer(&self) -> io::Result<PeerId>;

    /// The next packet; `None` at the end of the connection.
    fn receive<'a>(&self, room: &'a mut [u8; PACKET_ROOM]) -> io::Result<Option<&'a [u8]>>;

    /// Sends one packet, with a descriptor beside it where there is one.
    fn send(&self, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()>;

    /// The socket, where there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// The socket of a program: index of its directory, and its name there.
pub(crate) type ProgramSocket = (usize, SocketName);

/// Everything that is not state of the session.
pub(crate) trait Outside: Send {
    /// Waits until something happens, but no longer than this.
    fn wait(&mut self, timeout: Duration) -> Vec<Happened>;

    /// The next connection of a program that came by itself.
    fn accept(&mut self, channel: Channel) -> io::Result<Box<dyn Link>>;

    /// Whether [`Self::wait`] tells of connections.
    fn mind_connections(&mut self, minds: bool);

    /// From here on [`Self::wait`] tells of this connection. False where that cannot be.
    fn watch(&mut self, token: u64, link: &dyn Link) -> bool;

    /// What is to be told of a connection that is watched: that it spoke, that it takes more.
    fn mind(&mut self, token: u64, link: &dyn Link, speaks: bool, takes: bool);

    /// Nobody finds the session any more: its sockets go.
    fn withdraw(&mut self);

    /// The next mark: its bytes as they came.
    fn next_mark(&mut self) -> Option<Vec<u8>>;

    /// Marks were read already that [`Self::wait`] will not tell of.
    fn has_marks(&self) -> bool;

    /// All sockets of programs; those of dead sessions are removed on the way.
    fn programs(&mut self) -> Vec<ProgramSocket>;

    /// Sockets of programs that are new, and whether some were missed.
    fn new_programs(&mut self) -> (Vec<ProgramSocket>, bool);

    /// Connects to a program.
    fn connect(&mut self, to: &ProgramSocket) -> io::Result<Box<dyn Link>>;

    /// Removes a socket that refused, if it is a leftover. Whether it went.
    fn remove_leftover(&mut self, of: &ProgramSocket) -> bool;

    /// The user that a directory belongs to; the session's own is the first.
    fn owner(&self, dir: usize) -> u32;

    /// Waits for the drain thread to say that it has gone on. Whether it did.
    fn wait_for_drain(&mut self, gone: &Receiver<()>, patience: Duration) -> bool;

    /// Whether a session of this scope wants a process.
    fn is_in_scope(&self, scope: &Scope, pid: u32) -> bool;

    /// Whether a process has ended and was waited for: nobody can say any more whose child it was.
    fn is_gone(&self, pid: u32) -> bool;

    /// CPUs that a process may run on; `None` where that cannot be seen.
    fn affinity(&self, pid: u32) -> Option<CpuSet>;

    /// CPUs that the threads of a process could be moved to.
    fn reachable(&self, pid: u32) -> Vec<u32>;

    /// Whether memory that the collector touched first counts for the same control group as the process does.
    fn is_of_our_group(&self, pid: u32) -> bool;

    /// New ring memory.
    fn make_memory(&mut self, layout: Layout, serial: u64) -> io::Result<Memory>;
}
