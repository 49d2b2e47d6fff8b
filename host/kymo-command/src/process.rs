// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process of kymo begins, and how it ends: signals, diagnostics, and the exit status of an outcome.

use std::process::ExitCode;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::terminal;

/// Ends the process by SIGPIPE when standard output is closed, as other tools in a pipe do.
pub fn default_sigpipe() {
    // SAFETY: called first in main, before any other thread exists; SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// From now on a write to a closed pipe is an error, for who has something to remove first.
pub fn survive_closed_pipes() {
    // SAFETY: SIG_IGN is a valid disposition, and may be set at any time.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Asks a process of ours to end (SIGTERM), so that it can remove what it leaves otherwise. It must not have been
/// waited for: else its number may be another's.
pub fn ask_to_end(child: &std::process::Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: it sends a signal to a process that is still ours.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// From now on other programs come first: this one has time. Where that is refused it goes on as it is.
pub fn step_back() {
    let _ = rustix::process::nice(10);
}

/// A file that may not grow (`ulimit -f`) is an error of the write, as a full disk is, not the end of this program. A
/// handler, since what is ignored would be ignored by the commands that we start, too.
pub fn survive_file_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: called first in main, before any other thread exists; the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

/// What the tool says about itself: `KYMO_LOG=info`, or by module `kymo_collect=debug,warn`; errors alone without it.
pub fn log_to_stderr() {
    let wanted = std::env::var("KYMO_LOG").unwrap_or_default();
    let (targets, error) = match wanted.parse::<Targets>() {
        Ok(targets) => (targets, None),
        Err(error) => (Targets::default(), Some(error)),
    };
    let targets = if wanted.is_empty() { Targets::new().with_default(tracing::Level::ERROR) } else { targets };
    tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(targets))
        .init();
    if let Some(error) = error {
        eprintln!("kymo: KYMO_LOG={wanted} is not understood ({error}); such as info, or kymo_collect=debug,warn");
    }
}

/// The exit status of what a verb came to. What was printed is read before what went wrong is said.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    terminal::finish_pager();
    outcome.unwrap_or_else(|error| {
        eprintln!("kymo: {}", message(&error));
        ExitCode::from(2)
    })
}

/// An error and its causes, each said once: many of ours name their cause themselves.
pub fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        let error = |texts: &[&'static str]| {
            let first = anyhow::anyhow!(texts[0]);
            texts[1..].iter().fold(first, |error, text| error.context(*text))
        };
        assert_eq!(message(&error(&["no room"])), "no room");
        assert_eq!(message(&error(&["no room", "cannot write t"])), "cannot write t: no room");
        assert_eq!(message(&error(&["no room", "t: no room", "the export failed"])), "the export failed: t: no room");
    }
}
