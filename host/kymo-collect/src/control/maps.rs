// SPDX-License-Identifier: MIT OR Apache-2.0
//! What code is mapped where in programs that are recorded, so that readers can name addresses [spec/trace.md 8.3].
//!
//! A program is looked at when its events are switched on, while it still waits at its start; then ever less often,
//! because nothing says when it loads a library; and when the session ends. When programs begin and end is told too.

use std::time::{Duration, Instant};

use kymo_abi::desc::{Base, EventDesc, FieldType, Form, Scalar};
use kymo_abi::record_head;
use kymo_abi::ring::context;
use kymo_state::{Event, Maps, Phase, Program};

use super::state::Control;
use crate::channel::Channel;
use crate::drain::{MapRecords, ToDrain};
use crate::kernel::STATE_FIRST_ID;
use crate::peer::Peer;

/// From the first look at a program to the second; each further one takes twice as long, up to the other.
const FIRST_STEP: Duration = Duration::from_millis(50);
const STEP_MAX: Duration = Duration::from_secs(2);
/// The classes of the records.
const CLASSES: [&str; 2] = ["lttng_statedump_vm_map", "kymo_statedump_program"];

impl Control {
    /// Whether records of this program, or of the kernel about it, have addresses in it.
    fn has_addresses(&self, peer: &Peer) -> bool {
        let is_recorded = |known: &crate::peer::PeerEvent| known.id.is_some();
        let in_fields = || {
            let mut recorded = peer.events.values().filter(|known| is_recorded(known));
            recorded.any(|known| known.event().is_some_and(|event| has_addresses(&event)))
        };
        let has_stacks = self.config.contexts.header().bits & context::CALLSTACK != 0;
        peer.channel == Channel::Main
            && peer.id.pid != 0
            && ((has_stacks && peer.events.values().any(is_recorded)) || self.config.kernel.is_some() || in_fields())
    }

    /// The first look at a program, and another one after it loaded code with events.
    pub(super) fn begin_maps(&mut self, peer: &mut Peer) {
        if self.has_addresses(peer) {
            self.look_at_maps(peer);
            peer.maps_next = Some((self.now() + FIRST_STEP, FIRST_STEP));
        }
    }

    /// Looks again at programs whose turn it is.
    pub(super) fn look_at_due_maps(&mut self, now: Instant) {
        self.tell_ends();
        let is_due = |peer: &Peer| peer.maps_next.is_some_and(|(next, _)| next <= now);
        let tokens: Vec<u64> = self.peers.iter().filter(|(_, peer)| is_due(peer)).map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            self.look_at_maps(&peer);
            let step = peer.maps_next.map_or(FIRST_STEP, |(_, step)| (step * 2).min(STEP_MAX));
            peer.maps_next = Some((now + step, step));
            self.peers.insert(token, peer);
        }
    }

    /// Looks at all of them: the session ends, or goes on in a directory that knows nothing (`anew`).
    pub(super) fn look_at_all_maps(&mut self, anew: bool) {
        if anew {
            self.maps.maps.forget_all();
        }
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(peer) = self.peers.remove(&token) else { continue };
            if peer.maps_next.is_some() && !peer.leaving {
                self.look_at_maps(&peer);
                if self.maps.maps.is_over(peer.id.pid) {
                    self.maps.goes(program_of(&peer));
                }
            }
            self.peers.insert(token, peer);
        }
        self.tell_ends();
    }

    fn look_at_maps(&mut self, peer: &Peer) {
        let (pid, nonce) = (peer.id.pid, peer.hello.as_ref().map_or(0, |hello| hello.nonce));
        let phase = self.maps.phase(pid, nonce, self.now());
        let parent = if phase == Phase::Begin { self.parent_of(pid) } else { 0 };
        let program = Program { parent, ..program_of(peer) };
        self.tell_maps(|maps, put| maps.look(&program, phase, STATE_FIRST_ID, put));
    }

    /// By which number the program that made a process knows itself, if it is recorded, too.
    fn parent_of(&self, pid: u32) -> u32 {
        let parent = self.maps.maps.parent_of(pid);
        let of_parent = self.peers.values().find(|other| parent != 0 && other.id.pid == parent);
        of_parent.map_or(0, number_of)
    }

    /// A connection has ended, and so may its program have. An `exec` ends a connection as well, and a program that
    /// goes on without one has not ended. After the session's end nothing is known of programs.
    pub(super) fn end_maps(&mut self, peer: &Peer) {
        let pid = peer.id.pid;
        if self.peers.values().any(|other| other.id.pid == pid) {
            return;
        }
        if !self.ending && self.maps.has(pid) {
            self.maps.goes(program_of(peer));
        }
        self.maps.forget(pid);
        self.tell_ends();
    }

    /// Tells that programs have ended.
    fn tell_ends(&mut self) {
        if self.ending {
            return;
        }
        for program in self.maps.gone() {
            self.tell_maps(|maps, put| maps.look(&program, Phase::End, STATE_FIRST_ID, put));
            self.maps.forget(program.pid);
        }
    }

    /// Writes records that `look` hands on.
    fn tell_maps(&mut self, look: impl FnOnce(&mut Maps, &mut dyn FnMut(Event<'_>)) -> u64) {
        let source = self.calibration.source();
        let begin = source.read().max(self.maps.newest);
        let mut newest = begin;
        let mut bytes = Vec::new();
        look(&mut self.maps.maps, &mut |event| {
            newest = newest.max(source.read());
            bytes.extend_from_slice(&record_head(event.id, newest));
            bytes.extend_from_slice(&event.tid.to_le_bytes());
            bytes.extend_from_slice(&[0, 0]);
            bytes.extend_from_slice(event.payload);
        });
        if bytes.is_empty() {
            return;
        }
        self.maps.newest = newest;
        self.describe_maps();
        let _ = self.wiring.commands.send(ToDrain::Maps(MapRecords { begin, end: newest, bytes }));
    }

    /// The classes are in the metadata before their first record is in the trace.
    fn describe_maps(&mut self) {
        if std::mem::replace(&mut self.maps.is_described, true) {
            return;
        }
        let known = self.metadata.kernel.get_or_insert_default();
        let ours = kymo_state::classes(STATE_FIRST_ID).into_iter();
        let ours = ours.filter(|class| CLASSES.contains(&class.name.as_str()));
        let missing: Vec<_> = ours.filter(|class| !known.iter().any(|known| known.id == class.id)).collect();
        if !missing.is_empty() {
            known.extend(missing);
            self.write_metadata();
        }
    }
}

/// A program, whose parent does not matter.
fn program_of(peer: &Peer) -> Program {
    Program { pid: peer.id.pid, vpid: number_of(peer), parent: 0 }
}

/// By which number a program knows itself.
fn number_of(peer: &Peer) -> u32 {
    peer.hello.as_ref().map_or(peer.id.pid, |hello| hello.pid)
}

/// Whether a field of an event may be an address of code: a 64-bit integer that is shown in base 16.
fn has_addresses(event: &EventDesc) -> bool {
    let is_address = |scalar: Scalar| {
        scalar.bytes() == 8 && matches!(scalar.form(), Form::Int { signed: false, base: Base::Hexadecimal })
    };
    event.fields.iter().any(|field| match field.ty {
        FieldType::Scalar(scalar) => is_address(scalar),
        FieldType::Array { element, .. } | FieldType::Seq { element } => is_address(element),
        _ => false,
    })
}
