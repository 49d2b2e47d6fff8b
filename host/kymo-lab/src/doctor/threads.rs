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
        look: |context| match find(context, "multipathd")? {
            None => Ok(Look::Ok("not running".to_owned())),
            Some(pid) => match scheduling(context.machine, &format!("/proc/{pid}/stat")) {
                Some(Scheduling { policy: 1 | 2, priority, .. }) => {
                    Ok(Look::Problem(format!("process {pid} at priority {priority}")))
                }
                Some(_) => Ok(Look::Ok(format!("process {pid}, without real-time priority"))),
                None => Err(Unread(format!("process {pid} went away"))),
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

/// The process with this name, where one runs. An error where only some processes are to be seen, and it is none of
/// them.
pub(super) fn find(context: &Context<'_>, name: &str) -> Result<Option<u32>, Unread> {
    let mut unread = None;
    for pid in context.processes()?.into_iter().take(THREADS_MAX) {
        let path = format!("/proc/{pid}/comm");
        match context.machine.text(&path) {
            Ok(comm) if comm == name => return Ok(Some(pid)),
            // It ended meanwhile.
            Ok(_) => {}
            Err(reason) if reason.is_absent() => {}
            Err(reason) => unread = Some(reason.of(&path)),
        }
    }
    if context.is_contained() {
        return Err(Unread("not in this container; the processes of the host cannot be seen from here".to_owned()));
    }
    unread.map_or(Ok(None), Err)
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

fn higher(context: &Context<'_>) -> Result<Look, Unread> {
    let own = own_priority(context);
    let me = match context.target {
        Target::Process(pid) => Some(*pid),
        _ => None,
    };
    let (mut found, mut unread, mut looked_at) = (Vec::new(), None, 0);
    for pid in context.processes()?.into_iter().filter(|pid| Some(*pid) != me) {
        let dir = format!("/proc/{pid}/task");
        let threads = match context.machine.list(&dir) {
            Ok(threads) => threads,
            // It ended meanwhile.
            Err(reason) if reason.is_absent() => continue,
            Err(reason) => {
                unread = Some(reason.of(&dir));
                continue;
            }
        };
        for tid in threads {
            looked_at += 1;
            let path = format!("{dir}/{tid}/stat");
            let Some(thread) = scheduling(context.machine, &path) else {
                // One that ended meanwhile is no answer that is missing.
                unread = context.machine.text(&path).err().filter(|reason| !reason.is_absent()).or(unread);
                continue;
            };
            let is_above = thread.policy == 6 || (matches!(thread.policy, 1 | 2) && thread.priority >= own);
            // The kernel's own (migration, watchdog) belong there, and can hardly be changed.
            if is_above && !thread.is_kernel {
                let priority = if thread.policy == 6 { "deadline".to_owned() } else { thread.priority.to_string() };
                found.push(format!("{} ({tid}, {priority})", thread.name));
            }
        }
        if looked_at > THREADS_MAX {
            return Err(Unread(format!("more than {THREADS_MAX} threads")));
        }
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match (found.is_empty(), unread) {
        (false, _) => Ok(Look::Problem(format!("{}{more}", found.join(", ")))),
        (true, Some(reason)) => Err(reason),
        (true, None) if context.is_contained() => Err(Unread(format!(
            "none at {own} or above in this container; the threads of the host cannot be seen from here"
        ))),
        (true, None) => Ok(Look::Ok(format!("none at {own} or above"))),
    }
}
