// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run already, or whose way to us failed: found by their sockets in the runtime directories.

use std::io;
use std::time::{Duration, Instant};

use super::outside::{Link, Outside, ProgramSocket};
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
    socket: ProgramSocket,
    at: Instant,
    refusals: u32,
}

impl Visit {
    /// Index of the directory of its socket.
    pub(super) fn dir(&self) -> usize {
        self.socket.0
    }

    /// The number by which the program knows itself, and the nonce of its socket: both are in its HELLO too.
    pub(super) fn identity(&self) -> (u32, u32) {
        (self.socket.1.pid(), self.socket.1.nonce())
    }
}

/// Programs that are to be visited.
#[derive(Default)]
pub(super) struct Discovery {
    visits: Vec<Visit>,
}

impl Discovery {
    /// Plans a visit to every program that can be seen now.
    pub(super) fn look_around(&mut self, outside: &mut dyn Outside, scope: &Scope, now: Instant) {
        for socket in outside.programs() {
            self.plan(outside, socket, scope, now);
        }
    }

    fn plan(&mut self, outside: &dyn Outside, socket: ProgramSocket, scope: &Scope, at: Instant) {
        // The kernel's word decides once we are connected. What belongs to a command comes by itself, so its session
        // spares programs whose number stands for a process outside; one that has this number in a pid namespace is not
        // among them.
        let pid = socket.1.pid();
        let is_possible = match scope {
            Scope::Tree(_) => outside.is_in_scope(scope, pid) || outside.is_gone(pid),
            Scope::All | Scope::Pids(_) => true,
        };
        let is_new = !self.visits.iter().any(|visit| visit.socket == socket);
        if is_possible && is_new && self.visits.len() < VISITS_MAX {
            self.visits.push(Visit { socket, at, refusals: 0 });
        }
    }

    /// Reads what happened in the directories.
    pub(super) fn read(&mut self, outside: &mut dyn Outside, scope: &Scope, now: Instant) {
        let (found, has_missed) = outside.new_programs();
        for socket in found {
            self.plan(outside, socket, scope, now + PATIENCE);
        }
        if has_missed {
            self.look_around(outside, scope, now + PATIENCE);
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

    /// Connects. Returns the connection and the user that must be behind it; plans another attempt where that is
    /// sensible.
    pub(super) fn visit(
        &mut self,
        outside: &mut dyn Outside,
        mut visit: Visit,
        now: Instant,
    ) -> Option<(Box<dyn Link>, u32)> {
        match outside.connect(&visit.socket) {
            Ok(link) => return Some((link, outside.owner(visit.socket.0))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                visit.refusals += 1;
                if outside.remove_leftover(&visit.socket) || visit.refusals >= REFUSALS_MAX {
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

    /// No more visits.
    pub(super) fn end(&mut self) {
        self.visits.clear();
    }
}
