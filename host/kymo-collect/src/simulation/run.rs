// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the simulation: everything that happens, in the order of its times.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kymo_abi::{Clock, Kind};
use kymo_testing::{Random, tell};

use super::check;
use super::disk::Disk;
use super::outside::{Hall, SharedLine, SimulatedOutside};
use super::program::{Books, Character, Program, Rings};
use crate::chunks::RotateJob;
use crate::clock::{Calibration, SimulatedTime, Source};
use crate::control::{Control, Found, ToControl, Wiring};
use crate::drain::{Counters, Drain, Report, Sink};
use crate::metadata::Metadata;
use crate::report::Start;
use crate::runtime::SocketName;
use crate::session::{Config, Format};
use crate::socket::PACKET_ROOM;
use crate::stream::Streams;
use crate::summary::Summary;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// What was done, so that nobody takes an idle simulation for a test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub runs: u64,
    pub sessions: u64,
    pub seconds: u64,
    pub programs: u64,
    pub forks: u64,
    pub executed: u64,
    pub killed: u64,
    pub records: u64,
    pub lost: u64,
    pub unknown: u64,
    /// Programs of which records are missing that nobody could count.
    pub missed: u64,
    pub verbs: u64,
    pub faults: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Totals) {
        self.runs += other.runs;
        self.sessions += other.sessions;
        self.seconds += other.seconds;
        self.programs += other.programs;
        self.forks += other.forks;
        self.executed += other.executed;
        self.killed += other.killed;
        self.records += other.records;
        self.lost += other.lost;
        self.unknown += other.unknown;
        self.missed += other.missed;
        self.verbs += other.verbs;
        self.faults += other.faults;
    }

    /// Everything that can happen has happened.
    pub(super) fn assert_busy(&self) {
        let all =
            [self.programs, self.forks, self.executed, self.killed, self.records, self.lost, self.unknown, self.missed];
        assert!(all.iter().chain([&self.verbs, &self.faults]).all(|count| *count > 0), "{self:?}");
    }
}

/// A session under simulation.
struct Simulated {
    control: Option<Control>,
    drain: Arc<Mutex<Option<Drain>>>,
    hall: Arc<Mutex<Hall>>,
    disk: Disk,
    to_control: Sender<ToControl>,
    stop: Arc<AtomicU64>,
    start: Start,
    dir: PathBuf,
    chunks: u32,
    control_at: u64,
    drain_at: Option<u64>,
    /// The control thread, and the drain thread, do not run until then.
    stalled: (u64, u64),
    stops_at: u64,
    begun: u64,
    found: Option<Found>,
    report: Option<Report>,
    /// When it was asked to stop.
    asked: Option<u64>,
    /// The disk failed when all was written.
    disk_failed: bool,
    /// What programs wrote until its end.
    books: Option<Books>,
    /// Answers that nobody waits for.
    replies: Vec<Box<dyn std::any::Any>>,
}

impl Simulated {
    fn begin(number: usize, time: &'static SimulatedTime, random: &mut Random) -> Simulated {
        let source = Source::simulated(time);
        let mut calibration = Calibration::start(source);
        source.sleep(Calibration::FIRST);
        calibration.refine();
        let dir = PathBuf::from(format!("/sim/{number}"));
        let mut config = Config::new(&dir);
        config.ring_bytes = random.pick(&[4096, 16 << 10, 64 << 10]);
        config.memory_bytes_max = random.pick(&[64 << 20, 4 << 20, 512 << 10]);
        let disk = Disk::default();
        let uuid = [number as u8 + 1; 16];
        let metadata = Metadata {
            dir: disk.dir(&dir),
            format: Format::Ctf2,
            uuid,
            boot: [0; 16],
            clock: Clock::Monotonic,
            contexts: config.contexts.clone(),
            env: Vec::new(),
            kernel: None,
        };
        let hall = Arc::new(Mutex::new(Hall::new()));
        let (commands, from_control) = channel();
        let (to_control, requests) = channel();
        let counters = Arc::new(Counters::default());
        let streams = Streams::new(disk.dir(&dir), uuid, source);
        let waking = Arc::clone(&hall);
        let wake = Box::new(move || waking.lock().unwrap().woken = true);
        let drain = Drain::new(source, config.poll, from_control, Arc::clone(&counters), streams, wake, Sink::Stream);
        let drain = Arc::new(Mutex::new(Some(drain)));
        let stop = Arc::new(AtomicU64::new(0));
        let wiring = Wiring { commands, requests, stop: Arc::clone(&stop), counters, programs: Arc::default() };
        let start = Start::new(&config, dir.clone(), &calibration);
        let channels = Control::channels(&config, &calibration);
        let outside = SimulatedOutside { hall: Arc::clone(&hall), drain: Arc::clone(&drain) };
        let control = Control::new(config, Box::new(outside), &channels, metadata, calibration, wiring);
        let now = time.read();
        Simulated {
            control: Some(control),
            drain,
            hall,
            disk,
            to_control,
            stop,
            start,
            dir,
            chunks: 1,
            control_at: now,
            drain_at: None,
            stalled: (0, 0),
            stops_at: now + random.below(300 * SECOND) + 10 * MS,
            begun: now,
            found: None,
            report: None,
            asked: None,
            disk_failed: false,
            books: None,
            replies: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.found.is_some() && self.report.is_some()
    }

    fn poke_control(&mut self, at: u64) {
        self.control_at = self.control_at.min(at.max(self.stalled.0));
    }

    fn poke_drain(&mut self, at: u64) {
        let at = at.max(self.stalled.1);
        self.drain_at = Some(self.drain_at.map_or(at, |due| due.min(at)));
    }

    fn step_control(&mut self, room: &mut [u8; PACKET_ROOM], time: &SimulatedTime) {
        let Some(control) = &mut self.control else {
            self.control_at = u64::MAX;
            return;
        };
        let wait = control.step(Duration::ZERO, room);
        let now = time.read();
        match wait {
            Some(wait) => self.control_at = now + (wait.as_nanos() as u64).max(1000),
            None => {
                self.found = self.control.take().map(Control::found);
                self.control_at = u64::MAX;
            }
        }
        self.poke_drain(time.read());
    }

    fn step_drain(&mut self, time: &SimulatedTime) {
        let mut slot = self.drain.lock().unwrap();
        let Some(drain) = slot.as_mut() else {
            self.drain_at = None;
            return;
        };
        if !drain.obey_waiting() {
            self.disk_failed = self.disk.fails();
            self.report = slot.take().map(Drain::conclude);
            self.drain_at = None;
            return;
        }
        let wait = drain.look();
        let now = time.read();
        self.drain_at = match (wait, drain.next_change()) {
            (None, _) => None,
            (Some(_), None) => None,
            (Some(wait), Some(change)) => Some(now + wait.max(change).as_nanos() as u64),
        };
    }
}

/// The whole run.
struct Run {
    time: &'static SimulatedTime,
    random: Random,
    sessions: Vec<Simulated>,
    books: Vec<Books>,
    programs: Vec<Program>,
    /// Mappings of processes that are ending, and when they are gone.
    ending: Vec<(u64, Vec<Arc<Rings>>)>,
    /// Faults that end: when, of which session, which.
    faults: Vec<(u64, usize, Fault)>,
    /// Programs that died before a session could know of them: nobody can say anything of them.
    unheard: Vec<(usize, String)>,
    /// Session, process, its name, its parents', and how often its event was not recorded.
    missed: Vec<(usize, u32, String, Vec<String>, u64)>,
    next_program: u64,
    next_session: u64,
    next_fault: u64,
    next_verb: u64,
    sessions_left: u32,
    programs_left: u32,
    token: u64,
    next_pid: u32,
    totals: Totals,
    is_loud: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ControlStalls,
    DrainStalls,
    DiskFull,
    DiskWithoutDescriptors,
    DiskGone,
    NoDescriptors,
    NoMemory,
}

/// Runs the simulation of a seed.
pub(super) fn session(seed: u64, is_loud: bool) -> Totals {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let time = SimulatedTime::new();
    let (sessions_left, programs_left) = (1 + random.below(4u32), 3 + random.below(40u32));
    let mut run = Run {
        time,
        sessions: Vec::new(),
        books: Vec::new(),
        programs: Vec::new(),
        ending: Vec::new(),
        faults: Vec::new(),
        unheard: Vec::new(),
        missed: Vec::new(),
        next_program: SECOND + random.below(SECOND),
        next_session: SECOND + random.below(SECOND),
        next_fault: SECOND + random.below(60 * SECOND),
        next_verb: SECOND + random.below(30 * SECOND),
        sessions_left,
        programs_left,
        token: 0,
        next_pid: 100,
        totals: Totals { runs: 1, ..Totals::default() },
        is_loud,
        random,
    };
    run.go();
    run.totals
}

impl Run {
    fn now(&self) -> u64 {
        self.time.read()
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.is_loud {
            tell(&format!("{:.6} {}", self.now() as f64 / 1e9, what()));
        }
    }

    fn go(&mut self) {
        let mut room = Box::new([0; PACKET_ROOM]);
        while self.sessions_left > 0 || self.sessions.iter().any(|session| !session.is_over()) {
            let due = self.next_due();
            self.time.advance_to(due);
            let now = self.now();
            self.come_and_go(now);
            for number in 0..self.sessions.len() {
                if self.sessions[number].control_at <= now {
                    self.sessions[number].step_control(&mut room, self.time);
                    self.deliver(number);
                }
                if self.sessions[number].drain_at.is_some_and(|at| at <= now) {
                    self.sessions[number].step_drain(self.time);
                    self.close_books(number);
                    self.heed(number);
                }
                self.stop_if_due(number, now);
            }
            for at in 0..self.programs.len() {
                self.step_program(at, now);
            }
            self.programs.retain(|program| program.is_alive);
            self.end_faults(now);
        }
        self.finish();
    }

    /// What is written behind the end of a session is no part of it.
    fn close_books(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        if session.report.is_some() && session.books.is_none() {
            session.books = Some(std::mem::take(&mut self.books[number]));
        }
    }

    /// When the next thing happens.
    fn next_due(&self) -> u64 {
        let mut due = self.next_program.min(self.next_session).min(self.next_fault).min(self.next_verb);
        for session in &self.sessions {
            due = due.min(session.control_at).min(session.drain_at.unwrap_or(u64::MAX));
            if session.asked.is_none() {
                due = due.min(session.stops_at);
            }
        }
        for program in &self.programs {
            let acts =
                if program.has_mail() { program.acts_at.min(self.time.read() + 50_000) } else { program.acts_at };
            due = due.min(acts.max(program.stopped_until)).min(program.ends_at);
        }
        due = self.ending.iter().map(|(at, _)| *at).fold(due, u64::min);
        self.faults.iter().map(|(at, ..)| *at).fold(due, u64::min)
    }

    fn come_and_go(&mut self, now: u64) {
        self.ending.retain(|(at, _)| *at > now);
        if self.next_session <= now {
            self.next_session = u64::MAX;
            if self.sessions_left > 0 {
                self.sessions_left -= 1;
                self.begin_session();
                self.next_session = now + self.random.below(120 * SECOND);
            }
        }
        if self.next_program <= now {
            self.next_program = u64::MAX;
            if self.programs_left > 0 {
                self.programs_left -= 1;
                self.begin_program(now);
                let pause = self.random.pick(&[MS, 100 * MS, SECOND, 20 * SECOND]);
                self.next_program = now + self.random.below(pause);
            }
        }
        if self.next_fault <= now {
            self.next_fault = now + MS + self.random.below(90 * SECOND);
            self.fail(now);
        }
        if self.next_verb <= now {
            self.next_verb = now + MS + self.random.below(40 * SECOND);
            self.ask();
        }
    }

    fn begin_session(&mut self) {
        let number = self.sessions.len();
        let session = Simulated::begin(number, self.time, &mut self.random);
        self.totals.sessions += 1;
        self.say(|| format!("session {number} begins, to end at {:.3}", session.stops_at as f64 / 1e9));
        let sockets = self.programs.iter().filter(|program| !program.is_unknown_child).map(socket_of);
        session.hall.lock().unwrap().sockets = sockets.map(|name| (0, name)).collect();
        self.sessions.push(session);
        self.books.push(Books::new());
    }

    fn new_ids(&mut self) -> (u32, u32) {
        self.next_pid += 1;
        (self.next_pid, self.next_pid + 0x1000)
    }

    fn begin_program(&mut self, now: u64) {
        let (pid, nonce) = self.new_ids();
        let kind = if self.random.below(4) == 0 { Kind::Portable } else { Kind::Rseq };
        let mut program = Program::new(pid, nonce, kind, now);
        program.character = match self.random.below(20) {
            0 => Character::CannotMap,
            1 => Character::OtherAbi,
            _ => Character::Good,
        };
        let life = self.random.pick(&[MS, 50 * MS, SECOND, 60 * SECOND, 200 * SECOND]);
        program.ends_at = now + self.random.below(life);
        self.totals.programs += 1;
        self.say(|| format!("{} begins, {kind:?}, {:?}", program.comm, program.character));
        self.connect(&mut program, now);
        self.programs.push(program);
    }

    /// A program looks for sessions, and makes its own socket.
    fn connect(&mut self, program: &mut Program, now: u64) {
        for (number, session) in self.sessions.iter_mut().enumerate() {
            let line = SharedLine::new(program.pid);
            let mut hall = session.hall.lock().unwrap();
            if !hall.is_open {
                continue;
            }
            // What a child does is recorded from its begin where what its parent did was.
            if session.asked.is_none() && program.parents.is_empty() {
                program.owed_by.push(number);
            }
            if hall.come(line.clone()) {
                program.introduce(number, line, program.unreached.contains(&number));
            } else {
                program.unreached.push(number);
            }
            let name = socket_of(program);
            hall.sockets.push((0, name.clone()));
            match self.random.below(20) {
                0 => hall.has_missed = true,
                _ => hall.new_sockets.push((0, name)),
            }
            drop(hall);
            let at = now + self.random.below(200_000u64);
            session.poke_control(at);
        }
        program.acts_at = now + 10_000;
    }

    /// Sessions asked for connections; messages for programs are there.
    fn deliver(&mut self, number: usize) {
        let visits = std::mem::take(&mut self.sessions[number].hall.lock().unwrap().visits);
        for (nonce, line) in visits {
            match self.programs.iter_mut().find(|program| program.nonce == nonce) {
                Some(program) => {
                    let late = program.unreached.contains(&number);
                    program.introduce(number, line, late);
                }
                None => line.get().program_has_closed = true,
            }
        }
        self.heed(number);
    }

    /// The session looks at what happened a moment later.
    fn heed(&mut self, number: usize) {
        let is_busy = self.sessions[number].hall.lock().unwrap().is_busy();
        if is_busy && self.sessions[number].control.is_some() {
            let at = self.now() + 1000 + self.random.below(100_000u64);
            self.sessions[number].poke_control(at);
        }
    }

    fn stop_if_due(&mut self, number: usize, now: u64) {
        let session = &mut self.sessions[number];
        if session.asked.is_some() || session.stops_at > now {
            return;
        }
        session.asked = Some(now);
        session.stop.store(1, Ordering::Release);
        session.hall.lock().unwrap().woken = true;
        self.say(|| format!("session {number} is asked to stop"));
        self.heed(number);
    }

    fn step_program(&mut self, at: usize, now: u64) {
        if !self.programs[at].is_alive {
            return;
        }
        if self.programs[at].ends_at <= now {
            return self.end_program(at, now);
        }
        let program = &mut self.programs[at];
        if program.stopped_until > now {
            return;
        }
        let touched: Vec<usize> = program.attachments.iter().map(|(session, _)| *session).collect();
        let had_mail = program.has_mail();
        program.read(now, &mut self.books);
        if !program.runs {
            program.wait(now);
            if program.acts_at <= now || had_mail {
                program.acts_at = if program.runs { now + 1000 } else { now + 4 * MS };
            }
        } else if program.acts_at <= now {
            self.act(at, now);
        }
        for session in touched {
            self.heed(session);
        }
    }

    /// A program that runs does something.
    fn act(&mut self, at: usize, now: u64) {
        let pause = self.random.pick(&[100_000, MS, 100 * MS, 3 * SECOND]);
        self.programs[at].acts_at = now + 10_000 + self.random.below(pause);
        match self.random.below(40) {
            0 if self.programs_left > 0 => self.fork(at, now),
            1 => self.programs[at].load_library(now),
            2 => self.programs[at].unload_library(),
            3 => {
                let until = now + self.random.below(3 * SECOND);
                self.programs[at].stopped_until = until;
            }
            4 if self.programs_left > 0 => self.execute(at, now),
            _ => self.burst(at, now),
        }
    }

    fn burst(&mut self, at: usize, now: u64) {
        let most = self.random.pick(&[1, 1, 5, 5, 20, 20, 100, 600]);
        let count = self.random.below(most) + 1;
        let is_moving = self.random.below(4) == 0;
        let program = &mut self.programs[at];
        let asked = |session: &&usize| self.sessions[**session].asked.is_none();
        let owed: Vec<usize> = program.owed_by.iter().filter(asked).copied().collect();
        program.owed_by = owed;
        let mut lane = self.random.below(2u32);
        for _ in 0..count {
            if is_moving {
                lane = self.random.below(2u32);
            }
            let index = self.random.below(program.events.min(8));
            program.hit(index, lane, &mut self.token, self.time.read(), &mut self.books);
        }
        for session in &mut self.sessions {
            if session.report.is_none() {
                session.poke_drain(now + MS);
            }
        }
    }

    fn fork(&mut self, at: usize, now: u64) {
        self.programs_left -= 1;
        let (pid, nonce) = self.new_ids();
        let parent = &self.programs[at];
        let mut child = Program::new(pid, nonce, parent.kind, now);
        child.events = parent.events;
        child.parents = [vec![parent.comm.clone()], parent.parents.clone()].concat();
        child.is_unknown_child = self.random.below(3) == 0 && parent.kind == Kind::Rseq;
        if parent.kind == Kind::Rseq {
            child.inherited = parent.inherited.clone();
            for (session, attachment) in &parent.attachments {
                if let Some(rings) = &attachment.rings {
                    child.inherited.insert(*session, (Arc::clone(rings), attachment.on.clone()));
                }
            }
        }
        child.owed_by = parent.owed_by.clone();
        child.unreached = parent.late_for();
        let life = self.random.pick(&[MS, SECOND, 30 * SECOND]);
        child.ends_at = now + self.random.below(life);
        self.totals.forks += 1;
        self.say(|| format!("{} forks {}, known {}", self.programs[at].comm, child.comm, !child.is_unknown_child));
        if child.is_unknown_child {
            // Nobody is owed what such a child does where its parent had no rings.
            child.owed_by.clear();
        } else {
            self.connect(&mut child, now);
        }
        // Its first thread goes on beside the helper thread, if it has its parent's rings.
        child.runs = child.kind == Kind::Rseq;
        child.acts_at = now + 10_000;
        self.programs.push(child);
    }

    fn execute(&mut self, at: usize, now: u64) {
        self.programs_left -= 1;
        self.totals.executed += 1;
        let (_, nonce) = self.new_ids();
        let (pid, kind, ends_at) = (self.programs[at].pid, self.programs[at].kind, self.programs[at].ends_at);
        self.say(|| format!("{} executes s{nonce}", self.programs[at].comm));
        self.end_program(at, now);
        let mut program = Program::new(pid, nonce, kind, now);
        program.ends_at = ends_at.max(now + MS);
        self.connect(&mut program, now);
        self.programs.push(program);
    }

    fn end_program(&mut self, at: usize, now: u64) {
        let program = &mut self.programs[at];
        let name = socket_of(program);
        let unheard: Vec<usize> =
            program.unreached.iter().copied().filter(|session| !program.has_met(*session)).collect();
        self.unheard.extend(unheard.into_iter().map(|session| (session, program.comm.clone())));
        let touched: Vec<usize> = program.attachments.iter().map(|(session, _)| *session).collect();
        let rings = program.end();
        for (session, hits) in &program.missed {
            self.missed.push((*session, program.pid, program.comm.clone(), program.parents.clone(), *hits));
        }
        self.totals.killed += 1;
        let gone = now + self.random.below(10 * MS);
        self.ending.push((gone, rings));
        self.say(|| format!("{} ends", self.programs[at].comm));
        for session in &self.sessions {
            session.hall.lock().unwrap().sockets.retain(|(_, other)| *other != name);
        }
        for session in touched {
            self.heed(session);
        }
    }

    /// Something goes wrong for a while.
    fn fail(&mut self, now: u64) {
        if self.sessions.is_empty() {
            return;
        }
        let number = self.random.below(self.sessions.len());
        let fault = self.random.pick(&[
            Fault::ControlStalls,
            Fault::ControlStalls,
            Fault::DrainStalls,
            Fault::DiskFull,
            Fault::DiskFull,
            Fault::DiskWithoutDescriptors,
            Fault::DiskGone,
            Fault::NoDescriptors,
            Fault::NoMemory,
        ]);
        let most = self.random.pick(&[50 * MS, SECOND, 5 * SECOND]);
        let until = now + self.random.below(most);
        self.set_fault(number, fault, true);
        self.say(|| format!("session {number}: {fault:?} until {:.3}", until as f64 / 1e9));
        self.faults.push((until, number, fault));
        self.totals.faults += 1;
        let session = &mut self.sessions[number];
        match fault {
            Fault::ControlStalls => {
                session.stalled.0 = session.stalled.0.max(until);
                session.control_at = session.control_at.max(until);
            }
            Fault::DrainStalls => {
                session.stalled.1 = session.stalled.1.max(until);
                session.drain_at = session.drain_at.map(|at| at.max(until));
            }
            _ => {}
        }
    }

    fn set_fault(&mut self, number: usize, fault: Fault, is_on: bool) {
        let session = &self.sessions[number];
        match fault {
            Fault::ControlStalls | Fault::DrainStalls => {}
            Fault::DiskFull => session.disk.set_faults(|faults| faults.is_full = is_on),
            Fault::DiskWithoutDescriptors => session.disk.set_faults(|faults| faults.no_descriptors = is_on),
            Fault::DiskGone => session.disk.set_faults(|faults| faults.is_gone = is_on),
            Fault::NoDescriptors => session.hall.lock().unwrap().no_descriptors = is_on,
            Fault::NoMemory => session.hall.lock().unwrap().no_memory = is_on,
        }
    }

    fn end_faults(&mut self, now: u64) {
        let ended: Vec<(u64, usize, Fault)> = self.faults.iter().filter(|(at, ..)| *at <= now).copied().collect();
        self.faults.retain(|(at, ..)| *at > now);
        for (_, number, fault) in ended {
            if !self.faults.iter().any(|(_, session, other)| (*session, *other) == (number, fault)) {
                self.set_fault(number, fault, false);
            }
            self.sessions[number].poke_drain(now);
            self.heed(number);
        }
    }

    /// The session's owner asks something.
    fn ask(&mut self) {
        let running: Vec<usize> =
            (0..self.sessions.len()).filter(|number| self.sessions[*number].asked.is_none()).collect();
        if running.is_empty() {
            return;
        }
        let number = self.random.pick(&running);
        let session = &mut self.sessions[number];
        let what = self.random.below(5);
        let request = match what {
            0 | 1 => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                let patterns = vec![format!("sim:e{}", 1 + self.random.below(6))];
                ToControl::Select { patterns, on: what == 0, reply }
            }
            2 => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                ToControl::RingBytes(self.random.pick(&[4096, 16 << 10, 64 << 10]), Some(reply))
            }
            3 => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                ToControl::View(reply)
            }
            _ => {
                session.chunks += 1;
                let (done, parts) = channel();
                let (reply, answer): (_, Receiver<_>) = channel();
                session.replies.push(Box::new((parts, answer)));
                let dir = session.dir.join(format!("chunk-{}", session.chunks));
                let mut uuid = [number as u8 + 1; 16];
                uuid[15] = session.chunks as u8;
                ToControl::Rotate { job: RotateJob { dir, uuid, reply: done }, reply }
            }
        };
        self.totals.verbs += 1;
        let _ = session.to_control.send(request);
        session.hall.lock().unwrap().woken = true;
        self.say(|| format!("session {number}: verb {what}"));
        self.heed(number);
    }

    /// Holds every trace against the books.
    fn finish(&mut self) {
        let now = self.now();
        for at in 0..self.programs.len() {
            self.end_program(at, now);
        }
        self.ending.clear();
        for (number, session) in self.sessions.iter_mut().enumerate() {
            let (found, report) = (session.found.take().expect("over"), session.report.take().expect("over"));
            let ended = report.end;
            let summary: Summary = session.start.summary(found, report, None);
            self.totals.seconds += (ended - session.begun) / SECOND;
            self.totals.records += summary.records;
            self.totals.lost += summary.lost_counted.total();
            self.totals.unknown += summary.unknown_count;
            let missed: Vec<_> = self.missed.iter().filter(|(session, ..)| *session == number).collect();
            self.totals.missed += missed.len() as u64;
            let case = check::Case {
                number,
                books: session.books.as_ref().expect("over"),
                streams: session.disk.streams(),
                summary: &summary,
                missed: missed
                    .iter()
                    .map(|(_, pid, comm, parents, hits)| (*pid, comm.as_str(), &parents[..], *hits))
                    .collect(),
                unheard: self.unheard.iter().filter(|(of, _)| *of == number).map(|(_, comm)| comm.as_str()).collect(),
                disk_fails_at_the_end: session.disk_failed,
                asked: session.asked.unwrap_or(ended),
                ended,
            };
            case.check(Path::new(&session.dir));
        }
    }
}

fn socket_of(program: &Program) -> SocketName {
    SocketName(format!("p.{}.{:x}", program.pid, program.nonce))
}
