// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C of verbs that write files: they look at [`is_over`], and remove what is not whole.

use std::sync::atomic::{AtomicBool, Ordering};

/// Somebody wants it to end (Ctrl-C).
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// Whether somebody wants it to end.
#[inline]
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

/// From now on Ctrl-C ends an export or import, and what is half written goes.
pub fn take_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores into an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}

/// The same for a prompt: what was there before is forgotten.
pub fn take_signals_anew() {
    IS_OVER.store(false, Ordering::Relaxed);
    take_signals();
}
