// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder beside one slot: which events, when a snapshot is taken, where it lies.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_collect::{Config, KernelConfig, Patterns, Scope, Session, SnapshotRequest};
use kymo_lab::causes::Level;
use kymo_tracefs::{EventName, Tracefs, Wanted};

use super::super::measure::Beside;

/// Events that say where time went; what a kernel lacks of them is left out. Of timers only what expires: starts are
/// many.
const EVENTS: [&str; 20] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_pi_setprio",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "task:task_rename",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "power:cpu_idle",
    "power:cpu_frequency",
    "osnoise:nmi_noise",
    "osnoise:irq_noise",
];
/// All of the processor's own interrupts.
const VECTORS: &str = "irq_vectors:";
/// Of the probe's threads only. The starts of their timers: whoever reads a trace that was kept knows when they were
/// due.
const OF_PROBE: [&str; 5] = [
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "timer:hrtimer_start",
];
/// Signals that stop a thread: who sent them.
const SIGNALS: &str = "signal:signal_generate";
const STOPS: &str = "sig >= 19 && sig <= 22";
/// Where interrupts and preemption go off and on.
const OFF: &str = "preemptirq:";
/// A snapshot reaches further back than the time since the last look, by this and the longest sample.
const MARGIN: Duration = Duration::from_millis(500);

/// What this kernel can tell.
pub struct Kernel {
    events: Vec<String>,
    of_probe: Vec<String>,
    pub level: Level,
    pub cannot_see: Vec<String>,
}

impl Kernel {
    /// The events that it has. The error says why they cannot be had.
    pub fn find(irqs_off: bool, is_guest: bool) -> Result<Kernel, String> {
        let list = Tracefs::find().and_then(|tracefs| tracefs.events()).map_err(|error| error.to_string())?;
        let has = |name: &&str| list.iter().any(|event| event.to_string() == **name);
        let of_system = |system: &str| {
            list.iter().map(EventName::to_string).filter(|name| name.starts_with(system)).collect::<Vec<_>>()
        };
        let mut events: Vec<String> = EVENTS.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect();
        if !events.iter().any(|name| name == "sched:sched_switch") {
            return Err("this kernel has no sched:sched_switch".to_owned());
        }
        events.extend(of_system(VECTORS));
        events.extend(Some(SIGNALS).filter(has).map(|name| format!("{name}[{STOPS}]")));
        let off = of_system(OFF);
        let mut cannot_see = Vec::new();
        if irqs_off {
            events.extend(off.iter().cloned());
        }
        let is_seen = irqs_off && !off.is_empty();
        match (is_seen, off.is_empty()) {
            (true, _) => {}
            (false, false) => cannot_see.push(
                "who switched interrupts or preemption off, and where: inferred from what was due and did not come; --irqs-off records it".to_owned(),
            ),
            (false, true) => cannot_see.push(
                "who switched interrupts or preemption off, and where: this kernel has no such events; inferred from what was due and did not come"
                    .to_owned(),
            ),
        }
        if !list.iter().any(|event| event.system == "irq_vectors") {
            cannot_see.push(
                "the processor's own interrupts (timer, rescheduling): this kernel has no irq_vectors events"
                    .to_owned(),
            );
        }
        if is_guest {
            let looks = if is_seen { "" } else { "one with interrupts off, or like " };
            cannot_see.push(format!(
                "steal as such: in a guest a CPU that its host does not run looks like {looks}an interrupt's handler that takes long, so either may be called by the other's name"
            ));
        }
        cannot_see.push(
            "firmware, hypervisor and NMIs: a CPU that stands still without a record; of all CPUs at once it is called firmware".to_owned(),
        );
        let of_probe = OF_PROBE.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect();
        let level = if is_seen { Level::KernelTracers } else { Level::Tracepoints };
        Ok(Kernel { events, of_probe, level, cannot_see })
    }

    /// The settings of the kernel's part, for these threads of the probe.
    fn config(&self, tids: &[u32]) -> anyhow::Result<KernelConfig> {
        let own: Vec<String> = tids.iter().map(|tid| format!("common_pid == {tid}")).collect();
        let own = own.join(" || ");
        let mut wanted = self.events.clone();
        // The kernel's filters have a bound; with very many threads these events are left out.
        if own.len() < 2000 && !own.is_empty() {
            wanted.extend(self.of_probe.iter().map(|name| format!("{name}[{own}]")));
        }
        // Names of threads are in the switches: no state dump.
        Ok(KernelConfig { wanted: Wanted::parse(&wanted)?, state: None, ..KernelConfig::default() })
    }
}

/// A snapshot that was kept.
pub struct Shot {
    pub dir: PathBuf,
    pub took: Duration,
    /// Control groups of the probe's threads then.
    pub groups: Vec<(i32, String)>,
    /// Why it has less than it should, if so.
    pub caveats: Vec<String>,
}

/// The recorder of one slot.
pub struct Flight<'a> {
    kernel: &'a Kernel,
    dir: PathBuf,
    session: Option<Session>,
    shots: Vec<Shot>,
    /// The probe's threads.
    tids: Vec<u32>,
    /// There are worst samples that no snapshot has: the longest.
    pending: Option<Duration>,
    looked: Instant,
}

impl<'a> Flight<'a> {
    /// Into a directory that is made when it begins.
    pub fn new(kernel: &'a Kernel, dir: PathBuf) -> Flight<'a> {
        Flight {
            kernel,
            dir,
            session: None,
            shots: Vec::new(),
            tids: Vec::new(),
            pending: None,
            looked: Instant::now(),
        }
    }

    /// The snapshots, the oldest first.
    pub fn finish(self) -> Vec<Shot> {
        self.shots
    }

    fn shoot(&mut self) {
        let (Some(longest), Some(session)) = (self.pending.take(), &self.session) else { return };
        let Some(dir) = session.snapshot_dir() else { return };
        let before = Some(self.looked.elapsed() + longest + MARGIN);
        self.looked = Instant::now();
        let request = SnapshotRequest { dir, reason: format!("a sample of {longest:?}"), before };
        match session.snapshot(&request) {
            Ok(done) => {
                let caveats = done.caveats.into_iter().chain(done.write_error).collect();
                self.shots.push(Shot { dir: done.dir, took: done.took, groups: groups(&self.tids), caveats });
            }
            Err(error) => eprintln!("kymo: note: a snapshot failed: {error}"),
        }
    }
}

impl Beside for Flight<'_> {
    fn ready(&mut self, tids: &[u32]) -> anyhow::Result<()> {
        let mut config = Config::new(&self.dir);
        // The kernel's events alone: no program is asked for anything.
        (config.scope, config.patterns) = (Scope::Pids(Vec::new()), Patterns::default());
        config.flight = true;
        "explain".clone_into(&mut config.name);
        config.kernel = Some(self.kernel.config(tids)?);
        self.session = Some(Session::start(config).context("cannot record the kernel's events beside the test")?);
        self.looked = Instant::now();
        self.tids = tids.to_vec();
        Ok(())
    }

    fn worst(&mut self, longest: Duration) {
        self.pending = Some(self.pending.unwrap_or_default().max(longest));
        self.shoot();
    }

    fn over(&mut self) {
        self.shoot();
        if let Some(Err(error)) = self.session.take().map(Session::stop) {
            eprintln!("kymo: note: the recorder did not end well: {error}");
        }
    }
}

/// In which control groups threads are now; those that have ended are left out.
fn groups(tids: &[u32]) -> Vec<(i32, String)> {
    let group = |tid: &u32| {
        let text = std::fs::read(format!("/proc/{tid}/cgroup")).ok()?;
        let path = String::from_utf8_lossy(kymo_state::cgroup_in(&text)).into_owned();
        Some((i32::try_from(*tid).ok()?, path))
    };
    tids.iter().filter_map(group).collect()
}

/// Where snapshots lie until they have been looked at; for good where the user gave the directory.
pub struct TempDir {
    path: PathBuf,
    is_kept: bool,
}

impl TempDir {
    pub fn make(kept: Option<&Path>) -> anyhow::Result<TempDir> {
        let path = match kept {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("kymo-explain-{}", std::process::id())),
        };
        kymo_collect::make_private_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(TempDir { path, is_kept: kept.is_some() })
    }

    /// The directory of a slot.
    pub fn slot(&self, number: usize) -> PathBuf {
        self.path.join(format!("slot-{number:02}"))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
