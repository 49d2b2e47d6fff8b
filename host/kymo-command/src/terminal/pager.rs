// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pager for long output: a child process to which standard output leads from the moment that there is something to
//! show. It is waited for at the end. When its user quits early, this process ends too, with status 0.

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

/// Process id of the pager; 0: there is none. For the signal handlers, too.
static PAGER: AtomicI32 = AtomicI32::new(0);
/// Standard output and standard error as they were, descriptors of our own; -1: not replaced.
static OUTPUT: AtomicI32 = AtomicI32::new(-1);
static ERROR: AtomicI32 = AtomicI32::new(-1);

/// What less is told where its user says nothing: quit if all fits on the screen (F), keep colours (R), leave the
/// screen as it is (X).
const LESS: &str = "FRX";

/// Leads standard output to a pager, where it is a terminal. What hinders that leaves the output as it was.
pub fn start() {
    if !super::is_on_terminal() || PAGER.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Some(command) = wanted(|name| std::env::var(name).ok(), &is_in_path) {
        // Without a pager the output is the same, on the terminal itself.
        let _ = lead_to(&command);
    }
}

/// The command of the pager; none where it is switched off or not installed.
fn wanted(variable: impl Fn(&str) -> Option<String>, is_there: &dyn Fn(&str) -> bool) -> Option<String> {
    if variable("TERM").is_some_and(|term| term == "dumb") {
        return None;
    }
    let command = variable("KYMO_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| "less".to_owned());
    let program = command.split_ascii_whitespace().next()?;
    (program != "cat" && is_there(program)).then_some(command)
}

fn is_in_path(program: &str) -> bool {
    crate::programs::in_path(program).is_some()
}

/// Starts the pager and replaces standard output by a pipe to it; standard error too where that is a terminal, since a
/// message would else be written across the pager's screen.
fn lead_to(command: &str) -> std::io::Result<()> {
    let output: OwnedFd = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    let error = std::io::stderr().is_terminal().then(|| rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3));
    let error = error.transpose()?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none_or(|options| options == OsStr::new("")) {
        shell.env("LESS", LESS);
    }
    let mut child = shell.spawn()?;
    let Some(pipe) = child.stdin.take() else { return Ok(()) };
    rustix::stdio::dup2_stdout(&pipe)?;
    PAGER.store(child.id() as i32, Ordering::Relaxed);
    OUTPUT.store(output.into_raw_fd(), Ordering::Relaxed);
    if let Some(error) = error {
        rustix::stdio::dup2_stderr(&pipe)?;
        ERROR.store(error.into_raw_fd(), Ordering::Relaxed);
    }
    for (signal, handler) in [(libc::SIGPIPE, on_pipe as extern "C" fn(libc::c_int)), (libc::SIGINT, on_interrupt)] {
        // SAFETY: the handlers make async-signal-safe calls only.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    Ok(())
}

/// Gives the pager the end of its input and waits until its user quits it.
pub fn finish() {
    if PAGER.load(Ordering::Relaxed) == 0 {
        return;
    }
    let _ = std::io::stdout().flush();
    wait();
}

/// Async-signal-safe.
fn wait() {
    // SAFETY: plain system calls on numbers of our own; `status` is a valid place for the result.
    unsafe {
        for (saved, standard) in [(&OUTPUT, libc::STDOUT_FILENO), (&ERROR, libc::STDERR_FILENO)] {
            match saved.load(Ordering::Relaxed) {
                -1 => {}
                saved => drop(libc::dup2(saved, standard)),
            }
        }
        let mut status = 0;
        while libc::waitpid(PAGER.load(Ordering::Relaxed), &mut status, 0) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
    }
    PAGER.store(0, Ordering::Relaxed);
}

/// The pager was quit: its user has seen enough.
extern "C" fn on_pipe(_: libc::c_int) {
    end(0);
}

/// Ctrl-C goes to the pager too, which stays. What was printed can still be read.
extern "C" fn on_interrupt(_: libc::c_int) {
    end(130);
}

/// Async-signal-safe.
fn end(status: libc::c_int) -> ! {
    wait();
    // SAFETY: ends the process at once, which any thread may.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_pager() {
        let check = |variables: &[(&str, &str)], expect: Option<&str>| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let found = wanted(variable, &|program| ["less", "more", "most"].contains(&program));
            assert_eq!(found.as_deref(), expect, "{variables:?}");
        };
        check(&[], Some("less"));
        check(&[("PAGER", "more -d")], Some("more -d"));
        check(&[("PAGER", "more"), ("KYMO_PAGER", "most")], Some("most"));
        check(&[("PAGER", "more"), ("KYMO_PAGER", "")], None);
        check(&[("PAGER", "cat")], None);
        check(&[("PAGER", "absent")], None);
        check(&[("TERM", "dumb")], None);
    }
}
