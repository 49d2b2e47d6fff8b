//! A session from start to summary: its settings, its two threads, and what may be seen while it runs. `select` switches kernel events.

mod select;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kymo_filter::Filter;
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::chunks::{Chunk, Chunks, RotateJob, RotatedPart, Rotation};
use crate::clock::{Calibration, Source, choose};
use crate::context::Contexts;
use crate::control::{self, Changed, Control, Found, Offered, ToControl, View};
use crate::drain::{Counters, Drain, Report, RingUse, ToDrain};
use crate::kernel::{self, Kernel, KernelConfig, KernelPart, KernelWatch, Needs, ReadyWatch, Recording};
use crate::metadata::{Metadata, datetime, environment, replace};
use crate::pattern::Patterns;
use crate::private::make_private_dir;
use crate::runtime::RuntimeDir;
use crate::scope::Scope;
use crate::snapshot::{SnapshotDone, SnapshotRequest, Snapshots};
use crate::spares::Spares;
use crate::stream::Streams;
use crate::summary::{SUMMARY_FILE, Summary};
use crate::triggers::{Acted, Actor};
use crate::watch::{FIRED_MAX, Fired, Triggers, Watch};
use crate::{Error, report};

/// Of a flight recorder's thread, where nothing is said of the kernel's.
const FLIGHT_PRIORITY: u8 = 1;

/// The control thread answers within this; it never waits for a program.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The first program should not come before rings are ready for it.
const SPARE_TIME: Duration = Duration::from_millis(100);

/// The drain thread looks at its channel at every poll, but for snapshots; who asks for the status has a second.
const LOOK_TIME: Duration = Duration::from_millis(200);

/// Format of a trace's metadata; the packets are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text, read by everything.
    Ctf18,
    /// JSON fragments.
    Ctf2,
}

impl Format {
    /// The word in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Format::Ctf18 => "ctf-1.8",
            Format::Ctf2 => "ctf-2",
        }
    }
}

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name, for people; at most 40 bytes of it are told to programs.
    pub name: String,
    /// Directory of the trace. It is made if it does not exist, and must be empty.
    pub output: PathBuf,
    /// Which programs.
    pub scope: Scope,
    /// Which events.
    pub patterns: Patterns,
    /// Which records of them: those that all filters for their event select, decided in the program [spec/filter.md 6].
    pub filters: Vec<Filter>,
    /// The programs of one user share their rings [spec/session.md 13].
    pub shared_rings: bool,
    /// What records say besides thread and fields.
    pub contexts: Contexts,
    /// Bytes of one ring: a power of two between 4 KiB and 1 GiB.
    pub ring_bytes: u32,
    /// Bytes of all rings together.
    pub memory_bytes_max: u64,
    /// Time between two looks at the rings.
    pub poll: Duration,
    /// Flight recorder: rings are overwritten, and written out by [`Session::snapshot`] only.
    pub flight: bool,
    /// Writers whose program has agreed wait this long for room in a full ring [spec/session.md 12]; at most 10 s.
    pub block: Option<Duration>,
    /// Flight recorder: events with rings of their own, which are recorded and not overwritten.
    pub rare: Option<Patterns>,
    /// Rings are files in this directory, which survive the collector [`crate::recover`]; best on tmpfs or persistent memory.
    pub ring_dir: Option<PathBuf>,
    /// What a flight recorder watches for.
    pub triggers: Triggers,
    /// When the trace goes on in a new directory by itself: not for flight recorders.
    pub rotation: Rotation,
    /// The kernel's events, if they are wanted.
    pub kernel: Option<KernelConfig>,
    /// How the kernel's events are recorded where only triggers name some, or somebody switches some on later.
    pub kernel_base: KernelConfig,
    /// Go on without the kernel where it cannot be had.
    pub kernel_optional: bool,
    /// Format of the metadata.
    pub format: Format,
    /// The command that will be run, for the summary.
    pub command: Vec<String>,
    /// Other users' runtime directories to look into, see [`crate::other_users_dirs`].
    pub with_other_users: bool,
    /// The runtime directory, where it is not the usual one.
    pub runtime_dir: Option<PathBuf>,
}

impl Config {
    /// Everything, of all programs, with 4 MiB a ring and 1 GiB in all, into `output`.
    pub fn new(output: impl Into<PathBuf>) -> Config {
        Config {
            name: "kymo".to_owned(),
            output: output.into(),
            scope: Scope::All,
            patterns: Patterns::new(&[], &[]).unwrap_or_default(),
            filters: Vec::new(),
            shared_rings: false,
            contexts: Contexts::default(),
            ring_bytes: 4 << 20,
            memory_bytes_max: 1 << 30,
            poll: Duration::from_millis(1),
            flight: false,
            rare: None,
            triggers: Triggers::default(),
            block: None,
            ring_dir: None,
            rotation: Rotation::default(),
            kernel: None,
            kernel_base: KernelConfig::default(),
            kernel_optional: false,
            format: Format::Ctf18,
            command: Vec::new(),
            with_other_users: false,
            runtime_dir: None,
        }
    }
}

/// Counts of a running session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records written.
    pub records: u64,
    /// Bytes of records written.
    pub bytes: u64,
    /// Records lost, for whatever cause.
    pub lost: u64,
    /// Programs that have ring memory now.
    pub programs: u64,
    /// True once the trace can no longer be written.
    pub stopped: bool,
    /// True once a trigger wants the session to end.
    pub triggered: bool,
}

/// A running session. Dropping it without [`Session::stop`] ends it as if the collector had died.
#[derive(Debug)]
pub struct Session {
    control: Option<JoinHandle<Found>>,
    drain: Option<JoinHandle<Report>>,
    kernel: Option<Recording>,
    kernel_watch: Option<KernelWatch>,
    kernel_base: KernelConfig,
    child_files: Option<ChildFiles>,
    marker: Option<PathBuf>,
    snapshots: Option<Arc<Snapshots>>,
    actor: Option<JoinHandle<Acted>>,
    triggered: Arc<AtomicU64>,
    to_control: mpsc::Sender<ToControl>,
    to_drain: mpsc::Sender<ToDrain>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicU64>,
    counters: Arc<Counters>,
    programs: Arc<AtomicU64>,
    source: Source,
    /// Where the trace is written to; `None` of a flight recorder.
    chunks: Option<Chunks>,
    /// What the summary needs of the start.
    start: report::Start,
}

impl Session {
    /// Starts a session: when this returns, programs find it, those that run already are being attached, and the
    /// trace's first metadata is written.
    pub fn start(mut config: Config) -> Result<Session, Error> {
        if config.shared_rings {
            config.contexts = config.contexts.shared();
        }
        crate::check_filters(&config.filters)?;
        raise_file_limit();
        let dir = &config.output;
        make_private_dir(dir).map_err(Error::file("make directory", dir))?;
        let output = fs::canonicalize(dir).map_err(Error::file("find directory", dir))?;
        let source = Source(choose());
        let mut caveats = Vec::new();
        let KernelPart { kernel, asked } = kernel::prepare(&config, source, &mut caveats)?;
        let mut calibration = Calibration::start(source);
        let chunks = Chunks::begin(output.clone(), config.rotation.clone(), calibration.start_cycles())?;
        let trace_dir = chunks.current().to_owned();
        let created = datetime(calibration.start_realtime_ns());
        let uuid = random_uuid("/proc/sys/kernel/random/uuid", calibration.start_cycles());
        let metadata = Metadata {
            dir: trace_dir.clone(),
            format: config.format,
            uuid,
            boot: random_uuid("/proc/sys/kernel/random/boot_id", 0),
            clock: source.0,
            contexts: config.contexts.clone(),
            env: environment(&config.name, source.0, &created, kernel.as_ref().map(Kernel::naming)),
            kernel: kernel.as_ref().map(|kernel| kernel.classes.clone()),
        };
        let runtime = match &config.runtime_dir {
            Some(path) => RuntimeDir::make(path)?,
            None => RuntimeDir::own()?,
        };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::system("make an eventfd"))?;
        let wake = Arc::new(wake);
        let (commands, from_control) = mpsc::channel();
        let counters = Arc::new(Counters::default());
        let streams = Streams::new(&trace_dir, uuid);
        let drain_wake = Arc::clone(&wake);
        let triggers = config.flight.then(|| config.triggers.clone());
        let watch_ends = triggers.as_ref().map(|_| mpsc::sync_channel::<Fired>(FIRED_MAX));
        let mut spares = control::spare_layout(&config, source.0).and_then(Spares::new);
        thread::sleep(Calibration::FIRST.saturating_sub(calibration.age()));
        calibration.refine();
        let estimate = calibration.estimate();
        let (mut watch, mut kernel_watch) = (None, None);
        if let Some((fired, _)) = &watch_ends {
            let (hz, fired) = (estimate.frequency_hz, fired.clone());
            let origin = i128::from(estimate.offset_s) * 1_000_000_000
                + i128::from(estimate.offset_cycles) * 1_000_000_000 / i128::from(hz);
            let mut of_programs = Watch::new(&asked.of_programs(), &config.contexts, fired.clone(), (hz, origin));
            if !asked.events.is_empty() {
                let of_kernel = config.kernel.as_ref().unwrap_or(&config.kernel_base);
                let needs = Needs { config: of_kernel, source, poll: config.poll, clock: (hz, origin), fired };
                let ready = ReadyWatch::prepare(&asked, needs)?;
                if ready.queue.is_some() {
                    of_programs.learn_kernel(ready.classes.iter());
                }
                kernel_watch = Some(ready);
            }
            watch = Some(of_programs);
        }
        let kernel_records = kernel_watch.as_ref().and_then(|ready| ready.queue.clone());
        let mut drain = Drain::new(
            source,
            config.poll,
            from_control,
            Arc::clone(&counters),
            streams,
            Box::new(move || wake_up(&drain_wake)),
            (config.flight, watch, kernel_records),
        );
        if config.flight {
            drain.priority = config.kernel.as_ref().map_or(FLIGHT_PRIORITY, |kernel| kernel.priority);
        }
        let mut start = report::Start::new(&config, output.clone(), &calibration);
        start.caveats = caveats;
        let initial = start.initial(&calibration.estimate());
        let mut text = summary_text(&initial);
        // Room to write the final one in place, should the file system be full then.
        text.resize(text.len().next_multiple_of(16_384), b' ');
        replace(&output, SUMMARY_FILE, &text).map_err(Error::file("write", output.join(SUMMARY_FILE)))?;
        let (stop, programs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let shared = (Arc::clone(&wake), Arc::clone(&stop), Arc::clone(&counters), Arc::clone(&programs));
        let (flight, to_drain) = (config.flight, commands.clone());
        let frequency_hz = calibration.estimate().frequency_hz;
        let (to_control, requests) = mpsc::channel();
        let kernel_base = config.kernel_base.clone();
        spares.iter_mut().for_each(|spares| spares.wait(SPARE_TIME));
        let mut control = Control::new(config, runtime, metadata, calibration, commands, requests, shared)?;
        control.spares = spares;
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let drain = spawn("kymo-drain").spawn(move || drain.run()).map_err(Error::system("start a thread"))?;
        let control = spawn("kymo-control").spawn(move || control.run()).map_err(Error::system("start a thread"))?;
        let mut session = Session {
            control: Some(control),
            drain: Some(drain),
            kernel: None,
            kernel_watch: None,
            kernel_base,
            child_files: None,
            marker: None,
            snapshots: None,
            actor: None,
            triggered: Arc::default(),
            to_control,
            to_drain: to_drain.clone(),
            wake,
            stop,
            counters: Arc::clone(&counters),
            programs,
            source,
            chunks: (!flight).then_some(chunks),
            start,
        };
        if let Some(kernel) = kernel {
            session.marker = Some(kernel.instance.marker());
            session.child_files = kernel.child_files()?;
            session.kernel = Some(kernel.start(source, counters, (&trace_dir, uuid), flight)?);
        }
        if flight {
            let kernel = Mutex::new(session.kernel.as_ref().map(Recording::side));
            let dir = output;
            let snapshots = Snapshots {
                to_drain,
                kernel,
                source,
                frequency_hz,
                dir,
                count: Mutex::new(0),
                asked_for: Mutex::default(),
            };
            session.snapshots = Some(Arc::new(snapshots));
        }
        let priority = kernel_watch.as_ref().map_or(0, |ready| ready.priority);
        session.kernel_watch = kernel_watch.map(ReadyWatch::start).transpose()?;
        if let (Some(triggers), Some((_, fired)), Some(snapshots)) = (triggers, watch_ends, &session.snapshots) {
            let (snapshots, stop) = (Arc::clone(snapshots), Arc::clone(&session.triggered));
            let actor = Actor { triggers, fired, snapshots, stop, priority };
            session.actor =
                Some(spawn("kymo-trigger").spawn(move || actor.run()).map_err(Error::system("start a thread"))?);
        }
        Ok(session)
    }

    /// Counts so far.
    pub fn progress(&self) -> Progress {
        Progress {
            records: self.counters.records.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            lost: self.counters.lost.load(Ordering::Relaxed),
            programs: self.programs.load(Ordering::Relaxed),
            stopped: self.counters.stopped.load(Ordering::Relaxed) != 0,
            triggered: self.triggered.load(Ordering::Acquire) != 0,
        }
    }

    /// What a command's first process writes to between `fork` and `exec`, where only the command's kernel events are wanted.
    pub fn child_files(&mut self) -> Option<ChildFiles> {
        self.child_files.take()
    }

    /// The file that a program can write marks to; the kernel stamps them. `None` without the kernel.
    pub fn marker(&self) -> Option<&Path> {
        self.marker.as_deref()
    }

    /// Takes snapshots of this session, also from another thread; `None` where it is no flight recorder.
    pub fn snapshots(&self) -> Option<Taker> {
        self.snapshots.clone().map(Taker)
    }

    /// Flight recorder: writes the last moments of all rings into a directory, as a trace. No writer waits or is stopped. Takes
    /// as long as copying and writing take; one at a time.
    pub fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotDone, Error> {
        match &self.snapshots {
            Some(snapshots) => snapshots.take(request, None),
            None => Err(Error::NotFlight),
        }
    }

    /// A directory for the next snapshot, below that of the session.
    pub fn snapshot_dir(&self) -> Option<PathBuf> {
        self.snapshots.as_ref().map(|snapshots| snapshots.next_dir())
    }

    /// Switches the programs' events that match on or off, in those that run and those that come. When this returns, the
    /// programs have been told; each obeys in its helper thread.
    pub fn select(&self, patterns: &[String], on: bool) -> Result<Changed, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::Select { patterns: patterns.to_vec(), on, reply });
        self.answer(&answer)?.map_err(Error::Refused)
    }

    /// Bytes of each ring of programs that come from now on: a power of two between 4 KiB and 1 GiB.
    pub fn set_ring_bytes(&self, bytes: u32) {
        self.ask_control(ToControl::RingBytes(bytes, None));
    }

    /// The same, and of programs that run: they are offered such rings, and go over to them without losing a record. When this
    /// returns they have been told; [`View::offers_open`] says how many have not answered.
    pub fn change_rings(&self, bytes: u32) -> Result<Offered, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::RingBytes(bytes, Some(reply)));
        self.answer(&answer)
    }

    /// What there is to see of programs and memory.
    pub fn view(&self) -> Result<View, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::View(reply));
        self.answer(&answer)
    }

    /// How full the programs' rings are, by program (see [`crate::ProgramView::serial`]) and lane; at most 4096. `None` while the
    /// drain thread writes something that takes longer, as a snapshot.
    pub fn ring_use(&self) -> Option<Vec<RingUse>> {
        let (reply, answer) = mpsc::channel();
        self.to_drain.send(ToDrain::Look(reply)).ok()?;
        answer.recv_timeout(LOOK_TIME).ok()
    }

    /// The trace goes on in a new directory; what was written so far is a complete trace of its own, the chunk that is returned.
    pub fn rotate(&mut self, reason: &str) -> Result<Chunk, Error> {
        let result = self.rotate_once(reason);
        // A full disk, perhaps, and something to make room.
        let is_file = matches!(result, Err(Error::File { .. }));
        if is_file && self.chunks.as_mut().is_some_and(Chunks::make_room) {
            return self.rotate_once(reason);
        }
        result
    }

    /// The same where it is time for it.
    pub fn rotate_if_due(&mut self) -> Result<Option<Chunk>, Error> {
        let bytes = self.counters.bytes.load(Ordering::Relaxed);
        match self.chunks.as_ref().and_then(|chunks| chunks.due(bytes)) {
            Some(reason) => self.rotate(reason).map(Some),
            None => Ok(None),
        }
    }

    /// How long it is not time for a new chunk; `None` where none comes by itself.
    pub fn next_rotation(&self) -> Option<Duration> {
        self.chunks.as_ref().and_then(Chunks::next_look)
    }

    /// Says when the trace is to be cut from now on.
    pub fn set_rotation(&mut self, rotation: Rotation) -> Result<(), Error> {
        let chunks = self.chunks.as_mut().ok_or(Error::Flight)?;
        chunks.rotation = rotation;
        Ok(())
    }

    /// When the trace is cut by itself; `None` of a flight recorder.
    pub fn rotation(&self) -> Option<&Rotation> {
        self.chunks.as_ref().map(|chunks| &chunks.rotation)
    }

    /// The directory that is written to now.
    pub fn current_dir(&self) -> Option<&Path> {
        self.chunks.as_ref().map(Chunks::current)
    }

    fn rotate_once(&mut self, reason: &str) -> Result<Chunk, Error> {
        let Some(chunks) = &mut self.chunks else { return Err(Error::Flight) };
        let next = chunks.make_next()?;
        let uuid = random_uuid("/proc/sys/kernel/random/uuid", self.source.read());
        let (sender, parts) = mpsc::channel();
        let (reply, answer) = mpsc::channel();
        let job = RotateJob { dir: next.clone(), uuid, reply: sender };
        self.ask_control(ToControl::Rotate { job: job.clone(), reply });
        self.answer(&answer)?.inspect_err(|_| {
            let _ = fs::remove_dir_all(&next);
        })?;
        let mut whole = RotatedPart::default();
        if let Some(kernel) = &mut self.kernel {
            whole.written.add(&kernel.rotate(job));
        } else {
            drop(job);
        }
        // As many as there are threads with streams; the last one drops the channel's other end.
        while let Ok(part) = parts.recv_timeout(ANSWER_TIME) {
            whole.add(&part);
        }
        let at = (self.source.read(), self.counters.bytes.load(Ordering::Relaxed));
        let chunks = self.chunks.as_mut().ok_or(Error::Flight)?;
        chunks.go_on(next, at, &whole, reason)
    }

    fn ask_control(&self, request: ToControl) {
        // Where the thread is gone, waiting for the answer says so.
        let _ = self.to_control.send(request);
        wake_up(&self.wake);
    }

    fn answer<T>(&self, answer: &mpsc::Receiver<T>) -> Result<T, Error> {
        answer.recv_timeout(ANSWER_TIME).map_err(|_| Error::Thread { thread: "control" })
    }

    /// Ends the session: programs are told and waited for (200 ms at most), the rings are emptied, metadata and summary
    /// are written.
    pub fn stop(mut self) -> Result<Summary, Error> {
        let acted = self.settle_triggers()?;
        self.signal_stop();
        let failed = |thread| move |_| Error::Thread { thread };
        let found = self.control.take().map(JoinHandle::join);
        let found = found.ok_or(Error::Thread { thread: "control" })?.map_err(failed("control"))?;
        let report = self.drain.take().map(JoinHandle::join);
        let report = report.ok_or(Error::Thread { thread: "drain" })?.map_err(failed("drain"))?;
        let kernel = self.kernel.take().map(Recording::finish).transpose()?;
        let mut written = report.streams.written();
        if let Some(kernel) = &kernel {
            written.add(&kernel.report.streams.written());
            kernel.state.iter().for_each(|state| written.add(&state.streams.written()));
        }
        let mut summary = self.start.summary(found, report, kernel);
        if let Some(chunks) = self.chunks.take() {
            (summary.chunks, summary.chunks_left_out) = chunks.end(summary.end, written, summary.records);
        }
        if let Some(mut acted) = acted {
            let asked_for = self.snapshots.as_ref().map(|snapshots| snapshots.take_asked_for());
            acted.snapshots.extend(asked_for.unwrap_or_default());
            acted.snapshots.sort_by_key(|done| done.at);
            summary.caveats.extend(acted.errors.iter().cloned());
            summary.flight = Some(acted);
        }
        write_summary(&summary)?;
        Ok(summary)
    }

    /// Triggers look for the last time, and what they fired is dealt with while the rings are still there.
    fn settle_triggers(&mut self) -> Result<Option<Acted>, Error> {
        match self.kernel_watch.take().map(KernelWatch::finish) {
            None | Some(Ok(0)) => {}
            Some(Ok(unseen)) => self.start.caveats.push(format!(
                "triggers did not see {unseen} records of the kernel: the ring that is watched was full, or damaged; a shorter --poll-us or \
                 conditions on fewer events help"
            )),
            Some(Err(error)) => self.start.caveats.push(format!("watching the kernel did not end well: {error}")),
        }
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.to_drain.send(ToDrain::Settle);
        }
        self.actor.take().map(JoinHandle::join).transpose().map_err(|_| Error::Thread { thread: "trigger" })
    }

    fn signal_stop(&self) {
        self.stop.store(1, Ordering::Release);
        wake_up(&self.wake);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.settle_triggers() {
            tracing::error!(%error, "triggers could not be settled");
        }
        self.signal_stop();
        if let Some(Err(error)) = self.kernel.take().map(Recording::finish) {
            tracing::error!(%error, "the kernel part could not be ended");
        }
        let control = self.control.take().map(JoinHandle::join);
        // The control thread says so too, unless it has failed.
        let _ = self.to_drain.send(ToDrain::Finish);
        let drain = self.drain.take().map(JoinHandle::join);
        if control.is_some_and(|result| result.is_err()) || drain.is_some_and(|result| result.is_err()) {
            tracing::error!("a thread of the collector failed");
        }
    }
}

/// Takes snapshots of a session, as long as it runs.
#[derive(Clone, Debug)]
pub struct Taker(Arc<Snapshots>);

impl Taker {
    /// As [`Session::snapshot`].
    pub fn take(&self, request: &SnapshotRequest) -> Result<SnapshotDone, Error> {
        self.0.take(request, None)
    }
}

/// Two files of a tracefs instance.
#[derive(Debug)]
pub struct ChildFiles {
    /// Takes process ids, in digits.
    pub pids: OwnedFd,
    /// Takes "1": recording begins.
    pub on: OwnedFd,
}

fn wake_up(fd: &OwnedFd) {
    // A full counter wakes as well.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

fn summary_text(summary: &Summary) -> Vec<u8> {
    let mut text =
        serde_json::to_vec_pretty(summary).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}").into_bytes());
    text.push(b'\n');
    text
}

/// Writes the summary; into the old file's place where there is no room for a new one.
fn write_summary(summary: &Summary) -> Result<(), Error> {
    let path = summary.trace.join(SUMMARY_FILE);
    let mut text = summary_text(summary);
    if replace(&summary.trace, SUMMARY_FILE, &text).is_ok() {
        return Ok(());
    }
    let room = fs::metadata(&path).map_or(0, |old| old.len() as usize);
    if text.len() > room {
        text = serde_json::to_vec(summary).unwrap_or_default();
    }
    if text.len() > room {
        let short = Summary { losses: Vec::new(), processes: Vec::new(), events: Vec::new(), ..summary.clone() };
        text = serde_json::to_vec(&short).unwrap_or_default();
    }
    text.resize(text.len().max(room), b' ');
    let file = fs::File::options().write(true).open(&path).map_err(Error::file("open", &path))?;
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(&text, 0).map_err(Error::file("write", &path))
}

/// One descriptor a program and stream file: as many as the system allows.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// A UUID from a file of the kernel; where it cannot be read, one of version 4 from what there is.
fn random_uuid(path: &str, seed: u64) -> [u8; 16] {
    let text = fs::read_to_string(path).unwrap_or_default();
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    if digits.len() == 32 {
        return std::array::from_fn(|index| digits[index * 2] << 4 | digits[index * 2 + 1]);
    }
    let mixed =
        u128::from(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ u128::from(std::process::id());
    let mut uuid = mixed.to_le_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
