// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated program: what libkymo says to a session and writes into its rings, by spec/session.md 3 to 8.
//! What it writes is in `rings`.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kymo_abi::ring::Layout;
use kymo_abi::wire::{Attached, ByeReason, Filter, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};
use kymo_filter::Insn;

use super::objects::Objects;
use super::outside::SharedLine;
use super::rings::{Book, Books, Recording, Rings, ToldFilter};

/// A program goes on when nothing was answered for so long.
const START_WAIT: u64 = 100_000_000;
/// It says so this much earlier.
const LATE_BEFORE: u64 = START_WAIT / 8;
/// It waits no longer than this in all.
const START_WAIT_MAX: u64 = 10 * START_WAIT;
/// Event that a session's filter is about, by its number among eight.
pub(super) const FILTERED: u32 = 1;
/// Event that a trigger waits for.
pub(super) const TRIGGERING: u32 = 3;

/// Whether the filter of the simulated sessions selects this record.
pub(super) fn is_selected(token: u64) -> bool {
    token & 1 == 0
}

/// Whether their trigger fires for it.
pub(super) fn fires(token: u64) -> bool {
    token & 255 == 0
}

/// One session, as a program sees it.
#[derive(Debug)]
pub(super) struct Attachment {
    pub line: SharedLine,
    pub recording: Option<Recording>,
    /// Name of the session in ATTACH.
    name: String,
    answered: u32,
    /// LATE was said of a generation that is not answered.
    has_said_late: bool,
    /// The session could not be reached when the program started.
    found_late: bool,
    /// It went on before the first answer, and no ATTACHED says so yet.
    late: bool,
}

impl Attachment {
    pub(super) fn new(line: SharedLine, found_late: bool) -> Attachment {
        let name = String::new();
        let (answered, has_said_late, late) = (0, false, false);
        Attachment { line, recording: None, name, answered, has_said_late, found_late, late }
    }

    fn say(&self, message: &FromProgram) {
        self.line.get().to_collector.push_back(message.encode());
    }
}

/// How a program behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Character {
    Good,
    /// It answers ATTACH with an error.
    CannotMap,
    /// It is of another version.
    OtherAbi,
    /// It refuses filters.
    NoFilters,
    /// It has more descriptions than its user may have.
    Greedy,
}

/// A program that was to be recorded by a session and was not, or not from its beginning.
pub(super) struct MissedProgram {
    pub session: usize,
    pub pid: u32,
    pub comm: String,
    /// Who forked it, who forked that one, and so on.
    pub parents: Vec<String>,
    /// How often its event 0 was not recorded.
    pub hits: u64,
}

/// A refusal that a program heard.
#[derive(Debug)]
pub(super) struct Refused {
    pub session: usize,
    pub reason: ByeReason,
    pub text: String,
}

/// Books of all sessions, and which have a filter.
pub(super) struct SessionBooks<'a> {
    pub books: &'a mut [Books],
    pub filtered: Vec<bool>,
}

/// A filter that a program refused, and when.
#[derive(Debug)]
pub(super) struct RefusedFilter {
    pub session: usize,
    pub at: u64,
}

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub pid: u32,
    pub nonce: u32,
    /// User, and its place among the users' directories.
    pub uid: u32,
    pub dir: usize,
    pub comm: String,
    pub kind: RingKind,
    pub character: Character,
    pub objects: Objects,
    /// Sessions by number. A session may have two connections for a moment.
    pub attachments: Vec<(usize, Attachment)>,
    /// Rings of the parent, until the child has its own, by session and the name that it goes by.
    pub inherited: BTreeMap<(usize, String), Recording>,
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
    /// What it was refused, and what it refused, until somebody looks.
    pub refused: Vec<Refused>,
    pub refused_filters: Vec<RefusedFilter>,
}

impl Program {
    pub(super) fn new(pid: u32, nonce: u32, kind: RingKind, now: u64) -> Program {
        Program {
            pid,
            nonce,
            uid: 0,
            dir: 0,
            comm: format!("s{nonce}"),
            kind,
            character: Character::Good,
            objects: Objects::new(nonce, 2, false),
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
            refused: Vec::new(),
            refused_filters: Vec::new(),
        }
    }

    /// The child of a fork. It has its parent's rings, unless each thread has rings of its own.
    pub(super) fn fork(&self, pid: u32, nonce: u32, now: u64) -> Program {
        let mut child = Program::new(pid, nonce, self.kind, now);
        child.objects = self.objects.forked();
        if self.character == Character::NoFilters {
            // It has its parent's filters, which are none.
            child.character = Character::NoFilters;
        }
        (child.uid, child.dir) = (self.uid, self.dir);
        child.parents = [vec![self.comm.clone()], self.parents.clone()].concat();
        if self.kind == RingKind::Rseq {
            child.inherited = self.inherited.clone();
            for (session, attachment) in &self.attachments {
                if let Some(recording) = &attachment.recording {
                    child.inherited.insert((*session, attachment.name.clone()), recording.clone());
                }
            }
        }
        // Its first thread goes on beside the helper thread, if it has its parent's rings.
        child.runs = child.kind == RingKind::Rseq;
        child.acts_at = now + 10_000;
        child
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
        let attachment = Attachment::new(line, found_late);
        attachment.say(&FromProgram::Hello(hello));
        self.objects.say_all().iter().for_each(|message| attachment.say(message));
        self.attachments.push((session, attachment));
    }

    /// A library with one more event is loaded: the thread waits as at the start.
    pub(super) fn load_library(&mut self, now: u64) {
        self.say_gone();
        for message in self.objects.load() {
            self.attachments.iter().for_each(|(_, attachment)| attachment.say(&message));
        }
        (self.runs, self.waits_since, self.heard_at) = (false, now, now);
    }

    /// The newest library goes. Sessions hear of it with the next news.
    pub(super) fn unload_library(&mut self) {
        let gone = self.objects.unload();
        let own = self.attachments.iter_mut().filter_map(|(_, attachment)| attachment.recording.as_mut());
        for recording in own.chain(self.inherited.values_mut()) {
            recording.on.retain(|index, _| !gone.contains(index));
            recording.filters.retain(|index, _| !gone.contains(index));
        }
    }

    fn say_gone(&mut self) {
        if let Some(gone) = self.objects.say_gone() {
            self.attachments.iter().for_each(|(_, attachment)| attachment.say(&gone));
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
        let had_mail = self.has_mail();
        for at in 0..self.attachments.len() {
            loop {
                let mail = self.attachments[at].1.line.get().to_program.pop_front();
                let Some((packet, descriptor)) = mail else { break };
                self.heard_at = now;
                let message = FromCollector::decode(&packet).expect("the collector keeps to the protocol");
                self.hear(at, message, descriptor, now, books);
            }
            let attachment = &mut self.attachments[at].1;
            if attachment.line.get().collector_has_closed {
                attachment.close();
            }
        }
        self.attachments.retain(|(_, attachment)| !attachment.line.get().program_has_closed);
        if had_mail {
            self.say_gone();
        }
    }

    fn hear(&mut self, at: usize, message: FromCollector, descriptor: Option<OwnedFd>, now: u64, books: &mut [Books]) {
        let (session, attachment) = &mut self.attachments[at];
        match message {
            FromCollector::Attach { layout, serial, session } => {
                let descriptor = descriptor.expect("a descriptor comes with ATTACH");
                self.attach(at, session, &descriptor, layout, serial, books);
            }
            FromCollector::Enable(pairs) => {
                if let Some(recording) = &mut attachment.recording {
                    recording.on.extend(pairs.into_iter().filter(|(index, _)| self.objects.has(*index)));
                }
            }
            FromCollector::Disable(indices) => {
                if let Some(recording) = &mut attachment.recording {
                    recording.on.retain(|index, _| !indices.contains(index));
                }
            }
            FromCollector::Go { generation } => {
                attachment.answered = generation;
                attachment.late = false;
                attachment.has_said_late &= generation < self.objects.generation;
            }
            FromCollector::Bye { reason, text } => {
                self.met.push(*session);
                self.refused.push(Refused { session: *session, reason, text });
                attachment.close();
            }
            FromCollector::Filter(filter) => self.take_filter(at, filter, now),
            FromCollector::Ready(_) => {}
        }
    }

    /// Takes the rings that a session offers, and says how that went, as `attach` of emit/src/session.c does.
    fn attach(
        &mut self,
        at: usize,
        name: String,
        descriptor: &OwnedFd,
        layout: Layout,
        serial: u64,
        books: &mut [Books],
    ) {
        let is_served =
            self.attachments.iter().enumerate().any(|(other, (_, attachment))| {
                other != at && attachment.recording.is_some() && attachment.name == name
            });
        let (number, attachment) = &mut self.attachments[at];
        let error = match self.character {
            _ if is_served => libc::EALREADY as u32,
            Character::CannotMap => libc::ENOMEM as u32,
            _ => 0,
        };
        if error == 0 {
            let rings = Arc::new(Rings::map(descriptor, layout, serial));
            let (comm, uid) = (if rings.is_shared() { "shared".to_owned() } else { self.comm.clone() }, self.uid);
            let book = books[*number].entry(serial).or_insert_with(|| Book::of(comm, uid));
            book.lend(&rings);
            // It has recorded all the time where it has its parent's, and goes on with the same events.
            let inherited = self.inherited.remove(&(*number, name.clone()));
            match &inherited {
                Some(_) => attachment.late = false,
                None if attachment.answered == 0 => attachment.late |= attachment.found_late,
                None => {}
            }
            match &mut attachment.recording {
                Some(recording) => recording.rings = rings,
                None => {
                    let (on, filters) = inherited.map_or_else(Default::default, |of| (of.on, of.filters));
                    attachment.recording = Some(Recording { rings, on, filters });
                }
            }
            attachment.name = name;
            self.met.push(*number);
        }
        let is_told = error == 0 || error == libc::EALREADY as u32;
        let late = is_told && std::mem::take(&mut attachment.late);
        attachment.say(&FromProgram::Attached(Attached { serial, error, locked: false, late, touched_bytes: 0 }));
    }

    fn take_filter(&mut self, at: usize, filter: Filter, now: u64) {
        let (session, attachment) = &mut self.attachments[at];
        // What has no rings, or no such event any more, does not answer, as `filter` of emit/src/session.c.
        if attachment.recording.is_none() || !self.objects.has(filter.index) {
            return;
        }
        if self.character == Character::NoFilters {
            self.refused_filters.push(RefusedFilter { session: *session, at: now });
            return attachment.say(&FromProgram::Filtered { index: filter.index, error: libc::ENOMEM as u32 });
        }
        let insns = filter.insns.iter().map(Insn::from_bytes).collect();
        if let Some(recording) = &mut attachment.recording {
            recording.filters.insert(filter.index, ToldFilter { insns, pool: filter.pool });
        }
    }

    /// Waits at its start, or after a library was loaded; says when it does not any more.
    pub(super) fn wait(&mut self, now: u64) {
        let silent = now.saturating_sub(self.heard_at);
        let waited = now.saturating_sub(self.waits_since);
        let generation = self.objects.generation;
        let is_owed = |attachment: &Attachment| attachment.answered < generation;
        let is_near = silent >= START_WAIT - LATE_BEFORE || waited >= START_WAIT_MAX - LATE_BEFORE;
        let is_over = silent >= START_WAIT || waited >= START_WAIT_MAX;
        for (_, attachment) in self.attachments.iter_mut().filter(|(_, attachment)| is_owed(attachment)) {
            if is_near && !attachment.has_said_late {
                attachment.has_said_late = true;
                attachment.late |= attachment.answered == 0;
                attachment.say(&FromProgram::Late { generation });
            }
        }
        self.runs = is_over || !self.attachments.iter().any(|(_, attachment)| is_owed(attachment));
    }

    /// One event happens: a record in each session that has it on. What a session has missed is counted.
    pub(super) fn hit(&mut self, index: u32, lane: u32, token: &mut u64, now: u64, sessions: &mut SessionBooks<'_>) {
        let mut seen = Vec::new();
        let own = self.attachments.iter().filter_map(|(session, of)| Some((session, of.recording.as_ref()?)));
        let inherited = self.inherited.iter().map(|((session, _), recording)| (session, recording));
        for (session, recording) in own.chain(inherited) {
            let Some(id) = recording.on.get(&index).filter(|_| !seen.contains(session)) else { continue };
            seen.push(*session);
            *token += 1;
            let is_filtered = sessions.filtered[*session] && index == FILTERED;
            if is_filtered && self.character != Character::NoFilters {
                let selects = recording.filters.get(&index).is_none_or(|filter| filter.selects(*token));
                assert_eq!(
                    selects,
                    is_selected(*token),
                    "session {session}: its filter of {} decides otherwise",
                    self.comm
                );
                if !selects {
                    continue;
                }
            }
            let book = sessions.books[*session].entry(recording.rings.serial).or_default();
            book.triggering += u64::from(index == TRIGGERING && fires(*token));
            recording.rings.record(lane, *id, *token, now, book);
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
        let mut rings: Vec<_> = std::mem::take(&mut self.inherited).into_values().map(|of| of.rings).collect();
        for (_, mut attachment) in std::mem::take(&mut self.attachments) {
            rings.extend(attachment.recording.take().map(|of| of.rings));
            attachment.close();
        }
        rings
    }
}

impl Attachment {
    fn close(&mut self) {
        self.line.get().program_has_closed = true;
        self.recording = None;
    }
}
