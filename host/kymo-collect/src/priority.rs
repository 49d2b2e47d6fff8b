// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time priority of a thread for a while. A ring fills fastest when there is much to run, and that is when an
//! equal among many waits longest. A nice value alone does not help: it ranks threads within their session's scheduling
//! group (autogroup), and the load is in another.

/// A thread's nice value where it may not have a real-time priority.
const NICE: i32 = -20;

/// Gives the calling thread a real-time priority (SCHED_RR, 1 to 99); 0: leaves it alone. Who may not keeps the
/// priority of the session, or as much as a nice value gives.
pub(crate) fn raise(priority: u8) {
    if priority > 0 && !set(libc::SCHED_RR, priority) {
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Makes the calling thread one of the usual again.
pub(crate) fn lower() {
    set(libc::SCHED_OTHER, 0);
}

/// The same where [`raise`] with this priority may have changed something.
pub(crate) fn lower_from(priority: u8) {
    if priority > 0 {
        lower();
    }
}

/// Whether the kernel allowed it.
fn set(policy: libc::c_int, priority: u8) -> bool {
    // SAFETY: all of the structure is integers, for which zeros are values.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority.into();
    // SAFETY: the kernel reads the structure during the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &param) == 0 }
}
