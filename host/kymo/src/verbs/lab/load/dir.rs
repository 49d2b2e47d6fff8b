// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory of a load's files. The guard makes it and removes it; what a guard that was killed leaves, processes
//! and files, is ended and removed here.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long what a killed guard left may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at who is left.
const PAUSE: Duration = Duration::from_millis(5);

/// What is younger may be of a guard that has not locked it yet.
const AGE_MIN: Duration = Duration::from_secs(10);

/// A directory that is not there yet. Nothing of it is left when this is dropped, which its guard must not outlive.
pub(super) struct Dir {
    path: PathBuf,
    /// The guard took its processes with it.
    is_clean: bool,
}

/// Removes what loads left whose kymo and guard were killed at the same moment: nobody was there to do it.
pub(super) fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let path = entry.path();
        if is_left(&path) {
            eprintln!("kymo: note: {} is of a load that was killed: removed", path.display());
            drop(Dir { path, is_clean: false });
        }
    }
}

/// A directory of a load of this user, not new, whose kymo and guard are gone. The guard holds a lock on it, since it
/// may be of other process numbers than ours (containers).
fn is_left(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((_, rest)) = name.strip_prefix("kymo-load-").and_then(|rest| rest.split_once('-')) else { return false };
    let kymo: Option<u32> = rest.split_once('-').and_then(|(pid, _)| pid.parse().ok());
    let is_gone =
        kymo.is_some_and(|pid| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{pid}")).exists());
    let is_ours = path.symlink_metadata().is_ok_and(|data| {
        let is_old = data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= AGE_MIN));
        data.is_dir() && data.uid() == rustix::process::geteuid().as_raw() && is_old
    });
    let is_free = || {
        let dir = std::fs::File::open(path);
        dir.is_ok_and(|dir| flock(dir, FlockOperation::NonBlockingLockExclusive).is_ok())
    };
    is_gone && is_ours && is_free()
}

impl Dir {
    /// A name that no other load has, now or before, in the directory for temporary files.
    pub(super) fn new(load: &str) -> Dir {
        let ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("kymo-load-{load}-{}-{ns:x}", std::process::id());
        Dir { path: std::env::temp_dir().join(name), is_clean: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The variable that all processes of the load have: where a compiler's own temporary files go, and who they are.
    pub(super) fn variable(&self) -> (&'static str, &Path) {
        ("TMPDIR", &self.path)
    }

    /// Its guard came to its end, and so ended all processes.
    pub(super) fn set_clean(&mut self) {
        self.is_clean = true;
    }

    /// Those of the load that live, whoever their parent is now.
    fn processes(&self) -> Vec<OwnedFd> {
        let is_pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw);
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(is_pid);
        pids.filter(|pid| self.has(*pid))
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok().filter(|_| self.has(pid)))
            .collect()
    }

    /// A process that has ended has no environment.
    fn has(&self, pid: Pid) -> bool {
        let (name, value) = self.variable();
        let wanted = format!("{name}={}", value.display());
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    }

    /// One that was forked behind the back of a look has its parent seen by it, or itself by the next.
    fn end_processes(&self) {
        let until = Instant::now() + PATIENCE;
        let mut empty = 0;
        while empty < 2 && Instant::now() < until {
            let left = self.processes();
            empty = if left.is_empty() { empty + 1 } else { 0 };
            for process in left {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if !self.is_clean {
            self.end_processes();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn orphans_of_a_load_are_ended_and_others_are_not() {
        let dir = Dir::new("test");
        let path = dir.path().to_owned();
        std::fs::create_dir(&path).expect("a new name");
        std::fs::write(path.join("file"), "x").expect("it can be written");
        let sleep = |is_ours: bool| {
            let mut command = Command::new("sleep");
            command.arg("60").env("TMPDIR", if is_ours { dir.path() } else { Path::new("/tmp") });
            command.spawn().expect("sleep")
        };
        let (mut ours, mut other) = (sleep(true), sleep(false));
        drop(dir);
        assert!(!ours.wait().expect("it ended").success());
        assert!(!path.exists());
        assert!(other.try_wait().expect("it is ours").is_none());
        other.kill().expect("it lives");
        other.wait().expect("it ended");
    }
}
