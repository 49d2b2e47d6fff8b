// SPDX-License-Identifier: MIT OR Apache-2.0
//! Items that outlive the reader's next step: for another thread, or for a second look. A batch is filled again and
//! again without allocating.

use std::sync::Arc;

use super::frame::{Frame, Mark, Node};
use super::item::{Extent, Item, Loss, Record};
use super::stream::{Lost, PacketFacts};

/// Copies of items, in order; the bytes of records stay where they are. Filled by [`super::Reader::keep`].
#[derive(Debug, Default)]
pub struct Batch<'t> {
    entries: Vec<Entry>,
    packets: Vec<Arc<PacketFacts<'t>>>,
    marks: Vec<Mark>,
    nodes: Vec<Node>,
    losses: Vec<(Lost, [i128; 2])>,
    threads: Vec<Thread>,
    /// Names of programs that the records do not have themselves.
    names: String,
}

/// Small: millions of them are written and read again.
#[derive(Debug)]
struct Entry {
    ns: i128,
    cycles: u64,
    bits: u64,
    trace: u32,
    /// In [`Batch::packets`].
    packet: u32,
    /// Position of a record's event; [`LOSS`] for the next one of [`Batch::losses`].
    event: u32,
    /// Of a record: marks and nodes, behind those of the one before.
    marks: u32,
    nodes: u32,
    /// One behind its place in [`Batch::threads`]; 0 for none.
    thread: u32,
}

/// Traces have fewer events: their metadata is in memory.
const LOSS: u32 = u32::MAX;

/// The thread that a record was found to be of.
#[derive(Clone, Debug)]
struct Thread {
    vpid: Option<u32>,
    vtid: Option<u32>,
    /// In [`Batch::names`].
    name: std::ops::Range<usize>,
}

impl<'t> Batch<'t> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Has no items.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all items, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.packets.clear();
        self.marks.clear();
        self.nodes.clear();
        self.losses.clear();
        self.threads.clear();
        self.names.clear();
    }

    /// The thread of the last item, a record, as its user has found out.
    pub fn set_thread(&mut self, vpid: Option<u32>, vtid: Option<u32>, procname: &str) {
        let Some(entry) = self.entries.last_mut().filter(|entry| entry.event != LOSS) else { return };
        let begin = self.names.len();
        self.names.push_str(procname);
        self.threads.push(Thread { vpid, vtid, name: begin..self.names.len() });
        entry.thread = self.threads.len() as u32;
    }

    /// Calls `visit` with each item.
    pub fn for_each(&self, mut visit: impl FnMut(&Item<'_>)) {
        let (mut marks, mut nodes, mut losses) = (&self.marks[..], &self.nodes[..], self.losses.iter());
        let Some(first) = self.packets.first() else { return };
        let mut frame = Frame::new(first.frame.metadata, first.frame.data);
        for entry in &self.entries {
            let facts = &*self.packets[entry.packet as usize];
            if entry.event == LOSS {
                if let Some(&(lost, ns)) = losses.next() {
                    visit(&Item::Loss(Loss::new(entry.trace as usize, facts, lost, ns)));
                }
                continue;
            }
            frame.look_at(&facts.frame);
            let (its_marks, its_nodes);
            (its_marks, marks) = marks.split_at(entry.marks as usize);
            (its_nodes, nodes) = nodes.split_at(entry.nodes as usize);
            refill(&mut frame.marks, its_marks);
            refill(&mut frame.nodes, its_nodes);
            let extent = Extent { cycles: entry.cycles, ns: entry.ns, bits: entry.bits };
            let mut record = Record::new(entry.trace as usize, facts, &frame, entry.event as usize, extent);
            if let Some(thread) = self.threads.get((entry.thread as usize).wrapping_sub(1)) {
                (record.vpid, record.vtid) = (thread.vpid, thread.vtid);
                record.procname = &self.names[thread.name.clone()];
            }
            visit(&Item::Record(record));
        }
    }

    #[inline]
    pub(super) fn push_record(
        &mut self,
        trace: usize,
        facts: &Arc<PacketFacts<'t>>,
        frame: &Frame<'t>,
        event: usize,
        Extent { cycles, ns, bits }: Extent,
    ) {
        // One by one: mostly there are two or three, and none.
        frame.marks.iter().for_each(|mark| self.marks.push(*mark));
        frame.nodes.iter().for_each(|node| self.nodes.push(*node));
        let (marks, nodes) = (frame.marks.len() as u32, frame.nodes.len() as u32);
        let packet = self.packet(facts);
        let (trace, event) = (trace as u32, event as u32);
        self.entries.push(Entry { ns, cycles, bits, trace, packet, event, marks, nodes, thread: 0 });
    }

    pub(super) fn push_loss(&mut self, trace: usize, facts: &Arc<PacketFacts<'t>>, lost: Lost, ns: [i128; 2]) {
        let packet = self.packet(facts);
        self.losses.push((lost, ns));
        let (ns, cycles, trace) = (ns[0], lost.from, trace as u32);
        self.entries.push(Entry { ns, cycles, bits: 0, trace, packet, event: LOSS, marks: 0, nodes: 0, thread: 0 });
    }

    /// Where the packet stands in the batch. Those of a few streams take turns.
    #[inline]
    fn packet(&mut self, facts: &Arc<PacketFacts<'t>>) -> u32 {
        const LOOKED_MAX: usize = 8;
        let recent = self.packets.len().saturating_sub(LOOKED_MAX);
        let found = self.packets[recent..].iter().rposition(|known| Arc::ptr_eq(known, facts));
        let position = found.map(|position| recent + position).unwrap_or_else(|| {
            self.packets.push(Arc::clone(facts));
            self.packets.len() - 1
        });
        position as u32
    }
}

/// Replaces what a vector has. One by one, as above.
#[inline]
fn refill<T: Copy>(vector: &mut Vec<T>, with: &[T]) {
    vector.clear();
    with.iter().for_each(|one| vector.push(*one));
}
