// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process, or what a command would inherit: limits, policy, memory, timers.

use crate::Severity;

use super::check::{Check, Look};
use super::context::{Context, Target};
use super::threads::{Scheduling, scheduling};

/// The capability to choose any policy and priority, by its bit.
const CAP_SYS_NICE: u32 = 23;
/// The capability to lock any amount of memory.
const CAP_IPC_LOCK: u32 = 14;

const INHERITED: &str = "a command sets it itself";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "limit-priority",
        title: "real-time priority allowed",
        severity: Severity::High,
        wanted: "limit of rtprio 99, or CAP_SYS_NICE",
        why: "Without it sched_setscheduler() fails, and programs that do not look go on without real time.",
        now: "prlimit --rtprio=99 --pid PID, as root",
        keep: "NAME - rtprio 99 in /etc/security/limits.d/realtime.conf, or LimitRTPRIO=99 in the unit",
        see: "man 5 limits.conf",
        look: |context| limit(context, "Max realtime priority", CAP_SYS_NICE, |limit| limit > 0),
    },
    Check {
        id: "limit-locked-memory",
        title: "locked memory allowed",
        severity: Severity::High,
        wanted: "limit of memlock unlimited, or CAP_IPC_LOCK",
        why: "Without it mlockall() fails, and pages fault in the middle of the work.",
        now: "prlimit --memlock=unlimited --pid PID, as root",
        keep: "NAME - memlock unlimited in /etc/security/limits.d/realtime.conf, or LimitMEMLOCK=infinity in the unit",
        see: "man 5 limits.conf",
        look: |context| limit(context, "Max locked memory", CAP_IPC_LOCK, |limit| limit > 1 << 30),
    },
    Check {
        id: "policy",
        title: "scheduled in real time",
        severity: Severity::High,
        wanted: "SCHED_FIFO, SCHED_RR or SCHED_DEADLINE for the threads that matter",
        why: "Ordinary threads share the CPU with all others, and wait for their turn.",
        now: "chrt -f -p 80 TID",
        keep: "the program itself, or CPUSchedulingPolicy=fifo in its unit",
        see: "man 7 sched",
        look: policy,
    },
    Check {
        id: "affinity",
        title: "bound to CPUs",
        severity: Severity::Medium,
        wanted: "the threads that matter bound, to isolated CPUs where there are any",
        why: "A thread that moves finds cold caches, and others where it comes.",
        now: "taskset -cp CPUS TID, or kymo shield CPUS -- COMMAND",
        keep: "the program itself, or CPUAffinity= in its unit",
        see: "man sched_setaffinity",
        look: affinity,
    },
    Check {
        id: "locked",
        title: "memory locked",
        severity: Severity::High,
        wanted: "all of it (mlockall(MCL_CURRENT | MCL_FUTURE))",
        why: "A page that is not there, or not yet, costs microseconds to milliseconds when it is touched.",
        now: "only the program itself can: mlockall()",
        keep: "mlockall() at its start, and touch stacks and heap once",
        see: "man mlockall",
        look: locked,
    },
    Check {
        id: "page-faults",
        title: "page faults from disk",
        severity: Severity::Info,
        wanted: "none after the start",
        why: "Each waits for a disk.",
        now: "see whether the number grows: run kymo doctor --pid again",
        keep: "mlockall(), and read files before the work begins",
        see: "man 5 proc_pid_stat",
        look: |context| match main_thread(context) {
            _ if *context.target == Target::Command => Look::Not(INHERITED),
            None => Look::Unread("the process is gone".to_owned()),
            Some(thread) => Look::when(
                thread.major_faults > 0,
                format!("{} since its start ({} others)", thread.major_faults, thread.minor_faults),
            ),
        },
    },
    Check {
        id: "timer-slack",
        title: "slack of timers",
        severity: Severity::Medium,
        wanted: "1 ns, or real-time threads (which have none)",
        why: "The kernel may let an ordinary thread sleep longer by this, to wake several at once.",
        now: "echo 1 > /proc/PID/timerslack_ns",
        keep: "prctl(PR_SET_TIMERSLACK, 1) in the program",
        see: "man 2 PR_SET_TIMERSLACK",
        look: slack,
    },
];

/// Of each thread: /proc knows threads by their own number, too, though it does not list them.
fn slack(context: &Context<'_>) -> Look {
    const ENOUGH_NS: u64 = 1_000;
    const NAMED_MAX: usize = 4;
    let dir = context.process_dir();
    let threads = match *context.target {
        Target::Process(_) => context.machine.list(&format!("{dir}/task")).unwrap_or_default(),
        _ => Vec::new(),
    };
    // A command begins with one thread, which has this process's slack.
    let stat = |tid: &String| format!("{dir}/task/{tid}/stat");
    let mut of: Vec<(String, String, String)> =
        threads.iter().map(|tid| (tid.clone(), format!("/proc/{tid}"), stat(tid))).collect();
    if of.is_empty() {
        of.push(("self".to_owned(), dir.clone(), format!("{dir}/stat")));
    }
    let (mut ordinary, mut long) = (0, Vec::new());
    for (tid, dir, stat) in &of {
        let thread = scheduling(context.machine, stat);
        if matches!(thread, Some(Scheduling { policy: 1 | 2 | 6, .. })) {
            continue;
        }
        match context.machine.number::<u64>(&format!("{dir}/timerslack_ns")) {
            Ok(ns) => {
                ordinary += 1;
                if ns > ENOUGH_NS {
                    let name = thread.map_or_else(|| tid.clone(), |thread| format!("{} ({tid})", thread.name));
                    long.push((name, ns));
                }
            }
            // It ended meanwhile.
            Err(reason) if reason.0 == "absent" && of.len() > 1 => {}
            Err(reason) => return reason.into(),
        }
    }
    let shown: Vec<String> = long.iter().take(NAMED_MAX).map(|(name, ns)| format!("{name} {ns} ns")).collect();
    let more = if long.len() > NAMED_MAX { format!(" and {} more", long.len() - NAMED_MAX) } else { String::new() };
    match (ordinary, long.is_empty()) {
        (0, _) => Look::Ok("none: real-time threads".to_owned()),
        (_, true) => Look::Ok(format!("at most {ENOUGH_NS} ns for {ordinary} ordinary threads of {}", of.len())),
        (_, false) => {
            Look::Problem(format!("{}{more}; {} ordinary of {} in all", shown.join(", "), ordinary, of.len()))
        }
    }
}

fn main_thread(context: &Context<'_>) -> Option<Scheduling> {
    scheduling(context.machine, &format!("{}/stat", context.process_dir()))
}

fn has_capability(context: &Context<'_>, bit: u32) -> bool {
    let mask = context.status("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    mask.is_some_and(|mask| mask >> bit & 1 == 1)
}

/// A soft limit of /proc/PID/limits; a capability makes up for it.
fn limit(context: &Context<'_>, name: &str, capability: u32, is_enough: fn(u64) -> bool) -> Look {
    let text = match context.machine.text(&format!("{}/limits", context.process_dir())) {
        Ok(text) => text,
        Err(reason) => return reason.into(),
    };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix(name)) else {
        return Look::Unread(format!("no line {name:?} in its limits"));
    };
    let soft = line.split_whitespace().next().unwrap_or_default();
    let value = if soft == "unlimited" { u64::MAX } else { soft.parse().unwrap_or(0) };
    if has_capability(context, capability) {
        return Look::Ok(format!("limit {soft}, and the capability, for which limits do not count"));
    }
    Look::when(!is_enough(value), format!("limit {soft}"))
}

fn policy(context: &Context<'_>) -> Look {
    if *context.target == Target::Command {
        return Look::Not(INHERITED);
    }
    let dir = format!("{}/task", context.process_dir());
    let threads = match context.machine.list(&dir) {
        Ok(threads) => threads,
        Err(reason) => return reason.into(),
    };
    let of = |tid: &String| scheduling(context.machine, &format!("{dir}/{tid}/stat"));
    let real: Vec<Scheduling> =
        threads.iter().filter_map(of).filter(|thread| matches!(thread.policy, 1 | 2 | 6)).collect();
    let highest = real.iter().map(|thread| thread.priority).max().unwrap_or(0);
    let count = format!("{} of {} threads", real.len(), threads.len());
    Look::when(real.is_empty(), if real.is_empty() { count } else { format!("{count}, up to priority {highest}") })
}

fn affinity(context: &Context<'_>) -> Look {
    let Some(allowed) = context.status("Cpus_allowed_list").and_then(|text| crate::Cpus::from_list(&text)) else {
        return Look::Unread("its status names no CPUs".to_owned());
    };
    if context.online.len() < 2 {
        return Look::Not("a machine with one CPU");
    }
    let on = allowed.and(&context.online);
    let is_apart = !context.isolated.is_empty() && on.without(&context.isolated).is_empty();
    let is_bound = on.len() < context.online.len() && (context.isolated.is_empty() || is_apart);
    Look::when(!is_bound, format!("CPUs {on} of {}", context.online))
}

fn locked(context: &Context<'_>) -> Look {
    if *context.target == Target::Command {
        return Look::Not(INHERITED);
    }
    let kib = |name: &str| context.status(name).and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    match (kib("VmLck"), kib("VmRSS")) {
        (Some(locked), Some(resident)) => Look::when(locked < resident, format!("{locked} KiB of {resident} KiB")),
        _ => Look::Unread("its status has no VmLck and VmRSS".to_owned()),
    }
}
