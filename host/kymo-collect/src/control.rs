//! The control thread: sockets, directory, memory, ids, metadata [spec/session.md]. It never touches ring bytes.
//!
//! One loop over epoll. A program gets a bounded number of messages in before the others have their turn, and is
//! dropped when it breaks the protocol, floods, or does not read. `programs` says what messages mean; `discover`
//! finds programs.

mod channel;
mod discover;
mod maps;
mod offers;
mod programs;
mod requests;
mod selection;
mod shared;

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use kymo_abi::wire::{ByeReason, Hello};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};

use crate::clock::{Calibration, Estimate};
use crate::drain::{Counters, ToDrain};
use crate::filters::Filters;
use crate::ids::Registry;
use crate::marks;
use crate::metadata::Metadata;
use crate::peer::{GREETING_TIME, Peer, Read, TURN_MESSAGES};
use crate::runtime::RuntimeDir;
use crate::session::Config;
use crate::socket::{self, PACKET_ROOM};
use crate::spares::Spares;
use crate::summary::{Outcome, ProcessSummary, Unfiltered};
use crate::{Error, runtime};

use channel::Door;
use discover::Discovery;
use maps::ProgramMaps;
use selection::Selection;
use shared::SharedRings;

pub(crate) use channel::Channel;
pub use offers::Offered;
pub(crate) use programs::spare_layout;
pub(crate) use requests::ToControl;
pub use requests::{Changed, ProgramView, View};

/// Programs that the summary lists.
const PROCESSES_MAX: usize = 10_000;
/// Remarks that the summary lists.
const CAVEATS_MAX: usize = 50;
/// All programs together have this long to leave [spec/session.md 8].
const LEAVING_TIME: Duration = Duration::from_millis(200);
/// A connection that was told BYE and does not take it is closed after this.
const BYE_TIME: Duration = Duration::from_secs(1);
/// When the metadata gets a better clock while the session runs; the last repeats.
const REFINEMENTS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// Of the sockets that programs come to: their numbers.
const DOORS: std::ops::Range<u64> = 0..2;
const INOTIFY: u64 = 2;
const WAKE: u64 = 3;
const MARKS: u64 = 4;
/// Marks that are taken before the others have their turn.
const MARKS_TURN: usize = 64;
const FIRST_PEER: u64 = 16;

/// What the control thread leaves behind.
pub(crate) struct Found {
    pub estimate: Estimate,
    pub end: u64,
    pub processes: Vec<ProcessSummary>,
    pub process_count: u64,
    pub recorded_count: u64,
    pub rings_bytes_max: u64,
    pub seen: BTreeMap<String, bool>,
    pub unfiltered: Vec<Unfiltered>,
    pub unfiltered_count: u64,
    pub caveats: Vec<String>,
}

/// The flags and counters that the session's owner shares: wake, stop, counters, programs.
pub(crate) type Shared = (Arc<OwnedFd>, Arc<AtomicU64>, Arc<Counters>, Arc<AtomicU64>);

/// The state of the control thread.
pub(crate) struct Control {
    config: Config,
    /// Events that are wanted now.
    selection: Selection,
    /// Which records of them.
    filters: Filters,
    /// A filter fits events now that did not before.
    refit: bool,
    /// What the session's owner asks.
    requests: Receiver<ToControl>,
    epoll: OwnedFd,
    doors: Vec<Door>,
    /// Socket for marks, its name, and the clock value of the newest one.
    marks: (OwnedFd, String, u64),
    maps: ProgramMaps,
    listener_paused: Option<Instant>,
    discovery: Discovery,
    peers: HashMap<u64, Peer>,
    next_token: u64,
    registry: Registry,
    /// Events that the metadata on disk has.
    written_events: usize,
    metadata: Metadata,
    calibration: Calibration,
    refined: usize,
    next_refinement: Instant,
    commands: Sender<ToDrain>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicU64>,
    counters: Arc<Counters>,
    programs: Arc<AtomicU64>,
    /// A memory that is ready for the next program.
    pub spares: Option<Spares>,
    memory_used: u64,
    memory_used_max: u64,
    next_serial: u64,
    /// Rings that programs share.
    shared: Vec<SharedRings>,
    processes: Vec<ProcessSummary>,
    process_count: u64,
    recorded_count: u64,
    caveats: Vec<String>,
    /// Events that are recorded without their filter, the first of them, and how many they are.
    unfiltered: Vec<Unfiltered>,
    unfiltered_count: u64,
    /// Offers of other rings that were refused.
    offers_refused: u64,
    ending: bool,
}

impl Control {
    pub(crate) fn new(
        config: Config,
        runtime: RuntimeDir,
        metadata: Metadata,
        calibration: Calibration,
        commands: Sender<ToDrain>,
        requests: Receiver<ToControl>,
        (wake, stop, counters, programs): Shared,
    ) -> Result<Control, Error> {
        let nonce = calibration.start_cycles().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut others = Vec::new();
        if config.with_other_users {
            others = runtime::other_users_dirs();
            others.retain(|other| other.path() != runtime.path());
        }
        let registry = Registry::default();
        metadata
            .write(&registry, &calibration.estimate())
            .map_err(Error::file("write", metadata.dir.join("metadata")))?;
        let shown: String = config.name.chars().filter(|c| !c.is_control()).take(40).collect();
        let shown = if shown.len() <= 50 { shown } else { "kymo".to_owned() };
        let mut channels = vec![(Channel::Main, nonce)];
        // First in the directory: who finds the other finds this one too, or is visited.
        channels.extend(config.rare.is_some().then_some((Channel::Rare, nonce ^ 1)));
        let mut doors = Vec::new();
        let mut names = Vec::new();
        for (channel, nonce) in channels {
            let name = format!("s.{}.{nonce:08x}", std::process::id());
            // Under its final name only once it listens: a program that finds it is not refused.
            let listener = socket::listen(&runtime.through_fd(&format!(".{name}")))
                .map_err(Error::file("make socket", runtime.path().join(&name)))?;
            doors.push(Door { channel, listener: Some(listener), session_name: format!("{shown}.{nonce:08x}") });
            names.push(name);
        }
        let marks_name = format!("m.{}.{nonce:08x}", std::process::id());
        let marks = marks::listen(&runtime.through_fd(&marks_name))
            .map_err(Error::file("make socket", runtime.path().join(&marks_name)))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("make an epoll"))?;
        let discovery = Discovery::new(runtime, others, names.clone())?;
        let watch = |fd: &OwnedFd, token| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
                .map_err(Error::system("watch a socket"))
        };
        for door in &doors {
            door.listener.iter().try_for_each(|listener| watch(listener, door.channel.index() as u64))?;
        }
        watch(discovery.inotify(), INOTIFY)?;
        watch(&wake, WAKE)?;
        watch(&marks, MARKS)?;
        for name in names.iter().rev() {
            let path = discovery.own().path().join(name);
            discovery.own().rename(&format!(".{name}"), name).map_err(Error::file("make socket", path))?;
        }
        Ok(Control {
            spares: None,
            memory_used: 0,
            memory_used_max: 0,
            next_serial: nonce << 32 | 1,
            shared: Vec::new(),
            processes: Vec::new(),
            process_count: 0,
            recorded_count: 0,
            caveats: Vec::new(),
            unfiltered: Vec::new(),
            unfiltered_count: 0,
            offers_refused: 0,
            ending: false,
            doors,
            marks: (marks, marks_name, 0),
            maps: ProgramMaps::new(),
            listener_paused: None,
            discovery,
            peers: HashMap::new(),
            next_token: FIRST_PEER,
            registry,
            written_events: 0,
            metadata,
            calibration,
            refined: 0,
            next_refinement: Instant::now() + REFINEMENTS[0],
            commands,
            wake,
            stop,
            counters,
            programs,
            epoll,
            requests,
            selection: Selection::new(config.patterns.clone()),
            filters: Filters::new(&config.filters),
            refit: false,
            config,
        })
    }

    /// Runs until the session is stopped.
    pub(crate) fn run(mut self) -> Found {
        let mut room = Box::new([0; PACKET_ROOM]);
        self.discovery.look_around(&self.config.scope, Instant::now());
        while self.stop.load(Ordering::Acquire) == 0 {
            self.visit_found();
            let timeout = self.timeout(Instant::now());
            self.turn(timeout, &mut room);
            self.obey();
            self.refit();
            self.timers();
        }
        self.leave(&mut room);
        let _ = self.commands.send(ToDrain::Finish);
        self.found()
    }

    /// How long nothing needs to be done unless a socket speaks.
    fn timeout(&self, now: Instant) -> Duration {
        let mut next = self.next_refinement;
        next = self.discovery.next_visit().map_or(next, |at| next.min(at));
        next = self.peers.values().filter_map(|peer| peer.deadline).fold(next, Instant::min);
        next = self.peers.values().filter_map(|peer| Some(peer.maps_next?.0)).fold(next, Instant::min);
        next = self.listener_paused.map_or(next, |until| next.min(until));
        next.saturating_duration_since(now)
    }

    /// Waits for sockets and serves those that speak.
    fn turn(&mut self, timeout: Duration, room: &mut [u8; PACKET_ROOM]) {
        // Rounded up, so that a deadline has passed when the wait is over.
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut space = [MaybeUninit::uninit(); 128];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, Some(&timeout)) else { return };
        let tokens: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        for token in tokens {
            match token {
                door if DOORS.contains(&door) => self.accept(door as usize),
                MARKS => self.take_marks(),
                INOTIFY => self.discovery.read(&self.config.scope, Instant::now()),
                WAKE => {
                    let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
                }
                token => self.serve(token, room),
            }
        }
    }

    fn accept(&mut self, door: usize) {
        for _ in 0..TURN_MESSAGES {
            let Some(Door { listener: Some(listener), channel, .. }) = self.doors.get(door) else { return };
            match socket::accept(listener) {
                Ok(socket) => self.take_in(socket, *channel),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
                    self.caveat("a program could not connect: too many open files".to_owned());
                    self.pause_listeners(true);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Marks become records; the first one brings its event into the metadata.
    fn take_marks(&mut self) {
        let mut room = [0; marks::MARK_BYTES_MAX];
        for _ in 0..MARKS_TURN {
            let Some(packet) = marks::receive(&self.marks.0, &mut room) else { return };
            let classes = self.metadata.kernel.get_or_insert_default();
            if !classes.iter().any(|class| class.id == marks::MARK_ID) {
                classes.push(marks::class());
                self.write_metadata();
            }
            let frequency = self.calibration.estimate().frequency_hz;
            let (time, record) = marks::record(packet, self.calibration.source(), frequency, self.marks.2);
            self.marks.2 = time;
            let _ = self.commands.send(ToDrain::Mark(time, record));
        }
    }

    /// Without descriptors to spare the listener would wake us for ever: look away for a moment.
    fn pause_listeners(&mut self, pause: bool) {
        let flags = if pause { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        for door in &self.doors {
            let Some(listener) = &door.listener else { return };
            let _ = epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(door.channel.index() as u64), flags);
        }
        self.listener_paused = pause.then(|| Instant::now() + Duration::from_millis(100));
    }

    /// One that came by itself: of this user. Programs of others have directories of their own.
    fn take_in(&mut self, socket: OwnedFd, channel: Channel) {
        let own = self.discovery.own().uid();
        match socket::peer(&socket) {
            Ok(id) if id.uid == own => self.welcome(socket, channel, Some(Instant::now() + GREETING_TIME)),
            Ok(id) => self.caveat(format!(
                "process {} of user {} was turned away: this is a session of user {own}",
                id.pid, id.uid
            )),
            Err(_) => {}
        }
    }

    /// The program behind a socket that we found, which must be of user `uid`: welcome, unless it is outside or here already.
    fn look_at(&mut self, socket: OwnedFd, channel: Channel, uid: u32) {
        let Ok(id) = socket::peer(&socket) else { return };
        if uid != id.uid {
            self.caveat(format!("a socket was not visited: its process {} belongs to user {}", id.pid, id.uid));
            return;
        }
        let is_it = |peer: &Peer| peer.id.pid == id.pid && peer.channel == channel;
        let is_known = id.pid != 0 && self.peers.values().any(is_it);
        if !is_known && self.config.scope.wants(id.pid) {
            self.welcome(socket, channel, None);
        }
    }

    /// Takes a new connection into the loop.
    fn welcome(&mut self, socket: OwnedFd, channel: Channel, deadline: Option<Instant>) {
        let Ok(id) = socket::peer(&socket) else { return };
        let token = self.next_token;
        self.next_token += 1;
        if epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN).is_ok() {
            self.peers.insert(token, Peer::new(socket, id, channel, deadline, Instant::now()));
        }
    }

    /// Connects to the programs whose turn it is.
    fn visit_found(&mut self) {
        let now = Instant::now();
        while let Some(visit) = self.discovery.due(now) {
            // A program that came to us by itself is not visited too [spec/session.md 3].
            let is_visited = |hello: &Hello| (hello.pid, hello.nonce) == visit.identity();
            let channels: Vec<Channel> = self.doors.iter().map(|door| door.channel).collect();
            for channel in channels {
                let is_here = |peer: &Peer| peer.channel == channel && peer.hello.as_ref().is_some_and(is_visited);
                if self.peers.values().any(is_here) {
                    continue;
                }
                let Some((socket, uid)) = self.discovery.visit(visit.clone(), now) else { break };
                self.look_at(socket, channel, uid);
            }
        }
    }

    /// Reads what a program says, within its turn, and sends what waits for it.
    fn serve(&mut self, token: u64, room: &mut [u8; PACKET_ROOM]) {
        let Some(mut peer) = self.peers.remove(&token) else { return };
        let mut is_open = true;
        for _ in 0..TURN_MESSAGES {
            match peer.read(room) {
                Read::Packet(_) if self.ending || peer.leaving => {}
                Read::Packet(packet) => {
                    if let Err(broken) = self.hear(&mut peer, packet) {
                        tracing::info!(pid = peer.id.pid, %broken, "a program broke the protocol");
                        self.refuse(&mut peer, ByeReason::Protocol, format!("broke the protocol: {broken}"));
                    }
                }
                Read::Nothing => break,
                Read::End => {
                    is_open = false;
                    break;
                }
            }
        }
        self.put_back(token, peer, is_open);
    }

    /// Sends what waits for a program, and keeps it if it is still of use.
    fn put_back(&mut self, token: u64, mut peer: Peer, is_open: bool) {
        let is_open = is_open && peer.flush();
        let done = peer.leaving && !self.ending && !peer.has_output();
        if !is_open || done {
            return self.forget(peer);
        }
        let mut flags = epoll::EventFlags::IN;
        if peer.has_output() {
            flags |= epoll::EventFlags::OUT;
        }
        let _ = epoll::modify(&self.epoll, peer.socket.as_fd(), epoll::EventData::new_u64(token), flags);
        self.peers.insert(token, peer);
    }

    /// A connection has ended: the program's rings are looked at for the last time.
    fn forget(&mut self, mut peer: Peer) {
        self.maps.forget(peer.id.pid);
        self.take_memory_from(&mut peer);
    }

    fn take_memory_from(&mut self, peer: &mut Peer) {
        if let Some(serial) = peer.serial.take() {
            if self.sibling(peer).is_none_or(|sibling| sibling.serial.is_none()) {
                self.programs.fetch_sub(1, Ordering::Relaxed);
            }
            if !self.is_shared(serial) {
                let _ = self.commands.send(ToDrain::End { serial });
            }
        }
        if let Some(offer) = peer.offer.take() {
            let _ = self.commands.send(ToDrain::End { serial: offer.serial });
        }
    }

    /// Tells a program to go, and notes why.
    fn refuse(&mut self, peer: &mut Peer, reason: ByeReason, text: String) {
        peer.bye(reason, &text);
        peer.deadline = Some(Instant::now() + BYE_TIME);
        if peer.hello.is_none() {
            self.caveat(format!("process {} {text}", peer.id.pid));
        }
        let outcome = if reason == ByeReason::Scope { Outcome::OutOfScope } else { Outcome::Refused(text) };
        self.set_outcome(peer.process, outcome);
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
        let now = Instant::now();
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
        self.look_at_due_maps(now);
        if self.next_refinement <= now {
            self.refined += 1;
            self.next_refinement = now + REFINEMENTS[self.refined.min(REFINEMENTS.len() - 1)];
            self.calibration.refine();
            self.write_metadata();
        }
    }

    /// Replaces the metadata. Where that fails the old one stays, and events that it lacks are not switched on.
    fn write_metadata(&mut self) {
        match self.metadata.write(&self.registry, &self.calibration.estimate()) {
            Ok(()) => self.written_events = self.registry.events.len(),
            Err(error) => self.caveat(format!("the metadata could not be written again: {error}")),
        }
    }

    /// Says BYE to all, and waits for those that write into our memory to hang up.
    fn leave(&mut self, room: &mut [u8; PACKET_ROOM]) {
        self.take_marks();
        self.look_at_all_maps(false);
        self.discovery.own().remove(&self.marks.1);
        self.discovery.withdraw();
        self.doors.iter_mut().for_each(|door| door.listener = None);
        self.ending = true;
        let tokens: Vec<u64> = self.peers.keys().copied().collect();
        for token in tokens {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            peer.bye(ByeReason::End, "the session is over");
            self.put_back(token, peer, true);
        }
        let deadline = Instant::now() + LEAVING_TIME;
        while self.peers.values().any(|peer| peer.serial.is_some()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.turn(left, room);
        }
        for (_, peer) in std::mem::take(&mut self.peers) {
            self.forget(peer);
        }
        for rings in std::mem::take(&mut self.shared) {
            let _ = self.commands.send(ToDrain::End { serial: rings.serial });
        }
    }

    fn found(mut self) -> Found {
        let end = self.calibration.source().read();
        std::thread::sleep(Calibration::LAST.saturating_sub(self.calibration.age()));
        self.calibration.refine();
        self.write_metadata();
        for text in self.filters.unfit() {
            self.caveat(text);
        }
        Found {
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
        }
    }
}
