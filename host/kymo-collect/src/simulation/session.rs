// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session under simulation: the product's control thread and drain thread, which are driven step by step, and what
//! their surroundings are.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kymo_abi::Clock;
use kymo_testing::Random;

use super::disk::{Died, Disk};
use super::outside::{Hall, SimulatedOutside};
use super::recovery::RingDir;
use super::rings::Books;
use super::snapshots::{Snapshot, Taken};
use super::verbs::Questions;
use crate::clock::{Calibration, ClockSource, SimulatedTime};
use crate::control::{Control, ControlEnd, Limits, ToControl, Wiring};
use crate::drain::{Counters, Drain, Flight, Report, Sink, ToDrain};
use crate::metadata::Metadata;
use crate::pattern::Patterns;
use crate::report::Start;
use crate::session::{Config, Format};
use crate::snapshot::{SnapshotJob, SnapshotPart};
use crate::socket::PACKET_ROOM;
use crate::stream::Streams;
use crate::summary::Summary;
use crate::trigger::Fired;
use crate::watch::{ConditionClock, Watch};

const SECOND: u64 = 1_000_000_000;
/// Events with rings of their own, where a session has such.
const RARE: &str = "sim:e5";
/// A session that looks for a trigger drops what fires beyond this; a simulated one has room for all.
const FIRED_ROOM: usize = 100_000;
/// Memory that programs can make a simulated collector use: what one greedy program has does not fit, and what a run's
/// others have does.
const LIMITS: Limits = Limits { user_bytes: 512 << 10, all_bytes: 900 << 10 };

/// What goes wrong with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    ControlStalls,
    DrainStalls,
    DiskFull,
    DiskWithoutDescriptors,
    DiskGone,
    NoDescriptors,
    NoMemory,
}

/// What kind of session it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub is_flight: bool,
    /// A flight recorder with rings of their own for rare events.
    pub has_rare: bool,
    pub is_shared: bool,
    pub is_filtered: bool,
    pub with_others: bool,
    /// Its rings are files, and its collector may die.
    pub has_files: bool,
    pub dies: bool,
}

impl Traits {
    fn random(random: &mut Random) -> Traits {
        let has_files = random.below(12) == 0;
        let is_flight = random.below(4) == 0;
        Traits {
            is_flight,
            has_rare: is_flight && !has_files && random.below(3) == 0,
            is_shared: random.below(6) == 0,
            is_filtered: random.below(4) == 0,
            with_others: random.below(3) == 0,
            has_files,
            dies: has_files && random.below(4) > 0,
        }
    }
}

/// A snapshot that was asked for.
struct AskedSnapshot {
    answer: Receiver<SnapshotPart>,
    dir: PathBuf,
    since: Option<u64>,
}

/// What runs, and what it runs on.
struct Threads {
    control: Control,
    drain: Arc<Mutex<Option<Drain>>>,
    hall: Arc<Mutex<Hall>>,
    disk: Disk,
    to_control: Sender<ToControl>,
    to_drain: Sender<ToDrain>,
    stop: Arc<AtomicU64>,
    start: Start,
    fires: Receiver<Fired>,
}

impl Threads {
    fn new(config: Config, number: usize, users: &[u32], time: &'static SimulatedTime) -> Threads {
        let source = ClockSource::simulated(time);
        let mut calibration = Calibration::start(source);
        source.sleep(Calibration::FIRST);
        calibration.refine();
        let dir = config.output.clone();
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
        metadata.write(&Default::default(), &calibration.estimate()).expect("a good disk");
        let hall = Arc::new(Mutex::new(Hall::new(users)));
        let (to_drain, from_control) = channel();
        let (to_control, requests) = channel();
        let counters = Arc::new(Counters::default());
        let streams = Streams::new(disk.dir(&dir), uuid, source);
        let waking = Arc::clone(&hall);
        let wake = Box::new(move || waking.lock().unwrap().woken = true);
        let (sink, fires) = sink(&config);
        let drain = Drain::new(source, config.poll, from_control, Arc::clone(&counters), streams, wake, sink);
        let drain = Arc::new(Mutex::new(Some(drain)));
        let stop = Arc::new(AtomicU64::new(0));
        let commands = to_drain.clone();
        let wiring = Wiring { commands, requests, stop: Arc::clone(&stop), counters, programs: Arc::default() };
        let start = Start::new(&config, dir, &calibration);
        let channels = Control::channels(&config, &calibration);
        let outside = SimulatedOutside { hall: Arc::clone(&hall), drain: Arc::clone(&drain) };
        let control = Control::new(config, Box::new(outside), &channels, metadata, calibration, wiring);
        Threads { control, drain, hall, disk, to_control, to_drain, stop, start, fires }
    }
}

/// Where records go, and what triggers fire.
fn sink(config: &Config) -> (Sink, Receiver<Fired>) {
    let (fire, fires) = sync_channel(FIRED_ROOM);
    if !config.flight {
        return (Sink::Stream, fires);
    }
    let conditions = [kymo_filter::parse("sim:e3: n & 255 == 0").expect("a condition")];
    let clock = ConditionClock { frequency_hz: SECOND, origin_ns: 0 };
    let watch = Watch::new(&conditions, &config.contexts, fire, clock);
    (Sink::Flight(Box::new(Flight::new(Some(watch), None, 0))), fires)
}

/// A session under simulation.
pub(super) struct Simulated {
    pub number: usize,
    pub traits: Traits,
    pub control: Option<Control>,
    drain: Arc<Mutex<Option<Drain>>>,
    pub hall: Arc<Mutex<Hall>>,
    pub disk: Disk,
    pub to_control: Sender<ToControl>,
    to_drain: Sender<ToDrain>,
    pub stop: Arc<AtomicU64>,
    pub start: Start,
    pub dir: PathBuf,
    pub rings: Option<RingDir>,
    pub memory_bytes_max: u64,
    pub uid: u32,
    pub chunks: u32,
    pub control_at: u64,
    pub drain_at: Option<u64>,
    /// The control thread, and the drain thread, do not run until then.
    pub stalled: (u64, u64),
    pub stops_at: u64,
    pub begun: u64,
    pub found: Option<ControlEnd>,
    pub report: Option<Report>,
    /// Its collector died.
    pub is_dead: bool,
    /// It dies then, if it has not before, while it writes.
    pub dies_at: Option<u64>,
    /// When it was asked to stop.
    pub asked: Option<u64>,
    /// The disk failed when all was written.
    pub disk_failed: bool,
    /// The disk failed at some time.
    pub disk_was_bad: bool,
    /// What programs wrote until its end.
    pub books: Option<Books>,
    /// Answers that nobody waits for.
    pub replies: Vec<Box<dyn std::any::Any>>,
    pub marks: u64,
    /// Filters that programs refused, and when.
    pub refused_filters: Vec<u64>,
    fires: Receiver<Fired>,
    pub fired: u64,
    /// Records that triggers did not see, once it is over.
    pub unseen: u64,
    asked_for: Vec<AskedSnapshot>,
    taken: Taken,
    pub snapshots: u32,
    pub frozen: u64,
    /// Records that a trigger waits for, when it was told to look for the last time.
    pub settled: Option<u64>,
    pub questions: Questions,
}

impl Simulated {
    /// A session of any kind, which ends some time.
    pub(super) fn begin(number: usize, users: &[u32], time: &'static SimulatedTime, random: &mut Random) -> Simulated {
        let traits = Traits::random(random);
        let rings = traits.has_files.then(RingDir::new);
        let config = config(number, traits, rings.as_ref(), random);
        let mut session = Simulated::new(number, traits, config, users, time);
        session.control_mut().limits = LIMITS;
        session.rings = rings;
        session.stops_at = session.begun + random.below(300 * SECOND) + 10_000_000;
        session
    }

    /// A session that goes on until somebody ends it.
    pub(super) fn new(
        number: usize,
        traits: Traits,
        config: Config,
        users: &[u32],
        time: &'static SimulatedTime,
    ) -> Simulated {
        let users = if traits.with_others { users } else { &users[..1] };
        let (dir, memory_bytes_max) = (config.output.clone(), config.memory_bytes_max);
        let threads = Threads::new(config, number, users, time);
        let Threads { control, drain, hall, disk, to_control, to_drain, stop, start, fires } = threads;
        let now = time.read();
        Simulated {
            number,
            traits,
            control: Some(control),
            drain,
            hall,
            disk,
            to_control,
            to_drain,
            stop,
            start,
            dir,
            rings: None,
            memory_bytes_max,
            uid: users[0],
            chunks: 1,
            control_at: now,
            drain_at: None,
            stalled: (0, 0),
            stops_at: u64::MAX,
            begun: now,
            found: None,
            report: None,
            is_dead: false,
            dies_at: None,
            asked: None,
            disk_failed: false,
            disk_was_bad: false,
            books: None,
            replies: Vec::new(),
            marks: 0,
            refused_filters: Vec::new(),
            fires,
            fired: 0,
            unseen: 0,
            asked_for: Vec::new(),
            taken: Taken::default(),
            snapshots: 0,
            frozen: 0,
            settled: None,
            questions: Questions::default(),
        }
    }

    fn drain(&self) -> MutexGuard<'_, Option<Drain>> {
        // A collector that dies poisons it.
        self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control thread of a session that is not over.
    pub(super) fn control_mut(&mut self) -> &mut Control {
        self.control.as_mut().expect("the session is not over")
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_dead || self.found.is_some() && self.report.is_some()
    }

    /// The summary of a session that is over, once.
    pub(super) fn conclude(&mut self) -> Summary {
        let (found, report) = (self.found.take().expect("over"), self.report.take().expect("over"));
        self.unseen = report.unseen;
        self.start.summary(found, report, None)
    }

    pub(super) fn poke_control(&mut self, at: u64) {
        self.control_at = self.control_at.min(at.max(self.stalled.0));
    }

    pub(super) fn poke_drain(&mut self, at: u64) {
        let at = at.max(self.stalled.1);
        self.drain_at = Some(self.drain_at.map_or(at, |due| due.min(at)));
    }

    pub(super) fn step_control(&mut self, room: &mut [u8; PACKET_ROOM], time: &SimulatedTime) {
        let Some(control) = &mut self.control else {
            self.control_at = u64::MAX;
            return;
        };
        let wait = control.step(Duration::ZERO, room);
        for (uid, bytes) in control.bytes_by_user() {
            assert!(bytes <= control.limits.user_bytes, "session {}: user {uid} takes {bytes} bytes", self.number);
        }
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

    pub(super) fn step_drain(&mut self, time: &SimulatedTime) {
        let obeyed = {
            let mut slot = self.drain();
            let Some(drain) = slot.as_mut() else {
                drop(slot);
                self.drain_at = None;
                return;
            };
            drain.obey_waiting()
        };
        let Some(has_more) = obeyed else {
            self.disk_failed = self.disk.fails();
            let report = self.drain().take().map(Drain::conclude);
            self.report = report;
            self.drain_at = None;
            return;
        };
        let (wait, change) = {
            let mut slot = self.drain();
            let drain = slot.as_mut().expect("as above");
            (drain.look(), drain.next_change())
        };
        let now = time.read();
        self.drain_at = match (wait, change) {
            // The thread waits for a command then, and there is one.
            _ if has_more => Some(now),
            (Some(wait), Some(change)) => Some(now + wait.max(change).as_nanos() as u64),
            _ => None,
        };
    }

    /// Does something with a collector that dies while it writes, perhaps. Whether it has.
    pub(super) fn step_until_death(&mut self, step: impl FnOnce(&mut Simulated)) -> bool {
        self.rings.iter().for_each(RingDir::keep);
        match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(()) => {
                self.rings.iter().for_each(RingDir::keep_no_longer);
                false
            }
            Err(panic) if panic.is::<Died>() => true,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// The collector dies here, whatever it is at.
    pub(super) fn die(&mut self, books: &mut Books, now: u64) {
        if !self.is_dead {
            self.is_dead = true;
            self.asked = Some(now);
            self.disk_was_bad |= self.disk.fails();
            for book in books.values_mut() {
                book.is_left = book.is_held() && book.uid == self.uid;
            }
            self.rings.iter().for_each(RingDir::keep);
            (self.control, self.drain_at, self.control_at) = (None, None, u64::MAX);
            drop(self.drain().take());
            self.hall.lock().unwrap().die();
        }
    }

    /// Its owner gives it marks.
    pub(super) fn mark(&mut self, count: u64) {
        self.marks += count;
        self.hall.lock().unwrap().marks.extend((0..count).map(|number| format!("mark {number}").into_bytes()));
        let at = self.stalled.0;
        self.poke_control(at);
    }

    /// The session's owner wants a snapshot, of the time since then.
    pub(super) fn ask_for_snapshot(&mut self, since: Option<u64>, now: u64) {
        self.snapshots += 1;
        let dir = self.dir.join(format!("snapshot-{:04}", self.snapshots));
        let (reply, answer) = channel();
        let job = SnapshotJob { dir: dir.clone(), since, reply };
        if self.to_drain.send(ToDrain::Snapshot(job)).is_ok() {
            self.asked_for.push(AskedSnapshot { answer, dir, since });
            self.poke_drain(now + 1000);
        }
    }

    /// Its triggers look for the last time.
    pub(super) fn settle(&mut self, books: &Books, now: u64) {
        self.settled = Some(books.values().map(|book| book.triggering).sum());
        let _ = self.to_drain.send(ToDrain::Settle);
        self.poke_drain(now + 1000);
    }

    /// The owner asks how full the rings are.
    pub(super) fn ask_for_rings(&mut self, now: u64) {
        let look = self.questions.look();
        if self.to_drain.send(look).is_ok() {
            self.poke_drain(now + 1000);
        }
    }

    /// Looks at the answers to what the owner asked.
    pub(super) fn check_answers(&mut self, books: &Books) {
        if self.questions.are_answered() {
            return;
        }
        let dirs: Vec<PathBuf> =
            std::iter::once(self.dir.clone()).chain((2..=self.chunks).map(|at| self.chunk(at))).collect();
        let who = format!("session {}", self.number);
        self.questions.check(books, &self.disk, &dirs, self.disk_was_bad, &who);
    }

    /// Directory of a chunk.
    pub(super) fn chunk(&self, number: u32) -> PathBuf {
        self.dir.join(format!("chunk-{number:04}"))
    }

    /// Looks at the snapshots that were taken since the step before, and at the triggers that fired.
    pub(super) fn check_snapshots(&mut self, books: &mut Books, now: u64) {
        let fired = self.fires.try_iter().count() as u64;
        if fired > 0 && self.asked.is_none() {
            self.ask_for_snapshot(None, now);
        }
        self.fired += fired;
        for AskedSnapshot { answer, dir, since } in std::mem::take(&mut self.asked_for) {
            let Ok(part) = answer.try_recv() else {
                self.asked_for.push(AskedSnapshot { answer, dir, since });
                continue;
            };
            let files = self.disk.take(&dir);
            let who = format!("session {}, {}", self.number, dir.display());
            let made = self.control.as_ref().map_or(u64::MAX, Control::memories_made);
            let (disk, dir) = (&self.disk, self.dir.as_path());
            let snapshot = Snapshot { books, files, part, since, disk, dir, disk_was_bad: self.disk_was_bad, made };
            self.frozen += self.taken.check(snapshot, now, &who);
        }
    }
}

fn config(number: usize, traits: Traits, rings: Option<&RingDir>, random: &mut Random) -> Config {
    let mut config = Config::new(format!("/sim/{number}"));
    config.ring_bytes = random.pick(&[4096, 16 << 10, 64 << 10]);
    config.memory_bytes_max = random.pick(&[64 << 20, 4 << 20, 512 << 10]);
    config.flight = traits.is_flight;
    config.rare = traits.has_rare.then(|| Patterns::new(&[RARE.to_owned()], &[]).expect("a pattern"));
    config.shared_rings = traits.is_shared;
    config.with_other_users = traits.with_others;
    if traits.is_filtered {
        config.filters = vec![kymo_filter::parse("sim:e1: n & 1 == 0").expect("a filter")];
    }
    if let Some(rings) = rings {
        // Files take their whole size.
        config.ring_bytes = 4096;
        config.memory_bytes_max = 64 << 20;
        config.ring_dir = Some(rings.rings());
    }
    config
}
