// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies below and around: hypervisors, containers, and how busy everything is.

use crate::environment::steal;
use crate::{Severity, Unread, cgroup};

use super::check::{Check, Look};
use super::context::{Context, Target};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "guest",
        title: "hypervisor below this system",
        severity: Severity::High,
        wanted: "no hypervisor, or one with CPUs of its own for this guest",
        why: "The host can stop a virtual CPU at any time and for any time; the cause is not to be seen from inside.",
        now: "on the host: pin the virtual CPUs, isolate those CPUs there, and see its own kymo doctor",
        keep: "a real-time host, or no virtual machine",
        see: "Documentation/virt/kvm/",
        look: |context| match context.guest.as_ref().map_err(Clone::clone)?.as_deref() {
            Some("unknown") => Ok(Look::Problem("a guest; its hypervisor does not tell its name".to_owned())),
            Some(name) => Ok(Look::Problem(format!("a guest of {name}"))),
            None => Ok(Look::Ok("none that can be seen".to_owned())),
        },
    },
    Check {
        id: "steal",
        title: "time that the hypervisor took since boot",
        severity: Severity::High,
        wanted: "0",
        why: "A thread was ready and its CPU was not there.",
        now: "fewer guests on the host, or pinned CPUs",
        keep: "CPUs of the host that belong to this guest alone",
        see: "man 5 proc_stat",
        look: |context| match (&context.guest, steal(context.machine)) {
            (Ok(None), _) => Ok(Look::Not("no guest")),
            (Err(reason), _) => Err(reason.clone()),
            (_, None) => Err(Unread("/proc/stat has no steal time".to_owned())),
            (_, Some((stolen, total))) => {
                let share = stolen as f64 * 100.0 / total.max(1) as f64;
                Ok(Look::when(stolen > 0, format!("{share:.3} % ({stolen} ticks)")))
            }
        },
    },
    Check {
        id: "container",
        title: "container",
        severity: Severity::Info,
        wanted: "known: kernel settings are the host's",
        why: "Most of this list can only be changed outside.",
        now: "run kymo doctor on the host, too",
        keep: "docker run --cap-add sys_nice --ulimit rtprio=99 --ulimit memlock=-1 --cpuset-cpus CPUS",
        see: "man 7 cgroups",
        look: |context| match context.container.as_ref().map_err(Clone::clone)?.as_deref() {
            Some("unknown") => Ok(Look::Problem("a namespace of processes of its own; nobody marked it".to_owned())),
            Some(name) => Ok(Look::Problem(name.to_owned())),
            None => Ok(Look::Ok("none".to_owned())),
        },
    },
    Check {
        id: "cpu-quota",
        title: "quota of the control group",
        severity: Severity::High,
        wanted: "none",
        why: "A group that has used its quota stands still until its period ends, up to 100 ms.",
        now: "echo max > cpu.max in the group (cgroup v1: echo -1 > cpu.cfs_quota_us)",
        keep: "no CPUQuota= in the unit, no --cpus for the container",
        see: "Documentation/admin-guide/cgroup-v2.rst",
        look: quota,
    },
    Check {
        id: "other-quotas",
        title: "quotas of all control groups of this machine",
        severity: Severity::Info,
        wanted: "known: none for groups with real-time work",
        why: "What runs in such a group stands still when its quota is used, whoever started it.",
        now: "systemd-cgls, or cat cgroup.procs in the group, shows what it has",
        keep: "no CPUQuota= in units that matter",
        see: "Documentation/admin-guide/cgroup-v2.rst",
        look: quotas,
    },
    Check {
        id: "busy",
        title: "load of the machine now",
        severity: Severity::Info,
        wanted: "known: what you measure now is with this load",
        why: "Threads that wait for a CPU wait for each other; so does what you measure without real-time priority.",
        now: "stop what need not run, or measure on purpose with it",
        keep: "kymo load for a load that can be repeated",
        see: "Documentation/accounting/psi.rst",
        look: |context| {
            let text = context.text("/proc/loadavg")?;
            let load: Option<f64> = text.split_whitespace().next().and_then(|word| word.parse().ok());
            let load = load.ok_or_else(|| Unread(format!("/proc/loadavg: {text:?} has no load")))?;
            let cpus = context.online()?.len();
            Ok(Look::when(load > cpus as f64, format!("load average {load:.2} on {cpus} CPUs")))
        },
    },
];

/// Quotas that a line names.
const NAMED_MAX: usize = 6;

/// The quotas of the target's groups, and of any group above them.
fn quota(context: &Context<'_>) -> Result<Look, Unread> {
    let groups = cgroup::of_process(context.machine, &context.process_dir())?;
    if groups.is_empty() {
        return Ok(Look::Not("no control group shares out CPU time"));
    }
    let found = cgroup::quotas(context.machine, &groups)?;
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    Ok(Look::when(!found.is_empty(), if found.is_empty() { "none".to_owned() } else { shown.join(", ") }))
}

/// Those of all groups, where the machine itself is asked about.
fn quotas(context: &Context<'_>) -> Result<Look, Unread> {
    if *context.target != Target::Machine {
        return Ok(Look::Not("asked of a machine, not of a process or command"));
    }
    let groups = cgroup::of_process(context.machine, "/proc/self")?;
    if groups.is_empty() {
        return Ok(Look::Not("no control group shares out CPU time"));
    }
    let (found, is_cut) = cgroup::all_quotas(context.machine, &groups)?;
    let shown: Vec<String> = found.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = match found.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    match (found.is_empty(), is_cut) {
        (false, _) => Ok(Look::Problem(shown.join(", ") + &more)),
        (true, true) => Err(Unread("none in the first groups; there are too many to look at all".to_owned())),
        (true, false) if context.is_contained() => {
            Err(Unread("none in this container; the groups of the host cannot be seen from here".to_owned()))
        }
        (true, false) => Ok(Look::Ok("none".to_owned())),
    }
}
