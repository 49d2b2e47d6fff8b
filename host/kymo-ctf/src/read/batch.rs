//! Items that outlive the reader's next step: for another thread, or for a second look. A batch is filled again and again without
//! allocating.

use std::sync::Arc;

use super::item::{Item, Loss, Record};
use super::plan::Mark;
use super::stream::{Lost, PacketFacts};
use super::tape::Node;
use super::value::Frame;

/// Copies of items, in order; the bytes of records stay where they are. Filled by [`super::Reader::keep`].
#[derive(Debug, Default)]
pub struct Batch<'t> {
    entries: Vec<Entry>,
    packets: Vec<Arc<PacketFacts<'t>>>,
    marks: Vec<Mark>,
    nodes: Vec<Node>,
    /// Names of programs that the records do not have themselves.
    names: String,
}

#[derive(Debug)]
struct Entry {
    trace: usize,
    /// In [`Batch::packets`].
    packet: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Record {
        event: usize,
        /// Cycles and nanoseconds.
        time: (u64, i128),
        /// Ends in [`Batch::marks`] and [`Batch::nodes`].
        marks_end: usize,
        nodes_end: usize,
        thread: Option<Thread>,
    },
    Loss(Lost, [i128; 2]),
}

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
        self.names.clear();
    }

    /// The thread of the last item, a record, as its user has found out.
    pub fn set_thread(&mut self, vpid: Option<u32>, vtid: Option<u32>, procname: &str) {
        if let Some(Entry { what: What::Record { thread, .. }, .. }) = self.entries.last_mut() {
            let begin = self.names.len();
            self.names.push_str(procname);
            *thread = Some(Thread { vpid, vtid, name: begin..self.names.len() });
        }
    }

    /// Calls `visit` with each item.
    pub fn for_each(&self, mut visit: impl FnMut(&Item<'_>)) {
        let (mut marks_begin, mut nodes_begin) = (0, 0);
        let Some(first) = self.packets.first() else { return };
        let mut frame = Frame::new(first.frame.metadata, first.frame.data);
        for entry in &self.entries {
            let facts = &*self.packets[entry.packet];
            match &entry.what {
                What::Loss(lost, ns) => visit(&Item::Loss(Loss::new(entry.trace, facts, *lost, *ns))),
                What::Record { event, time, marks_end, nodes_end, thread } => {
                    frame.look_at(&facts.frame);
                    frame.marks.clear();
                    frame.marks.extend_from_slice(&self.marks[marks_begin..*marks_end]);
                    frame.nodes.clear();
                    frame.nodes.extend_from_slice(&self.nodes[nodes_begin..*nodes_end]);
                    (marks_begin, nodes_begin) = (*marks_end, *nodes_end);
                    let mut record = Record::new(entry.trace, facts, &frame, *event, *time);
                    if let Some(thread) = thread {
                        (record.vpid, record.vtid) = (thread.vpid, thread.vtid);
                        record.procname = &self.names[thread.name.clone()];
                    }
                    visit(&Item::Record(record));
                }
            }
        }
    }

    #[inline]
    pub(super) fn push_record(
        &mut self,
        trace: usize,
        facts: &Arc<PacketFacts<'t>>,
        frame: &Frame<'t>,
        event: usize,
        time: (u64, i128),
    ) {
        self.marks.extend_from_slice(&frame.marks);
        self.nodes.extend_from_slice(&frame.nodes);
        let (marks_end, nodes_end) = (self.marks.len(), self.nodes.len());
        let packet = self.packet(facts);
        self.entries.push(Entry {
            trace,
            packet,
            what: What::Record { event, time, marks_end, nodes_end, thread: None },
        });
    }

    pub(super) fn push_loss(&mut self, trace: usize, facts: &Arc<PacketFacts<'t>>, lost: Lost, ns: [i128; 2]) {
        let packet = self.packet(facts);
        self.entries.push(Entry { trace, packet, what: What::Loss(lost, ns) });
    }

    /// Where the packet stands in the batch. Those of a few streams take turns.
    #[inline]
    fn packet(&mut self, facts: &Arc<PacketFacts<'t>>) -> usize {
        const LOOKED_MAX: usize = 8;
        let recent = self.packets.len().saturating_sub(LOOKED_MAX);
        let found = self.packets[recent..].iter().rposition(|known| Arc::ptr_eq(known, facts));
        found.map_or_else(
            || {
                self.packets.push(Arc::clone(facts));
                self.packets.len() - 1
            },
            |position| recent + position,
        )
    }
}
