//! Limits on real-time threads, and what the scheduler moves about.

use crate::Severity;

use super::context::Context;
use super::{Check, Look};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "rt-throttling",
        title: "real-time throttling",
        severity: Severity::High,
        wanted: "kernel.sched_rt_runtime_us = -1",
        why: "Real-time threads that use 95 % of a second are stopped for its rest, 50 ms by default.",
        now: "sysctl kernel.sched_rt_runtime_us=-1",
        keep: "kernel.sched_rt_runtime_us = -1 in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/scheduler/sched-rt-group.rst",
        look: throttling,
    },
    Check {
        id: "fair-server",
        title: "time that ordinary threads take from real-time ones (fair server)",
        severity: Severity::Medium,
        wanted: "known; runtime 0 for busy loops on CPUs of their own",
        why: "Since Linux 6.12, ordinary threads that wait get up to 50 ms of each second even where a real-time thread never sleeps.",
        now: "echo 0 > /sys/kernel/debug/sched/fair_server/cpuN/runtime",
        keep: "a unit that writes it at boot",
        see: "Documentation/scheduler/sched-deadline.rst",
        look: fair_server,
    },
    Check {
        id: "timer-migration",
        title: "timers that move to busy CPUs",
        severity: Severity::Info,
        wanted: "kernel.timer_migration = 0",
        why: "Timers of idle CPUs are handed to one that is awake, which may be yours.",
        now: "sysctl kernel.timer_migration=0",
        keep: "kernel.timer_migration = 0 in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/core-api/real-time/hardware.rst",
        look: |context| number_is(context, "/proc/sys/kernel/timer_migration", 0),
    },
    Check {
        id: "numa-balancing",
        title: "pages that move between nodes",
        severity: Severity::Medium,
        wanted: "kernel.numa_balancing = 0",
        why: "It unmaps pages of all programs now and then, to learn who uses them: a page fault in the middle of a loop.",
        now: "sysctl kernel.numa_balancing=0",
        keep: "kernel.numa_balancing = 0 in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/admin-guide/sysctl/kernel.rst",
        look: |context| match context.machine.has("/sys/devices/system/node/node1") {
            false => Look::Not("a machine with one memory node"),
            true => number_is(context, "/proc/sys/kernel/numa_balancing", 0),
        },
    },
];

/// A number of a file that should have one value.
pub(super) fn number_is(context: &Context<'_>, path: &str, wanted: i64) -> Look {
    match context.machine.number::<i64>(path) {
        Ok(value) => Look::when(value != wanted, value.to_string()),
        Err(reason) if reason.0 == "absent" => Look::Not("this kernel has no such setting"),
        Err(reason) => reason.into(),
    }
}

fn throttling(context: &Context<'_>) -> Look {
    let of = |name: &str| context.machine.number::<i64>(&format!("/proc/sys/kernel/sched_rt_{name}_us"));
    let (runtime, period) = match (of("runtime"), of("period")) {
        (Ok(runtime), Ok(period)) => (runtime, period),
        (Err(reason), _) | (_, Err(reason)) => return reason.into(),
    };
    if runtime < 0 || runtime >= period {
        return Look::Ok(format!("off ({runtime})"));
    }
    let current = format!("{runtime} us of {period} us");
    match (context.release >= (6, 12), context.is_configured("RT_GROUP_SCHED")) {
        (true, Some(false)) => {
            Look::Ok(format!("{current}, which only limits admission on this kernel; see fair-server"))
        }
        (true, None) => Look::Graded(
            Severity::Medium,
            format!("{current}; in force only where the kernel has CONFIG_RT_GROUP_SCHED, which cannot be read"),
        ),
        _ => Look::Problem(current),
    }
}

fn fair_server(context: &Context<'_>) -> Look {
    if context.release < (6, 12) {
        return Look::Not("kernels before 6.12 have none");
    }
    let dir = "/sys/kernel/debug/sched/fair_server";
    let cpus = match context.machine.list(dir) {
        Ok(cpus) => cpus,
        Err(_) if !context.machine.has("/sys/kernel/debug/sched") => {
            return Look::Unread(
                "debugfs is not mounted, locked, or not for you; the default is 50 ms of each second".to_owned(),
            );
        }
        Err(reason) => return reason.into(),
    };
    let runtime = |cpu: &String| context.machine.number::<u64>(&format!("{dir}/{cpu}/runtime")).ok();
    let longest = cpus.iter().filter_map(runtime).max();
    match longest {
        None => Look::Unread("the server's directory has no CPU that can be read".to_owned()),
        Some(ns) => {
            Look::when(ns > 0, if ns > 0 { format!("up to {} us a period", ns / 1_000) } else { "off".to_owned() })
        }
    }
}
