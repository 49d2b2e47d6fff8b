//! One module per verb: its arguments (the one definition of help, man page and completion) and its `run`.

pub mod docs;
pub mod list;
pub mod mark;
pub mod read;
pub mod record;

/// Ends the process by SIGPIPE when standard output is closed, as other tools in a pipe do.
pub fn default_sigpipe() {
    // SAFETY: called first in main, before any other thread exists; SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
