// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and locks of instances, and what dead sessions left [spec/kernel.md 2].

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::file;

/// An instance's name, from its maker's process id and eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pid: u32,
    nonce: u32,
}

impl Name {
    pub fn new(pid: u32, nonce: u32) -> Name {
        Name { pid, nonce }
    }

    /// The directory below `instances`.
    pub fn instance(&self) -> String {
        format!("kymo-{}-{:08x}", self.pid, self.nonce)
    }

    /// The group of its probes: a name of C, so with underscores.
    pub fn group(&self) -> String {
        format!("kymo_{}_{:08x}", self.pid, self.nonce)
    }

    /// From a directory's name (`mark` is `-`) or a group's (`_`); `None` for names that kymo did not make.
    pub fn parse(text: &str, mark: char) -> Option<Name> {
        let mut parts = text.split(mark);
        let (kymo, pid, nonce) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = nonce.len() == 8 && nonce.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if kymo != "kymo" || parts.next().is_some() || !hex || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Name { pid: pid.parse().ok()?, nonce: u32::from_str_radix(nonce, 16).ok()? })
    }
}

/// Takes the lock of an instance. `None` if another holds it, or if the directory has gone meanwhile.
pub fn lock(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => lock_opened(path, opened?),
    }
}

/// As [`lock`], of a directory that was opened by `path`.
fn lock_opened(path: &Path, directory: OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    // Between opening and locking another may have locked it, removed it, and gone.
    let mine = rustix::fs::fstat(&directory)?;
    match rustix::fs::stat(path) {
        Ok(there) if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino) => Ok(Some(directory)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes instances whose lock can be taken, then groups of probes without an instance. Gives their names.
pub fn remove(root: &Path) -> Vec<String> {
    let mut removed: Vec<String> = instances(root).iter().filter_map(|name| remove_instance(root, name)).collect();
    // Groups are listed before their instances are looked for: an instance is made before its group and ends after it,
    // so a group that was seen and has no instance now is nobody's.
    let groups = groups(root);
    for name in groups.iter().filter(|name| !instance_exists(root, name)) {
        if remove_group(root, &name.group()) {
            removed.push(name.group());
        }
    }
    removed
}

fn instances(root: &Path) -> Vec<Name> {
    let Ok(entries) = std::fs::read_dir(root.join("instances")) else { return Vec::new() };
    let name = |entry: std::io::Result<std::fs::DirEntry>| Name::parse(entry.ok()?.file_name().to_str()?, '-');
    entries.filter_map(name).collect()
}

/// Removes an instance, and its probes, if its lock can be taken. `None` if it stays.
pub fn remove_instance(root: &Path, name: &Name) -> Option<String> {
    let path = root.join("instances").join(name.instance());
    let _locked = lock(&path).ok()??;
    quiet(&path);
    remove_group(root, &name.group());
    rustix::fs::rmdir(&path).ok().map(|()| name.instance())
}

fn instance_exists(root: &Path, name: &Name) -> bool {
    // What cannot be looked at counts as there: removing too little is the safe side.
    !matches!(rustix::fs::stat(root.join("instances").join(name.instance())), Err(Errno::NOENT))
}

/// Nothing is recorded any more, so that probes can be removed.
pub fn quiet(instance: &Path) {
    // Failing here shows when the instance is removed.
    let _ = file::switch("stop", &instance.join("tracing_on"), false);
    let _ = file::switch("disable events", &instance.join("events/enable"), false);
}

/// Groups of probes that kymo made, each once.
fn groups(root: &Path) -> Vec<Name> {
    let text = file::read("list the probes", &root.join("uprobe_events")).unwrap_or_default();
    let mut names: Vec<Name> = Vec::new();
    for name in text.lines().filter_map(|line| Name::parse(probe(line)?.0, '_')) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Group and event of a line of `uprobe_events`: `p:group/event /path:0x12 ...`.
fn probe(line: &str) -> Option<(&str, &str)> {
    line.split_whitespace().next()?.split_once(':')?.1.split_once('/')
}

/// Removes a group's probes. Whether it had any and all of them went.
pub fn remove_group(root: &Path, group: &str) -> bool {
    let path = root.join("uprobe_events");
    let list = || file::read("list the probes", &path).unwrap_or_default();
    let text = list();
    let mut events: Vec<&str> =
        text.lines().filter_map(probe).filter(|(of, _)| *of == group).map(|(_, event)| event).collect();
    // Several probes of one event go together.
    events.dedup();
    for event in &events {
        let _ = file::append_raw(&path, &format!("-:{group}/{event}"));
    }
    !events.is_empty() && !list().lines().filter_map(probe).any(|(of, _)| of == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let name = Name::new(4711, 0x00ab_cdef);
        assert_eq!(name.instance(), "kymo-4711-00abcdef");
        assert_eq!(name.group(), "kymo_4711_00abcdef");
        assert_eq!(Name::parse("kymo-4711-00abcdef", '-'), Some(name.clone()));
        assert_eq!(Name::parse("kymo_4711_00abcdef", '_'), Some(name));
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for other in ["kymo", "kymo-1-2", "kymo-x-00000000", "kymo-1-0000000G", "kymo-1-00000000-1", "trace-1-00000000"]
        {
            assert_eq!(Name::parse(other, '-'), None, "{other}");
        }
        assert_eq!(Name::parse("kymo-99999999999-00000000", '-'), None);
        assert_eq!(Name::parse("kymo--00000000", '-'), None);
    }

    #[test]
    fn a_directory_that_went_before_it_was_locked_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kymo-1-00000000");
        let open = || {
            std::fs::create_dir(&path).unwrap();
            OwnedFd::from(std::fs::File::open(&path).unwrap())
        };
        let locked = lock_opened(&path, open()).unwrap().unwrap();
        assert!(lock(&path).unwrap().is_none(), "another has it");
        drop(locked);
        assert!(lock(&path).unwrap().is_some());
        std::fs::remove_dir(&path).unwrap();
        let gone = open();
        std::fs::remove_dir(&path).unwrap();
        assert!(lock(&path).unwrap().is_none());
        assert!(lock_opened(&path, gone.try_clone().unwrap()).unwrap().is_none());
        std::fs::create_dir(&path).unwrap();
        assert!(lock_opened(&path, gone).unwrap().is_none(), "the name has another directory now");
    }

    #[test]
    fn lines_of_uprobe_events() {
        assert_eq!(probe("p:kymo_1_00000000/work /usr/bin/x:0x12 a=%di"), Some(("kymo_1_00000000", "work")));
        assert_eq!(probe("p"), None);
        assert_eq!(probe(""), None);
    }
}
