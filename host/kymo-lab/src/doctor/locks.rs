// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks that threads of a process wait for, as /proc/PID/task/TID/syscall shows them in passing: with priority
//! inheritance, or without.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Machine, Severity, Unread};

use super::check::{Check, Look};
use super::context::{Context, Target};
use super::threads::scheduling;

/// Looks at a machine that runs; what waits longer than between two of them is seen.
const LOOKS: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(5);
/// Waits that a line names.
const NAMED_MAX: usize = 4;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "lock-inheritance",
    title: "locks without priority inheritance",
    severity: Severity::Medium,
    wanted: "PTHREAD_PRIO_INHERIT for every lock that a real-time thread takes",
    why: "A thread of low priority that holds the lock is not raised, so all in between run before the one that waits.",
    now: "only the program itself can: pthread_mutexattr_setprotocol(), and kymo pi shows what it costs",
    keep: "the same, also for locks inside of its libraries",
    see: "man 3 pthread_mutexattr_setprotocol",
    look: inheritance,
}];

/// How a thread waits in the futex system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// In the kernel, which knows the owner: FUTEX_LOCK_PI.
    Inherits(u64),
    /// For glibc's lock at this address, which is marked as one that others wait for.
    Plain(u64),
}

/// From the line of a `syscall` file: number, then arguments in hexadecimal. `None`: another call, or none.
fn wait(line: &str, is_x86: bool) -> Option<Wait> {
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_LOCK_PI: u64 = 6;
    const FUTEX_LOCK_PI2: u64 = 13;
    /// Without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
    const OPERATION: u64 = 0x7f;
    /// glibc's mutex: locked, and somebody waits. A condition variable waits by another operation.
    const LOCKED_WITH_WAITERS: u64 = 2;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    if number != if is_x86 { 202 } else { 98 } {
        return None;
    }
    let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (address, operation, value) = (hex()?, hex()?, hex()?);
    match operation & OPERATION {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => Some(Wait::Inherits(address)),
        FUTEX_WAIT if value & u64::from(u32::MAX) == LOCKED_WITH_WAITERS => Some(Wait::Plain(address)),
        _ => None,
    }
}

/// What was seen of a process.
#[derive(Default)]
struct SeenLocks {
    /// Thread and address, and in how many looks.
    plain: BTreeMap<(String, u64), u32>,
    inherits: u32,
    looks: u32,
}

fn look_at(machine: &Machine, pid: u32, is_x86: bool) -> Result<SeenLocks, Unread> {
    let mut seen = SeenLocks::default();
    let looks = if machine.is_live() { LOOKS } else { 1 };
    while seen.looks < looks {
        for tid in machine.list(&format!("/proc/{pid}/task"))? {
            let line = match machine.text(&format!("/proc/{pid}/task/{tid}/syscall")) {
                Ok(line) => line,
                // It ended meanwhile.
                Err(reason) if reason.is_absent() && machine.is_live() => continue,
                Err(reason) => return Err(reason),
            };
            match wait(&line, is_x86) {
                Some(Wait::Plain(address)) => *seen.plain.entry((tid, address)).or_default() += 1,
                Some(Wait::Inherits(_)) => seen.inherits += 1,
                None => {}
            }
        }
        seen.looks += 1;
        if seen.looks < looks {
            machine.pause(BETWEEN);
        }
    }
    Ok(seen)
}

fn inheritance(context: &Context<'_>) -> Result<Look, Unread> {
    let Target::Process(pid) = *context.target else { return Ok(Look::Not("a command sets it itself")) };
    let seen = look_at(context.machine, pid, context.is_x86()?)?;
    let looks = format!("{} {}", seen.looks, if seen.looks == 1 { "look" } else { "looks" });
    if seen.plain.is_empty() {
        let inherits = if seen.inherits > 0 { "; threads waited for locks with it" } else { "" };
        return Ok(Look::Ok(format!("no wait for a lock without it in {looks}{inherits}")));
    }
    let thread = |tid: &str| scheduling(context.machine, &format!("/proc/{pid}/task/{tid}/stat"));
    let is_real_time = seen.plain.keys().any(|(tid, _)| thread(tid).is_some_and(|of| matches!(of.policy, 1 | 2 | 6)));
    let one = |((tid, address), count): (&(String, u64), &u32)| {
        let name = thread(tid).map_or_else(|| "thread".to_owned(), |thread| thread.name);
        format!("{name} ({tid}) waited for the one at {address:#x} in {count} of {looks}")
    };
    let mut list: Vec<String> = seen.plain.iter().map(one).collect();
    let more = list.len().saturating_sub(NAMED_MAX);
    list.truncate(NAMED_MAX);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let text = list.join(", ") + &more;
    // Where a real-time thread waits, it is the very case.
    Ok(if is_real_time { Look::Graded(Severity::High, text) } else { Look::Problem(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_apart() {
        for (line, is_x86, expect) in [
            ("202 0x7f0010 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f11", true, Some(Wait::Plain(0x7f0010))),
            ("202 0x7f0010 0x0 0x2 0x0 0x0 0x0 0x7ffe 0x7f11", true, Some(Wait::Plain(0x7f0010))),
            ("98 0x7f0010 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f11", false, Some(Wait::Plain(0x7f0010))),
            // Another value: a barrier, a semaphore, a program's own use.
            ("202 0x7f0010 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f11", true, None),
            // FUTEX_WAIT_BITSET: a condition variable.
            ("202 0x7f0010 0x189 0x2 0x0 0x0 0xffffffff 0x7ffe 0x7f11", true, None),
            ("202 0x7f0010 0x86 0x0 0x0 0x0 0x0 0x7ffe 0x7f11", true, Some(Wait::Inherits(0x7f0010))),
            ("202 0x7f0010 0x8d 0x0 0x0 0x0 0x0 0x7ffe 0x7f11", true, Some(Wait::Inherits(0x7f0010))),
            ("0 0x0 0x7f 0x400 0x0 0x0 0x0 0x7ffe 0x7f11", true, None),
            ("running", true, None),
            ("-1 0x7ffe 0x7f11", true, None),
            ("202 0x7f0010", true, None),
            ("", true, None),
        ] {
            assert_eq!(wait(line, is_x86), expect, "{line}");
        }
    }
}
