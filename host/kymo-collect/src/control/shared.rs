// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that programs share [spec/session.md 13]: one memory for all programs of a user that have the same kind of
//! ring, as many CPUs and the same channel. It stays until the session ends.

use std::sync::Arc;

use kymo_abi::RingKind;
use kymo_abi::ring::Layout;
use kymo_abi::wire::FromCollector;

use super::shared_rings::SharedRings;
use super::state::{Control, PROCESSES_MAX};
use crate::memory::Memory;
use crate::peer::Peer;
use crate::summary::{Outcome, ProcessSummary};

impl Control {
    /// Whether a program is to have rings that others of its user have too: rseq rings only [spec/ring.md 5.2].
    pub(super) fn shares(&self, peer: &Peer) -> bool {
        let kind = peer.hello.as_ref().and_then(|hello| RingKind::from_code(hello.kind));
        self.config.shared_rings && kind == Some(RingKind::Rseq)
    }

    pub(super) fn is_shared(&self, serial: u64) -> bool {
        self.shared.iter().any(|rings| rings.serial == serial)
    }

    /// Sends a program the rings of its user, if there are any.
    pub(super) fn join_shared(&mut self, peer: &mut Peer) -> Result<Option<(u64, Layout)>, String> {
        if !self.shares(peer) {
            return Ok(None);
        }
        let cpu_count = peer.hello.as_ref().map_or(0, |hello| hello.cpu_count);
        let fits = |rings: &&SharedRings| {
            (rings.uid, rings.cpu_count, rings.channel) == (peer.id.uid, cpu_count, peer.channel)
        };
        let Some(rings) = self.shared.iter().find(fits) else { return Ok(None) };
        let descriptor =
            rings.memory.grant().map_err(|error| format!("its rings could not be handed over: {error}"))?;
        let (serial, layout, process) = (rings.serial, rings.layout, rings.process);
        let session = self.channels[peer.channel.index()].1.clone();
        peer.say(&FromCollector::Attach { layout, serial, session }, Some(descriptor));
        self.note_sharing(peer, process);
        Ok(Some((serial, layout)))
    }

    /// Keeps a new memory for the programs that come. Returns its entry in the list of processes.
    pub(super) fn keep_shared(&mut self, peer: &Peer, serial: u64, layout: Layout, memory: &Arc<Memory>) -> usize {
        let cpu_count = peer.hello.as_ref().map_or(0, |hello| hello.cpu_count);
        let mut process = usize::MAX;
        if self.processes.len() < PROCESSES_MAX {
            process = self.processes.len();
            self.processes.push(entry(&layout));
        }
        let (uid, channel) = (peer.id.uid, peer.channel);
        self.shared.push(SharedRings { uid, cpu_count, channel, serial, layout, memory: Arc::clone(memory), process });
        self.note_sharing(peer, process);
        process
    }

    fn note_sharing(&mut self, peer: &Peer, rings: usize) {
        if let Some(entry) = self.processes.get_mut(peer.process) {
            (entry.records, entry.bytes, entry.shares) = (None, None, Some(rings));
        }
    }
}

fn entry(layout: &Layout) -> ProcessSummary {
    ProcessSummary {
        pid: 0,
        vpid: 0,
        comm: "shared".to_owned(),
        exe: String::new(),
        ring: layout.kind.name().to_owned(),
        outcome: Outcome::SharedRings,
        lanes: layout.lane_count,
        ring_bytes: layout.ring_bytes,
        records: Some(0),
        bytes: Some(0),
        lost: None,
        lost_counted: Default::default(),
        shares: None,
        may_wait: false,
        waits: 0,
        first: None,
        last: None,
    }
}
