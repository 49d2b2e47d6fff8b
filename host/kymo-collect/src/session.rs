//! A session from start to summary: its settings (`config`), its two threads, what is asked of it while it runs (`asked`; `select` switches
//! kernel events) and its summary's file.

mod asked;
mod config;
mod select;
mod summary_file;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::chunks::Chunks;
use crate::clock::{Calibration, Estimate, Source, choose};
use crate::control::{self, Control, Found, ToControl};
use crate::drain::{Counters, Drain, Report, ToDrain};
use crate::kernel::{self, Asked, Kernel, KernelConfig, KernelPart, KernelWatch, Needs, ReadyWatch, Recording};
use crate::metadata::{Metadata, datetime, environment};
use crate::private::make_private_dir;
use crate::runtime::RuntimeDir;
use crate::snapshot::{SnapshotDone, SnapshotRequest, Snapshots};
use crate::spares::Spares;
use crate::stream::Streams;
use crate::summary::Summary;
use crate::triggers::{Acted, Actor};
use crate::watch::{FIRED_MAX, Fired, Watch};
use crate::{Error, report};

pub use config::{Config, Format};

/// Of a flight recorder's thread, where nothing is said of the kernel's.
const FLIGHT_PRIORITY: u8 = 1;

/// The first program should not come before rings are ready for it.
const SPARE_TIME: Duration = Duration::from_millis(100);

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
        let (watch, kernel_watch) = match &watch_ends {
            Some((fired, _)) => watches(&config, &asked, source, &estimate, fired)?,
            None => (None, None),
        };
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
        summary_file::begin(&output, &initial)?;
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
        summary_file::write(&summary)?;
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

/// What looks for the causes of a flight recorder's triggers: among the programs' records, and, where one needs it, the kernel's.
fn watches(
    config: &Config,
    asked: &Asked,
    source: Source,
    estimate: &Estimate,
    fired: &mpsc::SyncSender<Fired>,
) -> Result<(Option<Watch>, Option<ReadyWatch>), Error> {
    let hz = estimate.frequency_hz;
    let origin = i128::from(estimate.offset_s) * 1_000_000_000
        + i128::from(estimate.offset_cycles) * 1_000_000_000 / i128::from(hz);
    let mut of_programs = Watch::new(&asked.of_programs(), &config.contexts, fired.clone(), (hz, origin));
    if asked.events.is_empty() {
        return Ok((Some(of_programs), None));
    }
    let of_kernel = config.kernel.as_ref().unwrap_or(&config.kernel_base);
    let needs = Needs { config: of_kernel, source, poll: config.poll, clock: (hz, origin), fired: fired.clone() };
    let ready = ReadyWatch::prepare(asked, needs)?;
    if ready.queue.is_some() {
        of_programs.learn_kernel(ready.classes.iter());
    }
    Ok((Some(of_programs), Some(ready)))
}

fn wake_up(fd: &OwnedFd) {
    // A full counter wakes as well.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
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
