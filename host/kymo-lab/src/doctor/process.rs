// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process, or what a command would inherit: limits, policy, memory, timers.

use crate::{Severity, Unread, throttling};

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
        wanted: "limit of rtprio 99, or CAP_SYS_NICE; and a control group with real-time runtime",
        why: "Without it sched_setscheduler() fails, and programs that do not look go on without real time.",
        now: "prlimit --rtprio=99 --pid PID, as root",
        keep: "NAME - rtprio 99 in /etc/security/limits.d/realtime.conf, or LimitRTPRIO=99 in the unit",
        see: "man 5 limits.conf",
        look: priority,
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
        look: |context| {
            if *context.target == Target::Command {
                return Ok(Look::Not(INHERITED));
            }
            let thread = main_thread(context).ok_or_else(|| Unread("the process is gone".to_owned()))?;
            let Scheduling { major_faults, minor_faults, .. } = thread;
            Ok(Look::when(major_faults > 0, format!("{major_faults} since its start ({minor_faults} others)")))
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
fn slack(context: &Context<'_>) -> Result<Look, Unread> {
    const ENOUGH_NS: u64 = 1_000;
    const NAMED_MAX: usize = 4;
    let dir = context.process_dir();
    let threads = match *context.target {
        Target::Process(_) => context.machine.list(&format!("{dir}/task")).map_err(|reason| reason.of(&dir))?,
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
            Err(reason) if reason.is_absent() && of.len() > 1 => {}
            Err(reason) => return Err(reason.of(&format!("{dir}/timerslack_ns"))),
        }
    }
    let shown: Vec<String> = long.iter().take(NAMED_MAX).map(|(name, ns)| format!("{name} {ns} ns")).collect();
    let more = if long.len() > NAMED_MAX { format!(" and {} more", long.len() - NAMED_MAX) } else { String::new() };
    Ok(match (ordinary, long.is_empty()) {
        (0, _) => Look::Ok("none: real-time threads".to_owned()),
        (_, true) => Look::Ok(format!("at most {ENOUGH_NS} ns for {ordinary} ordinary threads of {}", of.len())),
        (_, false) => {
            Look::Problem(format!("{}{more}; {} ordinary of {} in all", shown.join(", "), ordinary, of.len()))
        }
    })
}

fn main_thread(context: &Context<'_>) -> Option<Scheduling> {
    scheduling(context.machine, &format!("{}/stat", context.process_dir()))
}

fn has_capability(context: &Context<'_>, bit: u32) -> bool {
    let mask = context.status("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    mask.is_some_and(|mask| mask >> bit & 1 == 1)
}

/// A soft limit of /proc/PID/limits; a capability makes up for it.
fn limit(context: &Context<'_>, name: &str, capability: u32, is_enough: fn(u64) -> bool) -> Result<Look, Unread> {
    let text = context.text(&format!("{}/limits", context.process_dir()))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.ok_or_else(|| Unread(format!("no line {name:?} in its limits")))?;
    let soft = line.split_whitespace().next().unwrap_or_default();
    let value = if soft == "unlimited" { u64::MAX } else { soft.parse().unwrap_or(0) };
    if has_capability(context, capability) {
        return Ok(Look::Ok(format!("limit {soft}, and the capability, for which limits do not count")));
    }
    Ok(Look::when(!is_enough(value), format!("limit {soft}")))
}

/// The limit counts only where the control group lets its threads be real-time ones at all.
fn priority(context: &Context<'_>) -> Result<Look, Unread> {
    let group = throttling::group(context.machine, &context.process_dir());
    if let Ok(Some((name, share))) = &group {
        if share.is_nothing() {
            let text = format!("the control group {name} has none (cpu.rt_runtime_us is 0), which refuses root, too");
            return Ok(Look::Graded(Severity::Fatal, text));
        }
    }
    let found = limit(context, "Max realtime priority", CAP_SYS_NICE, |limit| limit > 0)?;
    match (&found, group) {
        (Look::Ok(_), Err(reason)) if context.is_configured("RT_GROUP_SCHED") == Some(true) => Err(reason),
        _ => Ok(found),
    }
}

fn policy(context: &Context<'_>) -> Result<Look, Unread> {
    if *context.target == Target::Command {
        return Ok(Look::Not(INHERITED));
    }
    let dir = format!("{}/task", context.process_dir());
    let threads = context.machine.list(&dir).map_err(|reason| reason.of(&dir))?;
    let of = |tid: &String| scheduling(context.machine, &format!("{dir}/{tid}/stat"));
    let real: Vec<Scheduling> =
        threads.iter().filter_map(of).filter(|thread| matches!(thread.policy, 1 | 2 | 6)).collect();
    let highest = real.iter().map(|thread| thread.priority).max().unwrap_or(0);
    let count = format!("{} of {} threads", real.len(), threads.len());
    let current = if real.is_empty() { count } else { format!("{count}, up to priority {highest}") };
    Ok(Look::when(real.is_empty(), current))
}

fn affinity(context: &Context<'_>) -> Result<Look, Unread> {
    let allowed = context.status("Cpus_allowed_list").and_then(|text| crate::Cpus::from_list(&text));
    let allowed = allowed.ok_or_else(|| Unread("its status names no CPUs".to_owned()))?;
    let online = context.online()?;
    if online.len() < 2 {
        return Ok(Look::Not("a machine with one CPU"));
    }
    let on = allowed.and(online);
    let is_bound = match context.isolated()? {
        None => on.len() < online.len(),
        Some(isolated) => on.len() < online.len() && on.without(isolated).is_empty(),
    };
    Ok(Look::when(!is_bound, format!("CPUs {on} of {online}")))
}

fn locked(context: &Context<'_>) -> Result<Look, Unread> {
    if *context.target == Target::Command {
        return Ok(Look::Not(INHERITED));
    }
    let kib = |name: &str| context.status(name).and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    match (kib("VmLck"), kib("VmRSS")) {
        (Some(locked), Some(resident)) => Ok(Look::when(locked < resident, format!("{locked} KiB of {resident} KiB"))),
        _ => Err(Unread("its status has no VmLck and VmRSS".to_owned())),
    }
}
