// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo shield`: CPUs for one command alone. What is moved, and how it comes back, is in kymo-lab; here the command is
//! run.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, bail};
use kymo_lab::{GroupVersion, Machine, Restored, Shield, restore_left};

use crate::verbs::command::{self, Happened, Limits, Watcher};
use crate::verbs::units::{self, Cpus};

/// CPU shielding: run a command on CPUs that nothing else uses
///
/// The command gets a cpuset of its own (cgroup v2: an isolated partition where the kernel makes one; cgroup v1: a
/// cpuset). Other threads, interrupts and unbound kernel work are moved to the other CPUs, as far as the kernel lets
/// them, and what stays is said. When the command ends, everything is as it was; also after a SIGKILL of kymo, by kymo
/// shield --restore or the next kymo shield.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo shield 2-3 -- ./control-loop\n  kymo shield 3 -- kymo wakeup -c 3\n  kymo shield --restore           after a kymo that was killed\n\n\
    What a shield cannot give while the kernel runs: no tick (nohz_full=), RCU callbacks elsewhere (rcu_nocbs=), and managed\n\
    interrupts elsewhere (isolcpus=managed_irq,...); those are for the kernel's command line.\n\n\
    Exit status: that of the command, 128+N where signal N ended it; 0 restored, 1 not all; 2 errors."
)]
pub struct ShieldArgs {
    /// CPUs to shield, as 2-3,6
    #[arg(value_name = "CPUS", value_parser = units::cpus, required_unless_present = "restore")]
    cpus: Option<Cpus>,
    /// Restore what a killed kymo shield or kymo doctor --prove has changed
    #[arg(long, conflicts_with_all = ["cpus", "command"])]
    restore: bool,
    /// Print no messages about what was moved
    #[arg(short, long)]
    quiet: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "restore")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: ShieldArgs) -> anyhow::Result<ExitCode> {
    let is_whole = restore(args.restore)?;
    let Some(cpus) = args.cpus.filter(|_| !args.restore) else {
        return Ok(ExitCode::from(u8::from(!is_whole)));
    };
    if !rustix::process::geteuid().is_root() {
        bail!("only root can move interrupts and other users' threads; run it with sudo");
    }
    let machine = Machine::default();
    let limits = Limits::take();
    // Before anything is changed: from here on a signal ends the command, and we take everything back.
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    let cpus: kymo_lab::Cpus = cpus.0.iter().copied().collect();
    let shield = Shield::raise(&machine, &cpus, kymo_collect::RuntimeDir::own()?.path())?;
    if !args.quiet {
        say(&shield);
    }
    let status = run_in(&shield, &machine, &args.command, &limits, watcher);
    let failures = shield.lower();
    failures.iter().for_each(|failure| eprintln!("kymo: not restored: {failure}"));
    let status = status?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

/// A tracer of kymo hwlat --kernel that was killed goes on in its instance, and when it ends sets the threshold that it
/// began with: so it ends before the settings are put back.
fn end_left_tracer(dir: &Path) {
    let is_of_hwlat = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("undo-hwlat-");
    let has_left = std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_of_hwlat));
    if has_left {
        if let Ok(tracefs) = kymo_tracefs::Tracefs::find() {
            tracefs.remove_dead();
        }
    }
}

/// Takes back what killed processes left. Whether all of it could be.
pub(super) fn restore(is_asked: bool) -> anyhow::Result<bool> {
    let runtime = kymo_collect::RuntimeDir::own()?;
    let dir = runtime.path();
    end_left_tracer(dir);
    let restored = restore_left(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for Restored { purpose, pid, steps, failures } in &restored {
        eprintln!("kymo: took back {steps} changes of {purpose} (process {pid}, which was killed)");
        failures.iter().for_each(|failure| eprintln!("kymo: not restored: {failure}"));
    }
    if is_asked && restored.is_empty() {
        eprintln!("kymo: nothing to restore in {}", dir.display());
    }
    Ok(restored.iter().all(|restored| restored.failures.is_empty()))
}

/// Starts the command inside, and waits for it outside.
fn run_in(
    shield: &Shield,
    machine: &Machine,
    words: &[OsString],
    limits: &Limits,
    watcher: Watcher,
) -> anyhow::Result<ExitStatus> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    limits.restore_in(&mut command);
    shield.enter().context("cannot go into the shield")?;
    let started = command.spawn();
    shield.leave(machine).context("cannot leave the shield")?;
    let mut child = started.with_context(|| format!("cannot run {}", words[0].to_string_lossy()))?;
    let pid = child.id();
    let forward = move |happened| {
        if let Happened::Signal { number, from_terminal: false } = happened {
            command::signal(pid, number);
        }
        true
    };
    watcher.start(None, forward).context("cannot start a thread")?;
    child.wait().context("cannot wait for the command")
}

fn say(shield: &Shield) {
    let (group, why) = match &shield.group {
        Ok(group) => match &group.kind {
            GroupVersion::Isolated => ("an isolated partition".to_owned(), None),
            GroupVersion::Root => ("a partition, with load balancing inside".to_owned(), None),
            GroupVersion::Member(why) => ("a cpuset that is no partition".to_owned(), Some(why.clone())),
            GroupVersion::Version1 => ("a cpuset of cgroup v1".to_owned(), None),
        },
        Err(why) => ("affinity alone".to_owned(), Some(why.clone())),
    };
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    eprintln!("kymo: CPUs {} shielded by {group}{why}", shield.cpus);
    eprintln!("kymo: {} interrupts and {} threads moved away", shield.interrupts_moved, shield.threads_moved);
    if !shield.interrupts_left.is_empty() {
        eprintln!(
            "kymo: interrupts that stay (managed by their driver, or bound to a CPU): {}",
            shield.interrupts_left.join(", ")
        );
    }
    if !shield.threads_left.is_empty() {
        eprintln!("kymo: threads that stay (bound to these CPUs): {}", shield.threads_left.join(" "));
    }
    shield.notes.iter().for_each(|note| eprintln!("kymo: {note}"));
    eprintln!(
        "kymo: tick, RCU callbacks and managed interrupts stay as the kernel was booted (nohz_full=, rcu_nocbs=, isolcpus=managed_irq)"
    );
}
