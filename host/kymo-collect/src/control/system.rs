// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world outside of a session as it is: one epoll over the session's sockets, the pipe of marks, and inotify.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kymo_abi::ring::Layout;
use rustix::event::{Timespec, epoll};
use rustix::fs::inotify;
use rustix::process::Pid;
use rustix::thread::CpuSet;

use super::outside::{Happened, Link, Outside, ProgramSocket};
use crate::channel::Channel;
use crate::mark_pipe::MarkPipe;
use crate::memory::Memory;
use crate::runtime::{RuntimeDir, SocketName};
use crate::scope::Scope;
use crate::socket::{self, PACKET_ROOM, PeerId};
use crate::{Error, cpus, marks};

/// Numbers of epoll: of the channels' sockets, then these, then those of programs.
const CHANNELS: [Channel; 2] = [Channel::Main, Channel::Rare];
const INOTIFY: u64 = 2;
const WAKE: u64 = 3;
const MARKS: u64 = 4;

impl Link for OwnedFd {
    fn peer(&self) -> io::Result<PeerId> {
        socket::peer(self)
    }

    fn receive<'a>(&self, room: &'a mut [u8; PACKET_ROOM]) -> io::Result<Option<&'a [u8]>> {
        socket::receive(self, room)
    }

    fn send(&self, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        socket::send(self, packet, descriptor)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Where programs come to for a channel.
struct Door {
    channel: Channel,
    /// None once the session ends.
    listener: Option<OwnedFd>,
    /// Name of the socket.
    name: String,
}

/// The real world.
pub(crate) struct System {
    epoll: OwnedFd,
    doors: Vec<Door>,
    wake: Arc<OwnedFd>,
    inotify: OwnedFd,
    /// The runtime directories and their watches.
    dirs: Vec<(RuntimeDir, i32)>,
    marks: OwnedFd,
    marks_name: String,
    /// What `$KYMO_MARK` leads to where there is no kernel.
    mark_pipe: Option<MarkPipe>,
}

impl System {
    /// Makes the session's sockets in `own`: for these channels, each with a number of its own, and for marks. Programs
    /// of `others` are found, too.
    pub(crate) fn new(
        own: RuntimeDir,
        others: Vec<RuntimeDir>,
        channels: &[(Channel, u64)],
        wake: Arc<OwnedFd>,
    ) -> Result<System, Error> {
        let mut doors = Vec::new();
        for (channel, nonce) in channels {
            let name = format!("s.{}.{nonce:08x}", std::process::id());
            // Under its final name only once it listens: a program that finds it is not refused.
            let listener = socket::listen(&own.through_fd(&format!(".{name}")))
                .map_err(Error::file("make socket", own.path().join(&name)))?;
            doors.push(Door { channel: *channel, listener: Some(listener), name });
        }
        let nonce = channels.first().map_or(0, |(_, nonce)| *nonce);
        let marks_name = format!("m.{}.{nonce:08x}", std::process::id());
        let marks = marks::listen(&own.through_fd(&marks_name))
            .map_err(Error::file("make socket", own.path().join(&marks_name)))?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(Error::system("watch the runtime directory (inotify)"))?;
        let mut dirs = Vec::new();
        for dir in std::iter::once(own).chain(others) {
            let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
            let watch = inotify::add_watch(&inotify, dir.through_fd("."), events)
                .map_err(|error| Error::file("watch", dir.path())(error.into()))?;
            dirs.push((dir, watch));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("make an epoll"))?;
        let mut system = System { epoll, doors, wake, inotify, dirs, marks, marks_name, mark_pipe: None };
        for door in &system.doors {
            door.listener.iter().try_for_each(|listener| system.add(listener, door.channel.index() as u64))?;
        }
        system.add(&system.inotify, INOTIFY)?;
        system.add(&system.wake, WAKE)?;
        system.add(&system.marks, MARKS)?;
        system.appear()?;
        Ok(system)
    }

    fn add(&self, fd: &OwnedFd, token: u64) -> Result<(), Error> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
            .map_err(Error::system("watch a socket"))
    }

    /// The sockets get their names, the last one first: who finds the first one finds the other too, or is visited.
    fn appear(&mut self) -> Result<(), Error> {
        let (own, _) = &self.dirs[0];
        for Door { name, .. } in self.doors.iter().rev() {
            own.rename(&format!(".{name}"), name).map_err(Error::file("make socket", own.path().join(name)))?;
        }
        Ok(())
    }

    /// Takes marks from a pipe, too.
    pub(crate) fn take_marks_from(&mut self, pipe: MarkPipe) -> Result<(), Error> {
        self.add(pipe.readable(), MARKS)?;
        self.mark_pipe = Some(pipe);
        Ok(())
    }
}

impl Outside for System {
    fn wait(&mut self, timeout: Duration) -> Vec<Happened> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut space = [MaybeUninit::uninit(); 128];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, Some(&timeout)) else { return Vec::new() };
        let happened = |event: &epoll::Event| match event.data.u64() {
            INOTIFY => Happened::Directory,
            MARKS => Happened::Mark,
            WAKE => {
                let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
                Happened::Wake
            }
            token => match CHANNELS.into_iter().find(|channel| channel.index() as u64 == token) {
                Some(channel) => Happened::Connection(channel),
                None => {
                    let flags = event.flags;
                    let has_hung_up = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
                    Happened::Program { token, has_hung_up }
                }
            },
        };
        events.iter().map(happened).collect()
    }

    fn accept(&mut self, channel: Channel) -> io::Result<Box<dyn Link>> {
        let door = self.doors.iter().find(|door| door.channel == channel);
        let listener = door.and_then(|door| door.listener.as_ref()).ok_or(io::ErrorKind::WouldBlock)?;
        Ok(Box::new(socket::accept(listener)?))
    }

    fn mind_connections(&mut self, minds: bool) {
        let flags = if minds { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        for door in &self.doors {
            let Some(listener) = &door.listener else { return };
            let _ = epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(door.channel.index() as u64), flags);
        }
    }

    fn watch(&mut self, token: u64, link: &dyn Link) -> bool {
        let data = epoll::EventData::new_u64(token);
        link.descriptor().is_some_and(|fd| epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN).is_ok())
    }

    fn mind(&mut self, token: u64, link: &dyn Link, speaks: bool, takes: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, speaks);
        flags.set(epoll::EventFlags::OUT, takes);
        if let Some(fd) = link.descriptor() {
            let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags);
        }
    }

    fn withdraw(&mut self) {
        let (own, _) = &self.dirs[0];
        own.remove(&self.marks_name);
        for door in &mut self.doors {
            own.remove(&door.name);
            door.listener = None;
        }
    }

    fn next_mark(&mut self) -> Option<Vec<u8>> {
        let mut room = [0; marks::MARK_BYTES_MAX];
        match marks::receive(&self.marks, &mut room) {
            Some(packet) => Some(packet.to_vec()),
            None => self.mark_pipe.as_mut().and_then(MarkPipe::next),
        }
    }

    fn has_marks(&self) -> bool {
        self.mark_pipe.as_ref().is_some_and(MarkPipe::has_rest)
    }

    fn programs(&mut self) -> Vec<ProgramSocket> {
        let mut found = Vec::new();
        for (index, (dir, _)) in self.dirs.iter().enumerate() {
            dir.remove_dead_sessions();
            found.extend(dir.programs().into_iter().map(|name| (index, name)));
        }
        found
    }

    fn new_programs(&mut self) -> (Vec<ProgramSocket>, bool) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut found = Vec::new();
        let mut has_missed = false;
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        while let Ok(event) = reader.next() {
            has_missed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            let name = event.file_name().map(CStr::to_string_lossy);
            let dir = self.dirs.iter().position(|(_, watch)| *watch == event.wd());
            found.extend(dir.zip(name.and_then(|name| SocketName::parse('p', &name))));
            if found.len() >= 1024 {
                break;
            }
        }
        (found, has_missed)
    }

    fn connect(&mut self, (dir, name): &ProgramSocket) -> io::Result<Box<dyn Link>> {
        let (dir, _) = self.dirs.get(*dir).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(dir.connect(name)?))
    }

    fn remove_leftover(&mut self, (dir, name): &ProgramSocket) -> bool {
        self.dirs.get(*dir).is_some_and(|(dir, _)| dir.remove_leftover(name))
    }

    fn owner(&self, dir: usize) -> u32 {
        self.dirs.get(dir).map_or(u32::MAX, |(dir, _)| dir.uid())
    }

    fn wait_for_drain(&mut self, gone: &Receiver<()>, patience: Duration) -> bool {
        gone.recv_timeout(patience).is_ok()
    }

    fn is_in_scope(&self, scope: &Scope, pid: u32) -> bool {
        scope.wants(pid)
    }

    fn is_gone(&self, pid: u32) -> bool {
        pid != 0 && !std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    fn affinity(&self, pid: u32) -> Option<CpuSet> {
        rustix::thread::sched_getaffinity(Some(Pid::from_raw(i32::try_from(pid).ok()?)?)).ok()
    }

    fn reachable(&self, pid: u32) -> Vec<u32> {
        cpus::reachable(pid)
    }

    fn is_of_our_group(&self, pid: u32) -> bool {
        let group = |pid: &str| std::fs::read(format!("/proc/{pid}/cgroup")).ok();
        group(&pid.to_string()).is_some_and(|theirs| group("self") == Some(theirs))
    }

    fn make_memory(&mut self, layout: Layout, serial: u64) -> io::Result<Memory> {
        Memory::create(layout, serial)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.withdraw();
    }
}
