// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stage for scenarios: sessions, and programs that do what a test says, message by message. Time goes on only while
//! a test lets it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, Scalar, encode};
use kymo_abi::wire::{Attached, ByeReason, DescEntry, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};

use super::check::Case;
use super::outside::SharedLine;
use super::packets::{self, FileContent, Written};
use super::rings::{Book, Books, Rings};
use super::run::{MS, SECOND, users};
use super::session::{Simulated, Traits};
use crate::channel::Channel;
use crate::clock::SimulatedTime;
use crate::control::ToControl;
use crate::session::Config;
use crate::socket::PACKET_ROOM;
use crate::summary::Summary;

/// Turns of the control thread within which a program is attached, whatever others do.
const ATTACH_TURNS_MAX: u32 = 40;

/// Sessions by number, and what was written into their rings.
pub(super) struct Stage {
    pub time: &'static SimulatedTime,
    pub sessions: Vec<Simulated>,
    pub books: Vec<Books>,
    room: Box<[u8; PACKET_ROOM]>,
    /// The number of the newest record.
    token: u64,
    next_pid: u32,
    /// Turns of control threads so far.
    turns: u32,
}

/// What a session came to.
pub(super) struct Ended {
    pub summary: Summary,
    /// Stream files, by name.
    pub files: BTreeMap<String, FileContent>,
    /// Time from the request to the end.
    pub took: u64,
}

impl Stage {
    /// One session of these settings.
    pub(super) fn with(change: impl FnOnce(&mut Config)) -> Stage {
        Stage::of(Traits::default(), change)
    }

    /// One session of this kind.
    pub(super) fn of(traits: Traits, change: impl FnOnce(&mut Config)) -> Stage {
        let mut stage = Stage {
            time: SimulatedTime::new(),
            sessions: Vec::new(),
            books: Vec::new(),
            room: Box::new([0; PACKET_ROOM]),
            token: 0,
            next_pid: 1000,
            turns: 0,
        };
        stage.begin(traits, change);
        stage
    }

    /// One session more. Its number.
    pub(super) fn begin(&mut self, traits: Traits, change: impl FnOnce(&mut Config)) -> usize {
        let number = self.sessions.len();
        let mut config = Config::new(format!("/sim/{number}"));
        (config.ring_bytes, config.flight) = (64 << 10, traits.is_flight);
        change(&mut config);
        self.sessions.push(Simulated::new(number, traits, config, &users(), self.time));
        self.books.push(Books::new());
        self.run_for(MS);
        number
    }

    /// The first session.
    pub(super) fn session(&mut self) -> &mut Simulated {
        &mut self.sessions[0]
    }

    /// Lets the sessions do what is due in this time.
    pub(super) fn run_for(&mut self, ns: u64) {
        let until = self.time.read() + ns;
        while self.run_once(until) {}
        self.time.advance_to(until);
    }

    /// The next thing that is due until then. False where there is none.
    fn run_once(&mut self, until: u64) -> bool {
        let now = self.time.read();
        for session in &mut self.sessions {
            if session.control.is_some() && session.hall.lock().unwrap().is_busy() {
                session.poke_control(now + 1000);
            }
        }
        let due = |session: &Simulated| session.control_at.min(session.drain_at.unwrap_or(u64::MAX));
        let Some(due) = self.sessions.iter().map(due).min().filter(|due| *due <= until) else { return false };
        self.time.advance_to(due);
        let now = self.time.read();
        for (session, books) in self.sessions.iter_mut().zip(&mut self.books) {
            if session.control_at <= now {
                session.step_control(&mut self.room, self.time);
                self.turns += 1;
            }
            if session.drain_at.is_some_and(|at| at <= now) {
                session.step_drain(self.time);
                session.check_snapshots(books, now);
                session.check_answers(books);
            }
        }
        true
    }

    /// The drain thread of the first session stands still for so long.
    pub(super) fn stall_drain(&mut self, ns: u64) {
        let until = self.time.read() + ns;
        let session = self.session();
        session.stalled.1 = until;
        session.drain_at = session.drain_at.map(|at| at.max(until));
    }

    /// Asks the first session something, and waits for the answer.
    pub(super) fn ask<T>(&mut self, request: impl FnOnce(Sender<T>) -> ToControl) -> T {
        let (reply, answer) = channel();
        let session = self.session();
        assert!(session.to_control.send(request(reply)).is_ok(), "the session is over");
        session.hall.lock().unwrap().woken = true;
        self.run_for(MS);
        answer.try_recv().expect("an answer")
    }

    /// Ring memory that the first session has given to programs.
    pub(super) fn memory_bytes(&mut self) -> u64 {
        self.ask(ToControl::View).memory_bytes
    }

    /// Asks a session to end.
    pub(super) fn stop(&mut self, number: usize) {
        let now = self.time.read();
        let session = &mut self.sessions[number];
        session.asked = Some(now);
        session.stop.store(1, Ordering::Release);
        session.hall.lock().unwrap().woken = true;
        self.run_for(MS);
    }

    /// Lets a session end, and compares its trace with what was written. What it came to.
    pub(super) fn end(&mut self, number: usize) -> Ended {
        if self.sessions[number].asked.is_none() {
            self.stop(number);
        }
        self.run_for(12 * SECOND);
        let session = &mut self.sessions[number];
        assert!(session.is_over(), "it has not ended");
        let summary = session.conclude();
        let (session, books) = (&self.sessions[number], &self.books[number]);
        let dir = session.dir.clone();
        Case::of(session, books, &summary).check(Path::new(&dir));
        let written = Written::of(books);
        let mut found = written.found();
        let read = |(path, bytes): &(std::path::PathBuf, Vec<u8>)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, packets::read(path, bytes, &written, &mut found, "scenario"))
        };
        let files = session.disk.streams().iter().map(read).collect();
        let took = summary.end - session.asked.unwrap_or(summary.end);
        Ended { summary, files, took }
    }

    /// The message of a program that nobody knows.
    pub(super) fn hello(&mut self, kind: RingKind) -> Hello {
        self.next_pid += 1;
        Hello {
            abi: ABI_VERSION,
            pid: self.next_pid,
            kind: kind.code(),
            clock: Clock::Monotonic.code(),
            cpu_count: 2,
            nonce: self.next_pid,
            comm: format!("actor{}", self.next_pid),
            exe: "/bin/actor".into(),
        }
    }

    /// A program that nobody knows connects to a session.
    pub(super) fn connect(&mut self, number: usize) -> Actor {
        self.next_pid += 1;
        self.connect_as(number, self.next_pid, Channel::Main)
    }

    fn connect_as(&mut self, number: usize, pid: u32, channel: Channel) -> Actor {
        let line = SharedLine::new(pid, users()[0]);
        let came = self.sessions[number].hall.lock().unwrap().come(line.clone(), channel);
        assert!(came, "too many wait");
        Actor {
            line,
            number,
            comm: String::new(),
            rings: None,
            ids: Vec::new(),
            session: String::new(),
            descriptor: None,
        }
    }

    /// The same, and says these things. The session has read them, unless it is busy.
    pub(super) fn say_to(&mut self, number: usize, said: &[FromProgram]) -> Actor {
        let actor = self.connect(number);
        said.iter().for_each(|message| actor.say(message));
        self.run_for(MS);
        actor
    }

    /// A program with the event `actor:tick` introduces itself.
    pub(super) fn introduce(&mut self, number: usize, hello: Hello) -> Actor {
        self.introduce_on(number, Channel::Main, hello)
    }

    /// The same, on either channel.
    pub(super) fn introduce_on(&mut self, number: usize, channel: Channel, hello: Hello) -> Actor {
        let entry = DescEntry { index: Some(0), desc: event("actor", "tick") };
        let mut actor = self.connect_as(number, hello.pid, channel);
        actor.comm = hello.comm.clone();
        let said =
            [FromProgram::Hello(hello), FromProgram::Descs(vec![entry]), FromProgram::DescsEnd { generation: 1 }];
        said.iter().for_each(|message| actor.say(message));
        actor
    }

    /// The next message to a program, which comes within a second.
    pub(super) fn wait_for(&mut self, actor: &mut Actor) -> FromCollector {
        let until = self.time.read() + SECOND;
        loop {
            match actor.hear() {
                Some(message) => return message,
                None => assert!(self.run_once(until), "the session says nothing"),
            }
        }
    }

    /// The same, and is given rings, soon. It maps them, and says so.
    pub(super) fn attach(&mut self, number: usize, hello: Hello) -> Actor {
        let actor = self.introduce(number, hello);
        self.give_rings(actor, false)
    }

    /// One that has introduced itself is given rings. `late`: it did not wait for them.
    pub(super) fn give_rings(&mut self, mut actor: Actor, late: bool) -> Actor {
        let (number, turns) = (actor.number, self.turns);
        loop {
            match self.wait_for(&mut actor) {
                FromCollector::Attach { layout, serial, session } => {
                    let descriptor = actor.descriptor.take().expect("a descriptor comes with ATTACH");
                    let rings = Arc::new(Rings::map(&descriptor, layout, serial));
                    let book = Book::of(actor.comm.clone(), users()[0]);
                    self.books[number].entry(serial).or_insert(book).lend(&rings);
                    (actor.rings, actor.session) = (Some(rings), session);
                }
                FromCollector::Enable(pairs) => actor.ids = pairs,
                FromCollector::Go { generation: 1 } => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(self.turns - turns <= ATTACH_TURNS_MAX, "it was attached after {} turns", self.turns - turns);
        let serial = actor.rings().serial;
        actor.say(&FromProgram::Attached(Attached { serial, error: 0, locked: false, touched_bytes: 0, late }));
        self.run_for(MS);
        actor
    }

    /// A program that is attached to the first session.
    pub(super) fn program(&mut self) -> Actor {
        let hello = self.hello(RingKind::Rseq);
        self.attach(0, hello)
    }

    /// A program writes records into one lane. How many had room.
    pub(super) fn record(&mut self, actor: &Actor, lane: u32, count: u64) -> u64 {
        let book = self.books[actor.number].get_mut(&actor.rings().serial).expect("it was attached");
        let mut kept = 0;
        for _ in 0..count {
            self.token += 1;
            kept += u64::from(actor.rings().record_in(lane, actor.ids[0].1, self.token, self.time.read(), book));
        }
        let at = self.time.read() + MS;
        self.sessions[actor.number].poke_drain(at);
        kept
    }

    /// The same, a few at a time: the session takes them while the program writes.
    pub(super) fn record_slowly(&mut self, actor: &Actor, lane: u32, count: u64) {
        for first in (0..count).step_by(500) {
            let some = (count - first).min(500);
            assert_eq!(self.record(actor, lane, some), some, "a ring is full");
            self.run_for(2 * MS);
        }
    }
}

/// A program that a scenario speaks for. It ends when it is dropped.
pub(super) struct Actor {
    pub line: SharedLine,
    /// Its session.
    number: usize,
    comm: String,
    rings: Option<Arc<Rings>>,
    /// Ids by index.
    pub ids: Vec<(u32, u16)>,
    /// Name of the session in ATTACH.
    pub session: String,
    descriptor: Option<OwnedFd>,
}

impl Actor {
    /// A child that no handler of a fork knows of: it has its parent's rings, and no connection.
    pub(super) fn forked(&self) -> Actor {
        let line = SharedLine::new(0, users()[0]);
        let (comm, rings, session) = (self.comm.clone(), self.rings.clone(), self.session.clone());
        Actor { line, number: self.number, comm, rings, ids: self.ids.clone(), session, descriptor: None }
    }

    /// Rings of one that is attached.
    pub(super) fn rings(&self) -> &Arc<Rings> {
        self.rings.as_ref().expect("it has rings")
    }

    pub(super) fn say(&self, message: &FromProgram) {
        self.line.get().to_collector.push_back(message.encode());
    }

    /// The next message that waits for it.
    pub(super) fn hear(&mut self) -> Option<FromCollector> {
        let (packet, descriptor) = self.line.get().to_program.pop_front()?;
        self.descriptor = descriptor.or(self.descriptor.take());
        Some(FromCollector::decode(&packet).expect("the collector keeps to the protocol"))
    }

    /// Reads up to BYE, which must be there.
    #[track_caller]
    pub(super) fn hear_bye(&mut self) -> (ByeReason, String) {
        while let Some(message) = self.hear() {
            if let FromCollector::Bye { reason, text } = message {
                return (reason, text);
            }
        }
        panic!("it was not told to go")
    }

    /// Whether the session has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.line.get().collector_has_closed
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.rings = None;
        self.line.get().program_has_closed = true;
    }
}

/// `provider:name` with one number.
pub(super) fn event(provider: &str, name: &str) -> Vec<u8> {
    let fields = vec![Field { name: "n".into(), ty: FieldType::Scalar(Scalar::U64) }];
    let (provider, name, file) = (provider.into(), name.into(), "actor.c".into());
    encode(&Desc::Event(EventDesc { provider, name, file, line: 1, fields }))
}
