// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as a source of a session [spec/kernel.md]: an instance of tracefs, its events, and the thread that turns
//! its rings into packets. `access` is how rings are read, `ring` one CPU's ring, `drain` the thread, `state` the state
//! dump, `summary` what is said at the end.

mod access;
mod begin;
mod child_files;
mod conditions;
mod config;
mod drain;
mod names;
pub(crate) mod payload;
mod ring;
mod select;
mod selected;
mod state;
mod summary;
mod threads;
mod watch;

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use kymo_ctf::write::EventClass;
use kymo_ftrace::{Decoder, Naming, format};
use kymo_tracefs::{Chosen, EventName, Instance, Settings, Tracefs};

use crate::Error;
use crate::chunks::RotateJob;
use crate::clock::ClockSource;
use crate::drain::Counters;
use crate::samples::{self, Sampling};
use crate::snapshot::SnapshotJob;
use crate::written::Written;

use access::RingAccess;
pub(crate) use begin::{KernelPart, prepare};
pub use child_files::ChildFiles;
pub(crate) use conditions::{KernelConditions, Nameable};
pub(crate) use config::STATE_FIRST_ID;
pub use config::{KernelConfig, Only, kernel_ring_bytes};
use config::{clock_of, subbuf_bytes};
use drain::Duty;
pub(crate) use drain::{Drain, KernelSink, Order, Report, TracePlace};
use names::{FieldNames, system_in_trace};
pub use select::{KernelChanged, KernelView};
use selected::Selected;
pub(crate) use state::StateDump;
pub use summary::{KernelCause, KernelLoss, KernelLost, KernelSummary, StateSummary};
pub(crate) use threads::ThreadNames;
pub(crate) use watch::{KernelWatch, Needs, Queue, ReadyWatch};

/// Looks at the threads of a process that is to be followed: one that makes threads without end must not hold up the
/// session.
const LOOKS_MAX: usize = 16;

/// Events as a trace has them: what decodes their records, and their classes.
struct Described {
    decoder: Decoder,
    classes: Vec<EventClass>,
}

/// Reads the formats of the chosen events, and of marks.
fn describe(
    tracefs: &Tracefs,
    instance: &Instance,
    chosen: &[Chosen],
    naming: Naming,
    caveats: &mut Vec<String>,
) -> Result<Described, Error> {
    let page = format::parse_page_format(&tracefs.header_page()?).map_err(Error::format("events/header_page"))?;
    let mut decoder = Decoder::new(page);
    let mut classes = Vec::with_capacity(chosen.len() + 1);
    let mut fields = FieldNames::default();
    let mark = Chosen { event: EventName::new("ftrace", "print"), filter: None, fields: None };
    for chosen in chosen.iter().chain([&mark]) {
        let name = &chosen.event;
        let text = tracefs.format(name)?;
        let format = format::parse_event(&text).map_err(Error::format(&name.to_string()))?;
        if format.id >= STATE_FIRST_ID {
            caveats.push(format!("{name} was left out: its id {} is too large for a trace", format.id));
            continue;
        }
        fields.note(chosen, &format);
        let system = system_in_trace(instance, &name.system);
        classes.push(decoder.add(system, &format, naming, chosen.fields.as_deref()));
    }
    fields.check()?;
    Ok(Described { decoder, classes })
}

/// What keeps the names and processes of the state dump true until its end, whatever else is recorded: the kernel's
/// system and event, and the name in the trace, where they belong to the state dump unless the user asked for the
/// event.
const NAMING_EVENTS: [(&str, &str, &str); 3] = [
    ("task", "task_newtask", "kymo_statedump_task_newtask"),
    ("task", "task_rename", "kymo_statedump_task_rename"),
    ("sched", "sched_process_exec", "kymo_statedump_process_exec"),
];

/// The kernel part of a session, ready to record.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub instance: Arc<Instance>,
    pub classes: Vec<EventClass>,
    /// Remarks on what was found and left out.
    pub caveats: Vec<String>,
    clock: String,
    naming: Naming,
    overwrite: bool,
    chosen: Vec<Chosen>,
    /// Those of [`NAMING_EVENTS`] that nobody asked for.
    beside: Vec<Chosen>,
    decoder: Decoder,
    state: Option<kymo_state::Options>,
    only: Only,
    /// Samples a second, if there are to be any.
    frequency: Option<u32>,
    priority: u8,
    access: RingAccess,
}

impl Kernel {
    /// Makes the instance and chooses the events; nothing is recorded yet.
    pub(crate) fn prepare(config: &KernelConfig, source: ClockSource) -> Result<Kernel, Error> {
        let access = RingAccess::chosen()?;
        let tracefs = Tracefs::find()?;
        let mut caveats: Vec<String> = tracefs.remove_dead().into_iter().map(left_behind).collect();
        let clock = clock_of(source)?;
        let mut chosen = config.wanted.choose(&tracefs.events()?)?;
        let mut probes = Vec::new();
        for spec in &config.probes {
            probes.extend(spec.resolve()?);
        }
        caveats.extend(probes.iter().flat_map(|probe| probe.caveats().iter().cloned()));
        let settings = Settings {
            clock: clock.to_owned(),
            ring_bytes_per_cpu: config.ring_bytes,
            subbuf_bytes: config.subbuf_bytes.or_else(|| subbuf_bytes(config.ring_bytes)),
            overwrite: config.overwrite,
            cpus: config.cpus.clone(),
        };
        let instance = tracefs.create(&settings)?;
        instance.stop()?;
        let added = instance.add_probes(&probes)?;
        chosen.extend(added.into_iter().map(|event| Chosen { event, filter: None, fields: None }));
        if config.wanted.sample_frequency().is_some() && config.only != Only::Everything {
            return Err(Error::Refused(
                "perf:cpu-clock samples the whole system: record without --only, and let kymo top --process choose"
                    .to_owned(),
            ));
        }
        let Described { mut decoder, mut classes } =
            describe(&tracefs, &instance, &chosen, config.naming, &mut caveats)?;
        let mut beside = Vec::new();
        if config.state.is_some() {
            beside = add_naming(&tracefs, &mut decoder, config.naming, &chosen, &mut classes);
            classes.extend(kymo_state::classes(STATE_FIRST_ID));
        }
        if config.wanted.sample_frequency().is_some() {
            classes.extend(samples::classes(&classes));
        }
        let instance = Arc::new(instance);
        let (naming, overwrite) = (config.naming, config.overwrite);
        let (state, only) = (config.state.clone(), config.only.clone());
        let clock = settings.clock;
        Ok(Kernel {
            instance,
            classes,
            caveats,
            clock,
            naming,
            overwrite,
            chosen,
            beside,
            decoder,
            state,
            only,
            frequency: config.wanted.sample_frequency(),
            priority: config.priority,
            access,
        })
    }

    /// Its probes, as conditions can name them.
    pub(crate) fn probes(&self) -> Vec<Nameable> {
        let group = self.instance.probe_group();
        let own = self.chosen.iter().filter(|chosen| chosen.event.system == group);
        own.map(|chosen| Nameable::new(chosen.event.clone(), "uprobe", self.naming)).collect()
    }

    /// Whose names its events have.
    pub(crate) fn naming(&self) -> Naming {
        self.naming
    }

    /// What a command's first process writes to before it becomes the command: its own id, then "1".
    pub(crate) fn child_files(&self) -> Result<Option<ChildFiles>, Error> {
        if self.only != Only::Command {
            return Ok(None);
        }
        let path = self.instance.path().join("tracing_on");
        let on = std::fs::File::options().write(true).open(&path).map_err(Error::file("open", path))?;
        Ok(Some(ChildFiles { pids: self.instance.pid_file()?, on: on.into() }))
    }

    /// Switches the events on, dumps the state, and starts the thread.
    pub(crate) fn start(
        self,
        source: ClockSource,
        counters: Arc<Counters>,
        into: TracePlace<'_>,
        sink: KernelSink,
    ) -> Result<Recording, Error> {
        let (orders, received) = mpsc::channel();
        let TracePlace { dir, uuid } = into;
        let samples = self.samples(source, into, sink)?;
        let duty = Duty { orders: received, sink, priority: self.priority, access: self.access };
        let drain = Drain::new(&self.instance, self.decoder, source, counters, into, duty)?;
        if let Only::Pids(pids) = &self.only {
            follow(&self.instance, pids)?;
        }
        self.instance.enable(&[&self.chosen[..], &self.beside[..]].concat())?;
        // The thread is there first: under load this one may have to wait for longer than it takes to fill a ring.
        let builder = thread::Builder::new().name("kymo-kernel".to_owned());
        let thread = builder.spawn(move || drain.run()).map_err(Error::system("start a thread"))?;
        if self.only != Only::Command {
            self.instance.start()?;
        }
        let options = self.state.clone();
        // A snapshot of a flight recorder has a dump of its own.
        let mut state =
            self.state.filter(|_| sink == KernelSink::Stream).map(|options| StateDump::new(options, source, dir, uuid));
        if let Some(state) = &mut state {
            state.dump();
        }
        let name = |event: &EventName| format!("{}:{}", system_in_trace(&self.instance, &event.system), event.name);
        let events = self.chosen.iter().map(|chosen| name(&chosen.event)).collect();
        let selected = Selected::new(&self.chosen, &self.beside);
        Ok(Recording {
            is_restricted: self.only != Only::Everything,
            samples,
            naming: self.naming,
            selected,
            instance: self.instance,
            thread,
            orders,
            state,
            options,
            source,
            uuid,
            clock: self.clock,
            overwrite: self.overwrite,
            events,
            caveats: self.caveats,
        })
    }
}

impl Kernel {
    /// Begins to take samples, if there are to be any.
    fn samples(&self, source: ClockSource, into: TracePlace<'_>, sink: KernelSink) -> Result<Option<Sampling>, Error> {
        let Some(frequency) = self.frequency else { return Ok(None) };
        if sink == KernelSink::Flight {
            return Err(Error::Refused(
                "a flight recorder takes no samples: record perf:cpu-clock in another session".to_owned(),
            ));
        }
        Sampling::start(frequency, self.priority, &self.instance.cpus(), source, into.dir, into.uuid).map(Some)
    }
}

/// A kernel that is being recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    instance: Arc<Instance>,
    thread: JoinHandle<Report>,
    orders: Sender<Order>,
    state: Option<StateDump>,
    options: Option<kymo_state::Options>,
    source: ClockSource,
    uuid: [u8; 16],
    clock: String,
    overwrite: bool,
    /// To the threads of chosen processes.
    is_restricted: bool,
    samples: Option<Sampling>,
    naming: Naming,
    /// Every event that was on for a while.
    events: Vec<String>,
    pub selected: Selected,
    caveats: Vec<String>,
}

/// What snapshots need of a kernel that is being recorded.
#[derive(Clone, Debug)]
pub(crate) struct KernelSide {
    orders: Sender<Order>,
    options: Option<kymo_state::Options>,
    source: ClockSource,
    uuid: [u8; 16],
}

impl KernelSide {
    /// Asks for a snapshot of the rings; the answer comes by the job's channel.
    pub(crate) fn order(&self, job: SnapshotJob) {
        let _ = self.orders.send(Order::Snapshot(job));
    }

    /// Dumps the state into the directory of a snapshot.
    pub(crate) fn dump_state(&self, dir: &std::path::Path) -> Option<StateSummary> {
        let mut state = StateDump::new(self.options.clone()?, self.source, dir, self.uuid);
        state.dump();
        state.finish();
        Some(state.summary())
    }
}

/// What a recording of the kernel came to.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub report: Report,
    pub state: Option<StateDump>,
    /// What samples wrote into the present directory.
    pub of_samples: Written,
    pub summary: KernelSummary,
}

impl Recording {
    /// What snapshots need of it.
    pub(crate) fn side(&self) -> KernelSide {
        let Recording { orders, options, source, uuid, .. } = self;
        KernelSide { orders: orders.clone(), options: options.clone(), source: *source, uuid: *uuid }
    }

    /// The trace goes on in the directory of `job`, with a state dump of its own; the thread answers by the job's
    /// channel. Returns what the state dump wrote into the directory behind.
    pub(crate) fn rotate(&mut self, job: RotateJob) -> Written {
        let (dir, uuid) = (job.dir.clone(), job.uuid);
        self.samples.iter().for_each(|samples| samples.rotate(job.clone()));
        let _ = self.orders.send(Order::Rotate(job));
        self.state.as_mut().map_or_else(Written::default, |state| state.go_on_in(&dir, uuid))
    }

    /// Ends it: second state dump, events off, rings emptied, instance removed.
    pub(crate) fn finish(mut self) -> Result<Recorded, Error> {
        if let Some(state) = &mut self.state {
            state.dump();
            state.finish();
        }
        let samples = self.samples.take().map(Sampling::finish).transpose()?;
        let mut caveats = std::mem::take(&mut self.caveats);
        let mut note = |result: Result<(), kymo_tracefs::Error>| {
            caveats.extend(result.err().map(|error| error.to_string()));
        };
        note(self.instance.stop());
        let _ = self.orders.send(Order::Stop);
        let report = self.thread.join().map_err(|_| Error::Thread { thread: "kernel" })?;
        note(self.instance.disable());
        let ring_bytes = self.instance.ring_bytes().unwrap_or(0);
        let name = self.instance.name().to_owned();
        match Arc::try_unwrap(self.instance) {
            Ok(instance) => note(instance.remove()),
            // Removed when the last owner lets go.
            Err(_shared) => {}
        }
        let state_bytes = self.state.as_ref().map(StateDump::summary);
        let mut summary = KernelSummary::new(name, self.clock, self.events, ring_bytes, self.overwrite);
        (summary.state, summary.only) = (state_bytes, self.is_restricted);
        summary.caveats = caveats;
        report.add_to(&mut summary);
        let (samples, of_samples) = samples.unzip();
        summary.add_samples(samples);
        Ok(Recorded { report, state: self.state, of_samples: of_samples.unwrap_or_default(), summary })
    }
}

/// Adds what names threads, as far as it was not chosen and the kernel has it.
fn add_naming(
    tracefs: &Tracefs,
    decoder: &mut Decoder,
    naming: Naming,
    chosen: &[Chosen],
    classes: &mut Vec<EventClass>,
) -> Vec<Chosen> {
    let mut beside = Vec::new();
    for (system, event, name) in NAMING_EVENTS {
        let event = EventName::new(system, event);
        let format = tracefs.format(&event).ok().and_then(|text| format::parse_event(&text).ok());
        let is_free = |format: &format::EventFormat| {
            format.id < STATE_FIRST_ID && !chosen.iter().any(|chosen| chosen.event == event)
        };
        if let Some(format) = format.filter(is_free) {
            classes.push(decoder.add_aside(system, &format, naming, name));
            beside.push(Chosen { event, filter: None, fields: None });
        }
    }
    beside
}

/// Restricts the instance to all threads of these processes. The kernel's list is one of threads, and follows what
/// these create; those that others create while the list is written are found by another look.
fn follow(instance: &Instance, pids: &[u32]) -> Result<(), Error> {
    let mut listed = Vec::new();
    for _ in 0..LOOKS_MAX {
        let found = threads_of(pids);
        if found == listed {
            break;
        }
        instance.only(&found)?;
        listed = found;
    }
    Ok(())
}

/// Threads of these processes, ascending. A process that has ended is there by its own id: its list must not be empty,
/// which would restrict nothing.
fn threads_of(pids: &[u32]) -> Vec<u32> {
    let mut threads = pids.to_vec();
    for pid in pids {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.extend(tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()));
    }
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn left_behind(name: String) -> String {
    format!("removed what a dead session had left in tracefs: {name}")
}
