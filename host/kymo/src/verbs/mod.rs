// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per verb, in folders that follow the flow of the data: its arguments (the one definition of help, man
//! page and completion) and its `run`.

pub mod args;
pub(crate) mod command;
#[cfg(test)]
mod complete_tests;
#[cfg(test)]
mod definition_tests;
pub mod docs;
mod exchange;
pub mod lab;
mod reading;
mod recording;
mod units;

pub use exchange::{export, import};
pub use lab::{compare, doctor, eval, load, maxrate, probe, report, shield, slots};
pub use reading::{
    analyze, critical, explain, functions, heap, hosts, index, latency, read, state, stats, symbols, top, view,
};
pub use recording::{collect, list, mark, record, recover, session};
pub(crate) use units::cpus;

/// A collector that nobody reads goes on. What it starts has the default again.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Ends the process by SIGPIPE when standard output is closed, as other tools in a pipe do.
pub fn default_sigpipe() {
    // SAFETY: called first in main, before any other thread exists; SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// A file that may not grow (`ulimit -f`) is an error of the write, as a full disk is, not the end of this program. A
/// handler, since what is ignored would be ignored by the commands that we start, too.
pub fn survive_file_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: called first in main, before any other thread exists; the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

/// A line of a collector on standard error. Where that leads to a full disk the line is lost: `eprintln!` would end the
/// collector.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "kymo: {line}");
}
