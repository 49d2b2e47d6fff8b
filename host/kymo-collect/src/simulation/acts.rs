// SPDX-License-Identifier: MIT OR Apache-2.0
//! What simulated programs do: they come, look for sessions, record, fork, execute others and end.

use kymo_abi::RingKind;
use kymo_abi::wire::ByeReason;

use super::objects::{NAMES, Objects};
use super::outside::SharedLine;
use super::program::{Character, MissedProgram, Program, Refused, SessionBooks};
use super::run::{MS, Run, SECOND, socket_of};
use crate::channel::Channel;

/// What a program needs at least, and takes at most, of rings of 64 KiB: for two CPUs, or three threads.
const FIRST_RINGS: u64 = 4 * (64 << 10) + (512 << 10);

impl Run {
    fn new_ids(&mut self) -> (u32, u32) {
        self.next_pid += 1;
        (self.next_pid, self.next_pid + 0x1000)
    }

    pub(super) fn begin_program(&mut self, now: u64) {
        let (pid, nonce) = self.new_ids();
        let kind = if self.random.below(4) == 0 { RingKind::Portable } else { RingKind::Rseq };
        let mut program = Program::new(pid, nonce, kind, now);
        program.character = match self.random.below(24) {
            0 => Character::CannotMap,
            1 => Character::OtherAbi,
            2 | 3 => Character::NoFilters,
            4 => Character::Greedy,
            _ => Character::Good,
        };
        let mut events = 2 + self.random.below(4u32);
        let is_greedy = program.character == Character::Greedy;
        program.dir = if is_greedy { 1 } else { self.random.pick(&[0, 0, 0, 0, 2]) };
        program.uid = self.users[program.dir];
        if is_greedy {
            events += 10 + self.random.below(60u32);
            self.greedy.push(program.uid);
        }
        program.objects = Objects::new(nonce, events, is_greedy);
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
            let mut hall = session.hall.lock().unwrap();
            if !hall.is_open || program.dir >= hall.users.len() {
                continue;
            }
            if program.dir > 0 {
                // Nobody comes to a session of another user: it visits.
                let name = (program.dir, socket_of(program));
                hall.sockets.push(name.clone());
                hall.new_sockets.push(name);
                drop(hall);
                session.poke_control(now + 1000 + self.random.below(200_000u64));
                continue;
            }
            let line = SharedLine::new(program.pid, program.uid);
            // What a child does is recorded from its begin where what its parent did was.
            if session.asked.is_none() && program.parents.is_empty() {
                program.owed_by.push(number);
            }
            if hall.come(line.clone(), Channel::Main) {
                program.introduce(number, line, program.unreached.contains(&number));
            } else {
                program.unreached.push(number);
            }
            if session.traits.has_rare {
                let line = SharedLine::new(program.pid, program.uid);
                if hall.come(line.clone(), Channel::Rare) {
                    program.introduce(number, line, program.unreached.contains(&number));
                }
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
    pub(super) fn deliver(&mut self, number: usize) {
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

    pub(super) fn step_program(&mut self, at: usize, now: u64) {
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
        self.hear_refusals(at, now);
        let program = &mut self.programs[at];
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

    /// Programs are refused for a reason, and refuse filters.
    fn hear_refusals(&mut self, at: usize, now: u64) {
        for refused in std::mem::take(&mut self.programs[at].refused_filters) {
            self.sessions[refused.session].refused_filters.push(refused.at);
        }
        for Refused { session, reason, text } in std::mem::take(&mut self.programs[at].refused) {
            let (comm, uid) = (self.programs[at].comm.clone(), self.programs[at].uid);
            if text.contains("was sent away") {
                self.totals.sent_away += 1;
                assert!(self.greedy.contains(&uid), "session {session}: {comm} of user {uid} takes little: {text}");
            } else if reason == ByeReason::Memory && text.contains("is used up") {
                self.totals.without_memory += 1;
                let (used, cap) = (self.memory_at_most(session, now), self.sessions[session].memory_bytes_max);
                assert!(
                    used + FIRST_RINGS > cap,
                    "session {session}: {comm}, at most {used} of {cap} are used: {text}"
                );
            }
        }
    }

    /// Ring memory that a session can have had in use in the last seconds, at most: it hears late that some is free.
    fn memory_at_most(&mut self, session: usize, now: u64) -> u64 {
        let mut bytes = 0;
        for book in self.books[session].values_mut() {
            if book.is_held() || *book.free_since.get_or_insert(now) + 20 * SECOND > now {
                bytes += book.bytes_at_most;
            }
        }
        // Memory that nobody has mapped yet, or has not any more.
        let on_the_way = self.sessions[session].hall.lock().unwrap().descriptors();
        let ended = self.ended.iter().filter(|at| **at + 20 * SECOND > now).count();
        bytes + (on_the_way + ended) as u64 * FIRST_RINGS
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
        let filtered = self.sessions.iter().map(|session| session.traits.is_filtered).collect();
        let mut sessions = SessionBooks { books: &mut self.books, filtered };
        let mut lane = self.random.below(2u32);
        for _ in 0..count {
            if is_moving {
                lane = self.random.below(2u32);
            }
            let index = self.random.below(program.objects.end().min(NAMES));
            program.hit(index, lane, &mut self.token, self.time.read(), &mut sessions);
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
        let mut child = parent.fork(pid, nonce, now);
        child.is_unknown_child = self.random.below(3) == 0 && parent.kind == RingKind::Rseq;
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
        (program.uid, program.dir) = (self.programs[at].uid, self.programs[at].dir);
        program.ends_at = ends_at.max(now + MS);
        self.connect(&mut program, now);
        self.programs.push(program);
    }

    pub(super) fn end_program(&mut self, at: usize, now: u64) {
        let program = &mut self.programs[at];
        let name = socket_of(program);
        let unheard: Vec<usize> =
            program.unreached.iter().copied().filter(|session| !program.has_met(*session)).collect();
        self.unheard.extend(unheard.into_iter().map(|session| (session, program.comm.clone())));
        let touched: Vec<usize> = program.attachments.iter().map(|(session, _)| *session).collect();
        let rings = program.end();
        for (session, hits) in &program.missed {
            let (session, hits, parents) = (*session, *hits, program.parents.clone());
            self.missed.push(MissedProgram { session, pid: program.pid, comm: program.comm.clone(), parents, hits });
        }
        self.totals.killed += 1;
        self.ended.push(now);
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
}
