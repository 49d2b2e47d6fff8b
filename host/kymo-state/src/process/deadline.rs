// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters of SCHED_DEADLINE, which /proc does not have.

/// Its number in `sched_setattr` and in /proc.
pub(super) const POLICY: u32 = 6;

/// All zero where the thread is not of this policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline {
    pub runtime_ns: u64,
    pub deadline_ns: u64,
    pub period_ns: u64,
}

/// `struct sched_attr` of sched_setattr(2), first version: 48 bytes.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The parameters of a thread of this machine; `None` where it is gone, hidden, or no longer of this policy.
pub(super) fn of(tid: u32) -> Option<Deadline> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes to `attr`, which is that large, plain integers, and ours alone.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid as libc::pid_t, &raw mut attr, size, 0u32) };
    let known = result == 0 && attr.policy == POLICY;
    known.then_some(Deadline { runtime_ns: attr.runtime_ns, deadline_ns: attr.deadline_ns, period_ns: attr.period_ns })
}
