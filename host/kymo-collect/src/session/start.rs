// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of a session: what it needs is made in the order in which it can fail without leaving anything, then
//! programs can find it, then its threads run.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::config::Config;
use super::{Session, summary_file, wake_up};
use crate::chunks::Chunks;
use crate::clock::{Calibration, ClockSource, choose};
use crate::control::{self, Control, System, ToControl, Wiring};
use crate::drain::{Counters, Drain, Flight, Sink, ToDrain};
use crate::ids::Registry;
use crate::kernel::{self, Kernel, KernelConditions, KernelPart, KernelSink, Needs, ReadyWatch, Recording, TracePlace};
use crate::mark_pipe::MarkPipe;
use crate::metadata::{Metadata, datetime, environment};
use crate::private::make_private_dir;
use crate::runtime::{RuntimeDir, other_users_dirs};
use crate::snapshot::Snapshots;
use crate::spares::Spares;
use crate::stream::Streams;
use crate::trace_dir::{DiskDir, TraceDir as _};
use crate::trigger::{Fired, Triggers};
use crate::triggers::Actor;
use crate::uuid::random_uuid;
use crate::watch::{ConditionClock, FIRED_MAX, Watch};
use crate::{Error, report};

/// Of a flight recorder's thread, where nothing is said of the kernel's.
const FLIGHT_PRIORITY: u8 = 1;
/// The first program should not come before rings are ready for it.
const SPARE_TIME: Duration = Duration::from_millis(100);

/// A session whose directories exist, and of whose clock two readings are there.
struct Begun {
    config: Config,
    source: ClockSource,
    /// The session's directory.
    output: PathBuf,
    dir: DiskDir,
    kernel: Option<Kernel>,
    /// What triggers ask of the kernel.
    asked: KernelConditions,
    calibration: Calibration,
    chunks: Chunks,
    /// Where the trace is written to at first.
    trace_dir: PathBuf,
    uuid: [u8; 16],
    runtime: RuntimeDir,
    wake: Arc<OwnedFd>,
    spares: Option<Spares>,
    summary: report::Start,
}

/// What a flight recorder has besides rings: triggers, and what they fire.
struct FlightParts {
    triggers: Triggers,
    fired: Receiver<Fired>,
    watch: Watch,
    kernel_watch: Option<ReadyWatch>,
}

/// The ends of the threads' channels, and their counters.
struct Ends {
    to_drain: Sender<ToDrain>,
    from_control: Receiver<ToDrain>,
    to_control: Sender<ToControl>,
    /// The control thread's.
    wiring: Wiring,
    stop: Arc<AtomicU64>,
    counters: Arc<Counters>,
    programs: Arc<AtomicU64>,
}

impl Ends {
    fn new() -> Ends {
        let (to_drain, from_control) = mpsc::channel();
        let (to_control, requests) = mpsc::channel();
        let (stop, counters, programs) = (Arc::default(), Arc::default(), Arc::default());
        let wiring = Wiring {
            commands: to_drain.clone(),
            requests,
            stop: Arc::clone(&stop),
            counters: Arc::clone(&counters),
            programs: Arc::clone(&programs),
        };
        Ends { to_drain, from_control, to_control, wiring, stop, counters, programs }
    }
}

impl Session {
    /// Starts a session: when this returns, programs find it, those that run already are being attached, and the
    /// trace's first metadata is written.
    pub fn start(config: Config) -> Result<Session, Error> {
        let begun = Begun::new(config)?;
        let parts = begun.config.flight.then(|| begun.flight_parts()).transpose()?;
        summary_file::begin(&begun.output, &begun.summary.initial(&begun.calibration.estimate()))?;
        let (sink, actor) = match parts {
            None => (Sink::Stream, None),
            Some(FlightParts { triggers, fired, watch, kernel_watch }) => {
                let records = kernel_watch.as_ref().and_then(|ready| ready.queue.clone());
                let priority = begun.config.kernel.as_ref().map_or(FLIGHT_PRIORITY, |kernel| kernel.priority);
                let flight = Flight::new(Some(watch), records, priority);
                (Sink::Flight(Box::new(flight)), Some((triggers, fired, kernel_watch)))
            }
        };
        let ends = Ends::new();
        let frequency_hz = begun.calibration.estimate().frequency_hz;
        let (trace_dir, uuid) = (begun.trace_dir.clone(), begun.uuid);
        let (mut session, kernel) = begun.run(ends, sink)?;
        if let Some(kernel) = kernel {
            session.marker = Some(kernel.instance.marker());
            session.child_files = kernel.child_files()?;
            let counters = Arc::clone(&session.counters);
            let sink = if actor.is_some() { KernelSink::Flight } else { KernelSink::Stream };
            session.kernel =
                Some(kernel.start(session.source, counters, TracePlace { dir: &trace_dir, uuid }, sink)?);
        }
        if let Some((triggers, fired, kernel_watch)) = actor {
            session.watch_for(triggers, fired, kernel_watch, frequency_hz)?;
        }
        Ok(session)
    }

    /// A flight recorder can take snapshots, and its triggers ask for some.
    fn watch_for(
        &mut self,
        triggers: Triggers,
        fired: Receiver<Fired>,
        kernel_watch: Option<ReadyWatch>,
        frequency_hz: u64,
    ) -> Result<(), Error> {
        let snapshots = Arc::new(Snapshots {
            to_drain: self.to_drain.clone(),
            kernel: Mutex::new(self.kernel.as_ref().map(Recording::side)),
            source: self.source,
            frequency_hz,
            dir: self.dir.path().to_owned(),
            count: Mutex::new(0),
            asked_for: Mutex::default(),
        });
        self.snapshots = Some(Arc::clone(&snapshots));
        let priority = kernel_watch.as_ref().map_or(0, |ready| ready.priority);
        self.kernel_watch = kernel_watch.map(ReadyWatch::start).transpose()?;
        let (source, stop) = (self.source, Arc::clone(&self.triggered));
        let actor = Actor { source, triggers, fired, snapshots, stop, priority };
        self.actor = Some(spawn("kymo-trigger", move || actor.run())?);
        Ok(())
    }
}

impl Begun {
    fn new(mut config: Config) -> Result<Begun, Error> {
        if config.shared_rings {
            config.contexts = config.contexts.shared();
        }
        config.contexts = config.contexts.compact(config.compact);
        crate::check_filters(&config.filters)?;
        raise_file_limit();
        let dir = &config.output;
        make_private_dir(dir).map_err(Error::file("make directory", dir))?;
        let output = fs::canonicalize(dir).map_err(Error::file("find directory", dir))?;
        let dir = DiskDir::new(&output);
        let source = ClockSource::new(choose());
        let mut caveats = Vec::new();
        let KernelPart { kernel, asked } = kernel::prepare(&config, source, &mut caveats)?;
        let mut calibration = Calibration::start(source);
        let (source, start) = (calibration.source(), calibration.start_cycles());
        let chunks = Chunks::begin(output.clone(), config.rotation.clone(), source, start)?;
        let trace_dir = chunks.current().to_owned();
        let uuid = random_uuid("/proc/sys/kernel/random/uuid", calibration.start_cycles());
        let runtime = match &config.runtime_dir {
            Some(path) => RuntimeDir::make(path)?,
            None => RuntimeDir::own()?,
        };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::system("make an eventfd"))?;
        let wake = Arc::new(wake);
        let spares = control::spare_layout(&config, source.clock()).and_then(Spares::new);
        source.sleep(Calibration::FIRST.saturating_sub(calibration.age()));
        calibration.refine();
        let mut summary = report::Start::new(&config, output.clone(), &calibration);
        summary.caveats = caveats;
        Ok(Begun {
            config,
            source,
            output,
            dir,
            kernel,
            asked,
            calibration,
            chunks,
            trace_dir,
            uuid,
            runtime,
            wake,
            spares,
            summary,
        })
    }

    fn flight_parts(&self) -> Result<FlightParts, Error> {
        let (fire, fired) = mpsc::sync_channel::<Fired>(FIRED_MAX);
        let (watch, kernel_watch) = watches(self, &fire)?;
        Ok(FlightParts { triggers: self.config.triggers.clone(), fired, watch, kernel_watch })
    }

    fn metadata(&self) -> Metadata {
        let (config, kernel, clock) = (&self.config, self.kernel.as_ref(), self.source.clock());
        let created = datetime(self.calibration.start_realtime_ns());
        Metadata {
            dir: DiskDir::boxed(&self.trace_dir),
            format: config.format,
            uuid: self.uuid,
            boot: random_uuid("/proc/sys/kernel/random/boot_id", 0),
            clock,
            contexts: config.contexts.clone(),
            env: environment(&config.name, clock, &created, kernel.map(Kernel::naming)),
            kernel: kernel.map(|kernel| kernel.classes.clone()),
        }
    }

    /// Writes the first metadata, lets programs find the session, and starts its two threads. Returns the kernel part,
    /// which comes after them.
    fn run(mut self, ends: Ends, sink: Sink) -> Result<(Session, Option<Kernel>), Error> {
        let Ends { to_drain, from_control, to_control, wiring, stop, counters, programs } = ends;
        let (source, is_flight) = (self.source, self.config.flight);
        let drain_wake = Arc::clone(&self.wake);
        let drain = Drain::new(
            source,
            self.config.poll,
            from_control,
            Arc::clone(&counters),
            Streams::new(DiskDir::boxed(&self.trace_dir), self.uuid, source),
            Box::new(move || wake_up(&drain_wake)),
            sink,
        );
        let metadata = self.metadata();
        self.spares.iter_mut().for_each(|spares| spares.wait(SPARE_TIME));
        metadata
            .write(&Registry::default(), &self.calibration.estimate())
            .map_err(Error::file("write", metadata.dir.path().join("metadata")))?;
        let channels = Control::channels(&self.config, &self.calibration);
        let others = others(&self.config, &self.runtime);
        let mut system = System::new(self.runtime, others, &channels, Arc::clone(&self.wake))?;
        let mut marker = None;
        if self.kernel.is_none() {
            let pipe = MarkPipe::new().map_err(Error::system("make a pipe"))?;
            marker = Some(pipe.path());
            system.take_marks_from(pipe)?;
        }
        let kernel_base = self.config.kernel_base.clone();
        let mut control = Control::new(self.config, Box::new(system), &channels, metadata, self.calibration, wiring);
        control.spares = self.spares;
        let drain = spawn("kymo-drain", move || drain.run())?;
        let control = spawn("kymo-control", move || control.run())?;
        let session = Session {
            control: Some(control),
            drain: Some(drain),
            kernel: None,
            kernel_watch: None,
            kernel_base,
            child_files: None,
            marker,
            snapshots: None,
            actor: None,
            triggered: Arc::default(),
            to_control,
            to_drain,
            wake: self.wake,
            stop,
            counters,
            programs,
            source,
            chunks: (!is_flight).then_some(self.chunks),
            dir: self.dir,
            start: self.summary,
        };
        Ok((session, self.kernel))
    }
}

/// Runtime directories of other users, where their programs are wanted.
fn others(config: &Config, own: &RuntimeDir) -> Vec<RuntimeDir> {
    let mut others = if config.with_other_users { other_users_dirs() } else { Vec::new() };
    others.retain(|other| other.path() != own.path());
    others
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Error> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Error::system("start a thread"))
}

/// What looks for the causes of a flight recorder's triggers: among the programs' records, and, where one needs it, the
/// kernel's.
fn watches(begun: &Begun, fired: &SyncSender<Fired>) -> Result<(Watch, Option<ReadyWatch>), Error> {
    let (config, asked, source) = (&begun.config, &begun.asked, begun.source);
    let estimate = begun.calibration.estimate();
    let frequency_hz = estimate.frequency_hz;
    let origin_ns = i128::from(estimate.offset_s) * 1_000_000_000
        + i128::from(estimate.offset_cycles) * 1_000_000_000 / i128::from(frequency_hz);
    let clock = ConditionClock { frequency_hz, origin_ns };
    let mut of_programs = Watch::new(&asked.of_programs(), &config.contexts, fired.clone(), clock);
    if asked.events.is_empty() {
        return Ok((of_programs, None));
    }
    let of_kernel = config.kernel.as_ref().unwrap_or(&config.kernel_base);
    let needs = Needs { config: of_kernel, source, poll: config.poll, clock, fired: fired.clone() };
    let ready = ReadyWatch::prepare(asked, needs)?;
    if ready.queue.is_some() {
        of_programs.learn_kernel(ready.classes.iter());
    }
    Ok((of_programs, Some(ready)))
}

/// One descriptor a program and stream file: as many as the system allows.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
