// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a process is not found: where it looks for sessions, as /proc tells it. What cannot be seen is not guessed.
//!
//! Nothing here takes part in a session; the answers are for people [docs/containers.md].

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::runtime::{RuntimeDir, path_for};

/// Processes that [`elsewhere`] looks at.
const LOOKS_MAX: usize = 32_768;
/// The user that stands for all who are not mapped into a user namespace.
const OVERFLOW_UID: u32 = 65_534;

/// A process that has libkymo and cannot be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Why it is not found, and what to do.
    pub why: String,
}

impl Elsewhere {
    /// Why it is not found, without its number: the same of all that are not found for the same reason.
    pub fn reason(&self) -> &str {
        self.why.strip_prefix(&format!("process {} ", self.pid)).unwrap_or(&self.why)
    }
}

/// Why process `pid` does not come to sessions of `dirs`, and what to do; `None` where nothing speaks against it, or
/// nothing can be seen of it.
pub fn why_not_found(pid: u32, dirs: &[RuntimeDir]) -> Option<String> {
    let environment = environment(pid).ok()?;
    let uid = inner_uid(pid)?;
    if environment.contains_key("KYMO_DISABLE") {
        return Some(format!("process {pid} was started with KYMO_DISABLE: it is not to be traced"));
    }
    let wanted = path_for(uid, |name| environment.get(name).map(PathBuf::from));
    if !wanted.is_absolute() {
        let path = wanted.display();
        return Some(format!(
            "process {pid} was started with KYMO_RUNTIME_DIR={path}, which is not an absolute path: it is not traced"
        ));
    }
    let there = identity(Path::new(&format!("/proc/{pid}/root")), &wanted);
    let is_ours = |there: (u64, u64)| dirs.iter().any(|dir| dir.identity() == Some(there));
    if there.as_ref().is_ok_and(|there| is_ours(*there)) {
        return of_a_shared_directory(pid, &environment);
    }
    let own = dirs.first()?.path().display();
    let (path, is_same_path) = (wanted.display(), dirs.iter().any(|dir| dir.path() == wanted));
    let state = match &there {
        Ok(_) if is_same_path => "is another directory".to_owned(),
        Ok(_) => "is not one that this session watches".to_owned(),
        Err(error) => format!("cannot be opened ({error})"),
    };
    Some(match is_same_namespace(pid, "mnt") {
        Some(false) => format!(
            "process {pid} is in a mount namespace where {path}, in which it looks for sessions, {state}: it is in a container that does \
             not share {own}; mount that directory there, at the same place (kymo-containers(7))"
        ),
        _ if is_same_path => format!("process {pid} looks in {path} for sessions, which {state}"),
        _ => format!(
            "process {pid} looks in {path} for sessions, and this one is in {own}: start either with KYMO_RUNTIME_DIR set to the \
             directory of the other"
        ),
    })
}

/// The directory is right; what else can be in the way.
fn of_a_shared_directory(pid: u32, environment: &HashMap<String, String>) -> Option<String> {
    if environment.contains_key("KYMO_NO_THREAD") {
        return Some(format!("process {pid} was started with KYMO_NO_THREAD: it comes to sessions at its start only"));
    }
    let own = rustix::process::geteuid().as_raw();
    // What the program sees of our user; one that is not mapped there is nobody, whom it refuses.
    if is_same_namespace(pid, "user") == Some(false) && map_uid(pid, own) == Some(OVERFLOW_UID) {
        return Some(format!(
            "process {pid} is in a user namespace into which user {own} is not mapped: it cannot know us and refuses; record it as the \
             user who made the container, or from inside"
        ));
    }
    None
}

/// Processes that have libkymo.so loaded and are not found in `dirs`: `is_known` says which are. Programs with a static
/// libkymo look like any other.
pub fn elsewhere(dirs: &[RuntimeDir], is_known: impl Fn(u32) -> bool) -> Vec<Elsewhere> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_libkymo = |pid: u32| {
        fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.windows(10).any(|part| part == b"/libkymo.s"))
    };
    let found = pids.take(LOOKS_MAX).filter(|pid| !is_known(*pid) && has_libkymo(*pid));
    let mut found: Vec<Elsewhere> = found
        .filter_map(|pid| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
            Some(Elsewhere { pid, comm, why: why_not_found(pid, dirs)? })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// The variables with which a process was started that say where it looks.
fn environment(pid: u32) -> io::Result<HashMap<String, String>> {
    let bytes = fs::read(format!("/proc/{pid}/environ"))?;
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let pairs = words.filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(pairs
        .filter(|(name, value)| (name.starts_with("KYMO_") || name == "XDG_RUNTIME_DIR") && !value.is_empty())
        .collect())
}

/// The effective user of a process, as it sees itself.
fn inner_uid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    map_uid(pid, line.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

/// User `uid` of ours, as seen in the user namespace of a process.
fn map_uid(pid: u32, uid: u32) -> Option<u32> {
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
    let ranges = map.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u32>().ok());
        Some((words.next()??, words.next()??, words.next()??))
    });
    let inside = ranges.filter_map(|(inside, outside, count)| {
        let at = uid.checked_sub(outside).filter(|at| *at < count)?;
        inside.checked_add(at)
    });
    Some(inside.into_iter().next().unwrap_or(OVERFLOW_UID))
}

/// Device and inode of `path`, an absolute one, below `root`. No link leads out of there.
fn identity(root: &Path, path: &Path) -> io::Result<(u64, u64)> {
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let dir = rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    let stat = rustix::fs::fstat(&dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Whether a process shares our namespace of this kind; `None` where that cannot be seen.
fn is_same_namespace(pid: u32, kind: &str) -> Option<bool> {
    let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{kind}")).ok();
    Some(of(&pid.to_string())? == of("self")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_found_where_it_looks_and_nowhere_else() {
        let base = tempfile::tempdir().unwrap();
        let other = RuntimeDir::make(&base.path().join("run")).unwrap();
        let pid = std::process::id();
        let why = why_not_found(pid, std::slice::from_ref(&other)).unwrap();
        assert!(why.contains("looks in") && why.contains(other.path().to_str().unwrap()), "{why}");
        assert_eq!(map_uid(pid, rustix::process::geteuid().as_raw()), inner_uid(pid));
    }

    #[test]
    fn links_do_not_lead_out_of_a_root() {
        let base = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", base.path().join("link")).unwrap();
        std::fs::create_dir(base.path().join("etc")).unwrap();
        let inside = identity(base.path(), Path::new("/link")).unwrap();
        assert_eq!(Some(inside), identity(base.path(), Path::new("/etc")).ok());
        assert_ne!(Some(inside), identity(Path::new("/"), Path::new("/etc")).ok());
    }
}
