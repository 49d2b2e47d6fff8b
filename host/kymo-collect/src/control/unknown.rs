// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the control thread cannot count: programs that it refused, did not reach, or gave up [spec/session.md 15].
//!
//! A program counts only if it may be meant: it is in the session's scope, and has an event that is wanted, or did not
//! get so far as to say which it has.

use std::io;

use kymo_abi::wire::ByeReason;

use super::state::Control;
use crate::peer::Peer;
use crate::scope::Scope;
use crate::unknown::{Missing, Unknown};

/// What helps where programs and collector do not fit.
const SAME_VERSION: &str = "build the program with the libkymo of this kymo; both must use the same clock (KYMO_CLOCK)";
const MORE_MEMORY: &str =
    "give the session more memory (--memory), smaller rings (--ring-size), or shared ones (--shared-rings)";
const SLOW: &str = "give the collector CPU time, or let programs wait longer for it (KYMO_START_WAIT=1000)";
const BROKE: &str =
    "look whether the program's libkymo is of this version, and whether the program writes over its memory";

/// What helps where programs are refused.
pub(super) fn what_helps(reason: ByeReason) -> &'static str {
    match reason {
        ByeReason::End | ByeReason::Scope => "",
        ByeReason::Version => SAME_VERSION,
        ByeReason::Memory => MORE_MEMORY,
        ByeReason::Protocol => BROKE,
    }
}

impl Control {
    /// Notes that records of a program are missing, if the program may be meant.
    pub(super) fn missing(&mut self, peer: &Peer, what: Missing, why: &str, next: &str) {
        if self.may_be_meant(peer) {
            let entry = Unknown::new(what, why, next);
            self.missing_of(peer, entry);
        }
    }

    fn missing_of(&mut self, peer: &Peer, entry: Unknown) {
        let hello = peer.hello.as_ref();
        let (vpid, comm) = hello.map_or((0, String::new()), |hello| (hello.pid, hello.comm.clone()));
        let process = (peer.process < self.processes.len()).then_some(peer.process);
        self.unknown.add(Unknown { process, pid: peer.id.pid, vpid, comm, ..entry });
    }

    /// Whether records of this program are to be in the trace, as far as that is known.
    fn may_be_meant(&self, peer: &Peer) -> bool {
        if peer.hello.is_none() || !peer.is_in_scope {
            return false;
        }
        !peer.is_decided || peer.events.values().any(|known| self.wants(peer.channel, &known.name()))
    }

    /// A program is told to go.
    pub(super) fn admit_refusal(&mut self, peer: &Peer, reason: ByeReason, text: &str, next: &str) {
        if matches!(reason, ByeReason::End | ByeReason::Scope) {
            return;
        }
        let what = if peer.serial.is_some() { Missing::Rest } else { Missing::Program };
        // Who comes to the session of a command, or was chosen, is meant though it did not say who it is.
        let is_chosen = !matches!(self.config.scope, Scope::All) && self.in_scope(peer.id.pid);
        if peer.hello.is_none() && is_chosen {
            self.missing_of(peer, Unknown::new(what, text, next));
        } else {
            self.missing(peer, what, text, next);
        }
    }

    /// A program went on before the session had answered it.
    pub(super) fn late(&mut self, peer: &mut Peer, generation: u32) {
        peer.late = true;
        if !peer.is_mapped {
            return;
        }
        if peer.generation.is_none_or(|first| first == generation) {
            return self.begins_late(peer);
        }
        peer.late = false;
        let why = "it went on before the events of a library that it loaded were on: the session answered too late";
        self.missing(peer, Missing::Part, why, SLOW);
    }

    /// A program has its rings. What it did before is missing, if it did not wait for them.
    pub(super) fn begins_late(&mut self, peer: &mut Peer) {
        if std::mem::take(&mut peer.late) {
            let why = "it went on before the session had answered it: the collector did not run, or was busy";
            self.missing(peer, Missing::Beginning, why, SLOW);
        }
    }

    /// A connection has ended. The program may have recorded nothing though it ran.
    pub(super) fn ends_late(&mut self, peer: &mut Peer) {
        if std::mem::take(&mut peer.late) {
            let why = "it ended, or executed another program, before the session had answered it: the collector did not run, or was busy";
            self.missing(peer, Missing::Program, why, SLOW);
        }
    }

    /// A program could not map its rings.
    pub(super) fn cannot_map(&mut self, peer: &Peer, error: &io::Error) {
        let why = format!("it could not map its rings: {error}");
        self.missing(
            peer,
            Missing::Program,
            &why,
            "look at the program's limits (ulimit -v, -l), or use smaller rings (--ring-size)",
        );
    }

    /// A program does not read what it is told, and is told no more.
    pub(super) fn does_not_read(&mut self, peer: &Peer) {
        if peer.leaving || self.ending {
            return;
        }
        let what = if peer.is_mapped { Missing::Rest } else { Missing::Program };
        let why = "it did not read what the session told it, 4 MiB of it, and was given up";
        self.missing(peer, what, why, "look why its helper thread does not run (it is stopped, or has no CPU time)");
    }

    /// A message with a descriptor could not be sent.
    pub(super) fn cannot_be_told(&mut self, peer: &Peer, error: &io::Error) {
        if peer.leaving || self.ending {
            return;
        }
        let what = if peer.is_mapped { Missing::Rest } else { Missing::Program };
        let why = format!("the session could not talk to it any more: {error}");
        self.missing(peer, what, &why, "look at the collector's limits (ulimit -n)");
    }

    /// A user has more connections than it may have: what this one would have said is not known.
    pub(super) fn turned_away(&mut self, pid: u32, why: &str) {
        self.caveat(why.to_owned());
        let next = "run fewer programs of that user at a time, or several sessions (-p)";
        self.unknown.add(Unknown { pid, ..Unknown::new(Missing::Program, why, next) });
    }

    /// There are no descriptors for another connection.
    pub(super) fn too_many_files(&mut self) {
        let why = "a program could not connect: too many open files";
        self.caveat(why.to_owned());
        self.unknown.add(Unknown::new(Missing::Program, why, "raise the collector's limit of open files (ulimit -n)"));
    }

    /// All ids are in use.
    pub(super) fn no_id_left(&mut self, peer: &Peer) {
        let why = "there are more events than a session can have (65,534, with descriptions of 16 MiB; where several users are recorded no \
                   user has more than is left for the others); the rest is not recorded";
        self.caveat(why.to_owned());
        self.missing(peer, Missing::Part, why, "choose events (-u), so that there are fewer");
    }

    /// Events could not be brought into the metadata, and are not switched on therefore.
    pub(super) fn not_in_metadata(&mut self, peer: &Peer) {
        let why = "its events could not be written into the metadata, and were not switched on";
        self.missing(peer, Missing::Part, why, "look at the notes of the summary: the disk may be full");
    }

    /// A process was turned away because of its user.
    pub(super) fn of_another_user(&mut self, pid: u32, uid: u32) {
        let own = self.outside.owner(0);
        self.caveat(format!("process {pid} of user {uid} was turned away: this is a session of user {own}"));
        if !matches!(self.config.scope, Scope::All) && self.in_scope(pid) {
            let why = format!("it belongs to user {uid}, and this is a session of user {own}");
            let entry = Unknown::new(Missing::Program, why, "run the session as that user, or as root");
            self.unknown.add(Unknown { pid, ..entry });
        }
    }
}
