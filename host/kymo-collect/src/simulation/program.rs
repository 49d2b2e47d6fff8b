// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated program: what libkymo says to a session and writes into its rings, by spec/session.md 3 to 8 and
//! spec/ring.md 4. It keeps the books of what it wrote.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, Scalar, encode};
use kymo_abi::ring::{Layout, Mark, Span, View};
use kymo_abi::wire::{Attached, DescEntry, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, Kind, head_word};
use kymo_mapping::Mapping;

use super::outside::SharedLine;

/// Bytes of a record: header, thread, one number.
pub(super) const RECORD_BYTES: u32 = 20;

/// A program goes on when nothing was answered for so long.
const START_WAIT: u64 = 100_000_000;
/// It says so this much earlier.
const LATE_BEFORE: u64 = START_WAIT / 8;
/// It waits no longer than this in all.
const START_WAIT_MAX: u64 = 10 * START_WAIT;

/// What was written into the rings of one memory, lane by lane, and what its writers counted as lost.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Name of the program that was given the memory.
    pub comm: String,
    pub published: BTreeMap<u32, Vec<u64>>,
    pub lost_full: u64,
}

/// The books of a session, by serial.
pub(super) type Books = BTreeMap<u64, Book>;

/// Mapped ring memory. Forked children have it, too.
#[derive(Debug)]
pub(super) struct Rings {
    mapping: Mapping,
    layout: Layout,
    pub serial: u64,
}

impl Rings {
    fn map(descriptor: &OwnedFd, layout: Layout, serial: u64) -> Rings {
        let mapping = Mapping::to_write(descriptor, layout.mem_bytes as usize).expect("the memory can be mapped");
        Rings { mapping, layout, serial }
    }

    fn view(&self) -> View<'_> {
        // SAFETY: [spec/ring.md 3.1] the mapping has mem_bytes bytes and lives as long as this value.
        unsafe { View::new(self.mapping.base(), &self.layout) }.expect("the collector's layout")
    }

    /// Writes a record; it is counted when the ring is full.
    pub(super) fn record(&self, wish: u32, id: u16, token: u64, now: u64, book: &mut Book) {
        let lane = match self.layout.kind {
            Kind::Rseq => wish % (self.layout.lane_count - 1),
            Kind::Portable => wish % 3,
        };
        self.view().header().lanes_used.fetch_max(lane + 1, Ordering::Relaxed);
        let ring = &self.view().rings()[lane as usize];
        let head = Mark(ring.head.load(Ordering::Relaxed));
        let used = head.since(Mark(ring.tail.load(Ordering::Acquire))).bytes;
        if used + RECORD_BYTES.next_multiple_of(8) > self.layout.ring_bytes {
            ring.lost_full.fetch_add(1, Ordering::Relaxed);
            book.lost_full += 1;
            return;
        }
        let word = head_word(id, now);
        let mut bytes = [0; RECORD_BYTES as usize];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[12..].copy_from_slice(&token.to_le_bytes());
        for (number, byte) in bytes.into_iter().enumerate() {
            let index = head.0.wrapping_add(number as u64) as u32 & (self.layout.ring_bytes - 1);
            let offset = (self.layout.lane_offset(lane) + u64::from(index)) as usize;
            let at = self.mapping.base().as_ptr().wrapping_add(offset);
            // SAFETY: [spec/ring.md 3.1] the index is masked to the lane, which is mapped.
            unsafe { at.write_volatile(byte) };
        }
        ring.last.store(word, Ordering::Relaxed);
        ring.head.store(head.plus(Span { bytes: RECORD_BYTES, records: 1 }).0, Ordering::Release);
        book.published.entry(lane).or_default().push(token);
    }
}

/// One session, as a program sees it.
#[derive(Debug)]
pub(super) struct Attachment {
    pub line: SharedLine,
    pub rings: Option<Arc<Rings>>,
    /// Name of the session in ATTACH.
    name: String,
    /// Ids by index.
    pub on: BTreeMap<u32, u16>,
    generation: u32,
    answered: u32,
    /// LATE was said of a generation that is not answered.
    has_said_late: bool,
    /// The session could not be reached when the program started.
    found_late: bool,
}

/// How a program behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Character {
    Good,
    /// It answers ATTACH with an error.
    CannotMap,
    /// It is of another version.
    OtherAbi,
}

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub pid: u32,
    pub nonce: u32,
    pub comm: String,
    pub kind: Kind,
    pub character: Character,
    pub events: u32,
    /// Sessions by number. A session may have two connections for a moment.
    pub attachments: Vec<(usize, Attachment)>,
    /// Rings of the parent, until the child has its own, by session.
    pub inherited: BTreeMap<usize, (Arc<Rings>, BTreeMap<u32, u16>)>,
    /// `main` runs.
    pub runs: bool,
    waits_since: u64,
    heard_at: u64,
    /// It does not run until then.
    pub stopped_until: u64,
    /// It ends then.
    pub ends_at: u64,
    pub acts_at: u64,
    pub is_alive: bool,
    /// A child that no handler of a fork knows of.
    pub is_unknown_child: bool,
    /// How often the event 0 happened and a session that was to record it did not, by session.
    pub missed: BTreeMap<usize, u64>,
    /// Sessions that could not be reached at the start, though they are there.
    pub unreached: Vec<usize>,
    /// Sessions that gave it rings, or refused it.
    met: Vec<usize>,
    /// Who forked it, who forked that one, and so on.
    pub parents: Vec<String>,
    /// Sessions that it is to be recorded by from its `main` on.
    pub owed_by: Vec<usize>,
}

impl Program {
    pub(super) fn new(pid: u32, nonce: u32, kind: Kind, now: u64) -> Program {
        Program {
            pid,
            nonce,
            comm: format!("s{nonce}"),
            kind,
            character: Character::Good,
            events: 2,
            attachments: Vec::new(),
            inherited: BTreeMap::new(),
            runs: false,
            waits_since: now,
            heard_at: now,
            stopped_until: 0,
            ends_at: u64::MAX,
            acts_at: now,
            is_alive: true,
            is_unknown_child: false,
            missed: BTreeMap::new(),
            unreached: Vec::new(),
            met: Vec::new(),
            parents: Vec::new(),
            owed_by: Vec::new(),
        }
    }

    /// A description of this program's event `index`.
    fn event(&self, index: u32) -> DescEntry {
        let fields = vec![Field { name: "n".into(), ty: FieldType::Scalar(Scalar::U64) }];
        let (provider, name, file) = ("sim".into(), format!("e{}", index % 8), "sim.c".into());
        let desc = encode(&Desc::Event(EventDesc { provider, name, file, line: 1, fields }));
        DescEntry { index: Some(index), desc }
    }

    /// Introduces itself on a new connection.
    pub(super) fn introduce(&mut self, session: usize, line: SharedLine, found_late: bool) {
        let hello = Hello {
            abi: if self.character == Character::OtherAbi { ABI_VERSION + 1 } else { ABI_VERSION },
            pid: self.pid,
            kind: self.kind.code(),
            clock: Clock::Monotonic.code(),
            cpu_count: 2,
            nonce: self.nonce,
            comm: self.comm.clone(),
            exe: "/bin/sim".into(),
        };
        let descs = (0..self.events).map(|index| self.event(index)).collect();
        let packets = [FromProgram::Hello(hello), FromProgram::Descs(descs), FromProgram::DescsEnd { generation: 1 }];
        line.get().to_collector.extend(packets.iter().map(FromProgram::encode));
        let attachment = Attachment {
            line,
            rings: None,
            name: String::new(),
            on: BTreeMap::new(),
            generation: 1,
            answered: 0,
            has_said_late: false,
            found_late,
        };
        self.attachments.push((session, attachment));
    }

    /// A library with one more event is loaded: the thread waits as at the start.
    pub(super) fn load_library(&mut self, now: u64) {
        let entry = self.event(self.events);
        self.events += 1;
        for (_, attachment) in &mut self.attachments {
            attachment.generation += 1;
            let packets =
                [FromProgram::Descs(vec![entry.clone()]), FromProgram::DescsEnd { generation: attachment.generation }];
            attachment.line.get().to_collector.extend(packets.iter().map(FromProgram::encode));
        }
        (self.runs, self.waits_since, self.heard_at) = (false, now, now);
    }

    /// The newest library goes.
    pub(super) fn unload_library(&mut self) {
        if self.events <= 2 {
            return;
        }
        self.events -= 1;
        for (_, attachment) in &mut self.attachments {
            attachment.on.remove(&self.events);
            attachment.line.get().to_collector.push_back(FromProgram::Gone(vec![self.events]).encode());
        }
    }

    /// Whether something waits to be read.
    pub(super) fn has_mail(&self) -> bool {
        self.attachments.iter().any(|(_, attachment)| {
            let line = attachment.line.get();
            !line.to_program.is_empty() || line.collector_has_closed
        })
    }

    /// Reads what sessions say.
    pub(super) fn read(&mut self, now: u64, books: &mut [Books]) {
        for at in 0..self.attachments.len() {
            loop {
                let mail = self.attachments[at].1.line.get().to_program.pop_front();
                let Some((packet, descriptor)) = mail else { break };
                self.heard_at = now;
                let message = FromCollector::decode(&packet).expect("the collector keeps to the protocol");
                self.hear(at, message, descriptor, books);
            }
            let attachment = &mut self.attachments[at].1;
            if attachment.line.get().collector_has_closed {
                attachment.close();
            }
        }
        self.attachments.retain(|(_, attachment)| !attachment.line.get().program_has_closed);
    }

    fn hear(&mut self, at: usize, message: FromCollector, descriptor: Option<OwnedFd>, books: &mut [Books]) {
        match message {
            FromCollector::Attach { layout, serial, session } => {
                let is_served = self.attachments.iter().enumerate().any(|(other, (_, attachment))| {
                    other != at && attachment.rings.is_some() && attachment.name == session
                });
                let (number, attachment) = &mut self.attachments[at];
                let error = match self.character {
                    _ if is_served => libc::EALREADY as u32,
                    Character::CannotMap => libc::ENOMEM as u32,
                    Character::Good | Character::OtherAbi => 0,
                };
                if error == 0 {
                    let descriptor = descriptor.expect("a descriptor comes with ATTACH");
                    attachment.rings = Some(Arc::new(Rings::map(&descriptor, layout, serial)));
                    attachment.name = session;
                    books[*number].insert(serial, Book { comm: self.comm.clone(), ..Book::default() });
                    self.inherited.remove(number);
                    self.met.push(*number);
                }
                let late = attachment.found_late;
                let answer = Attached { serial, error, locked: false, late, touched_bytes: 0 };
                attachment.line.get().to_collector.push_back(FromProgram::Attached(answer).encode());
            }
            FromCollector::Enable(pairs) => {
                let events = self.events;
                let attachment = &mut self.attachments[at].1;
                attachment.on.extend(pairs.into_iter().filter(|(index, _)| *index < events));
            }
            FromCollector::Disable(indices) => {
                self.attachments[at].1.on.retain(|index, _| !indices.contains(index));
            }
            FromCollector::Go { generation } => {
                let attachment = &mut self.attachments[at].1;
                attachment.answered = generation;
                attachment.has_said_late &= generation < attachment.generation;
            }
            FromCollector::Bye { .. } => {
                self.met.push(self.attachments[at].0);
                self.attachments[at].1.close();
            }
            FromCollector::Filter(_) | FromCollector::Ready(_) => {}
        }
    }

    /// Waits at its start, or after a library was loaded; says when it does not any more.
    pub(super) fn wait(&mut self, now: u64) {
        let silent = now.saturating_sub(self.heard_at);
        let waited = now.saturating_sub(self.waits_since);
        let is_owed = |attachment: &Attachment| attachment.answered < attachment.generation;
        let is_near = silent >= START_WAIT - LATE_BEFORE || waited >= START_WAIT_MAX - LATE_BEFORE;
        let is_over = silent >= START_WAIT || waited >= START_WAIT_MAX;
        for (_, attachment) in self.attachments.iter_mut().filter(|(_, attachment)| is_owed(attachment)) {
            if is_near && !attachment.has_said_late {
                attachment.has_said_late = true;
                let late = FromProgram::Late { generation: attachment.generation };
                attachment.line.get().to_collector.push_back(late.encode());
            }
        }
        self.runs = is_over || !self.attachments.iter().any(|(_, attachment)| is_owed(attachment));
    }

    /// One event happens: a record in each session that has it on. What a session has missed is counted.
    pub(super) fn hit(&mut self, index: u32, lane: u32, token: &mut u64, now: u64, books: &mut [Books]) {
        let mut seen = Vec::new();
        for (session, attachment) in &self.attachments {
            if let (Some(rings), Some(id)) = (&attachment.rings, attachment.on.get(&index)) {
                *token += 1;
                let book = books[*session].entry(rings.serial).or_default();
                rings.record(lane, *id, *token, now, book);
                seen.push(*session);
            }
        }
        for (session, (rings, on)) in &self.inherited {
            if let (Some(id), false) = (on.get(&index), seen.contains(session)) {
                *token += 1;
                rings.record(lane, *id, *token, now, books[*session].entry(rings.serial).or_default());
                seen.push(*session);
            }
        }
        if index == 0 {
            for session in self.owed_by.iter().filter(|session| !seen.contains(session)) {
                *self.missed.entry(*session).or_default() += 1;
            }
        }
    }

    /// Whether a session knows it.
    pub(super) fn has_met(&self, session: usize) -> bool {
        self.met.contains(&session)
    }

    /// Sessions to which LATE was said and that have not answered since: a child tells them.
    pub(super) fn late_for(&self) -> Vec<usize> {
        let mut late = self.unreached.clone();
        late.retain(|session| !self.met.contains(session));
        late.extend(self.attachments.iter().filter(|(_, of)| of.has_said_late).map(|(session, _)| *session));
        late
    }

    /// It ends, is killed, or executes another program: the kernel closes everything. Returns mappings that are
    /// undone a moment later.
    pub(super) fn end(&mut self) -> Vec<Arc<Rings>> {
        self.is_alive = false;
        let mut rings: Vec<_> = std::mem::take(&mut self.inherited).into_values().map(|(rings, _)| rings).collect();
        for (_, mut attachment) in std::mem::take(&mut self.attachments) {
            rings.extend(attachment.rings.take());
            attachment.close();
        }
        rings
    }
}

impl Attachment {
    fn close(&mut self) {
        self.line.get().program_has_closed = true;
        (self.rings, self.on) = (None, BTreeMap::new());
    }
}
