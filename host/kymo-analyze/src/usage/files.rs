// SPDX-License-Identifier: MIT OR Apache-2.0
//! What descriptors lead to, as system calls and state dumps tell it. A descriptor that is opened again is another
//! file. One whose path nobody has told keeps its number: a name is never taken over from what had the number before.

use std::collections::BTreeMap;

use super::amounts::Transfers;
use crate::doubt::Doubt;
use crate::hash::Map;
use crate::name::Name;

/// Files that are kept apart at most.
const FILES_MAX: usize = 1 << 18;
/// Descriptors that are followed at most, of all processes.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// What a file is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// Its path, or what the state dump says instead of one.
    Path(String),
    /// A descriptor whose path is not known.
    Descriptor {
        /// Of this process.
        process: i32,
        /// Its name; may be empty.
        process_name: Name,
        /// Its number.
        fd: i32,
        /// The system call that made it; empty: not known.
        made_by: &'static str,
    },
}

/// What was read from and written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// The file.
    pub name: FileName,
    /// By all who are asked for.
    pub transfers: Transfers,
}

/// A file as it was opened once.
#[derive(Clone, Debug)]
struct OpenFile {
    name: FileName,
    transfers: Transfers,
}

/// A descriptor.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    /// Position in `Files::opened`.
    file: usize,
    since: i64,
    /// It is known to stay open when the process runs another program.
    survives_exec: bool,
}

/// All descriptors of all processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    opened: Vec<OpenFile>,
    processes: Map<i32, BTreeMap<i32, Descriptor>>,
    descriptors: usize,
    /// Up to when records were lost; `None`: none were.
    lost_until: Option<i64>,
    left_out: u64,
}

impl Files {
    /// A descriptor leads to something new from now on. `made`: by which call, and its path where it is known.
    pub fn open(&mut self, of: (i32, Name), fd: i32, made: (&'static str, Option<String>), at: i64) {
        let ((process, process_name), (made_by, path)) = (of, made);
        let name = path.map_or(FileName::Descriptor { process, process_name, fd, made_by }, FileName::Path);
        if let Some(file) = self.add(name) {
            self.put(process, fd, Descriptor { file, since: at, survives_exec: false });
        }
    }

    /// The second descriptor leads to what the first one leads to.
    pub fn copy(&mut self, process: i32, (from, fd): (i32, i32), survives_exec: bool, at: i64) {
        match self.find(process, from).copied() {
            Some(known) if from != fd => self.put(process, fd, Descriptor { since: at, survives_exec, ..known }),
            Some(_) => {}
            None => self.close(process, fd, fd),
        }
    }

    /// Descriptors lead nowhere.
    pub fn close(&mut self, process: i32, first: i32, last: i32) {
        let Some(known) = self.processes.get_mut(&process).filter(|_| first <= last) else { return };
        let before = known.len();
        if first == last {
            known.remove(&first);
        } else {
            known.retain(|fd, _| !(first..=last).contains(fd));
        }
        self.descriptors -= before - known.len();
    }

    /// The state dump has found a descriptor.
    pub fn dumped(&mut self, process: i32, fd: i32, path: &str, closes_on_exec: bool, at: i64) {
        if let Some(known) = self.find(process, fd).copied() {
            let file = &mut self.opened[known.file];
            // What a system call or an earlier dump has told is older than a change that nobody recorded.
            if let FileName::Descriptor { .. } = file.name {
                file.name = FileName::Path(path.to_owned());
            } else if file.name != FileName::Path(path.to_owned()) && !is_relative(&file.name) {
                return self.replace(process, fd, path, closes_on_exec, at);
            }
            self.put(process, fd, Descriptor { survives_exec: !closes_on_exec, ..known });
            return;
        }
        self.replace(process, fd, path, closes_on_exec, at);
    }

    fn replace(&mut self, process: i32, fd: i32, path: &str, closes_on_exec: bool, at: i64) {
        if let Some(file) = self.add(FileName::Path(path.to_owned())) {
            self.put(process, fd, Descriptor { file, since: at, survives_exec: !closes_on_exec });
        }
    }

    /// A process begins with the descriptors of another one.
    pub fn fork(&mut self, parent: i32, child: i32) {
        self.end(child);
        let Some(known) = self.processes.get(&parent).cloned() else { return };
        if self.descriptors + known.len() > DESCRIPTORS_MAX {
            self.left_out += 1;
            return;
        }
        self.descriptors += known.len();
        self.processes.insert(child, known);
    }

    /// A process runs another program: what may have been closed by that is not known any more.
    pub fn exec(&mut self, process: i32) {
        let Some(known) = self.processes.get_mut(&process) else { return };
        let before = known.len();
        known.retain(|_, descriptor| descriptor.survives_exec);
        self.descriptors -= before - known.len();
    }

    /// A process has ended.
    pub fn end(&mut self, process: i32) {
        let ended = self.processes.remove(&process);
        self.descriptors -= ended.map_or(0, |known| known.len());
    }

    /// Records were lost up to a time: files may have been closed and opened meanwhile.
    pub fn lose(&mut self, to: i64) {
        self.lost_until = Some(self.lost_until.map_or(to, |until| until.max(to)));
    }

    /// A process moved bytes. A descriptor that is not known is followed from now on.
    pub fn transfer(&mut self, of: (i32, Name), fd: i32, at: i64, one: Transfers) {
        if self.find(of.0, fd).is_none() {
            self.open(of, fd, ("", None), at);
        }
        let Some(known) = self.find(of.0, fd).copied() else { return };
        let doubt = Doubt::LOST.when(self.lost_until.is_some_and(|until| known.since < until));
        let mut one = one;
        if !doubt.is_none() {
            (one.doubtful, one.doubt) = (one.count(), one.doubt | doubt);
        }
        self.opened[known.file].transfers.plus(&one);
    }

    /// All files with transfers, those of one name as one, in the order of names.
    pub fn uses(&self) -> Vec<FileUse> {
        let mut by_name: BTreeMap<&FileName, Transfers> = BTreeMap::new();
        for file in self.opened.iter().filter(|file| file.transfers.count() > 0) {
            by_name.entry(&file.name).or_default().plus(&file.transfers);
        }
        by_name.into_iter().map(|(name, transfers)| FileUse { name: name.clone(), transfers }).collect()
    }

    /// How often files or descriptors were too many to be followed.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn find(&self, process: i32, fd: i32) -> Option<&Descriptor> {
        self.processes.get(&process)?.get(&fd)
    }

    fn put(&mut self, process: i32, fd: i32, descriptor: Descriptor) {
        let known = self.processes.entry(process).or_default();
        if self.descriptors >= DESCRIPTORS_MAX && !known.contains_key(&fd) {
            self.left_out += 1;
            return;
        }
        self.descriptors += usize::from(known.insert(fd, descriptor).is_none());
    }

    fn add(&mut self, name: FileName) -> Option<usize> {
        if self.opened.len() >= FILES_MAX {
            self.left_out += 1;
            return None;
        }
        self.opened.push(OpenFile { name, transfers: Transfers::default() });
        Some(self.opened.len() - 1)
    }
}

/// A path as a program wrote it, which the state dump writes differently.
fn is_relative(name: &FileName) -> bool {
    matches!(name, FileName::Path(path) if !path.starts_with('/'))
}
