// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on real-time threads, and what the scheduler moves about.

use crate::Severity;
use crate::throttling::{self, FairServer, Share, Throttling};

use super::check::{Check, Look};
use super::context::{Context, Target};

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
        id: "split-lock",
        title: "threads that are slowed down for a split lock",
        severity: Severity::Medium,
        wanted: "kernel.split_lock_mitigate = 0, or no program with split locks",
        why: "A thread whose atomic operation crosses a cache line sleeps for 10 ms, and then runs alone with it.",
        now: "sysctl kernel.split_lock_mitigate=0",
        keep: "kernel.split_lock_mitigate = 0 in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/admin-guide/sysctl/kernel.rst",
        look: |context| number_is(context, "/proc/sys/kernel/split_lock_mitigate", 0),
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
    let shown = |share: Share| format!("{} us of {} us", share.runtime_us, share.period_us);
    let of_group = throttling::group(context.machine);
    if let Some((path, share)) = of_group.filter(|_| matches!(*context.target, Target::Machine | Target::Command)) {
        return Look::Problem(format!("{} for the control group {path} (cpu.rt_runtime_us)", shown(share)));
    }
    match throttling::throttling(context.machine) {
        Throttling::Unread(reason) => reason.into(),
        Throttling::Off(share) => Look::Ok(format!("off ({})", share.runtime_us)),
        Throttling::InForce(share) => Look::Problem(shown(share)),
        Throttling::AdmissionOnly(share) => {
            Look::Ok(format!("{}, which only limits admission on this kernel; see fair-server", shown(share)))
        }
        Throttling::Unsure(share) => Look::Graded(
            Severity::Medium,
            format!("{}; in force only where the kernel has CONFIG_RT_GROUP_SCHED, which cannot be read", shown(share)),
        ),
    }
}

fn fair_server(context: &Context<'_>) -> Look {
    match throttling::fair_server(context.machine, None) {
        FairServer::None => Look::Not("kernels before 6.12 have none"),
        FairServer::Unread(why) => Look::Unread(why),
        FairServer::RuntimeNs(0) => Look::Ok("off".to_owned()),
        FairServer::RuntimeNs(ns) => Look::Problem(format!("up to {} us a period", ns / 1_000)),
    }
}
