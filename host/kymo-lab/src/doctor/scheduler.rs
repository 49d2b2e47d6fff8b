// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on real-time threads, and what the scheduler moves about.

use crate::throttling::{self, FairServer, Share, Throttling};
use crate::{Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;

pub(super) const NO_SETTING: &str = "this kernel has no such setting";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "rt-throttling",
        title: "real-time throttling",
        severity: Severity::High,
        wanted: "kernel.sched_rt_runtime_us = -1; in a control group of cgroup v1, all of its period",
        why: "Real-time threads that use 95 % of a second are stopped for its rest, 50 ms by default.",
        now: "sysctl kernel.sched_rt_runtime_us=-1; for a group: echo 950000 > cpu.rt_runtime_us in it and in those above",
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
        look: |context| match context.optional_list("/sys/devices/system/node/node1")? {
            None => Ok(Look::Not("a machine with one memory node")),
            Some(_) => number_is(context, "/proc/sys/kernel/numa_balancing", 0),
        },
    },
];

/// A number of a file that should have one value.
pub(super) fn number_is(context: &Context<'_>, path: &str, wanted: i64) -> Result<Look, Unread> {
    Ok(match context.optional_number::<i64>(path)? {
        Some(value) => Look::when(value != wanted, value.to_string()),
        None => Look::Not(NO_SETTING),
    })
}

fn throttling(context: &Context<'_>) -> Result<Look, Unread> {
    let shown = |share: Share| format!("{} us of {} us", share.runtime_us, share.period_us);
    let of_group = throttling::group(context.machine, &context.process_dir());
    if let Ok(Some((path, share))) = &of_group {
        let text = format!("{} for the control group {path} (cpu.rt_runtime_us)", shown(*share));
        return Ok(match share.is_nothing() {
            true => Look::Graded(Severity::Fatal, format!("{text}: no thread in it can become a real-time one")),
            false => Look::Problem(text),
        });
    }
    match throttling::throttling(context.machine) {
        Throttling::Unread(reason) => Err(reason.of("kernel.sched_rt_runtime_us")),
        // A group may have less, and may not be readable.
        Throttling::Off(share) => of_group.map(|_| Look::Ok(format!("off ({})", share.runtime_us))),
        Throttling::InForce(share) => Ok(Look::Problem(shown(share))),
        Throttling::AdmissionOnly(share) => {
            Ok(Look::Ok(format!("{}, which only limits admission on this kernel; see fair-server", shown(share))))
        }
        Throttling::Unsure(share) => Ok(Look::Graded(
            Severity::Medium,
            format!("{}; in force only where the kernel has CONFIG_RT_GROUP_SCHED, which cannot be read", shown(share)),
        )),
    }
}

fn fair_server(context: &Context<'_>) -> Result<Look, Unread> {
    Ok(match throttling::fair_server(context.machine, None) {
        FairServer::None => Look::Not("kernels before 6.12 have none"),
        FairServer::Unread(why) => return Err(Unread(why)),
        FairServer::RuntimeNs(0) => Look::Ok("off".to_owned()),
        FairServer::RuntimeNs(ns) => Look::Problem(format!("up to {} us a period", ns / 1_000)),
    })
}
