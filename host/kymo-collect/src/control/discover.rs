//! Programs that run already, or whose way to us failed: found by their sockets in the runtime directories.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::inotify;

use crate::Error;
use crate::runtime::{RuntimeDir, SocketName};
use crate::scope::Scope;

/// A program that starts now comes to us by itself; only if it has not by then it is visited.
const PATIENCE: Duration = Duration::from_millis(50);
/// Between two attempts to visit one that is not ready.
const RETRY: Duration = Duration::from_millis(200);
/// Attempts at a socket that refuses.
const REFUSALS_MAX: u32 = 10;
/// Visits that are planned at one time.
const VISITS_MAX: usize = 100_000;

/// A program to connect to.
#[derive(Clone)]
pub(super) struct Visit {
    dir: usize,
    name: SocketName,
    at: Instant,
    refusals: u32,
}

impl Visit {
    /// The number by which the program knows itself, and the nonce of its socket: both are in its HELLO too.
    pub(super) fn identity(&self) -> (u32, u32) {
        (self.name.pid(), self.name.nonce())
    }
}

/// The directories, what happens in them, and what follows from it.
pub(super) struct Discovery {
    dirs: Vec<(RuntimeDir, i32)>,
    inotify: OwnedFd,
    visits: Vec<Visit>,
    socket_names: Vec<String>,
}

impl Discovery {
    /// Watches `own` and `others`. `socket_names` are those of our own sockets in `own`.
    pub(super) fn new(own: RuntimeDir, others: Vec<RuntimeDir>, socket_names: Vec<String>) -> Result<Discovery, Error> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(Error::system("watch the runtime directory (inotify)"))?;
        let mut dirs = Vec::new();
        for dir in std::iter::once(own).chain(others) {
            let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
            let watch = inotify::add_watch(&inotify, dir.through_fd("."), events)
                .map_err(|error| Error::file("watch", dir.path())(error.into()))?;
            dirs.push((dir, watch));
        }
        Ok(Discovery { dirs, inotify, visits: Vec::new(), socket_names })
    }

    pub(super) fn inotify(&self) -> &OwnedFd {
        &self.inotify
    }

    pub(super) fn own(&self) -> &RuntimeDir {
        &self.dirs[0].0
    }

    /// Plans a visit to every program that can be seen now.
    pub(super) fn look_around(&mut self, scope: &Scope, now: Instant) {
        for dir in 0..self.dirs.len() {
            self.dirs[dir].0.remove_dead_sessions();
            for name in self.dirs[dir].0.programs() {
                self.plan(dir, name, scope, now);
            }
        }
    }

    fn plan(&mut self, dir: usize, name: SocketName, scope: &Scope, at: Instant) {
        // The kernel's word decides once we are connected. What belongs to a command comes by itself, so its session spares
        // programs whose number stands for a process outside; one that has this number in a pid namespace is not among them.
        let is_possible = match scope {
            Scope::Tree(_) => scope.wants(name.pid()) || !is_visible(name.pid()),
            Scope::All | Scope::Pids(_) => true,
        };
        let is_new = !self.visits.iter().any(|visit| visit.dir == dir && visit.name == name);
        if is_possible && is_new && self.visits.len() < VISITS_MAX {
            self.visits.push(Visit { dir, name, at, refusals: 0 });
        }
    }

    /// Reads what happened in the directories.
    pub(super) fn read(&mut self, scope: &Scope, now: Instant) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut found = Vec::new();
        let mut overflowed = false;
        {
            let mut reader = inotify::Reader::new(&self.inotify, &mut space);
            while let Ok(event) = reader.next() {
                overflowed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                let name = event.file_name().map(CStr::to_string_lossy);
                found.extend(name.and_then(|name| SocketName::parse('p', &name)).map(|name| (event.wd(), name)));
                if found.len() >= 1024 {
                    break;
                }
            }
        }
        for (watch, name) in found {
            if let Some(dir) = self.dirs.iter().position(|(_, known)| *known == watch) {
                self.plan(dir, name, scope, now + PATIENCE);
            }
        }
        if overflowed {
            self.look_around(scope, now + PATIENCE);
        }
    }

    pub(super) fn next_visit(&self) -> Option<Instant> {
        self.visits.iter().map(|visit| visit.at).min()
    }

    /// Visits that are planned.
    pub(super) fn visits_planned(&self) -> usize {
        self.visits.len()
    }

    /// A visit that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Visit> {
        let at = self.visits.iter().position(|visit| visit.at <= now)?;
        Some(self.visits.swap_remove(at))
    }

    /// Connects. Returns the socket and the user that must be behind it; plans another attempt where that is sensible.
    pub(super) fn visit(&mut self, mut visit: Visit, now: Instant) -> Option<(OwnedFd, u32)> {
        let (dir, _) = self.dirs.get(visit.dir)?;
        match dir.connect(&visit.name) {
            Ok(socket) => return Some((socket, dir.uid())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                visit.refusals += 1;
                if dir.remove_leftover(&visit.name) || visit.refusals >= REFUSALS_MAX {
                    return None;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        visit.at = now + RETRY;
        self.visits.push(visit);
        None
    }

    /// Removes our own sockets: nobody is to find us any more.
    pub(super) fn withdraw(&mut self) {
        self.socket_names.iter().for_each(|name| self.dirs[0].0.remove(name));
        self.visits.clear();
    }
}

fn is_visible(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.withdraw();
    }
}
