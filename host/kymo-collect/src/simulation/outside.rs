// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world outside of a simulated session: connections are queues, the runtime directory is a list, processes are
//! entries of it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kymo_abi::ring::Layout;
use rustix::thread::CpuSet;

use crate::channel::Channel;
use crate::control::{Happened, Link, Outside, ProgramSocket};
use crate::drain::Drain;
use crate::memory::Memory;
use crate::scope::Scope;
use crate::socket::{PACKET_ROOM, PeerId};

/// Packets that a socket holds.
const QUEUE: usize = 100;
/// Connections that wait for a session.
const BACKLOG: usize = 16;

/// A connection between a program and a session.
#[derive(Debug)]
pub(super) struct SimulatedLine {
    pub pid: u32,
    pub uid: u32,
    pub to_collector: VecDeque<Vec<u8>>,
    pub to_program: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    pub program_has_closed: bool,
    pub collector_has_closed: bool,
    /// The collector was told that the program ended without having read all.
    pub reset_is_told: bool,
}

/// Both ends have it.
#[derive(Clone, Debug)]
pub(super) struct SharedLine(Arc<Mutex<SimulatedLine>>);

impl SharedLine {
    pub(super) fn new(pid: u32, uid: u32) -> SharedLine {
        SharedLine(Arc::new(Mutex::new(SimulatedLine {
            pid,
            uid,
            to_collector: VecDeque::new(),
            to_program: VecDeque::new(),
            program_has_closed: false,
            collector_has_closed: false,
            reset_is_told: false,
        })))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, SimulatedLine> {
        self.0.lock().unwrap()
    }
}

/// The collector's end.
struct CollectorsEnd(SharedLine);

impl Link for CollectorsEnd {
    fn peer(&self) -> io::Result<PeerId> {
        let line = self.0.get();
        Ok(PeerId { pid: line.pid, uid: line.uid })
    }

    fn receive<'a>(&self, room: &'a mut [u8; PACKET_ROOM]) -> io::Result<Option<&'a [u8]>> {
        let mut line = self.0.get();
        // As the kernel does: once, in front of what the program has said.
        if line.program_has_closed && !line.to_program.is_empty() && !line.reset_is_told {
            line.reset_is_told = true;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        match line.to_collector.pop_front() {
            Some(packet) => {
                room[..packet.len()].copy_from_slice(&packet);
                Ok(Some(&room[..packet.len()]))
            }
            None if line.program_has_closed => Ok(None),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn send(&self, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut line = self.0.get();
        if line.program_has_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if line.to_program.len() >= QUEUE {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let descriptor = descriptor.map(|descriptor| descriptor.try_clone_to_owned()).transpose()?;
        line.to_program.push_back((packet.to_vec(), descriptor));
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for CollectorsEnd {
    fn drop(&mut self) {
        self.0.get().collector_has_closed = true;
    }
}

/// What a session minds of a connection.
#[derive(Debug)]
struct Minded {
    line: SharedLine,
    speaks: bool,
    takes: bool,
}

impl Minded {
    /// Whether the session is to be told of it; if so, whether the program has hung up.
    fn is_ready(&self) -> Option<bool> {
        let line = self.line.get();
        let is_ready = self.speaks && !line.to_collector.is_empty() || self.takes && line.to_program.len() < QUEUE;
        (!line.collector_has_closed && (line.program_has_closed || is_ready)).then_some(line.program_has_closed)
    }
}

/// The collector's side of all that is outside.
#[derive(Debug, Default)]
pub(super) struct Hall {
    /// Programs can find the session.
    pub is_open: bool,
    /// By channel.
    waiting: [VecDeque<SharedLine>; 2],
    minded: BTreeMap<u64, Minded>,
    minds_connections: bool,
    /// The link of the next [`Outside::watch`]: traits cannot be asked which line they are.
    entering: Option<SharedLine>,
    pub woken: bool,
    /// Sockets of programs: all, and those that are new.
    pub sockets: Vec<ProgramSocket>,
    pub new_sockets: Vec<ProgramSocket>,
    /// Some news were lost.
    pub has_missed: bool,
    /// Connections that a session asked for, for the programs to take.
    pub visits: Vec<(u32, SharedLine)>,
    /// The next connections cannot be taken in, for want of descriptors.
    pub no_descriptors: bool,
    /// No memory can be had.
    pub no_memory: bool,
    /// Users whose programs are found; the session's own is the first.
    pub users: Vec<u32>,
    /// Marks that wait.
    pub marks: VecDeque<Vec<u8>>,
    /// Processes that are outside of the session's scope.
    pub out_of_scope: Vec<u32>,
}

impl Hall {
    /// Of a session that programs can find.
    pub(super) fn new(users: &[u32]) -> Hall {
        Hall { is_open: true, minds_connections: true, users: users.to_vec(), ..Hall::default() }
    }

    /// The collector is dead.
    pub(super) fn die(&mut self) {
        let visits = std::mem::take(&mut self.visits).into_iter().map(|(_, line)| line);
        for line in std::mem::take(&mut self.waiting).into_iter().flatten().chain(visits) {
            line.get().collector_has_closed = true;
        }
        *self = Hall::default();
    }

    /// Descriptors that wait for programs.
    pub(super) fn descriptors(&self) -> usize {
        let of = |minded: &Minded| minded.line.get().to_program.iter().filter(|(_, of)| of.is_some()).count();
        self.minded.values().map(of).sum()
    }

    /// A program connects. False where too many wait.
    pub(super) fn come(&mut self, line: SharedLine, channel: Channel) -> bool {
        let waiting = &mut self.waiting[channel.index()];
        let has_room = waiting.len() < BACKLOG;
        if has_room {
            waiting.push_back(line);
        }
        has_room
    }

    /// Connections that the session is to be told of.
    fn has_come(&self, channel: Channel) -> bool {
        self.minds_connections && !self.waiting[channel.index()].is_empty()
    }

    fn happened(&self) -> Vec<Happened> {
        let mut happened = Vec::new();
        let channels = [Channel::Main, Channel::Rare].into_iter().filter(|channel| self.has_come(*channel));
        happened.extend(channels.map(Happened::Connection));
        if !self.new_sockets.is_empty() || self.has_missed {
            happened.push(Happened::Directory);
        }
        if !self.marks.is_empty() {
            happened.push(Happened::Mark);
        }
        for (token, minded) in &self.minded {
            if let Some(has_hung_up) = minded.is_ready() {
                happened.push(Happened::Program { token: *token, has_hung_up });
            }
        }
        if self.woken {
            happened.push(Happened::Wake);
        }
        happened
    }

    /// Whether the session has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.has_come(Channel::Main)
            || self.has_come(Channel::Rare)
            || !self.new_sockets.is_empty()
            || self.has_missed
            || !self.marks.is_empty()
            || self.woken
            || self.minded.values().any(|minded| minded.is_ready().is_some())
    }
}

/// One session's outside.
pub(super) struct SimulatedOutside {
    pub hall: Arc<Mutex<Hall>>,
    pub drain: Arc<Mutex<Option<Drain>>>,
}

impl SimulatedOutside {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap()
    }
}

impl Outside for SimulatedOutside {
    fn wait(&mut self, _: Duration) -> Vec<Happened> {
        let mut hall = self.hall();
        hall.minded.retain(|_, minded| !minded.line.get().collector_has_closed);
        let happened = hall.happened();
        hall.woken = false;
        happened
    }

    fn accept(&mut self, channel: Channel) -> io::Result<Box<dyn Link>> {
        let mut hall = self.hall();
        if hall.no_descriptors {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let line = hall.waiting[channel.index()].pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        hall.entering = Some(line.clone());
        Ok(Box::new(CollectorsEnd(line)))
    }

    fn mind_connections(&mut self, minds: bool) {
        self.hall().minds_connections = minds;
    }

    fn watch(&mut self, token: u64, _: &dyn Link) -> bool {
        let mut hall = self.hall();
        let line = hall.entering.take().expect("it was connected or accepted just now");
        hall.minded.insert(token, Minded { line, speaks: true, takes: false });
        true
    }

    fn mind(&mut self, token: u64, _: &dyn Link, speaks: bool, takes: bool) {
        if let Some(minded) = self.hall().minded.get_mut(&token) {
            (minded.speaks, minded.takes) = (speaks, takes);
        }
    }

    fn withdraw(&mut self) {
        let mut hall = self.hall();
        hall.is_open = false;
        for line in hall.waiting.iter_mut().flat_map(|waiting| waiting.drain(..)) {
            line.get().collector_has_closed = true;
        }
    }

    fn next_mark(&mut self) -> Option<Vec<u8>> {
        self.hall().marks.pop_front()
    }

    fn has_marks(&self) -> bool {
        false
    }

    fn programs(&mut self) -> Vec<ProgramSocket> {
        self.hall().sockets.clone()
    }

    fn new_programs(&mut self) -> (Vec<ProgramSocket>, bool) {
        let mut hall = self.hall();
        (std::mem::take(&mut hall.new_sockets), std::mem::take(&mut hall.has_missed))
    }

    fn connect(&mut self, to: &ProgramSocket) -> io::Result<Box<dyn Link>> {
        let mut hall = self.hall();
        if !hall.sockets.contains(to) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let line = SharedLine::new(to.1.pid(), hall.users[to.0]);
        hall.visits.push((to.1.nonce(), line.clone()));
        hall.entering = Some(line.clone());
        Ok(Box::new(CollectorsEnd(line)))
    }

    fn remove_leftover(&mut self, _: &ProgramSocket) -> bool {
        false
    }

    fn owner(&self, dir: usize) -> u32 {
        self.hall().users.get(dir).copied().unwrap_or(u32::MAX)
    }

    fn wait_for_drain(&mut self, gone: &Receiver<()>, _: Duration) -> bool {
        let _ = self.drain.lock().unwrap().as_mut().map(Drain::obey_waiting);
        gone.try_recv().is_ok()
    }

    fn is_in_scope(&self, _: &Scope, pid: u32) -> bool {
        !self.hall().out_of_scope.contains(&pid)
    }

    fn is_gone(&self, _: u32) -> bool {
        false
    }

    fn affinity(&self, _: u32) -> Option<CpuSet> {
        None
    }

    fn reachable(&self, _: u32) -> Vec<u32> {
        vec![0, 1]
    }

    fn is_of_our_group(&self, _: u32) -> bool {
        true
    }

    fn make_memory(&mut self, layout: Layout, serial: u64) -> io::Result<Memory> {
        if self.hall().no_memory {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        Memory::create(layout, serial)
    }
}
