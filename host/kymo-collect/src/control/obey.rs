// SPDX-License-Identifier: MIT OR Apache-2.0
//! Obeys what the session's owner asks of the control thread while it runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use kymo_abi::RingKind;
use kymo_abi::wire::FromCollector;
use kymo_ctf::write::{EnvValue, EventClass};
use kymo_ftrace::Naming;

use super::programs::why_unfiltered;
use super::requests::{Changed, ProgramView, ToControl, View};
use super::state::Control;
use crate::Error;
use crate::channel::Channel;
use crate::chunks::RotateJob;
use crate::drain::ToDrain;
use crate::metadata::environment;
use crate::peer::{Peer, PeerEvent};

/// Names in the answer to a change.
const NAMES_MAX: usize = 1000;
/// Events without their filter in the view of a program.
const UNFILTERED_SHOWN: usize = 20;
/// Programs in a view.
const PROGRAMS_MAX: usize = 1000;

/// The drain thread finishes what it writes, and empties all rings once.
const ROTATION_TIME: Duration = Duration::from_secs(20);

impl Control {
    /// Obeys what waits in the channel.
    pub(super) fn obey(&mut self) {
        while let Ok(request) = self.wiring.requests.try_recv() {
            match request {
                ToControl::Select { patterns, on, reply } => {
                    let _ = reply.send(self.select(&patterns, on));
                }
                ToControl::KernelEvents { classes, naming, reply } => {
                    let _ = reply.send(self.learn_kernel(classes, naming));
                }
                ToControl::RingBytes(bytes, reply) => {
                    self.config.ring_bytes = bytes;
                    if let Some(reply) = reply {
                        let _ = reply.send(self.offer_all());
                    }
                }
                ToControl::Rotate { job, reply } => {
                    let _ = reply.send(self.rotate(job));
                }
                ToControl::View(reply) => {
                    self.measure();
                    let _ = reply.send(self.view());
                }
            }
        }
    }

    /// The metadata of the new chunk is there before its first record. Events that come while the drain thread goes on
    /// wait for it: those that it still writes into the old chunk must be known there.
    fn rotate(&mut self, job: RotateJob) -> Result<(), Error> {
        self.calibration.refine();
        self.write_metadata();
        let next = self.metadata.dir.another(&job.dir);
        let old = (std::mem::replace(&mut self.metadata.dir, next), self.metadata.uuid);
        self.metadata.uuid = job.uuid;
        if let Err(error) = self.metadata.write(&self.registry, &self.calibration.estimate()) {
            (self.metadata.dir, self.metadata.uuid) = old;
            return Err(Error::file("write", job.dir.join("metadata"))(error));
        }
        self.written_events = self.registry.events.len();
        let (gone, has_gone) = channel();
        let _ = self.wiring.commands.send(ToDrain::Rotate(job, gone));
        if !self.outside.wait_for_drain(&has_gone, ROTATION_TIME) {
            return Err(Error::Thread { thread: "drain" });
        }
        self.look_at_all_maps(true);
        Ok(())
    }

    /// Writes metadata with these events too: before the first of their records.
    fn learn_kernel(&mut self, classes: Vec<EventClass>, naming: Option<Naming>) -> Result<(PathBuf, [u8; 16]), Error> {
        let old = (self.metadata.kernel.clone(), self.metadata.env.clone());
        let known = self.metadata.kernel.get_or_insert_default();
        for class in classes {
            if !known.iter().any(|known| known.id == class.id) {
                known.push(class);
            }
        }
        if naming.is_some() {
            let created = self.metadata.env.iter().find(|(key, _)| key == "trace_creation_datetime");
            let created = match created {
                Some((_, EnvValue::Text(created))) => created.clone(),
                _ => String::new(),
            };
            self.metadata.env = environment(&self.config.name, self.metadata.clock, &created, naming);
        }
        if let Err(error) = self.metadata.write(&self.registry, &self.calibration.estimate()) {
            (self.metadata.kernel, self.metadata.env) = old;
            return Err(Error::file("write", self.metadata.dir.path().join("metadata"))(error));
        }
        self.written_events = self.registry.events.len();
        Ok((self.metadata.dir.path().to_owned(), self.metadata.uuid))
    }

    fn select(&mut self, patterns: &[String], on: bool) -> Result<Changed, String> {
        let mut matching = crate::Patterns::new(patterns, &[]).map_err(|error| error.to_string())?;
        if patterns.is_empty() {
            matching = crate::Patterns::default();
        }
        self.selection.change(patterns, on)?;
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        let (mut names, mut known, mut programs) = (BTreeSet::new(), BTreeSet::new(), 0);
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            if !peer.leaving {
                programs += u64::from(self.reselect(&mut peer));
            }
            for of in peer.events.values() {
                let name = of.name();
                if names.len() < NAMES_MAX && matching.want(&name) {
                    names.insert(name);
                } else if known.len() < NAMES_MAX {
                    known.insert(name);
                }
            }
            self.put_back(token, peer, true);
        }
        let known = if names.is_empty() { known.into_iter().collect() } else { Vec::new() };
        Ok(Changed { events: names.into_iter().collect(), programs, known })
    }

    /// Brings a program's events to what is wanted now. Whether it was told anything.
    fn reselect(&mut self, peer: &mut Peer) -> bool {
        if self.is_misfit(peer) {
            return false;
        }
        let mut on = Vec::new();
        let mut off = Vec::new();
        for (index, known) in peer.events.iter_mut().filter(|(index, _)| !peer.undecided.contains(index)) {
            let name = known.name();
            let is_wanted = self.wants(peer.channel, &name);
            match (known.id, is_wanted) {
                (None, true) => on.push(*index),
                (Some(_), false) => {
                    known.id = None;
                    off.push(*index);
                }
                _ => {}
            }
        }
        // The map has no order.
        on.sort_unstable();
        off.sort_unstable();
        for chunk in off.chunks(FromCollector::ENABLE_PAIRS_MAX) {
            peer.say(&FromCollector::Disable(chunk.to_vec()), None);
        }
        let has_on = !on.is_empty();
        if has_on {
            self.switch_on(peer, on);
        }
        has_on || !off.is_empty()
    }

    /// Events that no filter fitted may be wanted now that one does.
    pub(super) fn refit(&mut self) {
        if !std::mem::take(&mut self.refit) {
            return;
        }
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            if !peer.leaving {
                self.reselect(&mut peer);
            }
            self.put_back(token, peer, true);
        }
    }

    fn view(&mut self) -> View {
        let is_shown = |peer: &&Peer| peer.channel == Channel::Main && peer.hello.is_some() && !peer.leaving;
        let with_hello = || self.peers.values().filter(is_shown);
        let mut programs: Vec<ProgramView> =
            with_hello().take(PROGRAMS_MAX).filter_map(|peer| self.view_of(peer)).collect();
        programs.sort_by_key(|program| (program.pid, program.vpid));
        let arriving = self.peers.values().filter(|peer| !peer.has_arrived()).count();
        View {
            program_count: with_hello().count(),
            programs,
            arriving: arriving + self.discovery.visits_planned(),
            unknown: self.unknown.list().to_vec(),
            unknown_count: self.unknown.count(),
            offers_open: self.offers_open(),
            offers_refused: self.offers_refused,
            ring_bytes: self.config.ring_bytes,
            memory_bytes: self.memory_in_use(),
            memory_bytes_max: self.config.memory_bytes_max,
            changes: self.selection.changes(),
        }
    }

    fn view_of(&self, peer: &Peer) -> Option<ProgramView> {
        let hello = peer.hello.as_ref()?;
        let refused = |known: &PeerEvent| Some((known.name(), why_unfiltered(known.refused?)));
        let mut unfiltered: Vec<_> = peer.events.values().filter_map(refused).take(UNFILTERED_SHOWN).collect();
        unfiltered.sort();
        Some(ProgramView {
            pid: peer.id.pid,
            vpid: hello.pid,
            uid: peer.id.uid,
            comm: hello.comm.clone(),
            exe: hello.exe.clone(),
            ring: RingKind::from_code(hello.kind).map_or("unknown", RingKind::name),
            ring_bytes: peer.serial.map_or(0, |_| peer.ring_bytes),
            events: peer.events.len(),
            events_on: peer.events.values().filter(|known| known.id.is_some()).count(),
            unfiltered,
            serial: peer.serial,
        })
    }
}
