// SPDX-License-Identifier: MIT OR Apache-2.0
//! What code is mapped where in programs that are recorded, so that readers can name addresses [spec/trace.md 8.3].
//!
//! A program is looked at when its events are switched on, while it still waits at its start; then ever less often,
//! because nothing says when it loads a library; and when the session ends.

use std::time::{Duration, Instant};

use kymo_abi::record_head;
use kymo_abi::ring::context;

use super::state::Control;
use crate::channel::Channel;
use crate::drain::{MapRecords, ToDrain};
use crate::kernel::STATE_FIRST_ID;
use crate::peer::Peer;

/// From the first look at a program to the second; each further one takes twice as long, up to the other.
const FIRST_STEP: Duration = Duration::from_millis(50);
const STEP_MAX: Duration = Duration::from_secs(2);
/// The class of the records.
const CLASS: &str = "lttng_statedump_vm_map";

impl Control {
    /// Whether records of this program, or of the kernel about it, have addresses in it.
    fn has_addresses(&self, peer: &Peer) -> bool {
        let is_recorded = |known: &crate::peer::Known| known.id.is_some();
        let functions =
            || peer.events.values().any(|known| is_recorded(known) && known.name().starts_with("function:"));
        let of_kernel = || self.config.kernel.as_ref().is_some_and(|kernel| kernel.state.is_some());
        let has_stacks = self.config.contexts.header().bits & context::CALLSTACK != 0;
        peer.channel == Channel::Main
            && peer.id.pid != 0
            && ((has_stacks && peer.events.values().any(is_recorded)) || functions() || of_kernel())
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
            }
            self.peers.insert(token, peer);
        }
    }

    fn look_at_maps(&mut self, peer: &Peer) {
        let vpid = peer.hello.as_ref().map_or(peer.id.pid, |hello| hello.pid);
        let source = self.calibration.source();
        let begin = source.read().max(self.maps.newest);
        let mut newest = begin;
        let mut bytes = Vec::new();
        self.maps.maps.look(peer.id.pid, vpid, STATE_FIRST_ID, &mut |event| {
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

    /// The class is in the metadata before its first record is in the trace.
    fn describe_maps(&mut self) {
        if std::mem::replace(&mut self.maps.is_described, true) {
            return;
        }
        let classes = self.metadata.kernel.get_or_insert_default();
        let ours = kymo_state::classes(STATE_FIRST_ID).into_iter().find(|class| class.name == CLASS);
        let Some(class) = ours.filter(|class| !classes.iter().any(|known| known.id == class.id)) else { return };
        classes.push(class);
        self.write_metadata();
    }
}
