// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of others that go first, and programs that are known to disturb.

use crate::{Machine, Severity, Unread};

use super::check::{Check, Look};
use super::context::{Context, Target};

/// Threads that are looked at; a machine with more is told so.
const THREADS_MAX: usize = 200_000;
/// Threads that a line names.
const NAMED_MAX: usize = 8;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "higher-priority-threads",
        title: "programs with a real-time priority as high as yours",
        severity: Severity::High,
        wanted: "none but your own",
        why: "A thread with the same or a higher priority on your CPU runs before yours, for as long as it likes.",
        now: "chrt -p -o 0 TID, or stop the program",
        keep: "its unit: CPUSchedulingPolicy=other",
        see: "man 7 sched",
        look: higher,
    },
    Check {
        id: "multipathd",
        title: "multipathd at priority 99",
        severity: Severity::High,
        wanted: "not running, or without real-time priority",
        why: "It runs at the highest priority of all and wakes every few seconds; seen to delay real-time threads by itself.",
        now: "systemctl stop multipathd",
        keep: "systemctl disable multipathd, where no multipath storage is used",
        see: "man multipathd",
        look: |context| match find(context.machine, "multipathd") {
            Err(reason) => reason.into(),
            Ok(None) => Look::Ok("not running".to_owned()),
            Ok(Some(pid)) => match scheduling(context.machine, &format!("/proc/{pid}/stat")) {
                Some(Scheduling { policy: 1 | 2, priority, .. }) => {
                    Look::Problem(format!("process {pid} at priority {priority}"))
                }
                Some(_) => Look::Ok(format!("process {pid}, without real-time priority")),
                None => Look::Unread(format!("process {pid} went away")),
            },
        },
    },
];

/// How a thread is scheduled, from its stat file.
pub(super) struct Scheduling {
    pub(super) name: String,
    /// SCHED_FIFO is 1, SCHED_RR 2, SCHED_DEADLINE 6.
    pub(super) policy: u32,
    /// 1 to 99; 0 for others.
    pub(super) priority: u32,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    is_kernel: bool,
}

pub(super) fn scheduling(machine: &Machine, path: &str) -> Option<Scheduling> {
    /// A thread of the kernel, in the ninth field.
    const PF_KTHREAD: u64 = 0x0020_0000;
    let text = machine.text(path).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields are counted from 1 in proc(5); the third one is the first behind the name.
    let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok());
    Some(Scheduling {
        name: head.split_once('(')?.1.to_owned(),
        policy: field(41)?.try_into().ok()?,
        priority: field(40)?.try_into().ok()?,
        minor_faults: field(10)?,
        major_faults: field(12)?,
        is_kernel: field(9)? & PF_KTHREAD != 0,
    })
}

/// The process with this name, where one runs.
pub(super) fn find(machine: &Machine, name: &str) -> Result<Option<u32>, Unread> {
    let mut pids = machine.list("/proc")?.into_iter().filter_map(|entry| entry.parse::<u32>().ok()).take(THREADS_MAX);
    Ok(pids.find(|pid| machine.text(&format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == name)))
}

/// The highest real-time priority of the target; that of cyclictest's usual -p where there is none.
fn own_priority(context: &Context<'_>) -> u32 {
    const USUAL: u32 = 80;
    let Target::Process(pid) = context.target else { return USUAL };
    let threads = context.machine.list(&format!("/proc/{pid}/task")).unwrap_or_default();
    let priority = |tid: &String| {
        scheduling(context.machine, &format!("/proc/{pid}/task/{tid}/stat")).map(|thread| thread.priority)
    };
    threads.iter().filter_map(priority).max().filter(|priority| *priority > 0).unwrap_or(USUAL)
}

fn higher(context: &Context<'_>) -> Look {
    let own = own_priority(context);
    let pids = match context.machine.list("/proc") {
        Ok(names) => names.into_iter().filter(|name| name.parse::<u32>().is_ok()),
        Err(reason) => return reason.into(),
    };
    let me = match context.target {
        Target::Process(pid) => pid.to_string(),
        _ => String::new(),
    };
    let mut found = Vec::new();
    let mut looked_at = 0;
    for pid in pids.filter(|pid| *pid != me) {
        for tid in context.machine.list(&format!("/proc/{pid}/task")).unwrap_or_default() {
            looked_at += 1;
            let Some(thread) = scheduling(context.machine, &format!("/proc/{pid}/task/{tid}/stat")) else { continue };
            let is_above = thread.policy == 6 || (matches!(thread.policy, 1 | 2) && thread.priority >= own);
            // The kernel's own (migration, watchdog) belong there, and can hardly be changed.
            if is_above && !thread.is_kernel {
                found.push(format!(
                    "{} ({tid}, {})",
                    thread.name,
                    if thread.policy == 6 { "deadline".to_owned() } else { thread.priority.to_string() }
                ));
            }
        }
        if looked_at > THREADS_MAX {
            return Look::Unread(format!("more than {THREADS_MAX} threads"));
        }
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let seen = if context.container.is_some() { ", of those to be seen in here" } else { "" };
    if found.is_empty() {
        Look::Ok(format!("none at {own} or above{seen}"))
    } else {
        Look::Problem(format!("{}{more}", found.join(", ")))
    }
}
