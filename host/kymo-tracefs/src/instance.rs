// SPDX-License-Identifier: MIT OR Apache-2.0
//! An instance of our own: made, set, enabled, read, removed [spec/kernel.md 2].

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::guard::Guard;
use crate::leftovers::{self, Name};
use crate::refused::{self, Watch};
use crate::settings::{self, Settings};
use crate::{Chosen, CpuReader, Error, EventName, Probe, Tracefs, file, probe};

/// How often an instance is made anew when a cleaner takes it between `mkdir` and the lock.
const TRIALS: usize = 16;

/// How long removing waits for files that are still open.
const REMOVE_TRIES: Duration = Duration::from_secs(1);

/// Between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The first pid namespace has this inode in every kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// An instance that this process made and has locked. Removed when it goes, panics included.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    name: Name,
    path: PathBuf,
    cpus: Vec<u32>,
    rings: usize,
    page_bytes: usize,
    removed: bool,
    /// Removes it if we are killed.
    guard: Option<Guard>,
    // The lock ends when this closes, so it is the last field.
    _lock: OwnedFd,
}

impl Tracefs {
    /// An instance of our own, locked, stopped, with its settings made. Leaves nothing behind when it fails.
    pub fn create(&self, settings: &Settings) -> Result<Instance, Error> {
        Instance::create(self.clone(), settings)
    }
}

impl Instance {
    fn create(tracefs: Tracefs, settings: &Settings) -> Result<Instance, Error> {
        let Made { name, path, lock, guard } = make(&tracefs)?;
        let (cpus, rings, page_bytes, removed) = (Vec::new(), 0, 0, false);
        let mut instance = Instance { tracefs, name, path, cpus, rings, page_bytes, removed, guard, _lock: lock };
        // A failure from here on removes it, as it goes.
        instance.stop()?;
        let have = settings::cpus_of(&instance.path)?;
        instance.rings = have.len();
        instance.cpus = settings::cpus_within(settings.cpus.as_deref(), &have)?;
        settings::apply(&instance.path, settings, have.len())?;
        let mask = instance.path.join("tracing_cpumask");
        file::write("choose CPUs", &mask, &settings::mask(&instance.cpus))?;
        instance.page_bytes = settings::page_bytes(&instance.path)?;
        Ok(instance)
    }

    /// `kymo-PID-NONCE`.
    pub fn name(&self) -> String {
        self.name.instance()
    }

    /// Its directory. Only for this process, if the mount is our own (see [`Tracefs::shared`]).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tracefs that it is of.
    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    /// The group that its probes are made in.
    pub fn probe_group(&self) -> String {
        self.name.group()
    }

    /// Sets filters, then enables events. All, or none and an error that names the event.
    /// An event without a filter records all, whatever filter it had.
    pub fn enable(&self, chosen: &[Chosen]) -> Result<(), Error> {
        let enabled = self.set_filters(chosen).and_then(|()| {
            chosen.iter().try_for_each(|chosen| {
                let file = self.event_file(&chosen.event, "enable");
                file::write_raw(&file, "1").map_err(|error| self.enable_error(&chosen.event, &file, error))
            })
        });
        if enabled.is_err() {
            self.undo(chosen);
        }
        enabled
    }

    fn set_filters(&self, chosen: &[Chosen]) -> Result<(), Error> {
        chosen.iter().try_for_each(|chosen| match &chosen.filter {
            Some(filter) => self.set_filter(&chosen.event, filter),
            None => self.clear_filter(&chosen.event),
        })
    }

    fn set_filter(&self, event: &EventName, filter: &str) -> Result<(), Error> {
        let path = self.event_file(event, "filter");
        let watch = Watch::begin(&[self.path.join("error_log"), self.tracefs.root().join("error_log")]);
        let refused = match file::write_raw(&path, filter) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match Errno::from_io_error(&refused) {
            Some(Errno::INVAL | Errno::TOOBIG | Errno::NOSPC | Errno::NODEV) => {}
            _ => return Err(self.enable_error(event, &path, refused)),
        }
        let words = watch.words(filter).or_else(|| refused::from_filter_file(&path));
        let words = words.unwrap_or_else(|| refused.to_string());
        Err(Error::Filter { event: event.clone(), filter: filter.to_owned(), words })
    }

    /// Takes a filter away, where there is one: most events have none, and looking costs less than writing.
    fn clear_filter(&self, event: &EventName) -> Result<(), Error> {
        let path = self.event_file(event, "filter");
        match file::read("record the event", &path) {
            Ok(text) if text.trim_end() == "none" => Ok(()),
            // Some events have no filter file; then they have no filter.
            Err(Error::Feature { .. }) => Ok(()),
            Ok(_) => file::write("take the event's filter away", &path, "0"),
            Err(error) => Err(error),
        }
    }

    fn enable_error(&self, event: &EventName, path: &Path, source: io::Error) -> Error {
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM | Errno::NOENT) => Error::file("record the event", path, source),
            _ => Error::Enable { event: event.clone(), source },
        }
    }

    fn undo(&self, chosen: &[Chosen]) {
        for Chosen { event, filter, .. } in chosen {
            // What was not done needs no undoing; the first error is the one to be told.
            let _ = file::write_raw(&self.event_file(event, "enable"), "0");
            if filter.is_some() {
                let _ = file::write_raw(&self.event_file(event, "filter"), "0");
            }
        }
    }

    /// Makes events of probes, in a group of this instance's own; gives their names, each once. They are enabled as
    /// other events are, and removed with the instance. All, or none and an error with the kernel's words.
    pub fn add_probes(&self, probes: &[Probe]) -> Result<Vec<EventName>, Error> {
        probe::add(self.tracefs.root(), &self.name.group(), &self.path.join("error_log"), probes)
    }

    /// Turns these events off. Their filters stay until [`Instance::enable`] sets others.
    pub fn disable_events(&self, events: &[EventName]) -> Result<(), Error> {
        events.iter().try_for_each(|event| file::switch("disable an event", &self.event_file(event, "enable"), false))
    }

    /// Turns all events off. Their filters stay until [`Instance::enable`] sets others.
    pub fn disable(&self) -> Result<(), Error> {
        file::switch("disable events", &self.path.join("events/enable"), false)
    }

    /// Records these processes only, and those that they fork from now on. An empty list limits nothing.
    /// The ids are those of threads to the kernel, as seen in its first pid namespace.
    pub fn only(&self, pids: &[u32]) -> Result<(), Error> {
        let path = self.limit_to_processes(!pids.is_empty())?;
        file::clear("limit to processes", &path)?;
        pids.iter().try_for_each(|pid| append_pid(&path, *pid))
    }

    /// A file into which a child writes its own process id (decimal, one `write`) between fork and exec, so that it
    /// and what it forks are recorded, and nothing else: from this call on nobody is, unless [`Instance::only`] named
    /// some. Closes at exec. The instance cannot be removed while it is open.
    pub fn pid_file(&self) -> Result<OwnedFd, Error> {
        let path = self.limit_to_processes(true)?;
        if file::read("limit to processes", &path)?.trim().is_empty() {
            append_pid(&path, unused_pid())?;
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|error| Error::file("limit to processes", &path, error.into()))
    }

    /// Sets whether children follow their parents, and gives the path of the list.
    fn limit_to_processes(&self, limit: bool) -> Result<PathBuf, Error> {
        if limit && !in_first_pid_namespace() {
            return Err(Error::PidNamespace);
        }
        file::switch("follow forks", &self.path.join("options/event-fork"), limit)?;
        Ok(self.path.join("set_event_pid"))
    }

    /// From now on the ring takes events.
    pub fn start(&self) -> Result<(), Error> {
        file::switch("start recording", &self.path.join("tracing_on"), true)
    }

    /// From now on the ring takes no event. What is in it can be read.
    pub fn stop(&self) -> Result<(), Error> {
        file::switch("stop recording", &self.path.join("tracing_on"), false)
    }

    /// The CPUs that are recorded, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.clone()
    }

    /// Opens the ring of one CPU. Readers are closed before the instance is removed.
    pub fn reader(&self, cpu: u32) -> Result<CpuReader, Error> {
        CpuReader::open(&self.path.join(format!("per_cpu/cpu{cpu}")), self.page_bytes)
    }

    /// Size of a sub-buffer: the room that [`CpuReader::read`] needs.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Changes the size of each CPU's ring, also while recording. [`Error::RingTooLarge`] leaves it as it was.
    pub fn set_ring_bytes(&self, bytes_per_cpu: u64) -> Result<(), Error> {
        settings::set_ring(&self.path, bytes_per_cpu, self.rings)
    }

    /// The size of each CPU's ring as the kernel made it, bytes: the smallest of those that are recorded.
    pub fn ring_bytes(&self) -> Result<u64, Error> {
        let mut smallest = u64::MAX;
        for &cpu in &self.cpus {
            smallest = smallest.min(settings::ring_bytes(&self.path, cpu)?);
        }
        Ok(smallest)
    }

    /// The file that takes marks, by a path that other processes can open while this one lives: through
    /// `/proc/OURPID/fd` if the mount is our own, for which they need the rights of ptrace over us.
    /// Where old events are not overwritten, a mark that finds the ring full is dropped, and its write gives EBADF.
    pub fn marker(&self) -> PathBuf {
        self.tracefs.shared(&self.path.join("trace_marker"))
    }

    /// Stops, disables, removes probes and the instance. Waits up to 1 s for files that are still open, then gives
    /// [`Error::Busy`]; what stays is removed by the guard once we are gone, or by the next session.
    pub fn remove(mut self) -> Result<(), Error> {
        self.removed = true;
        leftovers::quiet(&self.path);
        leftovers::remove_group(self.tracefs.root(), &self.name.group());
        let begin = Instant::now();
        loop {
            match rustix::fs::rmdir(&self.path) {
                Ok(()) | Err(Errno::NOENT) => {
                    self.guard.take().into_iter().for_each(Guard::end);
                    return Ok(());
                }
                Err(Errno::BUSY) if begin.elapsed() < REMOVE_TRIES => std::thread::sleep(REMOVE_PAUSE),
                Err(Errno::BUSY) => return Err(Error::Busy { path: self.path.clone() }),
                Err(error) => return Err(Error::file("remove the instance", &self.path, error.into())),
            }
        }
    }

    fn event_file(&self, event: &EventName, file: &str) -> PathBuf {
        self.path.join("events").join(&event.system).join(&event.name).join(file)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        leftovers::quiet(&self.path);
        leftovers::remove_group(self.tracefs.root(), &self.name.group());
        // There is nobody to tell; what stays is removed by the guard.
        if rustix::fs::rmdir(&self.path).is_ok() {
            self.guard.take().into_iter().for_each(Guard::end);
        }
    }
}

/// An instance's directory, with what holds it.
struct Made {
    name: Name,
    path: PathBuf,
    lock: OwnedFd,
    guard: Option<Guard>,
}

/// Makes an instance and locks it. A cleaner may lock it in between; then it is the cleaner's, and another is made.
fn make(tracefs: &Tracefs) -> Result<Made, Error> {
    let root = tracefs.root();
    let instances = root.join("instances");
    for _ in 0..TRIALS {
        let name = Name::new(std::process::id(), nonce());
        let path = instances.join(name.instance());
        // First, so that there is no moment without: from here on it ends with us, or goes when this returns.
        let guard = Guard::start(&tracefs.shared(root), &name);
        let end = |guard: Option<Guard>| guard.into_iter().for_each(Guard::end);
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                end(guard);
                continue;
            }
            Err(error) => {
                end(guard);
                return Err(mkdir_error(root, &instances, error));
            }
        }
        match leftovers::lock(&path) {
            Ok(Some(lock)) => return Ok(Made { name, path, lock, guard }),
            Ok(None) => end(guard),
            Err(error) => {
                let _ = rustix::fs::rmdir(&path);
                end(guard);
                return Err(Error::file("lock the instance", &path, error.into()));
            }
        }
    }
    Err(Error::Raced { path: instances })
}

fn mkdir_error(root: &Path, instances: &Path, error: Errno) -> Error {
    if !matches!(error, Errno::NOMEM | Errno::NOSPC | Errno::MLINK | Errno::NFILE) {
        return Error::file("make an instance", instances, error.into());
    }
    Error::NoInstance {
        path: instances.to_owned(),
        cause: error.into(),
        default_kib: settings::default_ring_kib(root),
        cpus: settings::cpus_of(root).unwrap_or_default().len(),
    }
}

/// Random enough that two sessions of one process, or of processes with one id, do not meet.
fn nonce() -> u32 {
    let bits = RandomState::new().hash_one(Instant::now());
    u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default()
}

fn append_pid(path: &Path, pid: u32) -> Result<(), Error> {
    file::append_raw(path, &pid.to_string()).map_err(|error| match Errno::from_io_error(&error) {
        // The file was opened before, so a lack of rights is not meant.
        Some(Errno::INVAL | Errno::SRCH | Errno::RANGE | Errno::PERM) => Error::Pid { pid, source: error },
        _ => Error::file("limit to processes", path, error),
    })
}

fn in_first_pid_namespace() -> bool {
    // Without /proc there is nothing to tell by; then ids are taken as they are.
    std::fs::read_link("/proc/self/ns/pid").map_or(true, |link| link.as_os_str() == FIRST_PID_NAMESPACE)
}

/// A process id that nobody has now, from the end of the range, which is used last.
fn unused_pid() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let max: u32 = text.trim().parse().unwrap_or(32_768);
    let free = |pid: &u32| !Path::new("/proc").join(pid.to_string()).exists();
    (1..max).rev().find(free).unwrap_or(max - 1)
}
