// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per verb, in folders that follow the flow of the data: its arguments (the one definition of help, man
//! page and completion) and its `run`.

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

pub use exchange::{export, import, lake, sql};
pub use kymo_command::{args, units};
pub use lab::{compare, doctor, eval, load, maxrate, probe, report, shield, slots};
pub use reading::{
    analyze, critical, explain, functions, heap, hosts, index, latency, read, state, stats, symbols, top, view,
};
pub use recording::{collect, list, mark, record, recover, session};

/// A collector that nobody reads goes on. What it starts has the default again.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// A line of a collector on standard error. Where that leads to a full disk the line is lost: `eprintln!` would end the
/// collector.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "kymo: {line}");
}
