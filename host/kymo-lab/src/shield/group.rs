// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command's control group: a cpuset of version 2, as a partition where the kernel makes one, or of version 1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::undo::UndoStep;
use crate::{Cpus, Machine, Undo};

/// What kind of group it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupVersion {
    /// Its CPUs are nobody else's, and no load is balanced onto them.
    Isolated,
    /// Its CPUs are nobody else's.
    Root,
    /// A plain cpuset: others may use its CPUs unless they are kept off. Why it is no partition.
    Member(String),
    /// A cpuset of version 1.
    Version1,
}

impl GroupVersion {
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, GroupVersion::Isolated | GroupVersion::Root)
    }
}

/// A group for the command.
#[derive(Debug)]
pub struct Group {
    /// What it became.
    pub kind: GroupVersion,
    /// Its directory.
    pub path: PathBuf,
    /// Where this process is otherwise.
    home: PathBuf,
}

impl Group {
    /// Makes one. The text of an error says why there is none.
    pub(super) fn make(machine: &Machine, cpus: &Cpus, undo: &mut Undo) -> Result<Group, String> {
        match mount(machine, "cgroup2", "") {
            Some(root) if has_cpuset(&root) => version_2(&root, cpus, undo),
            _ => match mount(machine, "cgroup", "cpuset") {
                Some(root) => version_1(&root, cpus, undo),
                None => Err("there is no cpuset controller in this system's control groups".to_owned()),
            },
        }
    }

    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0")
    }

    pub(super) fn leave(&self) -> io::Result<()> {
        fs::write(self.home.join("cgroup.procs"), "0")
    }
}

/// Where a hierarchy of this type and controller is mounted.
fn mount(machine: &Machine, kind: &str, option: &str) -> Option<PathBuf> {
    let text = machine.text("/proc/self/mounts").ok()?;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = lines.find(|words| {
        words.len() > 3 && words[2] == kind && (option.is_empty() || words[3].split(',').any(|word| word == option))
    });
    found.map(|words| PathBuf::from(words[1]))
}

fn has_cpuset(root: &Path) -> bool {
    fs::read_to_string(root.join("cgroup.controllers"))
        .is_ok_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
}

/// The group of this process in the hierarchy with this line in /proc/self/cgroup.
fn home(root: &Path, is_line: impl Fn(&str) -> bool) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let line = text.lines().find(|line| is_line(line)).and_then(|line| line.splitn(3, ':').nth(2)).unwrap_or("/");
    let path = root.join(line.trim_start_matches('/'));
    // In a namespace of its own the path may lead out of it.
    if path.is_dir() { path } else { root.to_owned() }
}

fn new_group(root: &Path, undo: &mut Undo) -> Result<PathBuf, String> {
    let path = root.join(format!("kymo-shield-{}", std::process::id()));
    undo.note(vec![UndoStep::Group { path: path.clone() }]).map_err(|error| error.to_string())?;
    fs::create_dir(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    Ok(path)
}

fn set(path: &Path, name: &str, value: &str) -> Result<(), String> {
    fs::write(path.join(name), value)
        .map_err(|error| format!("{}: {value:?} is refused: {error}", path.join(name).display()))
}

fn version_2(root: &Path, cpus: &Cpus, undo: &mut Undo) -> Result<Group, String> {
    let control = root.join("cgroup.subtree_control");
    let on = fs::read_to_string(&control).unwrap_or_default();
    if !on.split_whitespace().any(|word| word == "cpuset") {
        undo.note(vec![UndoStep::Write { path: control, old: "-cpuset".to_owned() }])
            .map_err(|error| error.to_string())?;
        set(root, "cgroup.subtree_control", "+cpuset")?;
    }
    let path = new_group(root, undo)?;
    set(&path, "cpuset.cpus", &cpus.to_string())?;
    Ok(Group { kind: partition(&path), path, home: home(root, |line| line.starts_with("0::")) })
}

/// Makes the group the best kind of partition that the kernel takes: it says in the file itself why it does not.
fn partition(path: &Path) -> GroupVersion {
    let mut why = String::new();
    for (word, kind) in [("isolated", GroupVersion::Isolated), ("root", GroupVersion::Root)] {
        match set(path, "cpuset.cpus.partition", word) {
            Err(error) => why = error,
            Ok(()) => {
                let now = fs::read_to_string(path.join("cpuset.cpus.partition")).unwrap_or_default();
                if now.trim() == word {
                    return kind;
                }
                why = now.trim().to_owned();
            }
        }
    }
    let _ = set(path, "cpuset.cpus.partition", "member");
    GroupVersion::Member(why)
}

fn version_1(root: &Path, cpus: &Cpus, undo: &mut Undo) -> Result<Group, String> {
    // Mounted by itself with `noprefix` the files have short names.
    let prefix = if root.join("cpuset.cpus").exists() { "cpuset." } else { "" };
    let nodes = fs::read_to_string(root.join(format!("{prefix}mems"))).unwrap_or_else(|_| "0".to_owned());
    let path = new_group(root, undo)?;
    set(&path, &format!("{prefix}cpus"), &cpus.to_string())?;
    set(&path, &format!("{prefix}mems"), nodes.trim())?;
    let is_line =
        |line: &str| line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == "cpuset"));
    Ok(Group { kind: GroupVersion::Version1, path, home: home(root, is_line) })
}
