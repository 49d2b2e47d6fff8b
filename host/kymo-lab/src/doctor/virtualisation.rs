// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies below and around: hypervisors, containers, and how busy everything is.

use crate::Severity;
use crate::environment::steal;

use super::check::{Check, Look};
use super::context::Context;

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
        look: |context| match &context.guest {
            Some(name) if name == "unknown" => {
                Look::Problem("a guest; its hypervisor does not tell its name".to_owned())
            }
            Some(name) => Look::Problem(format!("a guest of {name}")),
            None if context.machine.has("/proc/cpuinfo") => Look::Ok("none that can be seen".to_owned()),
            None => Look::Unread("/proc/cpuinfo".to_owned()),
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
        look: |context| match (context.guest.is_some(), steal(context.machine)) {
            (false, _) => Look::Not("no guest"),
            (true, None) => Look::Unread("/proc/stat has no steal time".to_owned()),
            (true, Some((stolen, total))) => {
                let share = stolen as f64 * 100.0 / total.max(1) as f64;
                Look::when(stolen > 0, format!("{share:.3} % ({stolen} ticks)"))
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
        look: |context| match &context.container {
            Some(name) => Look::Problem(name.clone()),
            None => Look::Ok("none".to_owned()),
        },
    },
    Check {
        id: "cpu-quota",
        title: "quota of the control group",
        severity: Severity::High,
        wanted: "none",
        why: "A group that has used its quota stands still until its period ends, up to 100 ms.",
        now: "echo max > cpu.max in the group",
        keep: "no CPUQuota= in the unit, no --cpus for the container",
        see: "Documentation/admin-guide/cgroup-v2.rst",
        look: quota,
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
            let Ok(text) = context.machine.text("/proc/loadavg") else {
                return Look::Unread("/proc/loadavg".to_owned());
            };
            let load: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
            Look::when(
                load > context.online.len() as f64,
                format!("load average {load:.2} on {} CPUs", context.online.len()),
            )
        },
    },
];

/// The quota of the target's group, or of any group above it.
fn quota(context: &Context<'_>) -> Look {
    let groups = match context.machine.text(&format!("{}/cgroup", context.process_dir())) {
        Ok(groups) => groups,
        Err(reason) => return reason.into(),
    };
    let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Look::Unread("no group of cgroup v2".to_owned());
    };
    let mut path = own.trim_end_matches('/').to_owned();
    loop {
        let file = format!("/sys/fs/cgroup{path}/cpu.max");
        if let Ok(text) = context.machine.text(&file) {
            if !text.starts_with("max") {
                return Look::Problem(format!("{text} in {}", if path.is_empty() { "/" } else { &path }));
            }
        }
        match path.rfind('/') {
            Some(at) => path.truncate(at),
            None => return Look::Ok("none".to_owned()),
        }
    }
}
