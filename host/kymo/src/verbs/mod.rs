//! One module per verb: its arguments (the one definition of help, man page and completion) and its `run`.

pub mod analyze;
pub mod collect;
pub mod compare;
pub mod critical;
pub mod docs;
pub mod doctor;
pub mod eval;
pub mod explain;
pub mod export;
pub mod functions;
pub mod hosts;
pub mod import;
pub mod index;
pub mod lab;
pub mod latency;
pub mod list;
pub mod load;
pub mod mark;
pub mod maxrate;
pub mod read;
pub mod record;
pub mod recover;
pub mod report;
pub mod results;
pub mod session;
pub mod shield;
pub mod slots;
pub mod state;
pub mod stats;
pub mod symbols;

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

/// A line of a collector on standard error. Where that leads to a full disk the line is lost: `eprintln!` would end the collector.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "kymo: {line}");
}
