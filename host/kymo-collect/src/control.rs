// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread: sockets, directory, memory, ids, metadata [spec/session.md]. It never touches ring bytes.
//!
//! One loop over epoll. A program gets a bounded number of messages in before the others have their turn, and is
//! dropped when it breaks the protocol, floods, or does not read. `programs` says what messages mean; `discover`
//! finds programs.

mod bounds;
mod channel;
mod discover;
mod growing;
mod growing_memories;
mod maps;
mod obey;
mod offers;
mod outside;
mod program_maps;
mod programs;
mod ready;
mod refusals;
mod refused_programs;
mod requests;
mod selection;
mod shared;
mod shared_rings;
mod state;
mod system;
mod unknown;
mod usage;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kymo_abi::wire::{ByeReason, FromProgram, Hello};

use crate::channel::Channel;
use crate::clock::Calibration;
use crate::drain::ToDrain;
use crate::filters::Filters;
use crate::ids::Registry;
use crate::marks;
use crate::metadata::Metadata;
use crate::peer::{GREETING_TIME, Peer, Read, Sent, TURN_MESSAGES, is_hang_up};
use crate::session::Config;
use crate::socket::PACKET_ROOM;
use crate::summary::Outcome;
use crate::texts::Texts;
use crate::unknown::Unknowns;

use discover::Discovery;
use growing_memories::GrowingMemories;
use program_maps::ProgramMaps;
use refused_programs::RefusedPrograms;
use selection::Selection;
use state::{CAVEATS_MAX, Phase};
pub(crate) use usage::Limits;
use usage::{Bounds, CONNECTIONS_MAX};

#[cfg(test)]
pub(crate) use outside::ProgramSocket;
pub(crate) use outside::{Happened, Link, Outside};
pub(crate) use programs::spare_layout;
pub(crate) use requests::ToControl;
pub use requests::{Changed, Offered, ProgramView, View};
pub(crate) use state::{Control, ControlEnd, Wiring};
pub(crate) use system::System;

/// All programs together have this long to leave [spec/session.md 8].
const LEAVING_TIME: Duration = Duration::from_millis(200);
/// A connection that was told BYE and does not take it is closed after this.
const BYE_TIME: Duration = Duration::from_secs(1);
/// When the metadata gets a better clock while the session runs; the last repeats.
const REFINEMENTS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// Marks that are taken before the others have their turn.
const MARKS_TURN: usize = 64;
/// Turns for marks at the end.
const MARKS_LAST_TURNS: usize = 8192;
/// Messages that are read at most when a connection has ended: more than a socket holds.
const REST_MESSAGES: usize = 4096;
/// Without descriptors to spare nobody is taken in for so long.
const LISTENERS_PAUSE: Duration = Duration::from_millis(100);
/// Tokens below it are not those of programs.
const FIRST_PEER: u64 = 16;

/// What came of reading once.
enum Turn {
    Heard,
    Nothing,
    End,
}

impl Control {
    /// A session whose metadata has been written. `serials` are the first of its memories' serials.
    pub(crate) fn new(
        config: Config,
        outside: Box<dyn Outside>,
        channels: &[(Channel, u64)],
        metadata: Metadata,
        calibration: Calibration,
        wiring: Wiring,
    ) -> Control {
        let now = calibration.source().now();
        let shown: String = config.name.chars().filter(|c| !c.is_control()).take(40).collect();
        let shown = if shown.len() <= 50 { shown } else { "kymo".to_owned() };
        let nonce = channels.first().map_or(0, |(_, nonce)| *nonce);
        let channels = channels.iter().map(|(channel, nonce)| (*channel, format!("{shown}.{nonce:08x}"))).collect();
        Control {
            phase: Phase::New,
            outside,
            wiring,
            channels,
            newest_mark: 0,
            spares: None,
            memory_used: 0,
            memory_used_max: 0,
            growing: GrowingMemories::new(now),
            next_serial: nonce << 32 | 1,
            shared: Vec::new(),
            processes: Vec::new(),
            process_count: 0,
            recorded_count: 0,
            caveats: Vec::new(),
            unknown: Unknowns::default(),
            unfiltered: Vec::new(),
            unfiltered_count: 0,
            offers_refused: 0,
            ending: false,
            maps: ProgramMaps::new(),
            listener_paused: None,
            discovery: Discovery::default(),
            peers: BTreeMap::new(),
            next_token: FIRST_PEER,
            texts: Texts::default(),
            bounds: Bounds::default(),
            limits: Limits::default(),
            refused: RefusedPrograms::default(),
            rings_not_kept: 0,
            registry: Registry::default(),
            written_events: 0,
            metadata,
            calibration,
            refined: 0,
            next_refinement: now + REFINEMENTS[0],
            selection: Selection::new(config.patterns.clone()),
            filters: Filters::new(&config.filters),
            refit: false,
            config,
        }
    }

    /// The channels of a session, each with a number of its own. Nobody else's session has these.
    pub(crate) fn channels(config: &Config, calibration: &Calibration) -> Vec<(Channel, u64)> {
        let nonce = calibration.start_cycles().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut channels = vec![(Channel::Main, nonce)];
        // First in the directory: who finds the other finds this one too, or is visited.
        channels.extend(config.rare.is_some().then_some((Channel::Rare, nonce ^ 1)));
        channels
    }

    /// Memories that were made so far.
    #[cfg(test)]
    pub(crate) fn memories_made(&self) -> u64 {
        (self.next_serial & u64::from(u32::MAX)) - 1
    }

    fn now(&self) -> Instant {
        self.calibration.source().now()
    }

    /// Runs until the session is stopped.
    pub(crate) fn run(mut self) -> ControlEnd {
        let mut room = Box::new([0; PACKET_ROOM]);
        let mut timeout = Some(Duration::ZERO);
        while let Some(patience) = timeout {
            timeout = self.step(patience, &mut room);
        }
        self.found()
    }

    /// One turn: waits for something to happen, but no longer than `patience`, and does all that follows from it.
    /// Returns how long nothing needs to be done unless something happens; `None` when the session is over.
    pub(crate) fn step(&mut self, patience: Duration, room: &mut [u8; PACKET_ROOM]) -> Option<Duration> {
        match self.phase {
            Phase::New => {
                let now = self.now();
                self.discovery.look_around(&mut *self.outside, &self.config.scope, now);
                self.phase = Phase::Running;
                self.visit_found();
            }
            Phase::Running => {
                self.turn(patience, room);
                self.obey();
                self.refit();
                self.make_seen_ready();
                self.timers();
                if self.wiring.stop.load(Ordering::Acquire) != 0 {
                    self.begin_to_leave(room);
                } else {
                    self.visit_found();
                }
            }
            Phase::Leaving(_) => {
                self.turn(patience, room);
            }
            Phase::Over => return None,
        }
        self.next_step()
    }

    /// When the next turn is due.
    fn next_step(&mut self) -> Option<Duration> {
        if let Phase::Leaving(deadline) = self.phase {
            let left = deadline.saturating_duration_since(self.now());
            if left.is_zero() || self.peers.values().all(|peer| peer.serial.is_none()) {
                self.end();
                return None;
            }
            return Some(left);
        }
        Some(self.timeout(self.now()))
    }

    /// How long nothing needs to be done unless a socket speaks.
    fn timeout(&self, now: Instant) -> Duration {
        let mut next = self.next_refinement;
        next = self.discovery.next_visit().map_or(next, |at| next.min(at));
        next = self.peers.values().filter_map(|peer| peer.deadline).fold(next, Instant::min);
        next = self.peers.values().filter_map(|peer| Some(peer.maps_next?.0)).fold(next, Instant::min);
        next = self.peers.values().filter_map(|peer| peer.paused_until).fold(next, Instant::min);
        next = self.growing.next_look().map_or(next, |at| next.min(at));
        next = self.listener_paused.map_or(next, |until| next.min(until));
        next.saturating_duration_since(now)
    }

    /// Waits for something to happen, and deals with it. Whether there was anything.
    fn turn(&mut self, timeout: Duration, room: &mut [u8; PACKET_ROOM]) -> bool {
        let happened = self.outside.wait(timeout);
        for what in &happened {
            match *what {
                Happened::Connection(channel) => self.accept(channel),
                Happened::Mark => _ = self.take_marks(),
                Happened::Directory => {
                    let now = self.now();
                    self.discovery.read(&mut *self.outside, &self.config.scope, now);
                }
                Happened::Wake => {}
                Happened::Program { token, has_hung_up } => self.serve(token, has_hung_up, room),
            }
        }
        !happened.is_empty()
    }

    fn accept(&mut self, channel: Channel) {
        for _ in 0..TURN_MESSAGES {
            match self.outside.accept(channel) {
                Ok(link) => self.take_in(link, channel),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
                    self.too_many_files();
                    self.pause_listeners(true);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Marks become records; the first one brings its event into the metadata. Whether there may be more.
    fn take_marks(&mut self) -> bool {
        let mut taken = 0;
        // What was read from the pipe is taken to its end: nothing would wake us for it.
        while taken < MARKS_TURN || self.outside.has_marks() {
            taken += 1;
            let Some(packet) = self.outside.next_mark() else { return false };
            let classes = self.metadata.kernel.get_or_insert_default();
            if !classes.iter().any(|class| class.id == marks::MARK_ID) {
                classes.push(marks::class());
                self.write_metadata();
            }
            let frequency = self.calibration.estimate().frequency_hz;
            let (time, record) = marks::record(&packet, self.calibration.source(), frequency, self.newest_mark);
            self.newest_mark = time;
            let _ = self.wiring.commands.send(ToDrain::Mark(time, record));
        }
        true
    }

    /// Without descriptors to spare the listener would wake us for ever: look away for a moment.
    fn pause_listeners(&mut self, pause: bool) {
        self.outside.mind_connections(!pause);
        self.listener_paused = pause.then(|| self.now() + LISTENERS_PAUSE);
    }

    /// One that came by itself: of this user. Programs of others have directories of their own.
    fn take_in(&mut self, link: Box<dyn Link>, channel: Channel) {
        let own = self.outside.owner(0);
        match link.peer() {
            Ok(id) if id.uid == own => {
                let deadline = self.now() + GREETING_TIME;
                self.welcome(link, channel, Some(deadline));
            }
            Ok(id) => self.of_another_user(id.pid, id.uid),
            Err(_) => {}
        }
    }

    /// The program behind a socket that we found, which must be of user `uid`: welcome, unless it is outside or here
    /// already.
    fn look_at(&mut self, link: Box<dyn Link>, channel: Channel, uid: u32) {
        let Ok(id) = link.peer() else { return };
        if uid != id.uid {
            self.caveat(format!("a socket was not visited: its process {} belongs to user {}", id.pid, id.uid));
            return;
        }
        let is_it = |peer: &Peer| peer.id.pid == id.pid && peer.channel == channel;
        let is_known = id.pid != 0 && self.peers.values().any(is_it);
        if !is_known && self.outside.is_in_scope(&self.config.scope, id.pid) {
            self.welcome(link, channel, None);
        }
    }

    /// Takes a new connection into the loop.
    fn welcome(&mut self, link: Box<dyn Link>, channel: Channel, deadline: Option<Instant>) {
        let Ok(id) = link.peer() else { return };
        if !self.bounds.admits(id.uid) {
            let uid = id.uid;
            let why =
                format!("a program of user {uid} was turned away: {CONNECTIONS_MAX} of them are connected already");
            return self.turned_away(id.pid, &why);
        }
        let token = self.next_token;
        self.next_token += 1;
        if self.outside.watch(token, &*link) {
            let mut peer = Peer::new(link, id, channel, deadline, self.now());
            self.bounds.connected(&mut peer);
            self.peers.insert(token, peer);
            self.keep_bounds(token);
        }
    }

    /// Connects to the programs whose turn it is.
    fn visit_found(&mut self) {
        let now = self.now();
        while let Some(visit) = self.discovery.due(now) {
            // A program that came to us by itself is not visited too [spec/session.md 3].
            let is_visited = |hello: &Hello| (hello.pid, hello.nonce) == visit.identity();
            let channels: Vec<Channel> = self.channels.iter().map(|(channel, _)| *channel).collect();
            for channel in channels {
                let is_here = |peer: &Peer| peer.channel == channel && peer.hello.as_ref().is_some_and(is_visited);
                if self.peers.values().any(is_here) || self.is_still_refused(&visit, channel) {
                    continue;
                }
                let found = self.discovery.visit(&mut *self.outside, visit.clone(), now);
                let Some((link, uid)) = found else { break };
                self.look_at(link, channel, uid);
            }
        }
    }

    /// Reads what a program says, within its turn, and sends what waits for it.
    fn serve(&mut self, token: u64, has_hung_up: bool, room: &mut [u8; PACKET_ROOM]) {
        let Some(mut peer) = self.peers.remove(&token) else { return };
        let mut is_open = true;
        let now = self.now();
        for _ in 0..TURN_MESSAGES {
            // What has hung up has no more to say than its socket holds.
            if !has_hung_up && !self.ending && peer.must_wait(now) {
                break;
            }
            match self.hear_next(&mut peer, room) {
                Turn::Heard => {}
                Turn::Nothing => break,
                Turn::End => {
                    is_open = false;
                    break;
                }
            }
        }
        self.put_back(token, peer, is_open);
    }

    /// Reads what a program says next.
    fn hear_next(&mut self, peer: &mut Peer, room: &mut [u8; PACKET_ROOM]) -> Turn {
        match peer.read(room) {
            Read::Packet(packet) if self.ending || peer.leaving => self.hear_at_the_end(peer, packet),
            Read::Packet(packet) => {
                if let Err(broken) = self.hear(peer, packet) {
                    tracing::info!(pid = peer.id.pid, %broken, "a program broke the protocol");
                    self.refuse(peer, ByeReason::Protocol, format!("broke the protocol: {broken}"));
                }
            }
            Read::Reset => {}
            Read::Nothing => return Turn::Nothing,
            Read::End => return Turn::End,
        }
        Turn::Heard
    }

    /// Reads what a program said before its connection ended: that it had not waited may be among it.
    fn hear_the_rest(&mut self, peer: &mut Peer) {
        let mut room = Box::new([0; PACKET_ROOM]);
        let _ = (0..REST_MESSAGES).take_while(|_| matches!(self.hear_next(peer, &mut room), Turn::Heard)).count();
    }

    /// A program that was told to go may still say that it has not waited.
    fn hear_at_the_end(&mut self, peer: &mut Peer, packet: &[u8]) {
        if let (true, Ok(FromProgram::Late { .. })) = (self.ending && !peer.is_mapped, FromProgram::decode(packet)) {
            peer.late = true;
        }
    }

    /// Sends what waits for a program, and keeps it if it is still of use.
    fn put_back(&mut self, token: u64, mut peer: Peer, is_open: bool) {
        let sent = peer.flush();
        match &sent {
            Sent::Stuck => self.does_not_read(&peer),
            Sent::Failed(error) if !is_hang_up(error) => self.cannot_be_told(&peer, error),
            Sent::All | Sent::Some | Sent::Failed(_) => {}
        }
        let is_open = is_open && matches!(sent, Sent::All | Sent::Some);
        let done = peer.leaving && !self.ending && !peer.has_output();
        if !is_open || done {
            return self.forget(peer);
        }
        self.outside.mind(token, &*peer.link, peer.paused_until.is_none(), peer.has_output());
        self.peers.insert(token, peer);
        self.keep_bounds(token);
    }

    /// A connection has ended: the program's rings are looked at for the last time.
    fn forget(&mut self, mut peer: Peer) {
        self.hear_the_rest(&mut peer);
        self.end_maps(&peer);
        self.ends_late(&mut peer);
        self.release(&mut peer);
        self.take_memory_from(&mut peer);
    }

    fn take_memory_from(&mut self, peer: &mut Peer) {
        if let Some(serial) = peer.serial.take() {
            if self.sibling(peer).is_none_or(|sibling| sibling.serial.is_none()) {
                self.wiring.programs.fetch_sub(1, Ordering::Relaxed);
            }
            if !self.is_shared(serial) {
                let _ = self.wiring.commands.send(ToDrain::End { serial });
            }
        }
        if let Some(offer) = peer.offer.take() {
            let _ = self.wiring.commands.send(ToDrain::End { serial: offer.serial });
        }
    }

    /// Tells a program to go, and notes why.
    fn refuse(&mut self, peer: &mut Peer, reason: ByeReason, text: String) {
        self.send_away(peer, reason, text, unknown::what_helps(reason));
    }

    /// The same, with what helps.
    fn send_away(&mut self, peer: &mut Peer, reason: ByeReason, text: String, next: &str) {
        peer.bye(reason, &text);
        peer.deadline = Some(self.now() + BYE_TIME);
        if peer.hello.is_none() {
            self.caveat(format!("process {} {text}", peer.id.pid));
        }
        self.admit_refusal(peer, reason, &text, next);
        self.keep_refusal(peer, reason);
        peer.late &= reason == ByeReason::End;
        let outcome = if reason == ByeReason::Scope { Outcome::OutOfScope } else { Outcome::Refused(text) };
        self.set_outcome(peer.process, outcome);
        // Nobody asks for its events any more.
        self.let_go(peer);
    }

    fn set_outcome(&mut self, process: usize, outcome: Outcome) {
        if let Some(entry) = self.processes.get_mut(process) {
            entry.outcome = outcome;
        }
    }

    fn caveat(&mut self, text: String) {
        if self.caveats.len() < CAVEATS_MAX && !self.caveats.contains(&text) {
            self.caveats.push(text);
        }
    }

    fn timers(&mut self) {
        let now = self.now();
        if self.listener_paused.is_some_and(|until| until <= now) {
            self.pause_listeners(false);
        }
        let late = |peer: &Peer| peer.deadline.is_some_and(|deadline| deadline <= now);
        let tokens: Vec<u64> = self.peers.iter().filter(|(_, peer)| late(peer)).map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            if !peer.leaving {
                self.refuse(&mut peer, ByeReason::Protocol, "did not introduce itself in time".to_owned());
                peer.flush();
            }
            self.forget(peer);
        }
        self.read_on(now);
        self.measure_if_due(now);
        self.look_at_due_maps(now);
        if self.next_refinement <= now {
            self.refined += 1;
            self.next_refinement = now + REFINEMENTS[self.refined.min(REFINEMENTS.len() - 1)];
            self.calibration.refine();
            self.write_metadata();
        }
    }

    /// Reads those again that had said too much.
    fn read_on(&mut self, now: Instant) {
        let is_due = |peer: &Peer| peer.paused_until.is_some_and(|until| until <= now);
        let tokens: Vec<u64> = self.peers.iter().filter(|(_, peer)| is_due(peer)).map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            peer.paused_until = None;
            self.put_back(token, peer, true);
        }
    }

    /// Replaces the metadata. Where that fails the old one stays, and events that it lacks are not switched on.
    fn write_metadata(&mut self) {
        match self.metadata.write(&self.registry, &self.calibration.estimate()) {
            Ok(()) => self.written_events = self.registry.events.len(),
            Err(error) => self.caveat(format!("the metadata could not be written again: {error}")),
        }
    }

    /// Says BYE to all. Those that write into our memory have some time to hang up.
    fn begin_to_leave(&mut self, room: &mut [u8; PACKET_ROOM]) {
        // What was written before the end is part of it, and no more than a full pipe.
        let _ = (0..MARKS_LAST_TURNS).take_while(|_| self.take_marks()).count();
        // What came while the collector did not run: programs may have ended without their rings.
        let deadline = self.now() + LEAVING_TIME;
        while self.turn(Duration::ZERO, room) && self.now() < deadline {}
        self.look_at_all_maps(false);
        self.measure();
        self.outside.withdraw();
        self.discovery.end();
        self.ending = true;
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            peer.bye(ByeReason::End, "the session is over");
            self.put_back(token, peer, true);
        }
        self.phase = Phase::Leaving(self.now() + LEAVING_TIME);
    }

    /// Nobody is waited for any more.
    fn end(&mut self) {
        for (_, peer) in std::mem::take(&mut self.peers) {
            self.forget(peer);
        }
        for rings in std::mem::take(&mut self.shared) {
            let _ = self.wiring.commands.send(ToDrain::End { serial: rings.serial });
        }
        let _ = self.wiring.commands.send(ToDrain::Finish);
        self.phase = Phase::Over;
    }

    /// What is left when the session is over.
    pub(crate) fn found(mut self) -> ControlEnd {
        let end = self.calibration.source().read();
        self.calibration.source().sleep(Calibration::LAST.saturating_sub(self.calibration.age()));
        self.calibration.refine();
        self.write_metadata();
        for text in self.filters.unfit() {
            self.caveat(text);
        }
        ControlEnd {
            estimate: self.calibration.estimate(),
            end,
            processes: self.processes,
            process_count: self.process_count,
            recorded_count: self.recorded_count,
            rings_bytes_max: self.memory_used_max,
            seen: self.registry.seen,
            unfiltered: self.unfiltered,
            unfiltered_count: self.unfiltered_count,
            caveats: self.caveats,
            rings_not_kept: self.rings_not_kept,
            unknown: self.unknown,
        }
    }
}
