// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls by the names of their events [spec/analyze.md 2]: the one place that knows which event is the entry
//! and which the return of a call, whoever recorded it, and which calls do not return.

mod numbers;

pub use numbers::CallNumbers;

/// Beginnings of the names of events: at entry, at return, and whether the call is one of a 32-bit program.
const STARTS: [(&str, &str, bool); 3] = [
    ("syscall_entry_", "syscall_exit_", false),
    ("compat_syscall_entry_", "compat_syscall_exit_", true),
    ("sys_enter_", "sys_exit_", false),
];

/// Events of all calls, which have the number in `id`: at entry, at return. The second pair is what kymo's names of
/// LTTng make of `raw_syscalls:sys_enter`.
pub(crate) const BY_NUMBER: [(&str, &str); 2] =
    [("sys_enter", "sys_exit"), ("raw_syscalls_sys_enter", "raw_syscalls_sys_exit")];

/// Calls that do not return to where they were made: the thread ends, or goes on where a signal interrupted it.
const WITHOUT_RETURN: [&str; 4] = ["exit", "exit_group", "rt_sigreturn", "sigreturn"];

/// Calls that return twice or elsewhere: the new thread or program has a return without an entry of its own.
const RETURNS_ELSEWHERE: [&str; 6] = ["clone", "clone3", "fork", "vfork", "execve", "execveat"];

/// Which call a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallName<'a> {
    /// The event is of this call alone.
    Named(&'a str),
    /// The event is of all calls; the field `id` has the number.
    ByNumber,
}

/// What an event is to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEvent<'a> {
    /// Which call.
    pub call: CallName<'a>,
    /// Entry, else return.
    pub is_entry: bool,
    /// Of a 32-bit program on a 64-bit kernel: its numbers are others.
    pub is_compat: bool,
}

impl<'a> CallEvent<'a> {
    /// By the name of an event, with a system in front (`syscalls:`) or without one.
    pub fn of(event: &'a str) -> Option<CallEvent<'a>> {
        let (system, bare) = event.split_once(':').unwrap_or(("", event));
        if !["", "syscalls", "raw_syscalls"].contains(&system) {
            return None;
        }
        let named = STARTS.iter().find_map(|(entry, exit, is_compat)| {
            let at = |start: &str, is_entry| {
                let name = bare.strip_prefix(start).filter(|name| !name.is_empty())?;
                Some(CallEvent { call: CallName::Named(name), is_entry, is_compat: *is_compat })
            };
            at(entry, true).or_else(|| at(exit, false))
        });
        named.or_else(|| {
            let is_entry = BY_NUMBER.iter().any(|(entry, _)| *entry == bare);
            let is_exit = BY_NUMBER.iter().any(|(_, exit)| *exit == bare);
            let event = CallEvent { call: CallName::ByNumber, is_entry, is_compat: false };
            (is_entry || is_exit).then_some(event)
        })
    }
}

/// Whether a call returns to who made it.
pub fn returns(call: &str) -> bool {
    !WITHOUT_RETURN.contains(&call)
}

/// Whether a call may return in a thread that has not made it.
pub fn returns_elsewhere(call: &str) -> bool {
    RETURNS_ELSEWHERE.contains(&call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_tracers_are_known() {
        let named = |name, is_entry, is_compat| Some(CallEvent { call: CallName::Named(name), is_entry, is_compat });
        for (event, expect) in [
            ("syscall_entry_read", named("read", true, false)),
            ("syscall_exit_read", named("read", false, false)),
            ("compat_syscall_entry_read", named("read", true, true)),
            ("compat_syscall_exit_read", named("read", false, true)),
            ("syscalls:sys_enter_openat", named("openat", true, false)),
            ("syscalls:sys_exit_exit_group", named("exit_group", false, false)),
            ("sys_enter_exit", named("exit", true, false)),
            ("sys_exit_read", named("read", false, false)),
        ] {
            assert_eq!(CallEvent::of(event), expect, "{event}");
        }
        for (event, is_entry) in [
            ("raw_syscalls:sys_enter", true),
            ("raw_syscalls:sys_exit", false),
            ("sys_enter", true),
            ("raw_syscalls_sys_enter", true),
            ("raw_syscalls_sys_exit", false),
        ] {
            let expect = CallEvent { call: CallName::ByNumber, is_entry, is_compat: false };
            assert_eq!(CallEvent::of(event), Some(expect), "{event}");
        }
        for event in ["syscall_entry_", "sys_enters", "motor:sys_enter_x", "sched_switch", ""] {
            assert_eq!(CallEvent::of(event), None, "{event}");
        }
    }

    #[test]
    fn some_calls_do_not_return() {
        assert!(returns("read") && returns("execve") && !returns("rt_sigreturn") && !returns("exit"));
        assert!(returns_elsewhere("vfork") && !returns_elsewhere("read"));
    }
}
