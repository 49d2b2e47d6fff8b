// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the simulation: everything that happens, in the order of its times.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kymo_testing::{Random, tell};

use super::check;
use super::program::{MissedProgram, Program};
use super::recovery::Dead;
use super::rings::{Books, Rings};
use super::session::{Fault, Simulated};
use super::totals::Totals;
use crate::clock::SimulatedTime;
use crate::runtime::SocketName;
use crate::socket::PACKET_ROOM;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1000 * MS;

/// The sessions' own user, and others.
pub(super) fn users() -> [u32; 3] {
    [rustix::process::geteuid().as_raw(), 100_001, 100_002]
}

/// The whole run.
pub(super) struct Run {
    pub time: &'static SimulatedTime,
    pub random: Random,
    /// The sessions' own user, and others.
    pub users: [u32; 3],
    pub sessions: Vec<Simulated>,
    pub books: Vec<Books>,
    pub programs: Vec<Program>,
    /// Mappings of processes that are ending, and when they are gone.
    pub ending: Vec<(u64, Vec<Arc<Rings>>)>,
    /// When processes ended.
    pub ended: Vec<u64>,
    /// Faults that end: when, of which session, which.
    pub faults: Vec<(u64, usize, Fault)>,
    /// Programs that died before a session could know of them: nobody can say anything of them.
    pub unheard: Vec<(usize, String)>,
    pub missed: Vec<MissedProgram>,
    /// Users that had a greedy program.
    pub greedy: Vec<u32>,
    pub next_program: u64,
    pub next_session: u64,
    pub next_fault: u64,
    pub next_verb: u64,
    pub sessions_left: u32,
    pub programs_left: u32,
    pub token: u64,
    pub next_pid: u32,
    pub totals: Totals,
    is_loud: bool,
}

/// Runs the simulation of a seed.
pub(super) fn session(seed: u64, is_loud: bool) -> Totals {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let time = SimulatedTime::new();
    let (sessions_left, programs_left) = (1 + random.below(4u32), 3 + random.below(40u32));
    let mut run = Run {
        time,
        users: users(),
        sessions: Vec::new(),
        books: Vec::new(),
        programs: Vec::new(),
        ending: Vec::new(),
        ended: Vec::new(),
        greedy: Vec::new(),
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
    pub(super) fn now(&self) -> u64 {
        self.time.read()
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
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
                self.step_session(number, now, &mut room);
            }
            for at in 0..self.programs.len() {
                self.step_program(at, now);
            }
            self.programs.retain(|program| program.is_alive);
            self.end_faults(now);
        }
        self.finish();
    }

    /// What a session has to do now.
    fn step_session(&mut self, number: usize, now: u64, room: &mut [u8; PACKET_ROOM]) {
        let (time, session) = (self.time, &mut self.sessions[number]);
        if session.is_dead {
            (session.control_at, session.drain_at) = (u64::MAX, None);
            return;
        }
        let mut has_died = session.dies_at.is_some_and(|at| at <= now && !session.is_over());
        if session.control_at <= now && !has_died {
            has_died = match session.dies_at {
                None => {
                    session.step_control(room, time);
                    false
                }
                Some(_) => session.step_until_death(|session| session.step_control(room, time)),
            };
            self.deliver(number);
        }
        let session = &mut self.sessions[number];
        if session.drain_at.is_some_and(|at| at <= now) && !has_died {
            has_died = match session.dies_at {
                None => {
                    session.step_drain(time);
                    false
                }
                Some(_) => session.step_until_death(|session| session.step_drain(time)),
            };
            session.check_snapshots(&mut self.books[number], now);
            session.check_answers(&self.books[number]);
            if !has_died {
                self.close_books(number);
            }
            self.heed(number);
        }
        if has_died {
            self.sessions[number].die(&mut self.books[number], now);
            self.say(|| format!("the collector of session {number} dies"));
        }
        self.stop_if_due(number, now);
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
            if !session.is_over() {
                due = due.min(session.dies_at.unwrap_or(u64::MAX));
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
        let session = Simulated::begin(number, &self.users, self.time, &mut self.random);
        self.totals.sessions += 1;
        let ends = session.stops_at as f64 / 1e9;
        self.say(|| format!("session {number} begins, to end at {ends:.3}: {:?}", session.traits));
        let is_found =
            |program: &&Program| !program.is_unknown_child && (program.dir == 0 || session.traits.with_others);
        let sockets = self.programs.iter().filter(is_found).map(|program| (program.dir, socket_of(program)));
        session.hall.lock().unwrap().sockets = sockets.collect();
        self.sessions.push(session);
        self.books.push(Books::new());
    }

    /// The session looks at what happened a moment later.
    pub(super) fn heed(&mut self, number: usize) {
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
        if session.traits.dies && session.dies_at.is_none() {
            // In the middle of a packet, or between two; while it ends, too.
            session.dies_at = Some(now + self.random.below(5 * SECOND));
            let bytes = self.random.below(20_000usize);
            session.disk.set_faults(|faults| faults.dies_after = Some(bytes));
            session.stops_at = now + self.random.below(10 * SECOND);
            return;
        }
        if session.traits.is_flight && session.settled.is_none() {
            session.settle(&self.books[number], now);
            session.stops_at = now + self.random.below(SECOND);
            return;
        }
        session.asked = Some(now);
        session.stop.store(1, Ordering::Release);
        session.hall.lock().unwrap().woken = true;
        self.say(|| format!("session {number} is asked to stop"));
        self.heed(number);
    }

    /// Holds every trace against the books.
    fn finish(&mut self) {
        let now = self.now();
        for at in 0..self.programs.len() {
            self.end_program(at, now);
        }
        self.ending.clear();
        for number in 0..self.sessions.len() {
            self.totals.marks += self.sessions[number].marks;
            self.totals.snapshots += u64::from(self.sessions[number].snapshots);
            self.totals.frozen += self.sessions[number].frozen;
            self.totals.fired += self.sessions[number].fired;
            self.totals.rings += self.sessions[number].questions.rings;
            self.totals.kernel_events += self.sessions[number].questions.known.len() as u64;
            self.totals.unfiltered += self.sessions[number].refused_filters.len() as u64;
            match self.sessions[number].is_dead {
                true => self.finish_dead(number),
                false => self.finish_ended(number),
            }
        }
    }

    /// A collector that died has told nobody anything: its trace is recovered.
    fn finish_dead(&mut self, number: usize) {
        let session = &self.sessions[number];
        self.totals.dead += 1;
        self.totals.seconds += (session.asked.unwrap_or(session.begun) - session.begun) / SECOND;
        if session.disk.is_gone() {
            return;
        }
        let dead = Dead {
            number,
            books: session.books.as_ref().unwrap_or(&self.books[number]),
            disk: &session.disk,
            dir: &session.dir,
            rings: session.rings.as_ref().expect("only those with files die"),
            is_flight: session.traits.is_flight,
            uid: session.uid,
            disk_was_good: !session.disk_was_bad,
        };
        self.totals.recovered += dead.check();
    }

    fn finish_ended(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        let summary = session.conclude();
        let missed: Vec<_> = self.missed.iter().filter(|missed| missed.session == number).collect();
        let books = session.books.as_ref().expect("over");
        self.totals.seconds += (summary.end - session.begun) / SECOND;
        self.totals.records += summary.records;
        self.totals.lost += summary.lost_counted.total();
        self.totals.unknown += summary.unknown_count;
        self.totals.missed += missed.len() as u64;
        let rare = books.values().filter(|book| session.traits.has_rare && !book.is_overwritten);
        self.totals.rare +=
            rare.flat_map(|book| book.published.values()).map(|tokens| tokens.len() as u64).sum::<u64>();
        self.totals.shared += books.values().filter(|book| book.comm == "shared").count() as u64;
        let mut case = check::Case::of(session, books, &summary);
        case.missed = missed;
        case.unheard = self.unheard.iter().filter(|(of, _)| *of == number).map(|(_, comm)| comm.as_str()).collect();
        case.check(Path::new(&session.dir));
    }
}

pub(super) fn socket_of(program: &Program) -> SocketName {
    SocketName(format!("p.{}.{:x}", program.pid, program.nonce))
}
