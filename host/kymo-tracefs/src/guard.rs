// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard of an instance: a small process that waits for its maker to die, and then removes the instance at once
//! [spec/kernel.md 2.1]. Without one, what a killed session leaves goes on recording until the next session.
//!
//! The guard is this program again, started before the instance is made, in a session of its own, so that a signal to
//! the maker's process group does not reach it. The end of a socket tells it that the maker is gone.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::leftovers::{self, Name};

/// First word of the command line of a guard: no verb and no option begins so.
const WORD: &str = "__tracefs-guard";
/// What the guard says once no signal to its maker's group can reach it.
const READY: u8 = b'r';
/// What its maker says when the instance is removed.
const REMOVED: u8 = b'.';
/// How long the maker waits for [`READY`]; then it goes on without.
const READY_TIME: Duration = Duration::from_secs(2);
/// How long a guard tries: files of a process that was killed close one after the other.
const REMOVE_TIME: Duration = Duration::from_secs(20);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether this program can be a guard.
static IS_GUARDED: AtomicBool = AtomicBool::new(false);

/// To be called first in `main`: becomes a guard if this process was started as one, and then does not return.
/// From this call on, every instance that this process makes has a guard.
pub fn guard_instances() {
    let mut words = std::env::args_os();
    if words.nth(1).as_deref() == Some(OsStr::new(WORD)) {
        if let (Some(root), Some(name)) = (words.next(), words.next()) {
            be_guard(Path::new(&root), &name.to_string_lossy());
        }
        std::process::exit(0);
    }
    IS_GUARDED.store(true, Ordering::Relaxed);
}

/// The maker's side.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    socket: OwnedFd,
}

impl Guard {
    /// Starts the guard of an instance that is not made yet. `root`: a path to tracefs that other processes can open.
    /// `None` where there can be none: a session is worth more than its guard.
    pub fn start(root: &Path, name: &Name) -> Option<Guard> {
        IS_GUARDED.load(Ordering::Relaxed).then(|| Guard::try_start(root, name).ok()).flatten()
    }

    fn try_start(root: &Path, name: &Name) -> io::Result<Guard> {
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("kymo").arg(WORD).arg(root).arg(name.instance()).current_dir("/");
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        // Our copy of their end goes with the command, so that its death is seen here, too.
        drop(command);
        let mut guard = Guard { child, socket };
        if guard.is_ready() {
            return Ok(guard);
        }
        // It is of no use; its end is not waited for by anybody else.
        let _ = guard.child.kill();
        let _ = guard.child.wait();
        Err(io::ErrorKind::TimedOut.into())
    }

    fn is_ready(&self) -> bool {
        rustix::net::sockopt::set_socket_timeout(&self.socket, rustix::net::sockopt::Timeout::Recv, Some(READY_TIME))
            .is_ok()
            && rustix::io::retry_on_intr(|| rustix::io::read(&self.socket, &mut [0])) == Ok(1)
    }

    /// The instance is gone: so goes the guard.
    pub fn end(mut self) {
        // Not by write: a guard that was killed would cost us a SIGPIPE.
        let _ = rustix::net::send(&self.socket, &[REMOVED], SendFlags::NOSIGNAL);
        // Another thread may have reaped it.
        let _ = self.child.wait();
    }
}

/// The guard's side.
fn be_guard(root: &Path, name: &str) {
    let Some(name) = Name::parse(name, '-') else { return };
    // The maker ends it, by word or by death.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: ignoring a signal has no preconditions.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/comm", "kymo-guard");
    // Kept open: a mount of the maker's own would end with the maker.
    let Ok(root) = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    close_others(root.as_raw_fd());
    let root = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    let socket = rustix::stdio::stdin();
    if rustix::io::write(socket, &[READY]).is_err() {
        return;
    }
    let mut byte = [0];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut byte)) {
            Ok(1) if byte[0] == REMOVED => return,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    remove(&root, &name);
}

/// Stops what the maker left, and removes it.
fn remove(root: &Path, name: &Name) {
    let path = root.join("instances").join(name.instance());
    leftovers::quiet(&path);
    let begun = Instant::now();
    while path.exists() && begun.elapsed() < REMOVE_TIME {
        if leftovers::remove_instance(root, name).is_none() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Descriptors that the maker had from whoever started it: nobody should wait for their end because of us.
fn close_others(kept: i32) {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in numbers.into_iter().filter(|fd| *fd > 2 && *fd != kept) {
        // SAFETY: nothing in this process owns it: it has just begun, and has opened `kept` only.
        unsafe { rustix::io::close(fd) };
    }
}
